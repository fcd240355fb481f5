"""Merges groups of rows that several answers of the daemon cover."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from msitd.query.comparison_types import RowGroup


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
