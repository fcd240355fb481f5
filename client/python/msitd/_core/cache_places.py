"""States where the positions of a request are in a cache of attention.

protos/base/cache_places.h defines the same format.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# First and end of a dimension, as in a slice.
Span = tuple[int, int]

# Maximum number of spans in a text. Further ones are counted.
_SPANS_MAX = 1 << 14
_PAGE_MAX = 1 << 20
_NUMBER_MAX = 1 << 40
_DIMS_MAX = 32


@dataclass(frozen=True)
class CacheColumns:
    """Where a request is in a cache that has a row for each sequence.

    Attributes:
        row: Row of the cache.
        columns: The columns of the positions 0, 1, 2, ... after the token, as
            numbers and `(first, end)`, each of them once. Columns of padding are
            left out.
        dims: Dimensions of the rows and of the columns, such as (0, 2) for a
            cache of [batch, heads, length, head size].

    Raises:
        ValueError: A value is out of its range.
        TypeError: A value is not a number.
    """

    row: int
    columns: Any
    dims: tuple[int, int] = (0, 2)

    def __post_init__(self) -> None:
        object.__setattr__(self, "row", _number("row", self.row))
        object.__setattr__(self, "columns", _spans_of("columns", self.columns))
        object.__setattr__(self, "dims", _dims_of(self.dims, 2))

    def text(self) -> str:
        """Returns the text of the document."""
        dims = ",".join(map(str, self.dims))
        return f"row {self.row} dims {dims}: {_spans_text(self.columns)}"


@dataclass(frozen=True)
class CachePages:
    """Where a request is in a cache that consists of pages.

    Attributes:
        pages: The pages of the request in the order of its positions, as numbers
            and `(first, end)`, each of them once. Pages that are not filled yet
            may be included.
        page_size: Number of positions of a page. 1 for a pool of single
            positions, as SGLang has.
        dims: Dimensions of the pages and of the positions within a page, such as
            (1, 2) for a cache of [2, pages, page size, heads, head size]. For a
            pool of single positions, only the first one.

    Raises:
        ValueError: A value is out of its range.
        TypeError: A value is not a number.
    """

    pages: Any
    page_size: int
    dims: tuple[int, ...] = (0, 1)

    def __post_init__(self) -> None:
        size = operator.index(self.page_size)
        if not 1 <= size <= _PAGE_MAX:
            raise ValueError(f"page_size {size} is not 1 to {_PAGE_MAX}")
        dims = tuple(self.dims)
        object.__setattr__(self, "page_size", size)
        object.__setattr__(self, "pages", _spans_of("pages", self.pages))
        object.__setattr__(
            self, "dims", _dims_of(dims, 1 if size == 1 and len(dims) == 1 else 2)
        )

    def text(self) -> str:
        """Returns the text of the document."""
        dims = ",".join(map(str, self.dims))
        return f"pages of {self.page_size} dims {dims}: {_spans_text(self.pages)}"


@dataclass(frozen=True)
class UnknownPlaces:
    """A cache whose elements do not belong to single positions.

    Attributes:
        reason: Why, such as `it has a sliding window`.
    """

    reason: str

    def text(self) -> str:
        """Returns the text of the document."""
        return f"unknown: {self.reason}"


CachePlaces = CacheColumns | CachePages | UnknownPlaces


def add_span(spans: list[Span], first: int, end: int) -> None:
    """Appends a span, and joins it with the last one if it follows it."""
    if spans and spans[-1][1] == first:
        spans[-1] = (spans[-1][0], end)
    elif first < end:
        spans.append((first, end))


def _spans_of(name: str, given: Iterable[Any]) -> tuple[Span, ...]:
    spans: list[Span] = []
    for each in given:
        if hasattr(each, "__index__"):
            first = operator.index(each)
            end = first + 1
        else:
            first, end = map(operator.index, each)
        if not 0 <= first <= end <= _NUMBER_MAX:
            raise ValueError(f"{name}: {each!r} is not a number from 0 on, nor a span")
        add_span(spans, first, end)
    return tuple(spans)


def _spans_text(spans: tuple[Span, ...]) -> str:
    text = ",".join(
        str(first) if end == first + 1 else f"{first}:{end}"
        for first, end in spans[:_SPANS_MAX]
    )
    left = sum(end - first for first, end in spans[_SPANS_MAX:])
    return f"{text}+{left}" if left else text


def _number(name: str, value: Any) -> int:
    number = operator.index(value)
    if not 0 <= number <= _NUMBER_MAX:
        raise ValueError(f"{name} {number} is not 0 or a positive number")
    return number


def _dims_of(dims: Iterable[Any], count: int) -> tuple[int, ...]:
    out = tuple(map(operator.index, dims))
    if len(out) != count or len(set(out)) != count:
        raise ValueError(f"dims {out} are not {count} different dimensions")
    if not all(0 <= dim < _DIMS_MAX for dim in out):
        raise ValueError(f"dims {out} are not 0 to {_DIMS_MAX - 1}")
    return out
