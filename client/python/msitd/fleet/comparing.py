"""Compares two runs in parts, on several processors or machines."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from msitd.fleet import output, plan
from msitd.fleet.engine import Engine
from msitd.fleet.merge import Merge
from msitd.fleet.orders import (
    CompareOrder,
    Failure,
    Outline,
    OutlineOrder,
    Part,
    Setup,
)
from msitd.fleet.schedule import Schedule
from msitd.query.connection import Settings
from msitd.query.errors import QueryError
from msitd.query.messages import message_class

EngineName = Literal["ray", "processes"]

# The largest token of a filter; no run reaches it.
_TOKEN_MAX = (1 << 40) - 1
_FRAME = -2

# Separates several sources; and the name of the queried daemon among them.
_SEPARATOR = ","
_HERE = "local"


@dataclass(frozen=True)
class Progress:
    """Progress of a comparison in parts."""

    done: int
    tasks: int
    rows: int
    fail: int
    unmatched: int
    lost: int


@dataclass
class Wanted:
    """The runs to compare, and the options of the comparison."""

    comparison: Any
    """A Comparison as CreateComparison takes it."""
    engine: EngineName = "ray"
    address: str | None = None
    workers: int | None = None
    out: str | None = None
    endpoint: str = ""
    config: str = ""
    failing_rows_max: int = 1000
    passing_rows: bool = True
    task_groups: int | None = None
    on_progress: Callable[[Progress], None] | None = None


@dataclass
class Outcome:
    """The result, in messages."""

    comparison: Any
    failing_rows: list[Any]
    folder: str
    tasks: list[dict[str, Any]]
    lost: list[str]


def run(wanted: Wanted) -> Outcome:
    """Runs a comparison. If it could not be finished, its state is FAILED.

    Raises:
        QueryError: Nothing could be compared.
        ValueError: The request has an option that is not supported in parts.
        ImportError: A package is not installed.
    """
    _check(wanted.comparison)
    folder = output.prepare(wanted.out or tempfile.mkdtemp(prefix="msitd-compare-"))
    started = datetime.now(timezone.utc)
    engine, workers = _engine(wanted)
    try:
        schedule = Schedule(engine, _setup(wanted, folder), workers)
        outcome = _run(wanted, schedule, folder, workers, started)
    finally:
        engine.close()
    return outcome


def _run(
    wanted: Wanted, schedule: Schedule, folder: str, workers: int, started: datetime
) -> Outcome:
    outline = _succeeded(schedule.one(OutlineOrder()))
    assert isinstance(outline, Outline)
    run_ids = outline.run_ids
    merge = Merge(_frame(wanted, schedule, run_ids), wanted.failing_rows_max)
    user_tokens = tuple((t.first, t.last) for t in wanted.comparison.filter.tokens)
    orders = [
        dataclasses.replace(order, run_ids=run_ids)
        for order in plan.cut(outline, user_tokens, workers, wanted.task_groups)
    ]
    tasks: list[dict[str, Any]] = []
    tell = _Teller(wanted.on_progress, len(orders), schedule)
    for order, answer in schedule.all(orders):
        assert isinstance(order, CompareOrder)
        if isinstance(answer, Part):
            merge.add(answer)
            tasks.append(output.task_entry(answer))
            tell.add(answer)
        else:
            assert isinstance(answer, Failure)
            merge.fail(order, answer)
            tasks.append(output.failed_entry(order, answer))
    last = merge.order_wanted()
    if last is not None:
        answer = schedule.one(dataclasses.replace(last, run_ids=run_ids))
        if isinstance(answer, Part):
            merge.set_order(answer)
        else:
            assert isinstance(answer, Failure)
            merge.fail_order(answer)
    groups = output.GroupFile(folder)
    try:
        comparison = merge.finish(groups.add)
    except BaseException:
        groups.drop()
        raise
    groups.close()
    comparison.name = f"fleet:{folder}"
    comparison.create_time.FromDatetime(started)
    comparison.end_time.FromDatetime(datetime.now(timezone.utc))
    output.write_end(folder, comparison, tasks)
    rows = merge.failing_rows(merge.numbers)
    return Outcome(comparison, rows, folder, tasks, schedule.lost)


class _Teller:
    """Reports the progress of the tasks."""

    def __init__(
        self,
        on_progress: Callable[[Progress], None] | None,
        tasks: int,
        schedule: Schedule,
    ) -> None:
        self._on_progress = on_progress
        self._schedule = schedule
        self._latest = Progress(0, tasks, 0, 0, 0, 0)

    def add(self, part: Part) -> None:
        if self._on_progress is None:
            return
        header = message_class("msitd.v1.Comparison").FromString(part.header)
        before = self._latest
        self._latest = dataclasses.replace(
            before,
            done=before.done + 1,
            rows=before.rows + part.row_count,
            fail=before.fail + header.fail_count,
            unmatched=before.unmatched + header.unmatched_count,
            lost=len(self._schedule.lost),
        )
        self._on_progress(self._latest)


def _frame(wanted: Wanted, schedule: Schedule, run_ids: tuple[str, str]) -> Any:
    """Returns the comparison of no groups, which describes the runs as a whole."""
    order = CompareOrder(
        _FRAME,
        tokens=((_TOKEN_MAX, _TOKEN_MAX),),
        keeps_rows=False,
        run_ids=run_ids,
    )
    part = _succeeded(schedule.one(order))
    assert isinstance(part, Part)
    if part.row_count != 0:
        raise QueryError("OUT_OF_RANGE", "", f"a run has token {_TOKEN_MAX}")
    frame = message_class("msitd.v1.Comparison").FromString(part.header)
    frame.ClearField("filter")
    if wanted.comparison.HasField("filter"):
        frame.filter.CopyFrom(wanted.comparison.filter)
    return frame


def _succeeded(answer: Any) -> Any:
    if isinstance(answer, Failure):
        raise QueryError(answer.code, answer.reason, answer.message)
    return answer


def _check(comparison: Any) -> None:
    if comparison.follow:
        raise ValueError("a comparison that follows its runs is not cut into parts")
    if comparison.matching.HasField("mapping"):
        raise ValueError(
            "a comparison with a mapping is not cut into parts: one daemon compares it"
        )


def _setup(wanted: Wanted, folder: str) -> Setup:
    comparison = type(wanted.comparison)()
    comparison.CopyFrom(wanted.comparison)
    given = (comparison.golden_source, comparison.target_source)
    names = [source.split(_SEPARATOR) if source else [_HERE] for source in given]
    here = ""
    if any(_HERE in places for places in names):
        here = Settings(wanted.endpoint or None, None, None, None, None).endpoint
    if not any(given):
        # Both runs are on one daemon, which is queried directly.
        return _with(wanted, comparison, folder, endpoint=here)
    places = [[here if name == _HERE else name for name in of] for of in names]
    comparison.golden_source, comparison.target_source = map(_SEPARATOR.join, places)
    every = {place for of in places for place in of}
    archives = {place for place in every if "://" in place}
    return _with(
        wanted,
        comparison,
        folder,
        peers=tuple(sorted(every - archives)),
        archives=tuple(sorted(archives)),
    )


def _with(wanted: Wanted, comparison: Any, folder: str, **more: Any) -> Setup:
    return Setup(
        comparison=comparison.SerializeToString(),
        folder=folder,
        config=wanted.config,
        failing_rows_max=wanted.failing_rows_max,
        passing_rows=wanted.passing_rows,
        **more,
    )


def _engine(wanted: Wanted) -> tuple[Engine, int]:
    """Returns the engine, and the number of its workers."""
    if wanted.engine == "ray":
        from msitd.fleet.ray_engine import RayEngine

        ray = RayEngine(wanted.address, wanted.workers)
        return ray, wanted.workers or max(ray.processor_count(), 1)
    if wanted.engine != "processes":
        raise ValueError(f"engine {wanted.engine!r} is neither ray nor processes")
    if wanted.address:
        raise ValueError("an address is of Ray")
    from msitd.fleet.process_engine import ProcessEngine

    return ProcessEngine(), wanted.workers or len(os.sched_getaffinity(0))
