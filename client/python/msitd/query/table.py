"""Rows as columns, for pandas and Arrow.

`columns_of` makes each field a column. Nested fields have dots in their names, as
in the CSV of msitctl: `summary.min`, `golden.dtype`, `metrics.cosine`. The type of
a column depends only on the field, so an empty table has the same columns as a
full one. msitd.query.layouts selects the columns of a table for people.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast

from msitd.query.comparison_types import CustomMetric
from msitd.query.messages import missing
from msitd.query.text import human_duration, human_size
from msitd.query.types import RankRange, TokenRequest

# Types in pyarrow and pandas, by the kind of the column. Columns without a
# pandas type hold Python objects.
_ARROW: dict[str, Callable[[Any], Any]] = {
    "int": lambda pa: pa.int64(),
    "float": lambda pa: pa.float64(),
    "bool": lambda pa: pa.bool_(),
    "text": lambda pa: pa.string(),
    "time": lambda pa: pa.timestamp("us", tz="UTC"),
    "duration": lambda pa: pa.duration("us"),
    "ints": lambda pa: pa.list_(pa.int64()),
    "texts": lambda pa: pa.list_(pa.string()),
    "labels": lambda pa: pa.map_(pa.string(), pa.string()),
}
_PANDAS = {
    "int": "Int64",
    "float": "float64",
    "bool": "boolean",
    "text": "object",
    "time": "datetime64[us, UTC]",
    "duration": "timedelta64[us]",
    "ints": "object",
    "texts": "object",
    "labels": "object",
}

_KINDS: dict[Any, str] = {
    int: "int",
    float: "float",
    bool: "bool",
    str: "text",
    datetime: "time",
    timedelta: "duration",
    tuple[int, ...]: "ints",
    tuple[str, ...]: "texts",
}


class Column(NamedTuple):
    """A column: its name, its kind, and a function that reads it from a row."""

    name: str
    kind: str
    get: Callable[[Any], Any]
    is_size: bool = False
    """Whether it is a number of bytes."""


@functools.cache
def _fixed_columns(row_type: Any) -> tuple[Column, ...]:
    """Returns the columns of a dataclass, except those that depend on the rows."""
    columns: list[Column] = []
    hints = typing.get_type_hints(row_type)
    for field in dataclasses.fields(row_type):
        get = _getter(field.name)
        hint = _without_none(hints[field.name])
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            columns += [
                inner._replace(
                    name=f"{field.name}.{inner.name}", get=_chain(get, inner.get)
                )
                for inner in _fixed_columns(hint)
            ]
        elif hint == tuple[RankRange, ...]:
            columns.append(Column(field.name, "text", _range_text_of(get)))
        elif hint == tuple[TokenRequest, ...]:
            columns.append(Column(field.name, "texts", _ids_of(get)))
        elif hint == Mapping[str, str]:
            columns.append(Column(field.name, "labels", get))
        elif hint in _KINDS:
            is_size = field.name.endswith(("_bytes", "_bytes_max"))
            columns.append(Column(field.name, _KINDS[hint], get, is_size))
        elif hint in (Mapping[str, float], tuple[CustomMetric, ...]):
            # Placeholder that `columns_of` replaces with one column per name.
            columns.append(Column(field.name, "names", get))
    return tuple(columns)


def columns_of(row_type: Any, names: Mapping[str, Sequence[str]]) -> list[Column]:
    """Returns the columns of a table.

    Args:
        row_type: The dataclass of the rows.
        names: The keys of each field whose keys become columns.
    """
    columns: list[Column] = []
    for column in _fixed_columns(row_type):
        if column.kind != "names":
            columns.append(column)
            continue
        columns += [
            Column(f"{column.name}.{name}", "float", _value_of(column.get, name))
            for name in names.get(column.name, ())
        ]
    return columns


def to_arrow(rows: Iterable[Any], columns: Sequence[Column]) -> Any:
    """Creates a pyarrow.Table.

    Raises:
        ImportError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise missing("pyarrow") from error
    values = _transpose(rows, columns)
    return pa.table(
        [
            pa.array(cells, type=_ARROW[column.kind](pa))
            for column, cells in zip(columns, values, strict=True)
        ],
        names=[column.name for column in columns],
    )


def to_pandas(rows: Iterable[Any], columns: Sequence[Column]) -> Any:
    """Makes a pandas.DataFrame.

    Raises:
        ImportError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise missing("pandas") from error
    values = _transpose(rows, columns)
    return pd.DataFrame(
        {
            column.name: pd.Series(cells, dtype=_PANDAS[column.kind])
            for column, cells in zip(columns, values, strict=True)
        }
    )


def cell_text(column: Column, value: Any) -> str:
    """Returns a value of a column as msitctl prints it in a table."""
    if value is None:
        return ""
    if column.kind == "float":
        return f"{value:.6g}"
    if column.kind == "bool":
        return "true" if value else "false"
    if column.kind == "int":
        return human_size(value) if column.is_size else str(value)
    if column.kind == "time":
        return cast(datetime, value).strftime("%Y-%m-%dT%H:%M:%SZ")
    if column.kind == "duration":
        return human_duration(value.total_seconds())
    if column.kind in ("ints", "texts"):
        return ",".join(map(str, value))
    if column.kind == "labels":
        return "; ".join(f"{key}: {text}" for key, text in sorted(value.items()))
    return str(value)


def _transpose(rows: Iterable[Any], columns: Sequence[Column]) -> list[list[Any]]:
    values: list[list[Any]] = [[] for _ in columns]
    appends = [
        (column.get, cells.append)
        for column, cells in zip(columns, values, strict=True)
    ]
    for row in rows:
        for get, append in appends:
            append(get(row))
    return values


def _without_none(hint: Any) -> Any:
    members = [a for a in typing.get_args(hint) if a is not type(None)]
    return members[0] if type(None) in typing.get_args(hint) else hint


def _getter(name: str) -> Callable[[Any], Any]:
    return lambda row: None if row is None else getattr(row, name)


def _chain(
    outer: Callable[[Any], Any], inner: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    return lambda row: inner(outer(row))


def _value_of(get: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    def value(row: Any) -> Any:
        found = get(row)
        if isinstance(found, Mapping):
            return found.get(name)
        return next((m.value for m in found if m.metric == name), None)

    return value


def _ids_of(get: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def ids(row: Any) -> tuple[str, ...]:
        return tuple(request.id for request in get(row))

    return ids


def _range_text_of(get: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Formats ranges of ranks as msitctl does: `0,2-3`."""
    return lambda row: ",".join(
        str(r.first) if r.first == r.last else f"{r.first}-{r.last}" for r in get(row)
    )
