"""Dataclasses of `runs.origin`: where a condition began in a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from msitd.query.messages import mirrors
from msitd.query.types import RankRange, Tensor

OriginKind = Literal["op", "code", "input", "weight", "state"]
"""The maker of the first tensor that satisfies a condition."""

OriginResult = Literal["none", "found", "not_known"]
"""The result of a search for an origin."""


@mirrors("RunOrigin")
@dataclass(frozen=True)
class RunOrigin:
    """Where a condition began: the first tensor that satisfies it, and its maker."""

    kind: OriginKind
    """The kind of its maker. A guess if `gaps` is not empty."""
    op: str
    """The op; for `code` the op whose code it is, for `input` the op that
    received it.
    """
    after: str
    """For `code`, the recorded part before it; may be empty."""
    before: str
    """For `code`, the recorded part after it; may be empty."""
    tensor: Tensor
    """The first tensor that satisfies the condition."""
    ranks: tuple[RankRange, ...]
    """All ranks with this first tensor."""
    gaps: tuple[str, ...]
    """Why the origin is not known; empty if it is known."""
    notes: tuple[str, ...]
    """Further facts, such as the number of masked rows of a softmax."""
    chain: tuple[str, ...]
    """Names of tensors on the way to the last result of the rank."""
    omitted_count: int
    """Number of steps that are left out of `chain`."""
    omitted_after: int
    """Number of steps before those that are left out."""


@mirrors("FindOriginResponse.ReachedRank")
@dataclass(frozen=True)
class ReachedRank:
    """A rank that the condition reached, but that is not an origin."""

    rank: int
    token: int
    """Its first token with a tensor that satisfies the condition."""
    tensor: str
    """The first such tensor; empty if the token is not that of the origin."""


@mirrors("FindOriginResponse.Ignored")
@dataclass(frozen=True)
class IgnoredTensors:
    """Tensors that satisfy the condition but are ignored by a rule."""

    rule: str
    count: int
    example: str
    """Name of one of them."""


@mirrors("FindOriginResponse")
@dataclass(frozen=True)
class FoundOrigins:
    """The result of `runs.origin`."""

    result: OriginResult
    origins: tuple[RunOrigin, ...]
    """Known origins, the first one first. The others are on other ranks."""
    unknown: tuple[RunOrigin, ...]
    """First tensors of ranks that satisfy the condition, of unknown origin."""
    reached: tuple[ReachedRank, ...]
    reached_count: int
    ignored: tuple[IgnoredTensors, ...]
    tensor_count: int
    """Number of tensors that were judged."""
    satisfying_count: int
    """Number of tensors that satisfy the condition and are not ignored."""
    unknown_count: int
    """Tensors whose statistics do not show it, or whose values may be meant."""
    incomplete_count: int
    """Tensors of which a part is missing."""
    lost_count: int
    """Tensors that were dropped, truncated or lost."""
    ranks_held: tuple[RankRange, ...]
    ranks_lacking: tuple[RankRange, ...]
    partial: bool
    """True if `ranks_lacking` is not empty."""
    omitted_origin_count: int
    """Number of places that `origins` and `unknown` lack: each has at most 16."""
