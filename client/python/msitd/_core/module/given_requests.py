"""Records the requests that the user's function returns for each forward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msitd._core.module.batches import EMPTY, Batch, BatchReader, Row
from msitd._core.requests import (
    RequestRows,
    Requests,
    UncountedRows,
    rows_by_id,
    texts_of,
)

if TYPE_CHECKING:
    from msitd._core.client import Client

# Maximum number of requests whose rows are counted. The one that was seen least
# recently is forgotten.
_COUNTED_MAX = 65536


class GivenRequests:
    """Completes the requests of a function with facts of the arguments.

    Args:
        ask: Returns the requests of a forward.
        reader: Reads the batches of the model.
    """

    def __init__(
        self, client: Client, ask: Callable[[], Requests], reader: BatchReader
    ) -> None:
        self._client = client
        self._ask = ask
        self._reader = reader
        # By request: the number of its rows in packed batches so far.
        self._counts: dict[str, int] = {}
        self._has_missed = False

    def begin(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        token: int | None,
        *,
        is_root: bool,
        is_in_graph: bool,
    ) -> None:
        """Handles a forward that begins; see `ForwardRequests.begin`.

        Raises:
            Exception: An exception of the function, or its result is invalid.
        """
        if token is None:
            self.miss()
            return
        given = rows_by_id(self._ask())
        batch = self._reader.read(args, kwargs, is_in_graph) if is_root else None
        if batch is not None:
            given = {
                request: self._completed(request, rows, batch)
                for request, rows in given.items()
            }
        self._client._record_request_texts(texts_of(given), token)

    def miss(self) -> None:
        """Handles a forward that is not recorded."""
        self._has_missed = True
        self._counts.clear()

    def end(self, result: Any) -> None:
        """Handles the end of a forward."""

    def _completed(self, request: str, rows: RequestRows, batch: Batch) -> RequestRows:
        lengths = batch.lengths
        is_other = rows.batch not in (None, lengths)
        if rows.rows is None or is_other or rows.rows[1] > lengths[0]:
            return rows
        if len(lengths) == 1:
            if rows.columns is not None:
                return rows
            position = self._counted(request, rows)
            return replace(rows, position=position, batch=lengths)
        return _completed_columns(rows, batch)

    def _counted(self, request: str, rows: RequestRows) -> int | None:
        """Returns the position of rows of a packed batch."""
        counts = self._counts
        known = counts.pop(request, None if self._has_missed else 0)
        if rows.position is not None:
            known = rows.position
        elif isinstance(rows, UncountedRows):
            known = None
        if known is None:
            return None
        while len(counts) >= _COUNTED_MAX:
            del counts[next(iter(counts))]
        first, end = rows.rows
        counts[request] = known + end - first
        return known


def _completed_columns(rows: RequestRows, batch: Batch) -> RequestRows:
    lengths = batch.lengths
    if rows.columns is not None and rows.columns[1] > lengths[1]:
        return rows
    row = _row_of(rows.rows, batch)
    position = rows.position
    if rows.columns is not None:
        if position is None and row is not None and row.position is not None:
            first = rows.columns[0]
            if row.first <= first < row.end:
                position = row.position + first - row.first
        return replace(rows, position=position, batch=lengths)
    if row is None:
        # With its lengths, but without columns, all columns would belong to it.
        return rows
    columns = (row.first, row.end) if batch.mask is not None else None
    if row == EMPTY:
        return replace(rows, columns=columns, batch=lengths)
    return replace(
        rows,
        columns=columns,
        position=row.position if position is None else position,
        batch=lengths,
    )


def _row_of(span: tuple[int, int], batch: Batch) -> Row | None:
    """Returns the elements of all rows of a span, if they are the same columns."""
    if batch.rows is None:
        return None
    first, end = span
    rows = set(batch.rows[first:end])
    return rows.pop() if len(rows) == 1 else None
