"""Dataclasses of runs, tensors and captures; those of the daemon are in node_types.

Every class mirrors a message of protos/msitd/v1 field by field. Enums are
words: `sealed`, `float32`, `output`. A field that is None is absent. A word or
a number that this package does not define was sent by a newer daemon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, SupportsIndex

from msitd.query import arguments
from msitd.query.messages import mirrors

Io = Literal[
    "input",
    "output",
    "weight",
    "grad_input",
    "grad_output",
    "grad_weight",
    "state",
]
"""Side of an op, such as `input` or `grad_output`."""

RecordKind = Literal[
    "tensor", "number", "text", "none", "dtype", "other", "document", "statistics"
]
"""Type of a record: a tensor, a value, a document, or statistics of a tensor."""

CaptureLevel = Literal["off", "summary", "sample", "full"]
"""How much of a tensor is recorded."""

Order = Literal["execution", "key"]
"""Order of listed tensors: as the program computed them, or by rank, device,
token, op.
"""

GroupBy = Literal["rank", "token", "op", "device"]
"""The attribute that the members of a group share."""


@mirrors("TokenRange")
@dataclass(frozen=True)
class TokenRange:
    """An inclusive range of tokens."""

    first: int
    last: int


@mirrors("RankRange")
@dataclass(frozen=True)
class RankRange:
    """An inclusive range of ranks."""

    first: int
    last: int


@mirrors("RunRanks")
@dataclass(frozen=True)
class RunRanks:
    """The ranks of a run that a result covers."""

    ranks_held: tuple[RankRange, ...] = ()
    """Ranks that the daemon holds, ascending."""
    ranks_lacking: tuple[RankRange, ...] = ()
    """The other ranks of the world size."""
    partial: bool = False
    """True if `ranks_lacking` is not empty: the result covers only a part of
    the run.
    """


@mirrors("TensorFilter")
@dataclass(frozen=True)
class TensorFilter:
    """Selects the tensors that match every field that is set.

    An empty field is not set. `select` builds a filter from lists, and refuses
    empty lists.
    """

    ranks: tuple[int, ...] = ()
    devices: tuple[str, ...] = ()
    tokens: tuple[TokenRange, ...] = ()
    op_patterns: tuple[str, ...] = ()
    ios: tuple[Io, ...] = ()
    kinds: tuple[RecordKind, ...] = ()
    """Kinds of records; empty: only tensors."""
    requests: tuple[str, ...] = ()
    """Selects the tokens in which a rank works on one of these requests."""


def select(
    *,
    ops: str | Iterable[str] | None = None,
    io: Io | Iterable[Io] | None = None,
    tokens: SupportsIndex
    | range
    | TokenRange
    | Iterable[SupportsIndex | range | TokenRange]
    | None = None,
    ranks: SupportsIndex | Iterable[SupportsIndex] | None = None,
    devices: str | Iterable[str] | None = None,
    kinds: RecordKind | Iterable[RecordKind] | None = None,
    requests: str | Iterable[str] | None = None,
) -> TensorFilter:
    """Builds a filter of records. Arguments that are omitted or None match everything.

    Args:
        ops: Patterns of ops: `*` matches any bytes, `?` matches one byte.
        io: Sides of ops, such as `output`.
        tokens: Tokens, or ranges of tokens with step 1.
        ranks: Ranks.
        devices: Devices, such as `npu:0`.
        kinds: Kinds of records; default: only tensors.
        requests: Ids of requests: selects the tokens in which a rank works on
            one of them, as reported by `Client.record_requests`.

    Raises:
        TypeError: An argument has the wrong type, such as a str for `tokens`.
        ValueError: An argument is an empty list, which would select nothing, or
            a range of tokens is empty or has another step.
    """
    return TensorFilter(
        ranks=arguments.numbers("ranks", ranks),
        devices=arguments.texts("devices", devices),
        tokens=_token_ranges(tokens),
        op_patterns=arguments.texts("ops", ops),
        ios=arguments.texts("io", io),  # type: ignore[arg-type]
        kinds=arguments.texts("kinds", kinds),  # type: ignore[arg-type]
        requests=arguments.texts("requests", requests),
    )


def checked_filter(select: TensorFilter | None) -> TensorFilter | None:
    """Returns the filter that a caller passed as `select`.

    Raises:
        TypeError: The argument is not a filter, for example a pattern of ops.
    """
    return arguments.instance("select", select, TensorFilter, "query.select(...)")


def _token_ranges(tokens: Any) -> tuple[TokenRange, ...]:
    one = isinstance(tokens, (range, TokenRange))
    wanted = "ints, ranges or TokenRanges"
    each = (tokens,) if one else arguments.several("tokens", tokens, wanted)
    return tuple(_token_range(token) for token in each)


def _token_range(token: SupportsIndex | range | TokenRange) -> TokenRange:
    if isinstance(token, TokenRange):
        return token
    if isinstance(token, range):
        if token.step != 1 or len(token) == 0:
            raise ValueError(f"tokens: {token!r} has no token, or a step other than 1")
        return TokenRange(token.start, token.stop - 1)
    only = arguments.number("tokens", token)
    return TokenRange(only, only)


@mirrors("Retention")
@dataclass(frozen=True)
class Retention:
    """How much of a run is kept.

    A field that is None follows the daemon's configuration.
    """

    pinned: bool | None = None
    """True: all bytes are kept."""
    size_bytes_max: int | None = None
    """Maximum number of tensor bytes to keep."""
    age_max: timedelta | None = None
    """Bytes older than this are deleted."""
    token_count: int | None = None
    """Number of tokens to keep, counted from the highest."""


@mirrors("RunCounters")
@dataclass(frozen=True)
class RunCounters:
    """Counts of the records that a run holds, refused and lost."""

    tensor_count: int = 0
    size_bytes: int = 0
    """Bytes of all tensors. Bytes that several tensors share count once."""
    duplicate_count: int = 0
    """Records that arrived again with equal bytes."""
    conflict_count: int = 0
    """Records that arrived again with different bytes; the first ones are kept."""
    dropped_count: int = 0
    """Records that producers dropped."""
    truncated_count: int = 0
    """Records that were given up after some of their parts were stored."""
    expired_size_bytes: int = 0
    """The part of `size_bytes` that retention deleted."""
    value_count: int = 0
    """Values and documents; `tensor_count` does not include them."""
    dangling_count: int = 0
    """Records that refer to the bytes of a record that does not exist."""
    statistics_count: int = 0
    """Statistics of tensors without bytes; the other counts do not include them."""
    document_count: int = 0
    """The documents in `value_count`."""
    missing_size_bytes: int = 0
    """The part of `size_bytes` in segments whose files are missing."""
    unread_place_count: int = 0
    """Places in the log of the daemon that could not be read; tensors of the run
    may have been in them."""


@mirrors("RunArchive")
@dataclass(frozen=True)
class RunArchive:
    """State of a run's archiving."""

    url: str = ""
    """URL of the archive, without the run."""
    state: str = ""
    """`pending`, `running`, `archived` or `failed`."""
    problem: str = ""
    """Why the last attempt failed; empty if it succeeded."""
    retry_time: datetime | None = None
    """Earliest time of the next attempt; None if there is no further attempt."""
    unreadable_tensor_count: int = 0
    """Tensors whose bytes are missing in the archive because they could not be read."""


