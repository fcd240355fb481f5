"""The counters of a client."""

from __future__ import annotations

from typing import NamedTuple


class Counters(NamedTuple):
    """Counters of a client since it was opened.

    recorded = acknowledged + pending + those dropped and truncated records that
    had been recorded.
    """

    recorded_count: int
    """Records that the client accepted."""
    recorded_bytes: int
    """Bytes of these records."""
    acknowledged_count: int
    """Records that are durable and visible in the daemon."""
    acknowledged_bytes: int
    """Bytes of these records."""
    dropped_count: int
    """Records that will never reach the daemon."""
    invalid_count: int
    """Records that were refused with ValueError."""
    refused_chunk_count: int
    """Chunks that the daemon refused as malformed."""
    reconnect_count: int
    """Streams opened after the first one."""
    filtered_count: int
    """Records that the capture policy of the run does not select. The other
    counters do not include them.
    """
    truncated_count: int
    """Records given up after some of their parts had been accepted. They do not
    count as dropped.
    """
    degraded_count: int
    """Acknowledged records of which only summary and hash are kept, although
    the capture policy selects their bytes.
    """
    conflict_count: int
    """Acknowledged records that the run already had with different bytes. The
    first bytes were kept.
    """
    aliased_count: int
    """Recorded aliases: records that share the bytes of an earlier record. They
    count as recorded and acknowledged, with 0 bytes.
    """
    aliased_bytes: int
    """Bytes that the aliases would have taken."""
    recording_ns: int
    """Nanoseconds that threads of the program spent recording, including hooks,
    added up over all threads.
    """
    open_ns: int
    """Nanoseconds since the client was opened."""
