"""Splitting comparisons into parts, and merging these, without a daemon."""

import math
import random
from collections import Counter, deque

import pytest
from msitd.fleet import groups, plan, tolerances
from msitd.fleet.engine import Answered, Event, Lost
from msitd.fleet.merge import Merge
from msitd.fleet.orders import (
    CompareOrder,
    Failure,
    Order,
    Outline,
    OutlineOrder,
    Part,
    Setup,
    Span,
)
from msitd.fleet.schedule import ATTEMPTS_MAX, Schedule
from msitd.query.messages import merge_rules, message_class, new

SETUP = Setup(b"", "")


def random_outline(dice: random.Random) -> Outline:
    spans = []
    for rank in dice.sample(range(300), dice.randint(0, 30)):
        token = dice.randint(-2, 5)
        for _ in range(dice.choice([1, 1, 1, 5])):
            count = dice.choice([1, 2, 7, 40])
            spans.append(Span(rank, token, token + count - 1, count))
            token += count + dice.randint(1, 9)
    return Outline(tuple(spans), dice.choice([0, 1, 100, 100_000]), 0)


def covered(orders: list[CompareOrder], outline: Outline) -> Counter[tuple[int, int]]:
    """Returns how many tasks contain each group."""
    out: Counter[tuple[int, int]] = Counter()
    for span in outline.spans:
        for token in range(span.first_token, span.last_token + 1):
            out[span.rank, token] += sum(
                span.rank in order.ranks
                and (not order.tokens or any(a <= token <= b for a, b in order.tokens))
                for order in orders
            )
    return out


@pytest.mark.parametrize("seed", range(100))
def test_tasks_have_each_group_once(seed: int) -> None:
    dice = random.Random(seed)
    outline = random_outline(dice)
    orders = plan.cut(
        outline,
        workers=dice.randint(1, 40),
        task_groups=dice.choice([None, 1, 2, 9, 1000]),
    )
    assert set(covered(orders, outline).values()) <= {1}
    assert sum(order.group_count for order in orders) == outline.group_count
    assert [order.number for order in orders] == list(range(len(orders)))


def test_tasks_stay_within_the_tokens_that_are_asked_for() -> None:
    outline = Outline((Span(0, 10, 19, 10), Span(0, 30, 39, 10)), 1, 0)
    tokens = ((10, 19), (30, 39))
    orders = plan.cut(outline, tokens, task_groups=4)
    assert all(
        any(a <= first and last <= b for a, b in tokens)
        for order in orders
        for first, last in order.tokens
    )
    assert set(covered(orders, outline).values()) == {1}


def test_tasks_are_worth_handing_over() -> None:
    pairs = 100
    outline = Outline(
        tuple(Span(rank, 0, 9_999, 10_000) for rank in range(8)), pairs, 0
    )
    for workers in (1, 8, 1024):
        orders = plan.cut(outline, workers=workers)
        seconds = [o.group_count * pairs / plan.PAIRS_PER_S for o in orders]
        assert min(seconds) > plan.TASK_SECONDS_MIN * 0.9
        assert max(seconds) < plan.TASK_SECONDS_MAX * 1.1
    # Few tensors form a single task of many ranks.
    small = Outline(tuple(Span(rank, 0, 0, 1) for rank in range(32)), pairs, 0)
    assert len(plan.cut(small, workers=8)) == 1


def test_rank_that_is_whole_is_not_cut_by_tokens() -> None:
    spans = (Span(0, 0, 99, 100, True), Span(1, 0, 99, 100))
    orders = plan.cut(Outline(spans, 1, 0), task_groups=10)
    assert [order.tokens for order in orders if 0 in order.ranks] == [()]
    assert len(orders) == 11


def test_more_tasks_than_the_most_are_refused() -> None:
    outline = Outline((Span(0, 0, plan.TASKS_MAX, plan.TASKS_MAX + 1),), 1, 0)
    with pytest.raises(ValueError, match="tasks"):
        plan.cut(outline, task_groups=1)
    assert len(plan.cut(outline)) < 10


def packed(keys: list[tuple[int, int]]) -> bytes:
    table = groups.GroupTable()
    for key in keys:
        table.add(key)
    return table.pack()


def test_groups_come_back_as_they_were() -> None:
    keys = [(token, rank) for token in range(2000) for rank in range(3)]
    table = packed([key for key in keys for _ in range(1 + key[1])])
    assert list(groups.unpack(table)) == [(t, r, 1 + r) for t, r in keys]
    assert len(table) < 8 * len(keys)
    places = groups.Places(table)
    assert places.row_count == 2000 * 6
    assert places.of(0) == (0, 0, 0)
    assert places.of(5) == (0, 2, 2)
    assert places.of(6) == (1, 0, 0)
    with pytest.raises(ValueError, match="no row"):
        places.of(places.row_count)


def test_groups_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="came behind"):
        packed([(1, 0), (0, 0)])