@mirrors("Run")
@dataclass(frozen=True)
class Run:
    """A run, which is a named capture of a job."""

    name: str
    world_size: int = 0
    """Number of ranks of the job; 0 until a producer has reported it."""
    labels: Mapping[str, str] = field(default_factory=dict)
    state: str = ""
    """`active`, `sealed` or `restoring`."""
    create_time: datetime | None = None
    seal_time: datetime | None = None
    """When the run was sealed; None while it is active."""
    counters: RunCounters | None = None
    retention: Retention | None = None
    ranks_held: tuple[RankRange, ...] = ()
    """Ranks that have recorded so far; see `RunRanks`."""
    ranks_lacking: tuple[RankRange, ...] = ()
    """The other ranks of the world size. They may still arrive while the run is
    active.
    """
    partial: bool = False
    """True if `ranks_lacking` is not empty."""
    owner: str = ""
    """The user who created the run, such as `uid:1000`; empty for a run of an
    older store.
    """
    archive: RunArchive | None = None
    """State of archiving; None if archiving was not requested."""
    id: str = ""
    """Permanent id of this run. The name may be reused, the id is not."""


@mirrors("Attachment")
@dataclass(frozen=True)
class Attachment:
    """Named bytes that are stored with a run."""

    run: str
    name: str
    media_type: str = ""
    """Media type of the bytes, such as `application/json`."""
    size_bytes: int = 0
    hash: str = ""
    """XXH3-128 of the bytes as 32 hexadecimal digits."""
    create_time: datetime | None = None


