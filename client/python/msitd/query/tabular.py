"""Lists that can become tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from msitd.query.errors import QueryError
from msitd.query.layouts import has_table, table_columns
from msitd.query.showing import error_html, list_html
from msitd.query.table import Column, columns_of, to_arrow, to_pandas

if TYPE_CHECKING:
    import pandas
    import pyarrow

T = TypeVar("T")

# Maximum number of rows that a daemon returns per page.
PAGE_ROWS_MAX = 1000


class Tabular(Generic[T]):
    """Rows of one class that can be iterated several times."""

    _row_type: type[T]

    def __iter__(self) -> Iterator[T]:
        raise NotImplementedError

    def to_pandas(self, *, all_columns: bool = False) -> pandas.DataFrame:
        """Reads all rows into a table.

        Args:
            all_columns: False: the columns of the table that msitctl prints,
                such as `io/index`, `dtype` and `reason`, if it prints one. True: a
                column for each field, as in the CSV of msitctl, such as
                `golden.dtype`.

        Raises:
            ImportError: pandas is not installed.
            QueryError: See the class.
        """
        rows = list(self)
        return to_pandas(rows, self._columns(rows, all_columns))

    def to_arrow(self, *, all_columns: bool = False) -> pyarrow.Table:
        """Reads all rows into a table; see `to_pandas`.

        Raises:
            ImportError: pyarrow is not installed.
            QueryError: See the class.
        """
        rows = list(self)
        return to_arrow(rows, self._columns(rows, all_columns))

    def __repr__(self) -> str:
        # Does not call the daemon, because debuggers and logs call repr.
        return (
            f"<{type(self).__name__} of {self._row_type.__name__}: iterate over it, or "
            "call to_pandas() or to_arrow()>"
        )

    def _repr_html_(self) -> str:
        """Returns the first 20 rows as a table, for notebooks. Reads one page."""
        try:
            rows = list(itertools.islice(self, PAGE_ROWS_MAX))
            shown = self._shown_names(rows)
        except QueryError as error:
            return error_html(error)
        is_page = len(rows) == PAGE_ROWS_MAX
        return list_html(self._row_type, rows, shown, may_have_more=is_page)

    def _columns(self, rows: Sequence[T], all_columns: bool) -> list[Column]:
        if all_columns or not has_table(self._row_type):
            return columns_of(self._row_type, self._names(rows))
        return table_columns(self._row_type, rows, self._shown_names(rows))

    def _names(self, rows: Sequence[T]) -> Mapping[str, Sequence[str]]:
        """Returns the keys of each field whose keys become columns."""
        return {}

    def _shown_names(self, rows: Sequence[T]) -> Mapping[str, Sequence[str]]:
        """Returns those of the keys that msitctl shows in a table."""
        return self._names(rows)
