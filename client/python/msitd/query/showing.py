"""How objects and lists appear in an interpreter and in a notebook.

`add_short_texts` gives the dataclasses of the messages a `repr` of a line or
three, and an HTML table for notebooks. Both are derived: a class with a layout
shows the columns of that layout, and any other class the fields that differ from
their defaults. `dataclasses.asdict` returns all fields.

Users and programs choose the texts of a run. They are escaped, and the HTML
has neither scripts nor references to other resources.
"""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msitd.query import merging
from msitd.query.comparison_types import Comparison, ComparisonRow
from msitd.query.headline import headline
from msitd.query.layouts import has_layout, object_columns, table_columns
from msitd.query.table import Column, cell_text
from msitd.query.text import printable, shorten
from msitd.query.types import CaptureCoverage, RankCoverage, Stats, StatsGroup

ROWS_SHOWN = 20
"""Rows of a list in a notebook."""

_CELL_CHARS_MAX = 60
_HTML_CELL_CHARS_MAX = 300
_TEXT_CHARS_MAX = 120
# Elements of a longer list, which are shorter or longer themselves.
_ELEMENTS_SHOWN = 8
_OBJECTS_SHOWN = 2

# Results that are lists: the field with the rows, and their class.
_GROUPS: dict[type[Any], tuple[str, type[Any]]] = {
    Stats: ("groups", StatsGroup),
    CaptureCoverage: ("ranks", RankCoverage),
}

_NUMBER_KINDS = ("int", "float")


def add_short_texts(classes: Iterable[type[Any]]) -> None:
    """Replaces the `repr` of dataclasses, and adds HTML for notebooks."""
    for each in classes:
        each.__repr__ = text_of  # type: ignore[assignment]
        if has_layout(each) or each in _GROUPS:
            each._repr_html_ = html_of


def text_of(value: Any) -> str:
    """Returns the `repr` of an instance of a dataclass."""
    name = type(value).__name__
    if not has_layout(type(value)):
        return f"{name}({', '.join(_field_texts(value))})"
    cells = ", ".join(
        f"{_name(column)}={shorten(_text(column, value), _CELL_CHARS_MAX)}"
        for column in object_columns(value)
    )
    sentence = headline(value) if isinstance(value, Comparison) else ""
    return f"{sentence}\n<{name} {cells}>" if sentence else f"<{name} {cells}>"


def html_of(value: Any) -> str:
    """Returns an object as HTML: a row for each of its columns, or of its groups."""
    if type(value) in _GROUPS:
        return _groups_html(value)
    parts = []
    if isinstance(value, Comparison):
        parts.append(_paragraph(headline(value), "font-weight:bold"))
    cells = [
        f'<tr><th style="text-align:left">{html.escape(_name(column))}</th>'
        f'<td style="text-align:left">{_cell_html(column, value)}</td></tr>'
        for column in object_columns(value)
    ]
    parts.append(f"<table><tbody>{''.join(cells)}</tbody></table>")
    if isinstance(value, Comparison) and value.first_divergence is not None:
        parts.append(_paragraph("first divergence:"))
        row = value.first_divergence
        parts.append(table_html([row], object_columns(row)))
    return _block("".join(parts))


def _groups_html(value: Any) -> str:
    groups, row_type = _GROUPS[type(value)]
    note = ""
    if value.partial:
        lacking = merging.text_of(value.ranks_lacking)
        note = f"partial: the run lacks ranks {lacking}"
    table = list_html(row_type, getattr(value, groups), {}, may_have_more=False)
    return _block(table + _paragraph(note))


def list_html(
    row_type: type[Any],
    rows: Sequence[Any],
    shown: Mapping[str, Sequence[str]],
    may_have_more: bool,
) -> str:
    """Returns the first rows of a list as an HTML table.

    Args:
        row_type: The class of the rows.
        rows: Rows that have been read. Only the first of them are shown.
        shown: See `layouts.table_columns`.
        may_have_more: Whether the list may have more rows than `rows`.
    """
    first = rows[:ROWS_SHOWN]
    left = len(rows) - len(first)
    least = "at least " if may_have_more else ""
    note = ""
    if may_have_more or left > 0:
        note = f"{len(first)} of {least}{len(rows)} rows are shown ({left} more)"
    elif not rows:
        note = "no rows"
    table = table_html(first, table_columns(row_type, first, shown)) if rows else ""
    return _block(table + _paragraph(note))


def error_html(error: Exception) -> str:
    """Returns the HTML for a list that could not be read."""
    return _block(_paragraph(f"The list could not be read: {error}"))


def table_html(rows: Sequence[Any], columns: Sequence[Column]) -> str:
    """Returns rows as an HTML table."""
    heading = "".join(
        f'<th style="text-align:{_side(column)}">{html.escape(_name(column))}</th>'
        for column in columns
    )
    body = "".join(
        "<tr>" + "".join(_cell(row, column) for column in columns) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{heading}</tr></thead><tbody>{body}</tbody></table>"


def _cell(row: Any, column: Column) -> str:
    style = f"text-align:{_side(column)}"
    is_verdict = isinstance(row, (Comparison, ComparisonRow)) and (
        column.name == "verdict"
    )
    if is_verdict and column.get(row) == "fail":
        style += ";font-weight:bold"
    return f'<td style="{style}">{_cell_html(column, row)}</td>'


def _cell_html(column: Column, row: Any) -> str:
    return html.escape(shorten(_text(column, row), _HTML_CELL_CHARS_MAX))


def _side(column: Column) -> str:
    return "right" if column.kind in _NUMBER_KINDS else "left"


def _block(content: str) -> str:
    # The classes keep notebooks from typesetting names with `$` as formulas.
    return f'<div class="tex2jax_ignore mathjax_ignore">{content}</div>'


def _paragraph(text: str, style: str = "") -> str:
    if not text:
        return ""
    attribute = f' style="{style}"' if style else ""
    return f"<p{attribute}>{html.escape(printable(text))}</p>"


def _name(column: Column) -> str:
    # Users choose the names of their own metrics.
    return shorten(printable(column.name), _CELL_CHARS_MAX)


def _text(column: Column, row: Any) -> str:
    return printable(cell_text(column, column.get(row)))


def _field_texts(value: Any) -> Iterable[str]:
    """Yields `name=value` for each field that differs from its default."""
    for field in dataclasses.fields(value):
        default: Any = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        found = getattr(value, field.name)
        if default is dataclasses.MISSING or found != default:
            yield f"{field.name}={_short_repr(found)}"


def _short_repr(value: Any) -> str:
    if isinstance(value, str):
        return shorten(repr(value), _TEXT_CHARS_MAX)
    if isinstance(value, (tuple, list)) and len(value) > _ELEMENTS_SHOWN:
        has_objects = dataclasses.is_dataclass(value[0])
        shown = value[: _OBJECTS_SHOWN if has_objects else _ELEMENTS_SHOWN]
        first = ", ".join(map(_short_repr, shown))
        return f"({first}, \u2026 {len(value)} in all)"
    if isinstance(value, Mapping) and len(value) > _ELEMENTS_SHOWN:
        return f"{{\u2026 {len(value)} in all}}"
    return repr(value)
