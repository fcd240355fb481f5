"""Rows of one task as a Parquet file.

Columns are those of `msitd.query`, `golden.dtype` and `metrics.nl2` among them, and
before them where a row is: `task`, `group_token`, `group_rank` and `row_in_group`. A
file has its name once it is whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msitd.query.comparison_types import ComparisonRow
from msitd.query.messages import message_class, word_of
from msitd.query.table import columns_of

ROWS_FOLDER = "rows"
# Rows that are made into columns at a time, and those of a group of a file.
_BATCH_ROWS = 8192

_SIDES = ("golden", "target")


def needs(package: str) -> ImportError:
    """Returns the exception to raise if `package` is not installed."""
    return ImportError(
        f"a comparison in parts needs {package}: pip install 'msitd[ray]'",
        name=package,
    )


def file_name(task: int) -> str:
    """Returns the name of the file of a task."""
    return f"task-{task:06d}.parquet"


class _Cells(NamedTuple):
    name: str
    kind: str
    of: Callable[[Sequence[Any]], list[Any]]


class RowFile:
    """Writes rows; `commit` gives the file its name, `drop` removes it."""

    def __init__(
        self, folder: str, task: int, attempt: int, metrics: Sequence[str]
    ) -> None:
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError as error:
            raise needs("pyarrow") from error
        self._pa = pa
        rows_folder = os.path.join(folder, ROWS_FOLDER)
        os.makedirs(rows_folder, exist_ok=True)
        self.path = os.path.join(rows_folder, file_name(task))
        # Of this process alone: an attempt that was given up may still write.
        self._unnamed = f"{self.path}.attempt-{attempt}-{os.getpid()}"
        self._task = task
        self._cells = _cells()
        self._metrics = list(metrics)
        schema = pa.schema(
            [
                ("task", pa.int64()),
                ("group_token", pa.int64()),
                ("group_rank", pa.int64()),
                ("row_in_group", pa.int64()),
                *((c.name, _ARROW[c.kind](pa)) for c in self._cells),
                *((f"metrics.{name}", pa.float64()) for name in metrics),
            ],
            metadata={"msitd.task": str(task), "msitd.attempt": str(attempt)},
        )
        self._schema = schema
        self._rows: list[Any] = []
        self._places: list[tuple[int, int, int]] = []
        self._writer = parquet.ParquetWriter(
            self._unnamed, schema, compression="zstd", compression_level=1
        )

    def add(self, row: Any, place: tuple[int, int, int]) -> None:
        """Takes one row and where it is: token and rank of its group, row in it."""
        self._rows.append(row)
        self._places.append(place)
        if len(self._rows) == _BATCH_ROWS:
            self._write()

    def commit(self) -> int:
        """Makes the file whole; returns its bytes."""
        self._write()
        self._writer.close()
        with open(self._unnamed, "rb") as file:
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
        os.replace(self._unnamed, self.path)
        return size

    def drop(self) -> None:
        """Removes what was written, if it has no name yet."""
        self._writer.close()
        if os.path.exists(self._unnamed):
            os.remove(self._unnamed)

    def _write(self) -> None:
        rows, places = self._rows, self._places
        if not rows:
            return
        self._rows, self._places = [], []
        values: list[Sequence[Any]] = [[self._task] * len(rows)]
        values += [[place[i] for place in places] for i in range(3)]
        values += [cells.of(rows) for cells in self._cells]
        measured = [{m.metric: m.value for m in row.metrics} for row in rows]
        values += [[of.get(name) for of in measured] for name in self._metrics]
        arrays = [
            self._pa.array(column, type=field.type)
            for column, field in zip(values, self._schema, strict=True)
        ]
        self._writer.write_batch(
            self._pa.record_batch(arrays, schema=self._schema), len(rows)
        )


_ARROW: dict[str, Callable[[Any], Any]] = {
    "int": lambda pa: pa.int64(),
    "float": lambda pa: pa.float64(),
    "bool": lambda pa: pa.bool_(),
    "text": lambda pa: pa.string(),
    "ints": lambda pa: pa.list_(pa.int64()),
}


def _cells() -> list[_Cells]:
    """The columns of a row, but for its number and its metrics."""
    row = message_class("msitd.v1.ComparisonRow").DESCRIPTOR
    side = row.fields_by_name["golden"].message_type
    out: list[_Cells] = []
    for column in columns_of(ComparisonRow, {}):
        first, dot, second = column.name.partition(".")
        if first in ("row", "metrics", "custom_metrics"):
            continue
        if not dot:
            of = _of_field(row.fields_by_name[first], column.kind)
            out.append(_Cells(column.name, column.kind, of))
        elif first in _SIDES:
            of = _of_side(first, _of_field(side.fields_by_name[second], column.kind))
            out.append(_Cells(column.name, column.kind, of))
    return out


def _of_field(field: Any, kind: str) -> Callable[[Sequence[Any]], list[Any]]:
    name = field.name
    if field.enum_type is not None:
        enum = field.enum_type.values
        words = {v.number: word_of(v.name, enum[0].name) for v in enum}
        return lambda ms: [
            words.get(getattr(m, name), str(getattr(m, name))) for m in ms
        ]
    if kind == "ints":
        return lambda ms: [list(getattr(m, name)) for m in ms]
    if field.has_presence:
        return lambda ms: [getattr(m, name) if m.HasField(name) else None for m in ms]
    return lambda ms: [getattr(m, name) for m in ms]


def _of_side(
    side: str, of: Callable[[Sequence[Any]], list[Any]]
) -> Callable[[Sequence[Any]], list[Any]]:
    def cells(rows: Sequence[Any]) -> list[Any]:
        there = [i for i, row in enumerate(rows) if row.HasField(side)]
        values = of([getattr(rows[i], side) for i in there])
        if len(there) == len(rows):
            return values
        out: list[Any] = [None] * len(rows)
        for i, value in zip(there, values, strict=True):
            out[i] = value
        return out

    return cells
