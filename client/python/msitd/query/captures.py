"""Capture policies, which decide what the clients of a run record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from msitd.query import arguments
from msitd.query.connection import Caller
from msitd.query.messages import from_message, new
from msitd.query.types import (
    CaptureCoverage,
    CaptureLevel,
    CapturePolicy,
    CaptureRule,
    TensorFilter,
    checked_filter,
)


class Captures:
    """The operations of `msitctl capture`. Every method may raise QueryError."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def get(self, run: str) -> CapturePolicy:
        """Returns the capture policy of a run."""
        request = new("GetCapturePolicyRequest", run=run)
        answer = self._caller.unary(
            "CaptureService/GetCapturePolicy", request, "CapturePolicy"
        )
        return cast(CapturePolicy, from_message(answer))

    def set(
        self,
        run: str,
        select: TensorFilter | None = None,
        *,
        level: CaptureLevel = "full",
        rules: Sequence[CaptureRule] | None = None,
        first_token: int | None = None,
    ) -> CapturePolicy:
        """Sets the capture policy of a run. Creates the run if it does not exist.

        Args:
            run: Name of the run.
            select: Tensors to record. All others are off. None: all tensors.
            level: How much of each selected tensor is recorded.
            rules: Used instead of `select` and `level`. The first rule that
                selects a tensor decides. Tensors that no rule selects are off.
            first_token: First token to which the policy applies. None: a token
                that no rank has begun.

        Returns:
            The policy with its revision and its first token.

        Raises:
            TypeError: `select` is not a TensorFilter, or `rules` are not
                CaptureRules.
            ValueError: `rules` is empty.
            QueryError: `FAILED_PRECONDITION` if the run is sealed.
        """
        if rules is None:
            rules = (CaptureRule(checked_filter(select), level),)
        else:
            rules = arguments.several("rules", rules, "CaptureRules")
        policy = CapturePolicy(first_token=first_token, rules=rules)
        request = new("SetCapturePolicyRequest", run=run, policy=policy)
        answer = self._caller.unary(
            "CaptureService/SetCapturePolicy", request, "CapturePolicy"
        )
        return cast(CapturePolicy, from_message(answer))

    def coverage(self, run: str) -> CaptureCoverage:
        """Returns the coverage of a run: how many tensors of each rank were
        stored, filtered or lost.
        """
        request = new("GetCaptureCoverageRequest", run=run)
        answer = self._caller.unary(
            "CaptureService/GetCaptureCoverage", request, "CaptureCoverage"
        )
        return cast(CaptureCoverage, from_message(answer))
