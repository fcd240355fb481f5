"""The calls to one daemon that a comparison in parts makes, in protobuf messages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from msitd.query.connection import Caller, Settings
from msitd.query.errors import QueryError
from msitd.query.messages import new

_SERVICE = "ComparisonService"
# Maximum number of consecutive streams that break without a row.
_FRUITLESS_MAX = 10
_RETRY_DELAY_S = 0.2


class Asking:
    """Sends requests to one daemon, and returns messages. Thread-safe."""

    def __init__(self, endpoint: str, timeout: float | None = None) -> None:
        # A Unix socket has no TLS, even if environment variables of msitctl
        # request it.
        tls = False if endpoint.startswith("unix:") else None
        settings = Settings(endpoint, tls, None, None, None)
        self._caller = Caller(settings, timeout, None)

    def close(self) -> None:
        """Ends all calls."""
        self._caller.close()

    def plan(self, comparison: Any) -> Any:
        """Returns the plan of a comparison, a PlanComparisonResponse."""
        request = new("PlanComparisonRequest", comparison=comparison)
        return self._caller.unary(
            f"{_SERVICE}/PlanComparison", request, "PlanComparisonResponse"
        )

    def create(self, comparison: Any) -> Any:
        """Starts a comparison."""
        request = new("CreateComparisonRequest", comparison=comparison)
        return self._caller.unary(f"{_SERVICE}/CreateComparison", request, "Comparison")

    def get(self, name: str) -> Any:
        """Returns the current state of a comparison."""
        request = new("GetComparisonRequest", comparison=name)
        return self._caller.unary(f"{_SERVICE}/GetComparison", request, "Comparison")

    def delete(self, name: str) -> None:
        """Stops a comparison and removes it."""
        request = new("DeleteComparisonRequest", comparison=name)
        self._caller.unary(
            f"{_SERVICE}/DeleteComparison", request, "google.protobuf.Empty"
        )

    def metrics(self) -> list[str]:
        """Returns the names of the metrics that rows may have."""
        request = new("GetCapabilitiesRequest")
        answer = self._caller.unary(
            "NodeService/GetCapabilities", request, "Capabilities"
        )
        return list(answer.metrics)

    def rows(self, name: str) -> Iterator[Any]:
        """Yields the rows of a comparison in batches until it is over."""
        deadline = self._caller.stream_deadline()
        next_row = 0
        fruitless_count = 0
        while True:
            before = next_row
            request = new(
                "StreamComparisonRowsRequest", comparison=name, first_row=next_row
            )
            try:
                for answer in self._caller.stream(
                    f"{_SERVICE}/StreamComparisonRows",
                    request,
                    "StreamComparisonRowsResponse",
                    deadline,
                ):
                    if not answer.rows:
                        continue
                    _check_order(answer.rows, next_row, name)
                    next_row += len(answer.rows)
                    yield answer.rows
                return
            except QueryError as error:
                fruitless_count = 0 if next_row > before else fruitless_count + 1
                if error.code != "UNAVAILABLE" or fruitless_count == _FRUITLESS_MAX:
                    raise
            time.sleep(_RETRY_DELAY_S)


def _check_order(rows: Any, first: int, name: str) -> None:
    """Raises QueryError unless these are the next rows."""
    for number, row in enumerate(rows, first):
        if row.row != number:
            raise QueryError(
                "INTERNAL", "", f"{name}: row {row.row} came in place of {number}"
            )
