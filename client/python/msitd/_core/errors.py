"""Errors of a daemon or a client."""

from __future__ import annotations


class MsitError(RuntimeError):
    """The daemon cannot be reached or refuses, or the client is closed."""


class DroppedError(MsitError):
    """Records were lost since the last `flush` or `close` that said so."""

    dropped_count: int
    """Number of records that will never reach the daemon."""
    truncated_count: int
    """Number of records of which only some parts were taken."""

    def __init__(self, dropped_count: int, truncated_count: int) -> None:
        super().__init__(
            f"{dropped_count} records were dropped and {truncated_count} truncated "
            "(see Client.counters)"
        )
        self.dropped_count = dropped_count
        self.truncated_count = truncated_count
