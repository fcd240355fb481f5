"""The rows of one task as a Parquet file.

The columns are those of `msitd.query`, such as `golden.dtype` and
`metrics.nl2`. Before them are the columns that locate a row: `task`,
`group_token`, `group_rank` and `row_in_group`. A file gets its final name once
it is complete.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from msitd.query.comparison_types import ComparisonRow
from msitd.query.messages import message_class, word_of
from msitd.query.table import columns_of

ROWS_FOLDER = "rows"
# Rows that are converted to columns at a time, and rows in a row group of the
# file.
_BATCH_ROWS = 8192


def needs(package: str) -> ImportError:
    """Returns the exception to raise if `package` is not installed."""
    return ImportError(
        f"a comparison in parts needs {package}: pip install 'msitd[ray]'",
        name=package,
    )


def file_name(task: int) -> str:
    """Returns the name of the file of a task."""
    return f"task-{task:06d}.parquet"


class _Field(NamedTuple):
    """A field of a message as a column."""

    name: str
    kind: str
    words: dict[int, str] | None
    """For an enum: its values as users write them."""
    is_optional: bool


class RowFile:
    """Writes rows; `commit` gives the file its final name, `drop` removes it."""

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
        # Unique to this process: an abandoned attempt may still be writing.
        self._unnamed = f"{self.path}.attempt-{attempt}-{os.getpid()}"
        self._task = task
        self._fields = _Fields()
        self._metrics = list(metrics)
        schema = pa.schema(
            [
                ("task", pa.int64()),
                ("group_token", pa.int64()),
                ("group_rank", pa.int64()),
                ("row_in_group", pa.int64()),
                *((n, _ARROW[k](pa)) for n, k in self._fields.columns()),
                *((f"metrics.{name}", pa.float64()) for name in metrics),
            ],
            metadata={"msitd.task": str(task), "msitd.attempt": str(attempt)},
        )
        self._schema = schema
        self.row_count = 0
        self._rows: list[Any] = []
        self._places: list[tuple[int, int, int]] = []
        self._writer = parquet.ParquetWriter(
            self._unnamed, schema, compression="zstd", compression_level=1
        )

    def add(self, row: Any, place: tuple[int, int, int]) -> None:
        """Adds one row and its place: token and rank of its group, and the row
        in the group.
        """
        self.row_count += 1
        self._rows.append(row)
        self._places.append(place)
        if len(self._rows) == _BATCH_ROWS:
            self._write()

    def commit(self) -> int:
        """Completes the file; returns its size in bytes."""
        self._write()
        self._writer.close()
        with open(self._unnamed, "rb") as file:
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
        os.replace(self._unnamed, self.path)
        return size

    def drop(self) -> None:
        """Removes the file, unless it already has its final name."""
        self._writer.close()
        if os.path.exists(self._unnamed):
            os.remove(self._unnamed)

    def _write(self) -> None:
        rows, places = self._rows, self._places
        if not rows:
            return
        self._rows, self._places = [], []
        values: list[Sequence[Any]] = [[self._task] * len(rows)]
        values += zip(*places, strict=True)
        values += self._fields.cells_of(rows)
        arrays = [
            self._pa.array(column, type=field.type)
            for column, field in zip(values, self._schema, strict=False)
        ]
        arrays += self._metric_arrays(rows)
        self._writer.write_batch(
            self._pa.record_batch(arrays, schema=self._schema), len(rows)
        )

    def _metric_arrays(self, rows: Sequence[Any]) -> list[Any]:
        measured = [{m.metric: m.value for m in row.metrics} for row in rows]
        # Most metrics are measured only on request.
        names = set().union(*measured)
        nothing = self._pa.nulls(len(rows), self._pa.float64())
        return [
            self._pa.array([of.get(name) for of in measured], self._pa.float64())
            if name in names
            else nothing
            for name in self._metrics
        ]


_ARROW: dict[str, Callable[[Any], Any]] = {
    "int": lambda pa: pa.int64(),
    "float": lambda pa: pa.float64(),
    "bool": lambda pa: pa.bool_(),
    "text": lambda pa: pa.string(),
    "ints": lambda pa: pa.list_(pa.int64()),
}


class _Fields:
    """The columns of a row except its number and its metrics.

    Reads all fields of a message at once, because a call for each would
    dominate the time.
    """

    def __init__(self) -> None:
        row = message_class("msitd.v1.ComparisonRow").DESCRIPTOR
        # Fields of the row and remaining columns of its parts, in order.
        self._parts: list[tuple[str, list[_Field]]] = []
        for column in columns_of(ComparisonRow, {}):
            first, dot, second = column.name.partition(".")
            if first in ("row", "metrics", "custom_metrics"):
                continue
            part = first if dot else ""
            of_row = row.fields_by_name
            fields = of_row[first].message_type.fields_by_name if dot else of_row
            if not self._parts or self._parts[-1][0] != part:
                self._parts.append((part, []))
            field = fields[second if dot else first]
            self._parts[-1][1].append(_field_of(field, column.kind))

    def columns(self) -> Iterator[tuple[str, str]]:
        """Yields names and kinds."""
        for part, fields in self._parts:
            for field in fields:
                name = f"{part}.{field.name}" if part else field.name
                yield name, field.kind

    def cells_of(self, rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """Yields the values of each column."""
        for part, fields in self._parts:
            if not part:
                yield from _cells_of(rows, fields)
                continue
            there = [i for i, row in enumerate(rows) if row.HasField(part)]
            sides = [getattr(rows[i], part) for i in there]
            for cells in _cells_of(sides, fields):
                yield (
                    cells
                    if len(there) == len(rows)
                    else _spread(cells, there, len(rows))
                )


def _field_of(field: Any, kind: str) -> _Field:
    words = None
    if field.enum_type is not None:
        values = field.enum_type.values
        words = {v.number: word_of(v.name, values[0].name) for v in values}
    is_optional = kind != "ints" and field.has_presence
    return _Field(field.name, kind, words, is_optional)


def _cells_of(
    messages: Sequence[Any], fields: Sequence[_Field]
) -> Iterator[Sequence[Any]]:
    if not messages:
        yield from ([] for _ in fields)
        return
    take = operator.attrgetter(*(field.name for field in fields))
    taken = list(map(take, messages))
    columns = zip(*taken, strict=True) if len(fields) > 1 else [taken]
    for field, cells in zip(fields, columns, strict=True):
        yield _as_values(field, cells, messages)


def _as_values(
    field: _Field, cells: Sequence[Any], messages: Sequence[Any]
) -> Sequence[Any]:
    name = field.name
    if field.kind == "ints":
        return [list(numbers) if numbers else () for numbers in cells]
    if field.words is not None:
        words = field.words
        return [words.get(number) or str(number or "") for number in cells]
    if field.is_optional and not all(cells):
        # Fields that are not zero are present.
        return [
            value if value or message.HasField(name) else None
            for value, message in zip(cells, messages, strict=True)
        ]
    return cells


def _spread(cells: Sequence[Any], at: Sequence[int], count: int) -> list[Any]:
    out: list[Any] = [None] * count
    for i, value in zip(at, cells, strict=True):
        out[i] = value
    return out