def test_groups_of_parts_are_merged_in_order() -> None:
    parts = [packed([(0, 0), (1, 0)]), packed([(0, 1), (0, 1), (2, 0)])]
    assert list(groups.merged(parts)) == [
        ((0, 0, 1), 0),
        ((0, 1, 2), 1),
        ((1, 0, 1), 0),
        ((2, 0, 1), 1),
    ]


def test_target_alone_is_in_the_group_that_it_belongs_to() -> None:
    matching = new("Matching", token_offset=2)
    matching.ranks.add(golden_rank=5, target_rank=1)
    keys = groups.GroupKeys(matching)
    row = new("ComparisonRow", rank=1, token=9)
    assert keys.of(row) == (9, 1)
    row.target.name = "t"
    assert keys.of(row) == (7, 5)
    row.golden.name = "g"
    assert keys.of(row) == (9, 1)


def part(number: int, keys: list[tuple[int, int]], **header: object) -> Part:
    comparison = new("Comparison", first_hopeless_row=-1, state=3, **header)
    return Part(
        CompareOrder(number), comparison.SerializeToString(), packed(keys), len(keys)
    )


def frame() -> object:
    return new("Comparison", golden_run="g", target_run="t", golden_left_out_count=7)


def finish(merge: Merge) -> object:
    return merge.finish(lambda *_: None)


def test_counts_add_up_and_runs_do_not() -> None:
    merge = Merge(frame(), 10)
    for number in range(3):
        merge.add(part(number, [(number, 0)], pass_count=2, golden_left_out_count=7))
    done = finish(merge)
    assert done.pass_count == 6
    assert done.golden_left_out_count == 7
    assert done.first_hopeless_row == -1


# Numbers that follow from other fields of all parts together.
DERIVED = {"first_hopeless_row", "more_makers_count"}


def test_every_whole_number_adds_up_or_is_that_of_the_runs() -> None:
    fields = message_class("msitd.v1.Comparison").DESCRIPTOR.fields
    numbers = {f.name for f in fields if f.cpp_type == f.CPPTYPE_INT64}
    rules = merge_rules("msitd.v1.Comparison")
    assert numbers - rules.keys() == DERIVED
    sums = {name for name in numbers if rules.get(name) == "SUM"}
    sums -= {"stored_size_bytes"}
    every = dict.fromkeys(numbers - {"first_hopeless_row"}, 5)
    merge = Merge(new("Comparison", **every), 10)
    for number in range(2):
        merge.add(part(number, [(number, 0)], **every))
    done = finish(merge)
    assert {name for name in numbers if getattr(done, name) == 10} == sums
    of_runs = {name for name in numbers if getattr(done, name) == 5}
    assert of_runs == numbers - sums - DERIVED - {"stored_size_bytes"}
    # No store keeps the merged comparison.
    assert done.stored_size_bytes == 0


def test_every_single_row_of_a_comparison_has_a_rule() -> None:
    fields = message_class("msitd.v1.Comparison").DESCRIPTOR.fields
    rows = {
        f.name
        for f in fields
        if f.message_type is not None
        and f.message_type.name in ("ComparisonRow", "InputDifference")
        and not f.is_repeated
    }
    rules = merge_rules("msitd.v1.Comparison")
    # The first cause decides about these.
    assert rows - {n for n in rows if rules.get(n) == "FIRST_ROW"} == {
        "first_divergence",
        "first_origin",
    }


def test_group_of_two_parts_is_an_error() -> None:
    merge = Merge(frame(), 10)
    merge.add(part(0, [(0, 0), (1, 0)]))
    merge.add(part(1, [(1, 0)]))
    with pytest.raises(ValueError, match=r"task 1 .* has token 1 of rank 0 once more"):
        finish(merge)


def test_part_whose_rows_are_not_those_of_its_groups_is_an_error() -> None:
    merge = Merge(frame(), 10)
    wrong = part(0, [(0, 0)])
    wrong.row_count = 2
    with pytest.raises(ValueError, match="not those of its rows"):
        merge.add(wrong)


@pytest.mark.parametrize("seed", range(20))
def test_failing_rows_that_are_kept_are_the_first(seed: int) -> None:
    dice = random.Random(seed)
    parts = []
    for number in range(5):
        keys = sorted((dice.randint(0, 9), number) for _ in range(8))
        one = part(number, keys)
        for row, (token, rank) in enumerate(keys):
            message = new("ComparisonRow", row=row, token=token, rank=rank)
            one.failing.append((row, message.SerializeToString()))
        parts.append(one)
    dice.shuffle(parts)
    merge = Merge(frame(), 6)
    for one in parts:
        merge.add(one)
    finish(merge)
    rows = merge.failing_rows(merge.numbers)
    assert [row.row for row in rows] == list(range(6))


def test_order_is_asked_for_where_several_parts_fail_first() -> None:
    merge = Merge(frame(), 10)
    for number, (token, rank) in enumerate([(4, 0), (3, 1), (3, 2)]):
        one = part(number, [(token, rank)], fail_count=1)
        one.failing_token = token
        one.failing_groups = ((token, rank),)
        merge.add(one)
    wanted = merge.order_wanted()
    assert wanted is not None
    assert (wanted.ranks, wanted.tokens) == ((1, 2), ((3, 3),))
    assert not wanted.keeps_rows


