"""Dataclasses of comparisons: requests to a daemon and their results.

Every class mirrors a message, as in `types`. For more on each field, see the
comments of protos/msitd/v1 and docs/comparison.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from msitd.query.judge_types import JudgeBasis, JudgeContext
from msitd.query.messages import mirrors
from msitd.query.types import Io, RankRange, RunRanks, TensorFilter

Verdict = Literal["pass", "fail", "unmatched", "skipped"]
"""The verdict of a row."""

Preset = Literal["torch", "polygraphy", "sglang", "msit", "msprobe", "bitwise", "fp8"]
"""Tolerances by element type; see docs/predicates.md."""

RowGroupBy = Literal["op", "rank", "token"]
"""A property of rows that distinguishes groups."""

Reading = Literal["bytes", "unproven", "samples"]
"""The bytes that are read of a pair whose hashes differ. These are all bytes,
all bytes except those of pairs that the summaries prove to fail, or at most
1024 elements of each side.
"""

MetricSet = Literal[
    "ulp", "shares", "percentiles", "pearson", "bits", "top_k", "msit", "msprobe"
]
"""Sets of metrics that are measured only on request."""


@mirrors("Policy.Rule")
@dataclass(frozen=True)
class Rule:
    """A tolerance for some ops: a predicate, a preset, or `rtol` and `atol`."""

    op_pattern: str = ""
    """Pattern of ops: `*` matches any bytes, `?` matches one byte."""
    predicate: str = ""
    """The condition to pass, such as `cosine >= 0.999 and max_abs <= 1e-2`."""
    op_regex: str = ""
    """Used instead of `op_pattern`: an RE2 expression that must match the whole op."""
    preset: Preset | Literal[""] = ""
    """Used instead of `predicate`."""
    rtol: float | None = None
    """Used with `atol`: an element is an outlier if |t - g| > atol + rtol |g|."""
    atol: float | None = None


@mirrors("Policy")
@dataclass(frozen=True)
class Policy:
    """Which pairs pass, and what is measured.

    The first rule that matches an op decides.
    """

    rules: Sequence[Rule] = ()
    preset: Preset | Literal[""] = ""
    """Decides where no rule matches; empty: the defaults of msitd."""
    metric_sets: Sequence[MetricSet] = ()
    shape_rule: Literal["", "exact", "squeeze", "count"] = ""
    top_k: int = 0
    """Number of elements that `top_k_overlap` compares, 1 to 64; 0 means 5."""
    allow_unmatched: Sequence[str] = ()
    """Tensors that may be missing in either run: `PATTERN[@IO[/INDEX]]`."""


@mirrors("Layout")
@dataclass(frozen=True)
class Layout:
    """How the shards of some ops are assembled into one tensor."""

    op_pattern: str
    kind: Literal["concat", "sum", "replicated", "pick", "zigzag", "fit"]
    io: Io | Literal[""] = ""
    """Side of the ops, such as `output`; empty: all sides."""
    index: str | None = None
    """Index of the argument; None: all arguments."""
    dim: int = 0
    """Dimension of `concat` and `zigzag`; -1 is the last dimension."""
    rank: int = 0
    """Rank that `pick` uses, counted from the first rank of the group."""
    group_size: int = 0
    """Number of consecutive ranks that hold one tensor; 0: all ranks."""
    sections: Sequence[int] = ()
    """Lengths of the sections of each shard, for `concat`."""
    unless_placed: bool = False
    """Excludes tensors whose placement was recorded."""


@mirrors("View")
@dataclass(frozen=True)
class View:
    """How the tensors of some ops are seen before they are compared."""

    op_pattern: str
    view: str
    """Steps joined by `.`, such as `reshape(6,2,-1).permute(1,0,2)`."""
    io: Io | Literal[""] = ""
    """Side of the ops, such as `output`; empty: all sides."""
    index: str | None = None
    """Index of the argument; None: all arguments."""
    as_op: str = ""
    """If not empty, the op under which the view is compared, in addition to the
    tensor.
    """


@mirrors("Matching.Rewrite")
@dataclass(frozen=True)
class Rewrite:
    """Changes names of ops of the target run before they are looked up."""

    regex: str
    replacement: str


@mirrors("Matching.OpPair")
@dataclass(frozen=True)
class OpPair:
    """Two ops that are compared with each other."""

    golden_op: str
    target_op: str


@mirrors("Matching.RankPair")
@dataclass(frozen=True)
class RankPair:
    """Two ranks that are compared with each other."""

    golden_rank: int
    target_rank: int


@mirrors("Matching.Mapping")
@dataclass(frozen=True)
class TensorMapping:
    """A list of pairs of tensors, stored as an attachment of one of the two runs.

    Each line is a `MappingLine` of protos/msitd/v1/mapping.proto. The media
    type is `application/vnd.msitd.mapping+jsonl`.
    """

    attachment: str
    """Name of the attachment."""
    side: Literal["golden", "target"] = "target"
    """The run that has the attachment."""
    pair_others: bool = False
    """Whether tensors that the mapping does not name are paired by the other
    fields of the matching.
    """
    hash: str = ""
    """Set by the daemon: hash of the attachment when the comparison was created."""


@mirrors("Matching")
@dataclass(frozen=True)
class Matching:
    """How tensors of the target run are paired with those of the golden run."""

    rewrites: Sequence[Rewrite] = ()
    ignore_case: bool = False
    ops: Sequence[OpPair] = ()
    fuzzy: bool = False
    token_offset: int = 0
    """Token T of the golden run is compared with T + `token_offset` of the
    target run.
    """
    ranks: Sequence[RankPair] = ()
    golden_layouts: Sequence[Layout] = ()
    target_layouts: Sequence[Layout] = ()
    golden_views: Sequence[View] = ()
    target_views: Sequence[View] = ()
    ignore_placements: bool = False
    mapping: TensorMapping | None = None
    """Takes precedence over the names of tensors."""
    by_request: bool = False
    """Compare rows of equal requests and positions instead of whole tensors of
    equal tokens; see `Client.record_requests`.
    """
    backward_by_number: bool = False
    """Pairs backward calls of msprobe only by number, never by their order."""


@mirrors("RequiredTolerance")
@dataclass(frozen=True)
class RequiredTolerance:
    """The value that a bound of the policy would need for all rows to satisfy it."""

    rule: int
    """Number of the rule that has the bound; -1 for the preset."""
    predicate: str
    metric: str
    at_least: bool
    bound: float
    required: float
    row: int
    """Number of the row that requires this value."""
    row_count: int
    strict: bool
    negated: bool
    element_tolerance: bool


@mirrors("ComparedTensor")
@dataclass(frozen=True)
class ComparedTensor:
    """One side of a row. A field that is None is unknown or does not exist."""

    name: str
    """Resource name, for `tensors.read`."""
    dtype: str
    shape: tuple[int, ...]
    min: float | None
    max: float | None
    mean: float | None
    nan_count: int | None
    infinity_count: int | None
    l2_norm: float | None
    hash: str
    ranks: tuple[int, ...]
    """With a layout: the ranks whose shards were assembled."""
    layout: str
    """The layout, such as `concat(0)`."""
    kind: str = "tensor"
    """Kind of the record; see `RecordKind`."""
    value: str = ""
    """The text of a value or of statistics."""
    requires_grad: bool | None = None
    """Whether the tensor requires a gradient; None if unknown."""
    view: str = ""
    """The view that applies, such as `split(-1,32:8:8,0)`. All fields except `name`
    then describe what the tensor is seen as.
    """


@mirrors("CustomMetric")
@dataclass(frozen=True)
class CustomMetric:
    """A metric of a row that a user added: a value, a text, or both."""

    metric: str
    value: float | None = None
    text: str = ""


@mirrors("ComparisonRow")
@dataclass(frozen=True)
class ComparisonRow:
    """A tensor of the golden run and its counterpart, or a tensor that exists
    in only one run.
    """

    row: int
    """Number of the row, from 0, in execution order."""
    rank: int
    token: int
    op: str
    call: int
    io: str
    index: str
    sequence: int
    golden: ComparedTensor | None
    target: ComparedTensor | None
    verdict: str
    """`pass`, `fail`, `unmatched` or `skipped`."""
    reason: str
    """Which part of the predicate failed, or why nothing was compared."""
    predicate: str
    bitwise_equal: bool
    rtol: float | None
    atol: float | None
    origin: str
    """The cause of the failure of a failing row: `created`, `passed_on`, `inside`,
    `unknown_inputs`, `drifted` or `flipped`."""
    watches: tuple[int, ...]
    """Numbers of the watches whose conditions the row meets."""
    metrics: Mapping[str, float]
    """Values of the metrics that are defined for the pair, by name."""
    custom_metrics: tuple[CustomMetric, ...]
    sampled: bool
    """True if only samples were compared."""
    for_want_of_ranks: bool
    """True if an unmatched row may lack its counterpart only because ranks are
    missing.
    """
    amplification: float | None
    """For a failing row: its error divided by the error of the tensors that it
    was computed from.
    """
    layout_hint: str
    """Layout that would probably assemble the shards; a guess."""
    pairing: str
    """Why the two tensors were paired, as stated by the mapping or by fuzzy
    matching.
    """
    statistics_in_part: bool
    """True if the statistics agree but some of them decided nothing; `reason`
    names them.
    """
    unread: bool
    """True if the row fails by its summaries, and its bytes were not read."""
    not_compared: bool = False
    """True if a skipped row was to be compared: bytes are lost or cannot be read."""
    roundings: float | None = None
    """For a failing row: the error that was made here, over one rounding of its type."""
    flipped_element_count: int = 0
    """Choices, such as of experts, that differ within the noise of their scores."""
    explained: bool = False
    """True if the row exceeds the default bounds by no more than rounding errors
    of ill-conditioned ops do; `reason` has the explanation.
    """
    request: str = ""
    """If rows are compared by request, the id of the request in the golden run."""
    judge_basis: JudgeBasis | None = None
    """Further properties of the pair, for `Comparisons.judge`."""
    lacks_metrics: bool = False
    """True if the stored metrics do not suffice for the policy of `judge`."""


@mirrors("InputDifference")
@dataclass(frozen=True)
class InputDifference:
    """The first row in which the two models receive different integers."""

    row: ComparisonRow | None
    difference: str
    """Target against golden: `403 against 186`, or both shapes."""
    choice: str = ""
    """How the runs chose different tokens, if their logits are recorded."""


@mirrors("ViewHint")
@dataclass(frozen=True)
class ViewHint:
    """Failing rows that hold the elements of the other run in another arrangement."""

    flags: tuple[str, ...]
    """Flags of msitctl that compare the tensors in the arrangement that was found."""
    finding: str
    unchecked: str
    """The checks that the flags would omit; may be empty."""
    row_count: int


@mirrors("Explanation")
@dataclass(frozen=True)
class Explanation:
    """A simple mistake that explains the difference of a tensor."""

    kind: str
    """`factor`, `sign`, `offset`, `rope_base` and so on; see
    protos/msitd/v1/comparison_service.proto.
    """
    text: str
    """The mistake in words, such as `golden * 0.125`."""
    where: str
    """The indices that have the mistake; empty for all."""
    parameters: tuple[float, ...]
    """The numbers in `text`."""
    residual: float
    """Difference of the target from golden with the mistake, as `nl2`."""
    residual_without: float
    """Difference without the mistake, as `nl2`."""
    noise: float
    """The noise that `residual` was compared with."""


@mirrors("Maker")
@dataclass(frozen=True)
class Maker:
    """The cause of a difference."""

    kind: str
    """`op`, `weight`, `own_code`, `model_inputs`, `copies`, `drift`, `flip` or
    `not_known`."""
    op: str
    after: str
    before: str
    row: ComparisonRow | None
    input_error: float
    """Error of the inputs, as `nl2`."""
    output_error: float
    """Error of the outputs, as `nl2`."""
    ranks: tuple[int, ...]
    """Other ranks for which the same holds; for `copies`, those whose copies differ."""
    note: str
    roundings: float | None = None
    """See `ComparisonRow.roundings`."""
    explanations: tuple[Explanation, ...] = ()
    """Simple mistakes that explain the difference, the simplest first."""


@mirrors("SilentRank")
@dataclass(frozen=True)
class SilentRank:
    """A rank of an active run that has no stream."""

    run: str
    rank: int
    has_finished: bool
    silent_since: datetime | None


@mirrors("RunLosses")
@dataclass(frozen=True)
class RunLosses:
    """Records that are missing from a run."""

    dropped_count: int = 0
    """Records that clients dropped before any part was stored."""
    truncated_count: int = 0
    """Records that clients gave up after some parts were stored."""
    incomplete_count: int = 0
    """Tensors of which a part is missing."""
    lost_count: int = 0
    """Records that clients handed over and that the run lacks for no other reason, such
    as damaged bytes."""
    unread_place_count: int = 0
    """Places in the log of the daemon that could not be read; tensors of the run
    may have been in them."""


@mirrors("Comparison")
@dataclass(frozen=True)
class Comparison:
    """A comparison of two runs: its state, counts and results."""

    name: str = ""
    """Name that the daemon assigned, such as `c-000001`."""
    golden_run: str = ""
    target_run: str = ""
    filter: TensorFilter | None = None
    policy: Policy | None = None
    state: str = ""
    """`pending`, `running`, `done`, `cancelled` or `failed`."""
    error: str = ""
    create_time: datetime | None = None
    end_time: datetime | None = None
    pass_count: int = 0
    fail_count: int = 0
    unmatched_count: int = 0
    skipped_count: int = 0
    total_count: int = 0
    """Number of tensors to compare; 0 until it is known."""
    read_bytes: int = 0
    first_divergence: ComparisonRow | None = None
    """The first failing row in execution order."""
    required_tolerances: tuple[RequiredTolerance, ...] = ()
    """The smallest tolerances with which the comparison would pass."""
    matching: Matching | None = None
    first_origin: ComparisonRow | None = None
    first_non_finite: ComparisonRow | None = None
    follow: bool = False
    watches: Sequence[str] = ()
    watched_count: int = 0
    custom_metrics: tuple[str, ...] = ()
    detach: bool = False
    waiting_behind_count: int = 0
    hopeless_count: int = 0
    first_hopeless_row: int = 0
    golden_conflict_count: int = 0
    target_conflict_count: int = 0
    silent_ranks: tuple[SilentRank, ...] = ()
    error_code: int = 0
    """Number of the gRPC code of `error`."""
    error_reason: str = ""
    golden_ranks: RunRanks | None = None
    target_ranks: RunRanks | None = None
    partial: bool = False
    """True if a run lacks ranks or records, or rows could not be compared."""
    for_want_of_ranks_count: int = 0
    may_diverge_before: bool = False
    concurrent_divergences: tuple[ComparisonRow, ...] = ()
    makers: tuple[Maker, ...] = ()
    """The makers of the differences that do not follow from each other, the worst
    first."""
    more_makers_count: int = 0
    """Makers as independent as those, which are not among them."""
    input_difference: InputDifference | None = None
    first_unmatched: ComparisonRow | None = None
    first_inequality: ComparisonRow | None = None
    """The first row whose values are not equal, with any verdict."""
    allowed_unmatched_count: int = 0
    layout_hints: tuple[str, ...] = ()
    layout_hint_row_count: int = 0
    sampled_count: int = 0
    first_skipped: ComparisonRow | None = None
    both_non_finite_count: int = 0
    first_both_non_finite: ComparisonRow | None = None
    idle_rules: tuple[str, ...] = ()
    """Rules of the policy that matched no op."""
    pairing_hints: tuple[str, ...] = ()
    """Flags of msitctl that would pair tensors without a counterpart."""
    view_hints: tuple[ViewHint, ...] = ()
    """Views for failing rows that are rearrangements of the golden tensor."""
    statistics_count: int = 0
    """Rows whose statistics were compared because one side has nothing else."""
    golden_left_out_count: int = 0
    """Values and statistics of the golden run that the filter did not select."""
    target_left_out_count: int = 0
    golden_not_recorded_count: int = 0
    """Tensors that the hooks of the golden run could not record; see
    `Captures.coverage` for the reasons.
    """
    target_not_recorded_count: int = 0
    statistics_in_part_count: int = 0
    """Number of rows in `statistics_count` in which some statistics decided nothing."""
    owner: str = ""
    """The user who created the comparison, as in `Run.owner`."""
    golden_source: str = ""
    """Location of the golden run: empty for this daemon, otherwise the endpoint
    of another daemon or the URL of an archive.
    """
    target_source: str = ""
    reading: Reading | Literal[""] = ""
    """The bytes that were read of pairs whose hashes differ; "" means
    `bytes`."""
    unread_count: int = 0
    """Number of rows in `fail_count` for which `unread` is set."""
    restored_from: str = ""
    """The archive and the name there, if it was restored with its target run."""
    not_compared_count: int = 0
    """Number of rows in `skipped_count` for which `not_compared` is set."""
    first_not_compared: ComparisonRow | None = None
    golden_losses: RunLosses | None = None
    """Records that are missing from the golden run; None if nothing is missing."""
    target_losses: RunLosses | None = None
    golden_run_id: str = ""
    """`Run.id` of the run that was compared."""
    target_run_id: str = ""
    golden_required_ranks: tuple[RankRange, ...] = ()
    """Ranks that the whole result must cover; this comparison may be a part of it."""
    target_required_ranks: tuple[RankRange, ...] = ()
    stored_size_bytes: int = 0
    """Its size in the store, before compression."""
    flipped_count: int = 0
    """Rows for which `flipped_element_count` is set."""
    explained_count: int = 0
    """Rows with `explained` set."""
    joined_request_count: int = 0
    """If rows are compared by request: requests of both runs."""
    golden_only_request_count: int = 0
    target_only_request_count: int = 0
    """Requests that only the target run has; they are not compared."""
    renamed_request_count: int = 0
    """Requests with different ids that were paired by their order."""
    target_only_position_count: int = 0
    judged_comparison: str = ""
    """The comparison whose rows `Comparisons.judge` judged; empty for any other."""
    judge_context: JudgeContext | None = None
    """None for comparisons of earlier versions, which cannot be judged again."""

    @property
    def is_over(self) -> bool:
        """True once the comparison is done, cancelled or failed."""
        return self.state in ("done", "cancelled", "failed")

    @property
    def verdict(self) -> str:
        """The result, as msitctl prints it: `pass`, `fail` or `partial`.

        `partial` means that ranks or records are missing, or that rows could
        not be compared, and that the rest proves no failure. A comparison that
        is not done, or in which nothing was compared, is `fail`.
        """
        rows = self.pass_count + self.fail_count
        rows += self.unmatched_count + self.skipped_count
        if 0 < self.not_compared_count == rows:
            return "fail"
        proven = self.fail_count + self.unmatched_count - self.for_want_of_ranks_count
        if self.state != "done" or proven > 0:
            return "fail"
        if self.partial or self.for_want_of_ranks_count > 0:
            return "partial"
        return "pass" if self.pass_count > 0 else "fail"
