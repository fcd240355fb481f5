"""Dataclasses for judging the stored rows of a comparison again."""

from __future__ import annotations

from dataclasses import dataclass

from msitd.query.messages import mirrors


@mirrors("JudgeBasis")
@dataclass(frozen=True)
class JudgeBasis:
    """How the pair of a row was computed and compared, for `Comparisons.judge`."""

    computed_in: str = ""
    """The coarsest type that the values went through; empty: that of the pair."""
    has_equal_inputs: bool = False
    golden_precision: str = ""
    target_precision: str = ""
    has_inconsistent_shards: bool = False
    is_model_input: bool = False
    leaves_out_closed: bool = False
    is_in_any_order: bool = False
    has_either_tolerance: bool = False


@mirrors("JudgeContext")
@dataclass(frozen=True)
class JudgeContext:
    """Facts about two runs that `Comparisons.judge` needs."""

    has_stated_tolerances: bool = False
    has_unknown_order: bool = False
    is_judged: bool = False
