"""Dataclasses of the daemon itself; see msitd.query.types."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from msitd.query.messages import mirrors


@mirrors("VerificationFinding")
@dataclass(frozen=True)
class VerificationFinding:
    """A place in a segment whose bytes differ from those that were written."""

    segment: str
    offset_bytes: int
    run: str
    """Empty if the run cannot be determined."""
    rank: int
    may_be_producer: bool
    """Whether the rank could have changed the bytes after they were hashed."""
    problem: str


@mirrors("Verification")
@dataclass(frozen=True)
class Verification:
    """Result of verifying the stored bytes; see docs/operations.md."""

    frame_count: int
    size_bytes: int
    remaining_size_bytes: int
    round_end_time: datetime | None
    """None if no round has ended yet."""
    finding_count: int
    findings: tuple[VerificationFinding, ...]
    error: str


@mirrors("Stream")
@dataclass(frozen=True)
class Stream:
    """A connected producer and its counters since the stream was opened."""

    run: str
    rank: int
    user_agent: str
    shares_memory: bool
    """False if the producer sends its data over gRPC."""
    age: timedelta | None
    committed_chunk_count: int
    committed_record_count: int
    committed_size_bytes: int
    in_flight_size_bytes: int
    ring_size_bytes: int
    ring_used_bytes: int
    seen_count: int
    filtered_count: int
    dropped_count: int
    truncated_count: int
    degraded_count: int
    recording_duration: timedelta | None = None
    """See RankCoverage."""
    open_duration: timedelta | None = None


@mirrors("ArchiveStatus")
@dataclass(frozen=True)
class ArchiveStatus:
    """State of the runs that are to be archived."""

    pending_count: int = 0
    running_count: int = 0
    archived_count: int = 0
    failed_count: int = 0
    error: str = ""
    """The last error of any of these runs; cleared once that run is archived."""
    sent_size_bytes: int = 0
    incomplete_count: int = 0
    """Number of runs in `archived_count` of which the archive lacks bytes."""


@mirrors("MissingSegment")
@dataclass(frozen=True)
class MissingSegment:
    """A segment that the store needs and whose file is missing."""

    segment: str
    size_bytes: int = 0
    """Bytes of tensors in the segment that should be readable."""
    runs: tuple[str, ...] = ()
    """Names of the runs that these bytes belong to; at most 16."""


@mirrors("NodeStatus")
@dataclass(frozen=True)
class NodeStatus:
    """State and counters of a daemon since its start; see docs/operations.md."""

    version: str
    uptime: timedelta | None
    storage_state: str
    """`ok`, `full`, `failed` or `degraded`."""
    storage_error: str
    run_count: int
    open_stream_count: int
    committed_chunk_count: int
    committed_record_count: int
    committed_bytes: int
    refused_chunk_count: int
    duplicate_count: int
    conflict_count: int
    dropped_count: int
    segment_size_bytes: int
    segment_count: int
    disk_free_bytes: int
    active_comparison_count: int
    recovered_frame_count: int
    torn_frame_count: int
    corrupt_frame_count: int
    expired_size_bytes: int
    excess_size_bytes: int
    retention_error: str
    shared_size_bytes: int
    retention_pause: str
    index_size_bytes: int
    checked_digest_count: int = 0
    false_digest_count: int = 0
    shared_memory_pages: str = ""
    """`huge` or `small`; empty if memory is not shared."""
    pinned_run_count: int = 0
    pinned_size_bytes: int = 0
    is_making_room: bool = False
    verification: Verification | None = None
    ring_size_bytes: int = 0
    ring_used_bytes: int = 0
    truncated_count: int = 0
    degraded_count: int = 0
    archives: ArchiveStatus | None = None
    missing_segment_count: int = 0
    missing_size_bytes: int = 0
    missing_segments: tuple[MissingSegment, ...] = ()
    """The first 32 missing segments."""
    comparison_size_bytes: int = 0
    comparison_size_bytes_max: int = 0
    """0 if there is no limit."""
    expired_comparison_count: int = 0
