"""What a client did so far."""

from __future__ import annotations

from typing import NamedTuple


class Counters(NamedTuple):
    """What a client has done so far.

    recorded = acknowledged + pending + those dropped and truncated records that had
    been recorded.
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
    """Records that will never reach the daemon."""
    invalid_count: int
    """Records that were refused with ValueError."""
    refused_chunk_count: int
    """Chunks that the daemon refused as malformed."""
    reconnect_count: int
    """Streams opened after the first one."""
    filtered_count: int
    """Records that the capture policy of the run does not ask for. They count nowhere
    else."""
    truncated_count: int
    """Records given up after some of their parts had been taken. They do not count as
    dropped."""
    degraded_count: int
    """Acknowledged records that are kept as summary and hash although the capture
    policy asks for their bytes."""
    conflict_count: int
    """Acknowledged records that the run already had with other bytes. The first bytes
    were kept."""
    aliased_count: int
    """Recorded aliases: records whose bytes are those of an earlier one. They count as
    recorded and acknowledged, with 0 bytes."""
    aliased_bytes: int
    """The bytes that they would have taken."""
    recording_ns: int
    """Nanoseconds that threads of the program spent recording, hooks included, added
    up over threads."""
    open_ns: int
    """How long the client exists, in nanoseconds."""
