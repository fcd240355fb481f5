"""What a client did so far."""

from __future__ import annotations

from typing import NamedTuple


class Counters(NamedTuple):
    """What a client did so far.

    recorded = acknowledged + pending + those of `dropped_count` and
    `truncated_count` that had been recorded.
    """

    recorded_count: int
    """Records that were taken."""
    recorded_bytes: int
    """Their bytes."""
    acknowledged_count: int
    """Records that are durable and visible in the daemon."""
    acknowledged_bytes: int
    """Their bytes."""
    dropped_count: int
    """Records that will never get there."""
    invalid_count: int
    """Records that were refused with ValueError."""
    refused_chunk_count: int
    """Chunks that the daemon refused as malformed."""
    reconnect_count: int
    """Streams opened after the first one."""
    filtered_count: int
    """Records that the capture policy of the run does not ask for. They count
    nowhere else."""
    truncated_count: int
    """Records that will never get there, but some parts of which had been
    taken. They are not dropped."""
    degraded_count: int
    """Of the acknowledged records: those that are kept as summary and hash
    though the capture policy asks for their bytes."""
    conflict_count: int
    """Of the acknowledged records: those that the run had already, with other
    bytes: these were not kept."""
