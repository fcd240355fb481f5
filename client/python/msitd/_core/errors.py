"""Exceptions of clients and daemons."""

from __future__ import annotations


class MsitError(RuntimeError):
    """The daemon cannot be reached or refuses the request, or the client is closed."""


class DroppedError(MsitError):
    """Records were lost since the last `flush` or `close` that reported losses."""

    dropped_count: int
    """Number of records that will never reach the daemon."""
    truncated_count: int
    """Number of records of which only some parts were accepted."""

    def __init__(self, dropped_count: int, truncated_count: int) -> None:
        super().__init__(
            f"{dropped_count} records were dropped and {truncated_count} truncated "
            "(see Client.counters)"
        )
        self.dropped_count = dropped_count
        self.truncated_count = truncated_count
