"""Merges the answers of several daemons into one, by the rules of client/ask/fanout."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import get_args

from msitd.query.types import (
    CaptureCoverage,
    Io,
    RankRange,
    Run,
    RunArchive,
    RunCounters,
    RunRanks,
    Stats,
    StatsGroup,
    Summary,
    Tensor,
)

Ranges = tuple[RankRange, ...]

_IOS = {io: number for number, io in enumerate(get_args(Io))}
_COUNTS = (
    "count",
    "nan_count",
    "positive_infinity_count",
    "negative_infinity_count",
    "zero_count",
)


def union(ranges: Iterable[RankRange]) -> Ranges:
    """Returns the same ranks as ascending ranges with gaps between them."""
    out: list[RankRange] = []
    for one in sorted(ranges, key=lambda r: r.first):
        if one.first < 0 or one.last < one.first:
            continue
        if out and one.first <= out[-1].last + 1:
            last = max(out[-1].last, one.last)
            out[-1] = RankRange(out[-1].first, last)
        else:
            out.append(one)
    return tuple(out)


def minus(ranges: Iterable[RankRange], others: Iterable[RankRange]) -> Ranges:
    """Returns the ranks of `ranges` that are not in `others`."""
    taken = union(others)
    out = []
    for one in union(ranges):
        first = one.first
        for other in taken:
            if other.last < first or other.first > one.last:
                continue
            if other.first > first:
                out.append(RankRange(first, other.first - 1))
            first = other.last + 1
        if first <= one.last:
            out.append(RankRange(first, one.last))
    return tuple(out)


def common(ranges: Iterable[RankRange], others: Iterable[RankRange]) -> Ranges:
    """Returns the ranks that are in both `ranges` and `others`."""
    ranges = tuple(ranges)
    return minus(ranges, minus(ranges, others))


def text_of(ranges: Iterable[RankRange]) -> str:
    """Formats ranks as text, such as `0-3,7`."""
    return ",".join(
        str(r.first) if r.first == r.last else f"{r.first}-{r.last}" for r in ranges
    )


def merge_ranks(
    answers: Iterable[RunRanks | Run | Stats | CaptureCoverage],
) -> RunRanks:
    """Merges the ranks of several nodes. A rank that one node holds is not missing."""
    answers = tuple(answers)
    held = union(r for answer in answers for r in answer.ranks_held)
    lacking = minus((r for answer in answers for r in answer.ranks_lacking), held)
    return RunRanks(held, lacking, bool(lacking))


def _archive_order(archive: RunArchive | None) -> int:
    """Sorts the archive that lacks the most first; None: the run is not
    archived.
    """
    order = ["failed", "", "pending", "running", "archived"]
    return order.index(archive.state if archive is not None else "")


def merge_runs(runs: Sequence[Run]) -> Run:
    """Merges one run as reported by several nodes."""
    runs = sorted(runs, key=_first_rank)
    if len(runs) == 1:
        return runs[0]
    is_sealed = all(run.state == "sealed" for run in runs)
    is_restoring = any(run.state == "restoring" for run in runs)
    labels: dict[str, str] = {}
    for run in runs:
        labels = {**run.labels, **labels}
    return dataclasses.replace(
        runs[0],
        world_size=max(run.world_size for run in runs),
        id=",".join(run.id for run in runs),
        labels=labels,
        state="restoring" if is_restoring else "sealed" if is_sealed else "active",
        archive=min((run.archive for run in runs), key=_archive_order),
        create_time=min(_times(run.create_time for run in runs), default=None),
        seal_time=max(_times(run.seal_time for run in runs), default=None)
        if is_sealed
        else None,
        counters=_add_all([run.counters for run in runs if run.counters is not None]),
        **vars(merge_ranks(runs)),
    )


def disagreements(runs: Sequence[Run]) -> list[str]:
    """Returns descriptions of the fields in which the nodes disagree about a run.

    The runs are merged in any case.
    """
    out = []
    if len({run.world_size for run in runs} - {0}) > 1:
        out.append("the world size")
    labels: dict[str, str] = {}
    for run in runs:
        for key, value in run.labels.items():
            if labels.setdefault(key, value) != value:
                out.append(f"label {key}")
    if len({run.retention for run in runs}) > 1:
        out.append("the retention")
    return out


def merge_stats(answers: Sequence[Stats]) -> Stats:
    """Merges statistics, in the order of the first rank that each node holds."""
    answers = sorted(answers, key=_first_rank)
    groups: dict[str, StatsGroup] = {}
    for answer in answers:
        for group in answer.groups:
            before = groups.get(group.key)
            if before is None or before.tensor_count == 0:
                groups[group.key] = group
            elif group.tensor_count > 0:
                groups[group.key] = _merge_groups(before, group)
    if all(key.isascii() and key.isdigit() for key in groups):
        # Ranks and tokens are sorted. The order of other keys is known only to
        # the nodes.
        groups = {key: groups[key] for key in sorted(groups, key=int)}
    return Stats(groups=tuple(groups.values()), **vars(merge_ranks(answers)))


def merge_coverage(answers: Sequence[CaptureCoverage]) -> CaptureCoverage:
    """Merges the ranks of several nodes into one table."""
    ranks = sorted((r for a in answers for r in a.ranks), key=lambda r: r.rank)
    return CaptureCoverage(ranks=tuple(ranks), **vars(merge_ranks(answers)))


def key_of_tensor(tensor: Tensor) -> tuple[object, ...]:
    """Returns the sort key of a tensor in a list."""
    return (
        tensor.rank,
        tensor.device,
        tensor.token,
        tensor.op,
        tensor.call,
        _IOS.get(tensor.io, len(_IOS)),
        tensor.index,
    )


def _first_rank(answer: Run | Stats) -> int:
    ranks = union(answer.ranks_held)
    return ranks[0].first if ranks else -1


def _times(times: Iterable[datetime | None]) -> list[datetime]:
    return [time for time in times if time is not None]


def _add_all(counters: Sequence[RunCounters]) -> RunCounters | None:
    if not counters:
        return None
    names = [field.name for field in dataclasses.fields(RunCounters)]
    return RunCounters(
        **{name: sum(getattr(one, name) for one in counters) for name in names}
    )


def _merge_groups(a: StatsGroup, b: StatsGroup) -> StatsGroup:
    return StatsGroup(
        key=a.key,
        tensor_count=a.tensor_count + b.tensor_count,
        size_bytes=a.size_bytes + b.size_bytes,
        summary=_merge_summaries(a.summary or Summary(), b.summary or Summary()),
    )


def _merge_summaries(a: Summary, b: Summary) -> Summary:
    counts = {name: getattr(a, name) + getattr(b, name) for name in _COUNTS}
    finite = counts["count"] - sum(counts[name] for name in _COUNTS[1:4])
    total = a.sum + b.sum
    return Summary(
        **counts,
        min=min(_known(a.min, b.min), default=None),
        max=max(_known(a.max, b.max), default=None),
        abs_max=max(_known(a.abs_max, b.abs_max), default=None),
        sum=total,
        mean=total / finite if finite > 0 else a.mean,
        l1_norm=a.l1_norm + b.l1_norm,
        # hypot, because the square of a float may overflow.
        l2_norm=math.hypot(a.l2_norm, b.l2_norm),
    )


def _known(*values: float | None) -> list[float]:
    return [value for value in values if value is not None]
