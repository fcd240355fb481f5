"""What goes wrong with a daemon."""

from __future__ import annotations


class MsitError(RuntimeError):
    """The daemon cannot be reached or refuses, or the client is closed."""


class DroppedError(MsitError):
    """Records were lost since the last `flush` or `close` that said so."""

    dropped_count: int
    """Records that will never get there."""
    truncated_count: int
    """Records some parts of which had been taken, but not all."""

    def __init__(self, dropped_count: int, truncated_count: int) -> None:
        super().__init__(
            f"{dropped_count} records were dropped and {truncated_count} truncated "
            "(see Client.counters)"
        )
        self.dropped_count = dropped_count
        self.truncated_count = truncated_count
