"""Cuts a comparison into tasks.

A task is some ranks and a range of tokens. A rank may stand for a mesh, whose ranks are
compared together. Ops are never cut apart: where a difference comes from shows only in
all tensors of a rank and token.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msitd.fleet.orders import CompareOrder, Outline, Span, TokenRanges

# What a task should take at least, so that handing it over is a small part.
TASK_SECONDS_MIN = 0.25
# What a task should take at most, so that little is lost with a worker.
TASK_SECONDS_MAX = 60.0
# Tasks of each worker, so that all end at about the same time.
_TASKS_PER_WORKER = 8
TASKS_MAX = 100_000
# As the filter of a request takes them.
_RANKS_PER_TASK_MAX = 256

# What a worker does in a second: pairs that hashes decide, of which a daemon alone
# does 120,000 and writing their rows takes the rest; and bytes that are read and
# measured. Estimates, for tasks of some size.
PAIRS_PER_S = 25_000.0
BYTES_PER_S = 500e6


def seconds_per_group(outline: Outline) -> float:
    """Returns the estimated work of one group."""
    return outline.pairs_per_group / PAIRS_PER_S + outline.bytes_per_group / BYTES_PER_S


def cut(
    outline: Outline,
    tokens: TokenRanges = (),
    workers: int = 1,
    task_groups: int | None = None,
) -> list[CompareOrder]:
    """Returns tasks that have each group once.

    Args:
        outline: What there is to compare.
        tokens: Those that the user asks for; none stands for all.
        workers: How many there will be.
        task_groups: Groups of a task; None: as many as the estimate says.

    Raises:
        ValueError: There would be more than `TASKS_MAX`.
    """
    wanted = task_groups or _groups_per_task(outline, workers)
    out: list[CompareOrder] = []
    few: list[list[Span]] = []
    few_count = 0

    def join_few() -> None:
        nonlocal few_count
        if few:
            ranks = tuple(spans[0].rank for spans in few)
            out.append(CompareOrder(len(out), ranks, tokens, few_count))
        few.clear()
        few_count = 0

    for spans in _by_rank(outline.spans):
        count = sum(span.group_count for span in spans)
        # A filter has no tokens before 0, which an offset makes.
        is_whole = spans[0].is_whole or spans[0].first_token < 0
        if count < 2 * wanted or is_whole:
            few.append(spans)
            few_count += count
            if few_count >= wanted or len(few) == _RANKS_PER_TASK_MAX:
                join_few()
            continue
        join_few()
        for first, last, groups in _pieces(spans, math.ceil(count / wanted)):
            ranges = _within(tokens, first, last)
            # No range would stand for all tokens.
            if ranges:
                rank = (spans[0].rank,)
                out.append(CompareOrder(len(out), rank, ranges, groups))
    join_few()
    if len(out) > TASKS_MAX:
        raise ValueError(f"{len(out)} tasks, at most {TASKS_MAX}")
    return out


def _groups_per_task(outline: Outline, workers: int) -> int:
    of_group = seconds_per_group(outline)
    if of_group <= 0:
        return max(outline.group_count, 1)
    fair = outline.group_count * of_group / (max(workers, 1) * _TASKS_PER_WORKER)
    seconds = min(max(fair, TASK_SECONDS_MIN), TASK_SECONDS_MAX)
    return max(math.ceil(seconds / of_group), outline.group_count // TASKS_MAX, 1)


def _by_rank(spans: Sequence[Span]) -> Iterator[list[Span]]:
    """Yields the spans of each rank."""
    of_rank: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.rank, span.first_token)):
        if of_rank and of_rank[0].rank != span.rank:
            yield of_rank
            of_rank = []
        of_rank.append(span)
    if of_rank:
        yield of_rank


def _pieces(spans: Sequence[Span], count: int) -> Iterator[tuple[int, int, int]]:
    """Yields first and last token and groups of `count` pieces of about one size."""
    total = sum(span.group_count for span in spans)
    first = spans[0].first_token
    taken = in_piece = piece = 0
    last = first
    for span in spans:
        at = span.first_token
        left = span.group_count
        while left > 0:
            room = (piece + 1) * total // count - taken
            step = min(left, room)
            # Where spans were joined, tokens between groups are not known.
            last = span.last_token if step == left else at + step - 1
            taken += step
            in_piece += step
            left -= step
            at = last + 1
            if taken == (piece + 1) * total // count:
                yield first, last, in_piece
                piece += 1
                in_piece = 0
                first = last + 1


def _within(tokens: TokenRanges, first: int, last: int) -> TokenRanges:
    """Returns the part of `tokens` from `first` to `last`."""
    if not tokens:
        return ((first, last),)
    return tuple(
        (max(first, a), min(last, b)) for a, b in tokens if a <= last and b >= first
    )
