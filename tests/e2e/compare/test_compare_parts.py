"""A comparison that is split into parts equals the whole one, bit for bit."""

import os
import random
import signal
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chunk_bytes import INPUT, OUTPUT, Chunk, Record, float32
from comparison_parts import (
    OPS,
    Case,
    programs_on_path,  # noqa: F401
    record_rank,
    two_runs,
)
from msitd import fleet, query
from msitd.fleet import comparing
from msitd.fleet.engine import Answered, Event, Lost
from msitd.fleet.orders import CompareOrder, Failure, Order, Setup
from msitd.fleet.worker import Worker
from wire import write

from daemon import Daemon

pytest.importorskip("pyarrow")


class InlineEngine:
    """An engine whose workers are objects of this process, which can be lost."""

    def __init__(self, lose: Callable[[Order], bool] = lambda _: False) -> None:
        self._workers: list[Worker] = []
        self._events: deque[Event] = deque()
        self._lose = lose

    def start(self, setup: Setup) -> int:
        self._workers.append(Worker(setup))
        return len(self._workers) - 1

    def give(self, worker: int, order: Order) -> None:
        answer = self._workers[worker].do(order)
        lost = self._lose(order)
        self._events.append(
            Lost(worker, "told so") if lost else Answered(worker, answer)
        )

    def wait(self) -> Event:
        return self._events.popleft()

    def close(self) -> None:
        for worker in self._workers:
            worker.close()


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> InlineEngine:
    engine = InlineEngine()
    monkeypatch.setattr(comparing, "_engine", lambda wanted: (engine, 2))
    return engine


@pytest.fixture
def case(daemon: Daemon, tmp_path: Path, inline: InlineEngine) -> Iterator[Case]:
    case = Case(daemon, tmp_path)
    yield case
    case.asked.close()


def record_random(daemon: Daemon, seed: int) -> random.Random:
    """Records two runs with random differences."""
    dice = random.Random(seed)
    world = dice.choice([1, 2, 4])
    lacking = set(range(world)[dice.choice([world, world, world - 1]) :])
    many = dice.random() < 0.3
    for run in ("g", "t"):
        tokens = dice.randint(3, 9)
        for rank in range(world):
            if run == "t" and rank in lacking and world > 1:
                continue

            def change(op: str, token: int, io: str, run: str = run) -> float | None:
                if run == "g":
                    return None if dice.random() < 0.02 else 0
                fate = dice.random()
                if io == "weight":
                    return 0.001 if fate < 0.3 else 0
                if fate < 0.03:
                    return None
                if many or token > 1:
                    return dice.choice([0, 0, 1e-7, 0.5, float("nan")])
                return 0

            record_rank(daemon, run, rank, world, tokens, change)
    return dice


@pytest.mark.parametrize("seed", range(12))
def test_any_cut_of_random_runs_is_the_whole(case: Case, seed: int) -> None:
    dice = record_random(case.daemon, seed)
    case.check(task_groups=1)
    case.check(task_groups=dice.randint(2, 12))
    case.check(task_groups=1000)


def test_cut_with_everything_that_is_asked_for(case: Case) -> None:
    dice = record_random(case.daemon, 99)
    policy = query.Policy(
        rules=(
            query.Rule("head", "max_abs <= 1e-6 or nl2 < 1e-3"),
            query.Rule("layers.*", rtol=1e-3, atol=1e-5),
            query.Rule("nowhere", "nl2 <= 1"),
        ),
        allow_unmatched=("embed@input",),
        metric_sets=("ulp",),
    )
    for groups in (1, dice.randint(2, 5)):
        case.check(
            groups,
            policy=policy,
            watches=("max_abs > 0.1", "failed == 1"),
            filter=query.select(ops=("layers.*", "head"), tokens=[range(1, 6)]),
        )
        case.check(groups, matching=query.Matching(token_offset=1))
        case.check(groups, matching=query.Matching(fuzzy=True, ignore_case=True))
        for reading in ("unproven", "samples"):
            case.check(groups, reading=reading)


def test_ranks_that_a_map_puts_together(case: Case) -> None:
    def same(op: str, token: int, io: str) -> float | None:
        return 0

    def other(op: str, token: int, io: str) -> float | None:
        return None if op == "embed" else 0.5 if token == 2 else 0

    for rank in range(4):
        record_rank(case.daemon, "g", rank, 4, 4, same)
        record_rank(case.daemon, "t", rank, 4, 5, other)
    ranks = tuple(query.RankPair(i, 3 - i) for i in range(3))
    for groups in (1, 3):
        case.check(groups, matching=query.Matching(ranks=ranks, token_offset=1))


