"""The observations of a whole run: equal ones are merged, and what is cut is counted."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
from msitd.query import CapturePolicy, CaptureRule, RunCounters, Tensor, select
from msitd.verify import observations
from msitd.verify.observations import observe
from msitd.verify.records import Selection
from recorded_calls import Content, Recording


def _first(tokens: Any) -> int:
    return getattr(tokens, "first", tokens)


class Daemon:
    """Has the records of a run by rank and token."""

    def __init__(
        self,
        records: dict[tuple[int, int], list[Tensor]],
        rules: tuple[CaptureRule, ...] = (),
        lost_count: int = 0,
    ) -> None:
        self.tensors = self.captures = self
        self._records = records
        self._rules = rules
        self._lost_count = lost_count

    def get(self, _: str) -> CapturePolicy:
        return CapturePolicy(rules=self._rules)

    def coverage(self, _: str) -> Any:
        rank = SimpleNamespace(lost_count=self._lost_count, pending_count=0)
        return SimpleNamespace(ranks=[rank])

    def stats(self, _: str, chosen: Any, *, by: str) -> Any:
        keys = {rank for rank, _ in self._records}
        if by == "token":
            rank = chosen.ranks[0]
            keys = {token for r, token in self._records if r == rank}
        groups = [SimpleNamespace(key=str(key)) for key in keys]
        return SimpleNamespace(groups=groups)

    def list(self, _: str, chosen: Any, limit: int = 0) -> Any:
        if "module_tree.json" in chosen.op_patterns:
            return iter(())
        key = (chosen.ranks[0], _first(chosen.tokens[0]))
        return iter(self._records[key])


def token(number: int, odd: int | None = 1, count: int = 4) -> list[Tensor]:
    run = Recording()
    for n in range(count):
        with run.module(f"root.{n}", Content(f"y{n}"), Content(f"x{n}")):
            scale = 2.0 if n == odd else 1.0
            run.function("Tensor.mul", Content(f"z{n}"), Content(f"x{n}"), scale)
    return [dataclasses.replace(each, token=number) for each in run.records]


def observed(
    records: dict[tuple[int, int], list[Tensor]],
    chosen: Selection = Selection(),  # noqa: B008
    **counters: int,
) -> observations.Observed:
    run: Any = SimpleNamespace(name="r", counters=RunCounters(**counters))
    daemon: Any = Daemon(records)
    return observe(daemon, run, chosen)


def test_equal_observations_of_tokens_and_ranks_are_merged() -> None:
    found = observed({(r, t): token(t) for r in range(2) for t in range(3)})
    (text,) = found.unlike
    assert text == (
        "Tensor.mul call 1 in root.1, input/1, rank 0, token 0: 2.0, in 3 siblings "
        "1.0 (and 5 more times)"
    )
    assert (found.call_count, found.group_count, found.unlike_count) == (24, 6, 1)
    assert found.reasons == []


def test_a_run_without_differences() -> None:
    found = observed({(0, 0): token(0, None)})
    assert (found.unlike, found.unlike_count) == ([], 0)


def test_the_listed_ones_are_bounded_and_all_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records: list[Tensor] = []
    for group in range(30):
        for each in token(0):
            op = each.op.replace("root.", f"root.{group}.h.")
            records.append(
                dataclasses.replace(
                    each, op=op, call=each.call + 9 * group, sequence=len(records) + 1
                )
            )
    found = observed({(0, 0): records})
    assert (len(found.unlike), found.unlike_count) == (10, 30)
    monkeypatch.setattr(observations, "_KEPT_MAX", 3)
    assert observed({(0, 0): records}).unlike_count == 30


def test_tokens_with_too_many_records_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = {(0, t): token(t) for t in range(4)}
    monkeypatch.setattr(observations, "_TOKEN_RECORDS_MAX", 10)
    found = observed(records)
    assert found.reasons == [("tokens with too many records", 4)]
    assert found.call_count == 0
    monkeypatch.setattr(observations, "_TOKEN_RECORDS_MAX", 1000)
    monkeypatch.setattr(observations, "_RECORDS_MAX", 30)
    found = observed(records)
    assert found.reasons == [("tokens after too many records", 2)]
    assert found.call_count == 8


def test_calls_are_not_missed_in_a_run_that_lost_records() -> None:
    records = [each for each in token(0, None) if each.name != "Tensor.mul/1/input/0"]
    records = [e for e in records if e.op != "Tensor.mul" or e.call != 1]
    assert len(observed({(0, 0): records}).unlike) == 1
    found = observed({(0, 0): records}, dropped_count=7)
    assert found.unlike == []
    assert found.reasons[0] == (
        "records were lost, so missing calls are not compared",
        7,
    )


def test_a_selection_of_ops_is_not_compared() -> None:
    found = observed({(0, 0): token(0)}, Selection(ops=("root.*",)))
    assert found == observations.not_observed("only some ops were selected")


def test_hostile_names_and_values_are_kept_short() -> None:
    records = []
    for each in token(0):
        name = each.op.replace("root", "<b>\x1b[31m" + "r" * 50)
        value = "v" * 10**6 if each.value == "2.0" else each.value
        records.append(dataclasses.replace(each, op=name, value=value))
    (text,) = observed({(0, 0): records}).unlike
    assert len(text) < 1000


@pytest.mark.parametrize("chosen", [select(ops="root.1.*"), select(io="output")])
def test_a_run_of_some_ops_is_not_compared(chosen: Any) -> None:
    rules = (CaptureRule(select(tokens=[0])), CaptureRule(chosen))
    run: Any = SimpleNamespace(name="r", counters=RunCounters())
    daemon: Any = Daemon({(0, 0): token(0)}, rules)
    found = observe(daemon, run, Selection())
    assert found == observations.not_observed(
        "the capture policy selects only some ops"
    )
    daemon = Daemon({(0, 0): token(0)}, rules[:1])
    assert observe(daemon, run, Selection()).unlike_count == 1


def test_calls_are_not_compared_if_a_stream_broke() -> None:
    run: Any = SimpleNamespace(name="r", counters=RunCounters())
    daemon: Any = Daemon({(0, 0): token(0)}, lost_count=3)
    found = observe(daemon, run, Selection())
    assert ("records were lost, so missing calls are not compared", 3) in found.reasons