@mirrors("Summary")
@dataclass(frozen=True)
class Summary:
    """Statistics of elements. A complex element counts as its two components."""

    count: int = 0
    nan_count: int = 0
    positive_infinity_count: int = 0
    negative_infinity_count: int = 0
    zero_count: int = 0
    min: float | None = None
    """Smallest element that is not NaN."""
    max: float | None = None
    """Largest element that is not NaN."""
    abs_max: float | None = None
    """Largest magnitude that is not NaN."""
    sum: float = 0.0
    """Sum of the finite elements."""
    mean: float | None = None
    """Mean of the finite elements."""
    l1_norm: float = 0.0
    l2_norm: float = 0.0


@mirrors("TokenRequest")
@dataclass(frozen=True)
class TokenRequest:
    """A request that is processed in a token."""

    id: str
    rows: str
    """The request's part of the batch, such as `0:128` or `1:2,4:9@0/2,9`, in the
    form of `protos/base/request.h`; empty if unknown.
    """

    @property
    def row_slice(self) -> slice | tuple[slice, slice]:
        """The request's part of the batch as an index into a tensor.

        A pair of slices if the rows have columns, which exclude padding. All
        rows if unknown.
        """
        spans = self.rows.partition("/")[0].partition("@")[0].split(",")
        slices = [found for span in spans if (found := _slice_of(span)) is not None]
        if len(slices) != len(spans) or len(slices) > 2:
            return slice(None)
        return (slices[0], slices[1]) if len(slices) == 2 else slices[0]


def _slice_of(span: str) -> slice | None:
    first, _, end = span.partition(":")
    if not (first.isdecimal() and end.isdecimal()):
        return None
    return slice(int(first), int(end))


@mirrors("Tensor")
@dataclass(frozen=True)
class Tensor:
    """A recorded tensor or value, without its bytes."""

    name: str
    """Resource name, for `tensors.read` and `tensors.get`."""
    run: str
    rank: int
    device: str
    token: int
    op: str
    call: int
    io: str
    index: str
    dtype: str
    """Name in torch: `float32`, `bfloat16`, `float8_e4m3fn`."""
    shape: tuple[int, ...]
    """Dimensions; empty for a scalar."""
    size_bytes: int
    sequence: int
    """Position in the execution order of the rank."""
    summary: Summary | None
    hash: str
    """XXH3-128 of the bytes in hexadecimal digits."""
    has_bytes: bool
    """False if the bytes were not recorded or have been deleted."""
    placement: str
    """How a shard is placed on the ranks, such as `0+2x4/4x1:R,S(0)`."""
    has_sample: bool
    """True if only a sample of the elements is stored."""
    kind: str = "tensor"
    """`tensor`, unless other kinds were requested; see `RecordKind`."""
    requires_grad: bool | None = None
    """None if unknown."""
    value: str = ""
    """The repr of a Python value, the text itself for a text, or a JSON object
    for statistics.
    """
    stack: str = ""
    """Stack where the tensor was recorded: one `file:line function` per line,
    innermost first.
    """
    alias_of: str = ""
    """Name of the tensor that has the bytes, if they were recorded only once."""
    claimed: bool = False
    """True if the rank computed summary and hash and sent no bytes."""
    requests: tuple[TokenRequest, ...] = ()
    """Requests that are processed in the token: all of them from `tensors.get`,
    only the selected ones from a list.
    """


@mirrors("SummarizeTensorsResponse.Group")
@dataclass(frozen=True)
class StatsGroup:
    """Statistics of one group of tensors."""

    key: str
    """The rank, token, op or device; empty without grouping."""
    tensor_count: int
    size_bytes: int
    summary: Summary | None


@mirrors("SummarizeTensorsResponse")
@dataclass(frozen=True)
class Stats:
    """Statistics by group, and the ranks that they cover."""

    groups: tuple[StatsGroup, ...]
    ranks_held: tuple[RankRange, ...]
    ranks_lacking: tuple[RankRange, ...]
    partial: bool
    """True if `ranks_lacking` is not empty."""


