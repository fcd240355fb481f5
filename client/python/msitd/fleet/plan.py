"""Splits a comparison into tasks.

A task is a set of ranks and a range of tokens. A rank may stand for a mesh,
whose ranks are compared together. The ops of a rank and token are never split,
because the origin of a difference can only be found from all of its tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msitd.fleet.orders import CompareOrder, Outline, Span, TokenRanges

# Target minimum time of a task, so that handing it over is a small part of it.
TASK_SECONDS_MIN = 0.25
# Target maximum time of a task, so that little is lost with a worker.
TASK_SECONDS_MAX = 60.0
# Tasks per worker, so that all workers end at about the same time.
_TASKS_PER_WORKER = 8
TASKS_MAX = 100_000
# Limit of the filter of a request.
_RANKS_PER_TASK_MAX = 256

# Throughput of a worker per second, in pairs that are decided by hashes and in
# bytes that are read and measured. A single daemon decides 120,000 pairs;
# writing their rows takes the rest of the time. Estimates for tasks of some
# size.
PAIRS_PER_S = 25_000.0
BYTES_PER_S = 500e6


def seconds_per_group(outline: Outline) -> float:
    """Returns the estimated time of one group."""
    return outline.pairs_per_group / PAIRS_PER_S + outline.bytes_per_group / BYTES_PER_S


def cut(
    outline: Outline,
    tokens: TokenRanges = (),
    workers: int = 1,
    task_groups: int | None = None,
) -> list[CompareOrder]:
    """Returns tasks that together contain each group once.

    Args:
        outline: The extent of the comparison.
        tokens: The tokens that the user selected; empty: all.
        workers: Number of workers.
        task_groups: Number of groups per task; None: from the estimate.

    Raises:
        ValueError: There would be more than `TASKS_MAX` tasks.
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
        # An offset may produce tokens below 0, which a filter cannot select.
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
            # An empty list of ranges would select all tokens.
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
    """Yields first and last token and number of groups of `count` pieces of
    similar size.
    """
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
            # Where spans were joined, the tokens between groups are not known.
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
