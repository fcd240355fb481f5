"""Groups of rows, and merging those that several answers of the daemon cover."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from msitd.query.messages import mirrors


@mirrors("SummarizeComparisonRowsResponse.Group")
@dataclass(frozen=True)
class RowGroup:
    """Rows of a comparison that have the same op, rank or token."""

    op: str
    """Empty if rows are not grouped by op; rank and token are then 0."""
    rank: int
    token: int
    pass_count: int
    fail_count: int
    unmatched_count: int
    skipped_count: int
    worst: float | None
    """The worst value of the rows; None if no row has the value."""
    worst_row: int
    """Number of the row with the worst value, of those that fail if any does."""
    non_finite_count: int
    """Rows whose target tensor has NaN or infinities."""


def _is_worse(a: float | None, b: float | None, lowest_is_worst: bool) -> bool:
    """Returns whether `a` is worse than `b`. NaN is the worst value."""
    if a is None or (b is not None and math.isnan(b)):
        return False
    if b is None or math.isnan(a):
        return True
    return a < b if lowest_is_worst else a > b


def _merged(a: RowGroup, b: RowGroup, lowest_is_worst: bool) -> RowGroup:
    is_worse = _is_worse(b.worst, a.worst, lowest_is_worst)
    fails, failed = b.fail_count > 0, a.fail_count > 0
    takes_row = is_worse if fails == failed else fails
    return replace(
        a,
        pass_count=a.pass_count + b.pass_count,
        fail_count=a.fail_count + b.fail_count,
        unmatched_count=a.unmatched_count + b.unmatched_count,
        skipped_count=a.skipped_count + b.skipped_count,
        non_finite_count=a.non_finite_count + b.non_finite_count,
        worst=b.worst if is_worse else a.worst,
        worst_row=b.worst_row if takes_row else a.worst_row,
    )


def merged_groups(
    answers: Iterable[Iterable[RowGroup]], *, lowest_is_worst: bool
) -> list[RowGroup]:
    """Merges groups with the same op, rank and token, in the order of their rows."""
    groups: dict[tuple[str, int, int], RowGroup] = {}
    for answer in answers:
        for group in answer:
            key = (group.op, group.rank, group.token)
            known = groups.get(key)
            groups[key] = (
                group if known is None else _merged(known, group, lowest_is_worst)
            )
    return list(groups.values())