@mirrors("Histogram")
@dataclass(frozen=True)
class Histogram:
    """Distribution of a tensor's elements over bins of equal width."""

    low: float
    """Lower edge of the first bin."""
    high: float
    """Upper edge of the last bin."""
    counts: tuple[int, ...]
    """Number of elements in each bin. A bin includes its lower edge; the last
    bin includes both edges.
    """
    below_count: int
    """Number of elements below the first bin, including -Inf."""
    above_count: int
    """Number of elements above the last bin, including +Inf."""
    nan_count: int


@mirrors("CaptureRule")
@dataclass(frozen=True)
class CaptureRule:
    """How much is recorded of the tensors that a filter selects."""

    filter: TensorFilter | None = None
    """Tensors that the rule selects; None: all."""
    level: CaptureLevel = "full"


@mirrors("CapturePolicy")
@dataclass(frozen=True)
class CapturePolicy:
    """Selects the records that the clients of a run make.

    The first rule that selects a tensor decides.
    """

    revision: int = 0
    """Number of the policy within its run. 0: the run has no policy, and
    everything is recorded.
    """
    first_token: int | None = None
    """First token to which the policy applies."""
    rules: Sequence[CaptureRule] = ()


@mirrors("NotRecorded")
@dataclass(frozen=True)
class NotRecorded:
    """Values that the hooks of a rank do not record for one reason."""

    reason: str
    count: int
    """Number of tensors, values and calls; 0 if unknown."""
    op: str
    """The op where this first happened."""
    index: str
    """The argument of that op; empty for a whole call."""
    is_harmless: bool
    """True if no data is missing as a result."""


@mirrors("RankCoverage")
@dataclass(frozen=True)
class RankCoverage:
    """How many tensors one rank passed to its clients, and what happened to them.

    seen = filtered + asked;
    asked = stored + repeated + dangling + dropped + truncated + pending + lost.
    """

    rank: int
    stream_count: int
    seen_count: int
    filtered_count: int
    asked_count: int
    stored_count: int
    dropped_count: int
    truncated_count: int
    degraded_count: int
    repeated_count: int
    conflict_count: int
    pending_count: int
    lost_count: int
    stream_state: str
    """`none`, `open`, `finished` or `broken`; empty if the run is sealed."""
    streamless_duration: timedelta | None
    """How long the rank has had no stream; None while it has one."""
    dangling_count: int = 0
    """Tensors that refer to the bytes of a tensor that does not exist."""
    claimed_count: int = 0
    """Stored tensors whose summary and hash the rank itself computed."""
    checked_count: int = 0
    """Parts of the claimed tensors that the daemon checked."""
    false_count: int = 0
    """Checked parts for which the claim of the rank is false."""
    not_recorded_count: int = 0
    """Tensors that hooks could not record, such as tensors on `meta`.
    `seen_count` does not include them.
    """
    not_recorded: tuple[NotRecorded, ...] = ()
    """The same by reason, including harmless ones."""
    recording_duration: timedelta | None = None
    """Time that threads of the rank spent recording; None if it is not measured."""
    open_duration: timedelta | None = None
    """How long the clients of the rank existed during the measurement."""
    overhead: float = 0
    """`recording_duration` / `open_duration`: the share of the rank's time
    spent recording.
    """


@mirrors("CaptureCoverage")
@dataclass(frozen=True)
class CaptureCoverage:
    """How many tensors of a run were recorded or lost, rank by rank."""

    ranks: tuple[RankCoverage, ...]
    ranks_held: tuple[RankRange, ...]
    ranks_lacking: tuple[RankRange, ...]
    partial: bool
    """True if `ranks_lacking` is not empty."""


@mirrors("Metric")
@dataclass(frozen=True)
class Metric:
    """A metric that a daemon measures."""

    name: str
    direction: str
    """`lower_is_better` or `higher_is_better`."""
    unit: str
    """Unit, such as `elements` or `ulp`; empty for a number without a unit."""
    family: str
    """`fused`, `derived` or `element`."""
    in_default_columns: bool


@mirrors("Capabilities")
@dataclass(frozen=True)
class Capabilities:
    """Limits and options of a daemon, constant while it runs."""

    version: str
    chunk_version: int
    chunk_size_bytes_max: int
    read_piece_bytes_max: int
    metrics: tuple[str, ...]
    """Names of the metrics, in the order of the metrics of a row."""
    simd_target: str
    metric_table: tuple[Metric, ...]
    """One entry for each of `metrics`."""
