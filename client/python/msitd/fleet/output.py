"""The output folder of a comparison in parts: rows, groups and a manifest.

    rows/task-000012.parquet   the rows of a task
    groups.parquet             token, rank, first_row, row_count, task of each group
    comparison.json            the comparison, as msitctl prints it with -o json
    manifest.json              written last: the tasks, and the files of their rows

The number of a row is `first_row` of its group plus `row_in_group`.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msitd.fleet.orders import CompareOrder, Failure, Part
from msitd.fleet.row_file import ROWS_FOLDER, file_name, needs

if TYPE_CHECKING:
    import pyarrow

MANIFEST = "manifest.json"
GROUPS = "groups.parquet"
COMPARISON = "comparison.json"
_VERSION = 1
_BATCH_GROUPS = 65_536
_GROUP_FIELDS = ("token", "rank", "first_row", "row_count", "task")


def prepare(out: str) -> str:
    """Creates the folder, or empties the folder of an earlier comparison.

    Returns its path.

    Raises:
        ValueError: The path cannot be such a folder, or has other contents.
    """
    folder = out.removeprefix("file://")
    if "://" in folder:
        raise ValueError(f"{out}: rows are written to a folder, which nodes may share")
    folder = os.path.abspath(folder)
    os.makedirs(folder, exist_ok=True)
    ours = {ROWS_FOLDER, GROUPS, COMPARISON, MANIFEST}
    others = sorted(set(os.listdir(folder)) - ours)
    if others:
        raise ValueError(f"{folder}: has {others[0]}, which is not of a comparison")
    # From now on, existing output is incomplete.
    for name in (MANIFEST, COMPARISON, GROUPS):
        _remove(os.path.join(folder, name))
    rows = os.path.join(folder, ROWS_FOLDER)
    if os.path.isdir(rows):
        for name in os.listdir(rows):
            if not name.startswith("task-"):
                raise ValueError(f"{rows}: has {name}, which is not of a comparison")
            _remove(os.path.join(rows, name))
    return folder


class GroupFile:
    """Writes groups.parquet."""

    def __init__(self, folder: str) -> None:
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError as error:
            raise needs("pyarrow") from error
        self._pa = pa
        self._schema = pa.schema([(name, pa.int64()) for name in _GROUP_FIELDS])
        self._path = os.path.join(folder, GROUPS)
        self._writer = parquet.ParquetWriter(
            f"{self._path}.part", self._schema, compression="zstd"
        )
        self._columns = [array("q") for _ in _GROUP_FIELDS]

    def add(self, *group: int) -> None:
        """Adds one group: its fields in order."""
        for column, value in zip(self._columns, group, strict=True):
            column.append(value)
        if len(self._columns[0]) == _BATCH_GROUPS:
            self._write()

    def close(self) -> None:
        """Completes the file and gives it its final name."""
        self._write()
        self._writer.close()
        os.replace(f"{self._path}.part", self._path)

    def drop(self) -> None:
        """Removes the unfinished file."""
        self._writer.close()
        _remove(f"{self._path}.part")

    def _write(self) -> None:
        arrays = [
            self._pa.Array.from_buffers(
                self._pa.int64(), len(column), [None, self._pa.py_buffer(column)]
            )
            for column in self._columns
        ]
        batch = self._pa.record_batch(arrays, schema=self._schema)
        self._writer.write_batch(batch)
        self._columns = [array("q") for _ in _GROUP_FIELDS]


def task_entry(part: Part) -> dict[str, Any]:
    """Returns the manifest's entry for a part."""
    return {
        **_order_entry(part.order),
        "state": "done",
        "attempt": part.order.attempt,
        "row_count": part.row_count,
        "file_row_count": part.file_row_count,
        "file": f"{ROWS_FOLDER}/{file_name(part.order.number)}",
        "size_bytes": part.size_bytes,
        "host": part.host,
        "path": part.path,
        "seconds": round(part.seconds, 3),
    }


def failed_entry(order: CompareOrder, failure: Failure) -> dict[str, Any]:
    """Returns the manifest's entry for a missing part."""
    return {**_order_entry(order), "state": "failed", "error": str(failure)}


def write_end(folder: str, comparison: Any, tasks: Sequence[dict[str, Any]]) -> None:
    """Writes the comparison and, last, the manifest."""
    from google.protobuf import json_format

    text = json_format.MessageToJson(
        comparison, preserving_proto_field_name=True, ensure_ascii=False
    )
    _write(os.path.join(folder, COMPARISON), text)
    by_number = sorted(tasks, key=lambda task: task["task"])
    manifest = {"version": _VERSION, "tasks": by_number}
    _write(os.path.join(folder, MANIFEST), json.dumps(manifest, indent=1))


def read_rows(folder: str, columns: Sequence[str] | None = None) -> pyarrow.Table:
    """Returns all rows of a folder in order, with their numbers in the column `row`.

    Args:
        folder: The output folder of a comparison.
        columns: Columns to read in addition to `row`; None: all.

    Raises:
        FileNotFoundError: The comparison has not ended, or a node kept its
            rows.
        ValueError: A file differs from the one that the manifest names.
        ImportError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        from pyarrow import compute, parquet
    except ImportError as error:
        raise needs("pyarrow") from error
    with open(os.path.join(folder, MANIFEST), encoding="utf-8") as file:
        manifest = json.load(file)
    if manifest["version"] != _VERSION:
        raise ValueError(f"{folder}: version {manifest['version']} is not known")
    place = ["group_token", "group_rank", "row_in_group"]
    tables = []
    for task in manifest["tasks"]:
        if task["state"] != "done":
            continue
        path = os.path.join(folder, task["file"])
        with parquet.ParquetFile(path) as rows:
            count = task["file_row_count"]
            if rows.metadata.num_rows != count:
                raise ValueError(
                    f"{path}: {rows.metadata.num_rows} rows in place of {count}"
                )
            wanted = None if columns is None else [*place, *columns]
            tables.append(rows.read(columns=wanted).replace_schema_metadata(None))
    groups = parquet.read_table(os.path.join(folder, GROUPS))
    if not tables:
        return pa.table({"row": pa.array([], pa.int64())})
    joined = pa.concat_tables(tables)
    # Arrow cannot join tables with lists, so the numbers are joined and added
    # as a column.
    keys = joined.select(place).append_column(
        "at", pa.array(range(joined.num_rows), pa.int64())
    )
    keys = keys.join(groups, ["group_token", "group_rank"], ["token", "rank"])
    keys = keys.sort_by("at")
    row = compute.add(keys["first_row"], keys["row_in_group"])
    order = compute.sort_indices(row)
    joined = joined.add_column(0, "row", row)
    if columns is not None:
        joined = joined.select(["row", *columns])
    return joined.take(order)


def _order_entry(order: CompareOrder) -> dict[str, Any]:
    return {
        "task": order.number,
        "ranks": list(order.ranks),
        "tokens": [list(tokens) for tokens in order.tokens],
    }


def _remove(path: str) -> None:
    if os.path.lexists(path):
        os.remove(path)


def _write(path: str, text: str) -> None:
    with open(f"{path}.part", "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.part", path)
