"""What a daemon is asked of a comparison, and what it says of it.

Every class mirrors a message, as in `types`. The comments of protos/msitd/v1 and
docs/comparison.md say more of each field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from msitd.query.messages import mirrors
from msitd.query.types import Io, RunRanks, TensorFilter

Verdict = Literal["pass", "fail", "unmatched", "skipped"]
"""What a row says of its pair."""

Preset = Literal["torch", "polygraphy", "sglang", "msit", "msprobe", "bitwise", "fp8"]
"""Tolerances by element type, as docs/predicates.md has them."""

MetricSet = Literal[
    "ulp", "shares", "percentiles", "pearson", "bits", "top_k", "msit", "msprobe"
]
"""Metrics that are measured only where they are asked for."""


@mirrors("Policy.Rule")
@dataclass(frozen=True)
class Rule:
    """A tolerance for some ops: a predicate, a preset, or rtol and atol."""

    op_pattern: str = ""
    """Ops: `*` stands for any bytes, `?` for one."""
    predicate: str = ""
    """What must hold, such as `cosine >= 0.999 and max_abs <= 1e-2`."""
    op_regex: str = ""
    """In place of `op_pattern`: an RE2 expression for all of the op."""
    preset: Preset | Literal[""] = ""
    """In place of `predicate`."""
    rtol: float | None = None
    """With `atol`: an element is an outlier if |t - g| > atol + rtol |g|."""
    atol: float | None = None


@mirrors("Policy")
@dataclass(frozen=True)
class Policy:
    """What passes, and what is measured. The first rule that matches decides."""

    rules: Sequence[Rule] = ()
    preset: Preset | Literal[""] = ""
    """What decides where no rule matches; empty: the defaults of msitd."""
    metric_sets: Sequence[MetricSet] = ()
    shape_rule: Literal["", "exact", "squeeze", "count"] = ""
    top_k: int = 0
    """Elements that `top_k_overlap` looks at, 1 to 64; 0 stands for 5."""
    allow_unmatched: Sequence[str] = ()
    """Tensors that either run may have alone: `PATTERN[@IO[/INDEX]]`."""


@mirrors("Layout")
@dataclass(frozen=True)
class Layout:
    """How the shards of some ops become one tensor."""

    op_pattern: str
    kind: Literal["concat", "sum", "replicated", "pick", "zigzag"]
    io: Io | Literal[""] = ""
    """Empty stands for all sides."""
    index: str | None = None
    """None stands for all arguments."""
    dim: int = 0
    """Of `concat` and `zigzag`; -1 is the last."""
    rank: int = 0
    """Of `pick`: counted from the first rank of the group."""
    group_size: int = 0
    """Consecutive ranks that hold one tensor; 0: all."""
    sections: Sequence[int] = ()
    """Of `concat`: lengths of the sections that each shard is made of."""
    unless_placed: bool = False
    """Leaves out tensors that have a placement."""


@mirrors("Matching.Rewrite")
@dataclass(frozen=True)
class Rewrite:
    """Changes names of ops of the target run before they are looked up."""

    regex: str
    replacement: str


@mirrors("Matching.OpPair")
@dataclass(frozen=True)
class OpPair:
    """Two ops that belong to each other."""

    golden_op: str
    target_op: str


@mirrors("Matching.RankPair")
@dataclass(frozen=True)
class RankPair:
    """Two ranks that belong to each other."""

    golden_rank: int
    target_rank: int


@mirrors("Matching")
@dataclass(frozen=True)
class Matching:
    """Which tensor of the target run belongs to which of the golden run."""

    rewrites: Sequence[Rewrite] = ()
    ignore_case: bool = False
    ops: Sequence[OpPair] = ()
    fuzzy: bool = False
    token_offset: int = 0
    """Token T of the golden run belongs to T + `token_offset` of the target."""
    ranks: Sequence[RankPair] = ()
    golden_layouts: Sequence[Layout] = ()
    target_layouts: Sequence[Layout] = ()
    ignore_placements: bool = False


@mirrors("RequiredTolerance")
@dataclass(frozen=True)
class RequiredTolerance:
    """What a bound of the policy would have to be for all rows to satisfy it."""

    rule: int
    """Number of the rule; -1 for the preset."""
    predicate: str
    metric: str
    at_least: bool
    bound: float
    required: float
    row: int
    """The row that asks for it."""
    row_count: int
    strict: bool
    negated: bool
    element_tolerance: bool


@mirrors("ComparedTensor")
@dataclass(frozen=True)
class ComparedTensor:
    """One side of a row. What is None is not known, or there is none."""

    name: str
    """By which `tensors.read` reads it."""
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
    """With a layout: the ranks whose shards took part."""
    layout: str
    """Such as `concat(0)`."""


@mirrors("CustomMetric")
@dataclass(frozen=True)
class CustomMetric:
    """One metric of a row that somebody else than the daemon has added."""

    metric: str
    value: float | None = None
    text: str = ""


@mirrors("ComparisonRow")
@dataclass(frozen=True)
class ComparisonRow:
    """One tensor of the golden run with its counterpart, or either alone."""

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
    """Of a failing row: `created`, `passed_on`, `inside`, `unknown_inputs` or
    `drifted`."""
    watches: tuple[int, ...]
    """Numbers of the watches that hold."""
    metrics: Mapping[str, float]
    """Those that are defined for the pair, by name."""
    custom_metrics: tuple[CustomMetric, ...]
    sampled: bool
    """True if only samples were compared."""
    for_want_of_ranks: bool
    """Of an unmatched row: ranks that a run lacks may have what is missing."""
    amplification: float | None
    """Of a failing row: its error by that of what the tensor is made of."""
    layout_hint: str
    """A guess of the layout that would put the pieces together."""


@mirrors("InputDifference")
@dataclass(frozen=True)
class InputDifference:
    """From where on the model is given other integers."""

    row: ComparisonRow | None
    difference: str
    """The target first: `403 against 186`, or both shapes."""


@mirrors("Maker")
@dataclass(frozen=True)
class Maker:
    """Who made a difference."""

    kind: str
    """`op`, `weight`, `own_code`, `model_inputs`, `drift` or `not_known`."""
    op: str
    after: str
    before: str
    row: ComparisonRow | None
    input_error: float
    """As `nl2`."""
    output_error: float
    """As `nl2`."""
    ranks: tuple[int, ...]
    note: str


@mirrors("SilentRank")
@dataclass(frozen=True)
class SilentRank:
    """A rank of an active run that has no stream."""

    run: str
    rank: int
    has_finished: bool
    silent_since: datetime | None


@mirrors("Comparison")
@dataclass(frozen=True)
class Comparison:
    """Two runs set side by side: state, counts, and what they come to."""

    name: str = ""
    """Given by the daemon, such as `c-000001`."""
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
    """Tensors to look at in all; 0 until known."""
    read_bytes: int = 0
    first_divergence: ComparisonRow | None = None
    """The first row in execution order that fails."""
    required_tolerances: tuple[RequiredTolerance, ...] = ()
    """The smallest tolerances that would pass."""
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
    """The number of the gRPC code of `error`."""
    error_reason: str = ""
    golden_ranks: RunRanks | None = None
    target_ranks: RunRanks | None = None
    partial: bool = False
    """True if a run lacks ranks."""
    for_want_of_ranks_count: int = 0
    may_diverge_before: bool = False
    concurrent_divergences: tuple[ComparisonRow, ...] = ()
    makers: tuple[Maker, ...] = ()
    """Who made the first divergence."""
    input_difference: InputDifference | None = None
    first_unmatched: ComparisonRow | None = None
    allowed_unmatched_count: int = 0
    layout_hints: tuple[str, ...] = ()
    layout_hint_row_count: int = 0
    sampled_count: int = 0
    first_skipped: ComparisonRow | None = None
    both_non_finite_count: int = 0
    first_both_non_finite: ComparisonRow | None = None
    idle_rules: tuple[str, ...] = ()
    """Parts of the policy that have met no op."""

    @property
    def is_over(self) -> bool:
        """True once nothing more comes of it."""
        return self.state in ("done", "cancelled", "failed")

    @property
    def verdict(self) -> str:
        """`pass`, `fail`, or `partial` if no rank that is there tells against it.

        It is what msitctl prints: a comparison that has not come to its end, and
        one in which nothing passes, is `fail`.
        """
        proven = self.fail_count + self.unmatched_count - self.for_want_of_ranks_count
        if self.state != "done" or proven > 0:
            return "fail"
        if self.partial:
            return "partial"
        return "pass" if self.pass_count > 0 else "fail"
