"""The types of runs, tensors and captures; those of the daemon are in node_types.

Every class mirrors a message of protos/msitd/v1 field by field. Enums are
words: `sealed`, `float32`, `output`. A field that is None is absent. A word or
a number that is unknown here comes from a newer daemon.
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
"""Which side of an op a tensor is."""

RecordKind = Literal[
    "tensor", "number", "text", "none", "dtype", "other", "document", "statistics"
]
"""What a record has: a tensor, a value, a document, or statistics of a tensor."""

CaptureLevel = Literal["off", "summary", "sample", "full"]
"""How much of a tensor is recorded."""

Order = Literal["execution", "key"]
"""How tensors are listed: as the program made them, or by rank, device, token, op."""

GroupBy = Literal["rank", "token", "op", "device"]
"""What the members of one group have in common."""


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
    """Which ranks of a run an answer covers."""

    ranks_held: tuple[RankRange, ...] = ()
    """Ranks that the daemon holds, ascending."""
    ranks_lacking: tuple[RankRange, ...] = ()
    """The other ranks of the world size."""
    partial: bool = False
    """True if there are `ranks_lacking`: the answer covers only a part of the run."""


@mirrors("TensorFilter")
@dataclass(frozen=True)
class TensorFilter:
    """Selects the tensors that match every field that is set.

    An empty field is not set. `select` makes one from lists, and refuses empty ones.
    """

    ranks: tuple[int, ...] = ()
    devices: tuple[str, ...] = ()
    tokens: tuple[TokenRange, ...] = ()
    op_patterns: tuple[str, ...] = ()
    ios: tuple[Io, ...] = ()
    kinds: tuple[RecordKind, ...] = ()
    """Empty stands for tensors alone."""
    requests: tuple[str, ...] = ()
    """Tokens of a rank that work at one of these."""


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
    """Makes a filter of records. Arguments that are not given, or are None, match all.

    Args:
        ops: Patterns of ops: `*` stands for any bytes, `?` for one.
        io: Sides of ops.
        tokens: Tokens, or ranges of them in steps of one.
        ranks: Ranks.
        devices: Devices, such as `npu:0`.
        kinds: Kinds of records; tensors alone if this is not given.
        requests: Ids of requests: tokens of a rank that work at one of them, as
            `Client.record_requests` says.

    Raises:
        TypeError: An argument has the wrong type, such as a text for tokens.
        ValueError: An argument is an empty list, which would select nothing; or a
            range of tokens is empty or has another step.
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
    """Returns the filter that a call was given as `select`.

    Raises:
        TypeError: It is something else, such as a pattern of ops.
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
    """How much of a run is kept. None: as the daemon is configured."""

    pinned: bool | None = None
    """True: all bytes are kept."""
    size_bytes_max: int | None = None
    """Most bytes of tensors to keep."""
    age_max: timedelta | None = None
    """Bytes older than this are given up."""
    token_count: int | None = None
    """Number of tokens to keep, from the highest down."""


@mirrors("RunCounters")
@dataclass(frozen=True)
class RunCounters:
    """Counts of what a run holds, had to refuse and lost."""

    tensor_count: int = 0
    size_bytes: int = 0
    """Bytes of all tensors; those recorded once for several count once."""
    duplicate_count: int = 0
    """Records that came again with equal bytes."""
    conflict_count: int = 0
    """Records that came again with other bytes; the first ones stay."""
    dropped_count: int = 0
    """Records that producers dropped."""
    truncated_count: int = 0
    """Records given up after some of their parts were kept."""
    expired_size_bytes: int = 0
    """How many of `size_bytes` were given up."""
    value_count: int = 0
    """Values and documents; `tensor_count` does not count them."""
    dangling_count: int = 0
    """Records whose bytes should be those of a record that is not there."""
    statistics_count: int = 0
    """Statistics of tensors that have no bytes; the other counts leave them out."""
    document_count: int = 0
    """Of `value_count`, the documents."""
    missing_size_bytes: int = 0
    """Of `size_bytes`, those in segments whose files are not there."""
    unread_place_count: int = 0
    """Places in the log of the daemon that could not be read; tensors of the run
    may have been in them."""


@mirrors("RunArchive")
@dataclass(frozen=True)
class RunArchive:
    """How a run is archived."""

    url: str = ""
    """The archive, without the run."""
    state: str = ""
    """`pending`, `running`, `archived` or `failed`."""
    problem: str = ""
    """Why the last try failed; empty if it did not."""
    retry_time: datetime | None = None
    """When the next try begins at the earliest; None if no try follows."""
    unreadable_tensor_count: int = 0
    """Tensors of which the archive lacks bytes because these could not be read."""


@mirrors("Run")
@dataclass(frozen=True)
class Run:
    """One named capture of a job."""

    name: str
    world_size: int = 0
    """Number of ranks of the job; 0 until a producer has told."""
    labels: Mapping[str, str] = field(default_factory=dict)
    state: str = ""
    """`active`, `sealed` or `restoring`."""
    create_time: datetime | None = None
    seal_time: datetime | None = None
    """When the run was sealed; None while it is active."""
    counters: RunCounters | None = None
    retention: Retention | None = None
    ranks_held: tuple[RankRange, ...] = ()
    """Ranks that have come so far; see `RunRanks`."""
    ranks_lacking: tuple[RankRange, ...] = ()
    """The other ranks of the world size. An active run may still get them."""
    partial: bool = False
    """True if there are `ranks_lacking`."""
    owner: str = ""
    """Who made it, such as `uid:1000`; empty for a run of an older store."""
    archive: RunArchive | None = None
    """How it is archived; None if nobody has asked for it."""
    id: str = ""
    """Stands for this run for good, unlike its name."""


@mirrors("Attachment")
@dataclass(frozen=True)
class Attachment:
    """Named bytes of a run."""

    run: str
    name: str
    media_type: str = ""
    """What the bytes are, such as `application/json`."""
    size_bytes: int = 0
    hash: str = ""
    """XXH3-128 of them as 32 hexadecimal digits."""
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
    """A request that a token works at."""

    id: str
    rows: str
    """Its rows of the batch, such as `0:128`; empty if they are not known."""

    @property
    def row_slice(self) -> slice:
        """Its rows, to index a tensor with; all rows if they are not known."""
        first, _, end = self.rows.partition(":")
        if not (first.isdecimal() and end.isdecimal()):
            return slice(None)
        return slice(int(first), int(end))


@mirrors("Tensor")
@dataclass(frozen=True)
class Tensor:
    """One recorded value, without its bytes."""

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
    """Name as in torch: `float32`, `bfloat16`, `float8_e4m3fn`."""
    shape: tuple[int, ...]
    """Lengths of the dimensions; empty for a scalar."""
    size_bytes: int
    sequence: int
    """Position in the execution order of the rank."""
    summary: Summary | None
    hash: str
    """XXH3-128 of the bytes, in hexadecimal digits."""
    has_bytes: bool
    """False if the bytes were not kept, or were given up."""
    placement: str
    """How a shard lies on the ranks, such as `0+2x4/4x1:R,S(0)`."""
    has_sample: bool
    """True if a sample is kept in place of all elements."""
    kind: str = "tensor"
    """`tensor`, unless others were asked for; see `RecordKind`."""
    requires_grad: bool | None = None
    """None if it is not known."""
    value: str = ""
    """A value as Python's repr writes it; of a text, the text itself; of
    statistics, a JSON object."""
    stack: str = ""
    """Where it was recorded: `file:line function` a line, innermost first."""
    alias_of: str = ""
    """Name of the tensor that has the bytes, if they were recorded only once."""
    claimed: bool = False
    """True if summary and hash are the word of the rank, which sent no bytes."""
    requests: tuple[TokenRequest, ...] = ()
    """Requests that the token works at: of `tensors.get` all, of a list those that
    are selected."""


@mirrors("SummarizeTensorsResponse.Group")
@dataclass(frozen=True)
class StatsGroup:
    """Statistics of one group of tensors."""

    key: str
    """The rank, token, op or device; empty if not grouped."""
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
    """True if there are `ranks_lacking`."""


@mirrors("Histogram")
@dataclass(frozen=True)
class Histogram:
    """How the elements of a tensor spread over bins of equal width."""

    low: float
    """Lower edge of the first bin."""
    high: float
    """Upper edge of the last bin."""
    counts: tuple[int, ...]
    """Elements in each bin. A bin includes its lower edge; the last one includes
    both."""
    below_count: int
    """Elements below the first bin, -Inf included."""
    above_count: int
    """Elements above the last bin, +Inf included."""
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
    """What the clients of a run record: the first rule that selects decides."""

    revision: int = 0
    """Number of the policy, counted within its run. 0: there is none; all is
    recorded."""
    first_token: int | None = None
    """First token for which the policy holds."""
    rules: Sequence[CaptureRule] = ()


@mirrors("NotRecorded")
@dataclass(frozen=True)
class NotRecorded:
    """What hooks of a rank do not record for one reason."""

    reason: str
    count: int
    """Tensors, values and calls; 0: not known."""
    op: str
    """Where it came first."""
    index: str
    """The argument there; empty for a whole call."""
    is_harmless: bool
    """True if nothing is missing because of it."""


@mirrors("RankCoverage")
@dataclass(frozen=True)
class RankCoverage:
    """What became of the tensors that one rank was handed.

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
    """Those whose bytes should be those of a tensor that is not there."""
    claimed_count: int = 0
    """Of those stored: the rank made summary and hash itself."""
    checked_count: int = 0
    """Parts of those claimed that the daemon checked."""
    false_count: int = 0
    """Of those checked: what the rank said is not true."""
    not_recorded_count: int = 0
    """What hooks could not record, such as tensors on `meta`; not among those
    seen."""
    not_recorded: tuple[NotRecorded, ...] = ()
    """The same by reason, and what is harmless."""
    recording_duration: timedelta | None = None
    """Time that threads of the rank spent recording; None if nobody measures it."""
    open_duration: timedelta | None = None
    """How long the clients of the rank existed meanwhile."""
    overhead: float = 0
    """The first by the second: the share of the rank's time that recording costs."""


@mirrors("CaptureCoverage")
@dataclass(frozen=True)
class CaptureCoverage:
    """What became of the tensors of a run, rank by rank."""

    ranks: tuple[RankCoverage, ...]
    ranks_held: tuple[RankRange, ...]
    ranks_lacking: tuple[RankRange, ...]
    partial: bool
    """True if there are `ranks_lacking`."""


@mirrors("Metric")
@dataclass(frozen=True)
class Metric:
    """One metric that a daemon measures."""

    name: str
    direction: str
    """`lower_is_better` or `higher_is_better`."""
    unit: str
    """Unit, such as `elements` or `ulp`; empty if the number has none."""
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
    """Names of the metrics, in the order in which rows have them."""
    simd_target: str
    metric_table: tuple[Metric, ...]
    """One entry for each of `metrics`."""