def test_weights_that_went_wrong_before_are_looked_at_too() -> None:
    merge = Merge(frame(), 10)
    first = part(0, [(0, 0)])
    first.wrong_weights = {(0, "head"): 0, (1, "head"): 0}
    merge.add(first)
    second = part(1, [(8, 0)], fail_count=1)
    second.failing_token = 8
    second.failing_groups = ((8, 0),)
    merge.add(second)
    wanted = merge.order_wanted()
    assert wanted is not None
    assert (wanted.ranks, wanted.tokens) == ((0,), ((0, 0), (8, 8)))


def test_parts_that_are_lacking_are_named() -> None:
    merge = Merge(frame(), 10)
    merge.add(part(0, [(0, 0)], pass_count=1))
    order = CompareOrder(1, (0, 1, 2, 9), ((5, 5), (7, 9)))
    merge.fail(order, Failure("NOT_FOUND", "no run t", "RUN_NOT_FOUND"))
    done = finish(merge)
    assert done.state == 5
    assert done.error == (
        "1 of 2 tasks failed, and their rows are lacking: task 1 (ranks 0-2,9, "
        "tokens 5,7-9): NOT_FOUND: no run t"
    )
    assert (done.error_code, done.error_reason) == (5, "RUN_NOT_FOUND")
    assert done.pass_count == 1


def test_order_that_is_not_known_fails_the_comparison() -> None:
    merge = Merge(frame(), 10)
    for rank in range(2):
        one = part(rank, [(3, rank)], fail_count=1)
        one.failing_token = 3
        one.failing_groups = ((3, rank),)
        merge.add(one)
    assert merge.order_wanted() is not None
    merge.fail_order(Failure("UNAVAILABLE", "the peer is gone"))
    done = finish(merge)
    assert done.state == 5
    assert done.error == (
        "which of the ranks was first is not known: UNAVAILABLE: the peer is gone"
    )
    assert not done.HasField("first_divergence")
    assert done.fail_count == 2


def test_loosest_tolerances_count_with_their_first_rows() -> None:
    collected = tolerances.Tolerances()
    for number, required in enumerate([0.5, 2.0, 2.0, 1.0]):
        collected.add(
            [
                new(
                    "RequiredTolerance",
                    predicate="nl2 <= 1e-4",
                    metric="nl2",
                    bound=1e-4,
                    required=required,
                    row=0,
                    row_count=3,
                ),
                new(
                    "RequiredTolerance",
                    predicate="nl2 <= 1e-4",
                    metric="max_abs",
                    bound=math.nan,
                    required=number,
                    row=1,
                ),
            ],
            groups.Places(packed([(number, 0)] * 2)),
        )
    numbers = groups.Numbers({(number, 0): 2 * number for number in range(4)})
    done = new("Comparison")
    collected.write(done, numbers)
    needed, instead = done.required_tolerances
    assert (needed.required, needed.row, needed.row_count) == (2.0, 2, 12)
    assert (instead.required, instead.row) == (3.0, 7)


class Told:
    """An engine that follows a script."""

    def __init__(self, events: dict[Order, list[object]]) -> None:
        self._told = events
        self._count = 0
        self._events: deque[Event] = deque()
        self.given: list[Order] = []

    def start(self, setup: Setup) -> int:
        self._count += 1
        return self._count - 1

    def give(self, worker: int, order: Order) -> None:
        self.given.append(order)
        number = order.number if isinstance(order, CompareOrder) else -1
        what = self._told[number].pop(0)
        self._events.append(
            Lost(worker, what) if isinstance(what, str) else Answered(worker, what)
        )

    def wait(self) -> Event:
        return self._events.popleft()

    def close(self) -> None:
        pass


def test_order_of_a_lost_worker_is_given_again() -> None:
    answer = Outline((), 0, 0)
    engine = Told({0: ["gone", answer], 1: [answer]})
    schedule = Schedule(engine, SETUP, 2)
    done = dict(schedule.all([CompareOrder(0), CompareOrder(1)]))
    assert len(done) == 2
    assert set(done.values()) == {answer}
    assert schedule.lost == ["gone"]
    assert [order.attempt for order in engine.given] == [1, 1, 2]


def test_attempts_end() -> None:
    engine = Told({0: ["gone"] * ATTEMPTS_MAX})
    answer = Schedule(engine, SETUP, 1).one(CompareOrder(0))
    assert answer == Failure("UNAVAILABLE", "a worker was lost: gone")
    assert len(engine.given) == ATTEMPTS_MAX


@pytest.mark.parametrize(
    ("code", "attempts"), [("UNAVAILABLE", ATTEMPTS_MAX), ("NOT_FOUND", 1)]
)
def test_failure_that_may_pass_is_tried_again(code: str, attempts: int) -> None:
    failure = Failure(code, "why")
    engine = Told({-1: [failure] * attempts})
    assert Schedule(engine, SETUP, 1).one(OutlineOrder()) == failure
    assert len(engine.given) == attempts