@pytest.mark.parametrize("seed", range(8))
def test_any_cut_of_random_meshes_is_the_whole(case: Case, seed: int) -> None:
    """Covers shards, copies and tensors of a rank, some of which are missing."""
    dice = random.Random(seed)
    ways = ("0+2/1:S(0)", "2+2/1:S(0)"), ("0+4/1:R", "0+4/1:R"), ("", "")
    way_of = {op: dice.choice(ways) for op in OPS}
    target_world = dice.choice([4, 4, 2])
    lacking = dice.choice([set(), {3}, {1, 2}])
    for run, world in (("g", dice.choice([4, 1])), ("t", target_world)):
        for rank in range(world):
            if run == "t" and rank in lacking and world == 4:
                continue
            records = []
            for token in range(dice.randint(2, 4)):
                for i, op in enumerate(OPS):
                    if dice.random() < 0.05:
                        continue
                    placement = way_of[op][rank // 2] if world == 4 else ""
                    is_off = run == "t" and dice.random() < 0.2
                    is_copy = not placement or placement.endswith("R")
                    value = i + 10 * token + (0 if is_copy else rank)
                    records.append(
                        Record(
                            op,
                            float32(value + 0.5 * is_off, 1, 2, value),
                            [4],
                            token=token,
                            sequence=len(records),
                            io=dice.choice([OUTPUT, OUTPUT, INPUT])
                            if is_off
                            else OUTPUT,
                            placement=placement,
                        )
                    )
            chunk = Chunk(run, records, rank=rank).pack()
            write(case.daemon.channel(), run, [chunk], rank=rank, world_size=world)
    case.check(task_groups=1)
    case.check(task_groups=3)
    layout = query.Layout("head", "replicated")
    case.check(task_groups=1, matching=query.Matching(target_layouts=(layout,)))
    case.check(task_groups=2, matching=query.Matching(ignore_placements=True))


def test_meshes_are_compared_whole(case: Case) -> None:
    for run in ("g", "t"):
        for rank in range(4):
            mesh = f"{rank // 2 * 2}+2/1:S(0)"
            added = 0.25 if run == "t" and rank == 3 else 0.0
            record_rank(
                case.daemon, run, rank, 4, 3, lambda *_, added=added: added, mesh
            )
    outcome = case.check(task_groups=1)
    assert {tuple(task["ranks"]) for task in outcome.tasks} >= {(0,), (1,)}


def test_layouts_are_compared_whole(case: Case) -> None:
    for rank in range(2):
        record_rank(case.daemon, "t", rank, 2, 3, lambda *_: 0.0)
    record_rank(case.daemon, "g", 0, 1, 3, lambda *_: 0.0)
    layout = query.Layout("*", "concat", dim=0)
    for groups in (1, 2):
        case.check(groups, matching=query.Matching(target_layouts=(layout,)))
        # A record that is not a tensor on the other side has a hint.
        case.check(groups)


def test_rank_that_moves_to_another_device_is_one_task(case: Case) -> None:
    for run in ("g", "t"):
        records = [
            Record(
                op,
                float32(token, 1),
                [2],
                token=token,
                sequence=2 * token + i,
                device="npu:0" if run == "t" and token > 2 else "cpu:0",
            )
            for token in range(6)
            for i, op in enumerate(("a", "b"))
        ]
        write(case.daemon.channel(), run, [Chunk(run, records).pack()])
    outcome = case.check(1)
    assert outcome.comparison.unmatched_count > 0
    assert len(outcome.tasks) == 1


def test_runs_without_a_common_place_are_empty(case: Case) -> None:
    record_rank(case.daemon, "g", 0, 1, 2, lambda *_: 0.0)
    record_rank(case.daemon, "t", 0, 1, 2, lambda *_: 0.0)
    outcome = case.check(3, filter=query.select(tokens=7))
    assert outcome.tasks == []


def test_worker_that_is_lost_loses_and_doubles_nothing(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_random(case.daemon, 5)
    dice = random.Random(1)
    lost: list[str] = []

    def lose(order: Order) -> bool:
        is_first = isinstance(order, CompareOrder) and order.attempt == 1
        if is_first and dice.random() < 0.4:
            lost.append(str(order))
            return True
        return False

    monkeypatch.setattr(comparing, "_engine", lambda wanted: (InlineEngine(lose), 2))
    outcome = case.check(task_groups=1)
    assert lost
    assert len(outcome.lost) == len(lost)
    assert {task["attempt"] for task in outcome.tasks} == {1, 2}


def test_task_that_fails_for_good_is_named(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_rank(case.daemon, "g", 0, 1, 4, lambda *_: 0.0)
    record_rank(case.daemon, "t", 0, 1, 4, lambda *_: 0.0)

    class Failing(InlineEngine):
        def give(self, worker: int, order: Order) -> None:
            if isinstance(order, CompareOrder) and order.number == 1:
                failure = Failure("DATA_LOSS", "the archive is cut short")
                self._events.append(Answered(worker, failure))
            else:
                super().give(worker, order)

    monkeypatch.setattr(comparing, "_engine", lambda wanted: (Failing(), 2))
    header, rows, outcome = case.parts(task_groups=1)
    assert header["state"] == "FAILED"
    assert (
        "1 of 4 tasks failed, and their rows are lacking: task 1 (ranks 0, tokens 1): "
        "DATA_LOSS: the archive is cut short" in header["error"]
    )
    assert {row["token"] for row in rows.to_pylist()} == {0, 2, 3}
    assert [task["state"] for task in outcome.tasks].count("failed") == 1


def test_folder_of_others_is_left_alone(case: Case) -> None:
    record_rank(case.daemon, "g", 0, 1, 1, lambda *_: 0.0)
    record_rank(case.daemon, "t", 0, 1, 1, lambda *_: 0.0)
    out = case.folder / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("\n")
    with pytest.raises(ValueError, match=r"thesis\.tex, which is not of a comparison"):
        case.parts(1)
    assert (out / "thesis.tex").exists()


def test_what_has_no_parts_is_refused(case: Case) -> None:
    with pytest.raises(ValueError, match="follows"):
        case.parts(1, follow=True)
    mapping = query.TensorMapping("pairs")
    with pytest.raises(ValueError, match="mapping"):
        case.parts(1, matching=query.Matching(mapping=mapping))


def test_run_that_is_not_there_is_named(case: Case) -> None:
    with pytest.raises(query.QueryError, match="no run") as raised:
        case.parts(1)
    assert raised.value.reason == "RUN_NOT_FOUND"


def test_processes_of_which_one_is_killed(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from msitd.fleet.process_engine import ProcessEngine

    record_random(daemon, 3)
    engines: list[ProcessEngine] = []

    class Killed(ProcessEngine):
        def __init__(self) -> None:
            super().__init__()
            engines.append(self)
            self.is_killed = False

        def give(self, worker: int, order: Order) -> None:
            is_task = isinstance(order, CompareOrder) and order.number == 3
            if is_task and not self.is_killed:
                self.is_killed = True
                os.kill(self._processes[worker].pid, signal.SIGKILL)
            super().give(worker, order)

    monkeypatch.setattr("msitd.fleet.process_engine.ProcessEngine", Killed)
    case = Case(daemon, tmp_path)
    outcome = case.check(task_groups=1)
    assert engines[0].is_killed
    assert len(outcome.lost) == 1
    assert "signal 9" in outcome.lost[0]
    assert engines[0].pids() == []
    left = list((tmp_path / "out" / "rows").iterdir())
    assert all(path.suffix == ".parquet" for path in left)


def test_rows_that_pass_may_be_left_out(daemon: Daemon, tmp_path: Path) -> None:
    two_runs(daemon)
    whole, failing = (
        fleet.compare(
            golden="g",
            target="t",
            endpoint=daemon.endpoint,
            engine="processes",
            workers=1,
            out=str(tmp_path / f"out{passing}"),
            passing_rows=passing,
        )
        for passing in (True, False)
    )
    rows = fleet.read_rows(whole.folder).to_pylist()
    kept = fleet.read_rows(failing.folder).to_pylist()
    assert kept == [row for row in rows if row["verdict"] != "pass"]
    assert whole.comparison.pass_count == failing.comparison.pass_count > 0


def test_face_has_types(daemon: Daemon, tmp_path: Path) -> None:
    record_random(daemon, 4)
    seen: list[fleet.Progress] = []
    done = fleet.compare(
        golden="g",
        target="t",
        engine="processes",
        workers=2,
        endpoint=daemon.endpoint,
        out=str(tmp_path / "out"),
        failing_rows_max=2,
        task_groups=2,
        on_progress=seen.append,
    )
    assert done.comparison.is_over
    assert len(done.failing_rows) <= 2
    assert seen[-1].done == seen[-1].tasks == len(done.paths)
    rows = fleet.read_rows(done.folder, ["op", "verdict"])
    assert rows.column_names == ["row", "op", "verdict"]
    assert rows["row"].to_pylist() == list(range(rows.num_rows))
    assert rows.num_rows == seen[-1].rows
