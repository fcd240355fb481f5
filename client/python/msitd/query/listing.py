"""Lists of a daemon, read page by page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from msitd.query import arguments
from msitd.query.errors import QueryError
from msitd.query.messages import from_message, new
from msitd.query.tabular import PAGE_ROWS_MAX, Tabular

if TYPE_CHECKING:
    from msitd.query.connection import Caller

T = TypeVar("T")


class Listing(Tabular[T]):
    """Iterates over rows of a daemon and keeps one page of at most 1000 rows in memory.

    A page is requested when its first row is needed. Each iteration requests
    the rows again. Iterating may raise QueryError.
    """

    def __init__(
        self,
        caller: Caller,
        method: str,
        field: str,
        row_type: type[T],
        request: Mapping[str, Any],
        limit: int | None,
    ) -> None:
        """Describes a list. `field` of the response to `method` holds its rows.

        Raises:
            TypeError: `limit`, or a field of the request, has the wrong type.
            ValueError: `limit` is negative, or a field has a value that is not
                allowed.
        """
        if limit is not None and arguments.number("limit", limit) < 0:
            raise ValueError(f"a limit of {limit} rows")
        self._caller = caller
        self._method = method
        self._field = field
        self._row_type = row_type
        self._noun = method.partition("/")[2]
        # Built at once, so that an invalid argument raises where it was passed.
        self._request = new(f"{self._noun}Request", **request)
        self._limit = limit

    def __iter__(self) -> Iterator[T]:
        return map(from_message, self._rows(self._request, self._limit))

    def _rows(self, request: Any, limit: int | None) -> Iterator[Any]:
        """Yields the messages of at most `limit` rows of `request`."""
        left = limit
        token = ""
        while left is None or left > 0:
            size = PAGE_ROWS_MAX if left is None else min(left, PAGE_ROWS_MAX)
            page = self._page(request, size, token)
            rows = getattr(page, self._field)
            yield from rows[:left]
            if not page.next_page_token:
                return
            if page.next_page_token == token:
                raise QueryError(
                    "INTERNAL", "", "the daemon returned the same page token twice"
                )
            token = page.next_page_token
            left = None if left is None else left - len(rows)

    def _page(self, request: Any, size: int, token: str) -> Any:
        asked = type(request)()
        asked.CopyFrom(request)
        asked.page_size = size
        asked.page_token = token
        return self._caller.unary(self._method, asked, f"{self._noun}Response")
