"""Experts that receive the same rows in another order."""

import re
import shlex

import numpy as np
import pytest
from chunk_bytes import INPUT, OUTPUT, Chunk, Record
from wire import write

from daemon import Daemon

FAILED = 1
LAYERS, EXPERTS, WIDTH, TOKENS = 2, 3, 12, 30


class Run:
    """Records what a small mixture of experts computes, as hooks of its modules would."""

    def __init__(self, *, is_reversed: bool, wrong_expert: int | None = None) -> None:
        self.records: list[Record] = []
        self._reversed = is_reversed
        self._wrong = wrong_expert
        rng = np.random.default_rng(3)
        x = rng.standard_normal((TOKENS, WIDTH), dtype=np.float32)
        for layer in range(LAYERS):
            gate = rng.standard_normal((WIDTH, EXPERTS), dtype=np.float32)
            weights = rng.standard_normal((EXPERTS, 2, WIDTH, WIDTH), dtype=np.float32)
            x = self._layer(f"model.{layer}", x, gate, weights / WIDTH**0.5)

    def _add(self, op: str, io: int, value: np.ndarray) -> None:
        data = np.ascontiguousarray(value)
        sequence = len(self.records)
        self.records.append(
            Record(op, data.tobytes(), data.shape, io=io, sequence=sequence)
        )

    def _linear(self, op: str, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        self._add(op, INPUT, x)
        y = x @ weight
        self._add(op, OUTPUT, y)
        return y

    def _layer(
        self, op: str, x: np.ndarray, gate: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        self._add(op, INPUT, x)
        chosen = self._linear(f"{op}.gate", x, gate).argmax(-1)
        out = x.copy()
        for expert in range(EXPERTS):
            rows = np.flatnonzero(chosen == expert)
            if self._reversed:
                rows = rows[::-1]
            up, down = weights[expert]
            if expert == self._wrong:
                up = up.copy()
                up[0] *= 1.5
            name = f"{op}.experts.{expert}"
            self._add(name, INPUT, x[rows])
            hidden = np.maximum(self._linear(f"{name}.up", x[rows], up), 0)
            y = self._linear(f"{name}.down", hidden, down)
            self._add(name, OUTPUT, y)
            out[rows] += y
        self._add(op, OUTPUT, out)
        return out


def record(daemon: Daemon, name: str, run: Run) -> None:
    write(daemon.channel(), name, [Chunk(name, run.records).pack()])


@pytest.fixture
def runs(daemon: Daemon) -> Daemon:
    record(daemon, "golden", Run(is_reversed=False))
    record(daemon, "good", Run(is_reversed=True))
    record(daemon, "bad", Run(is_reversed=True, wrong_expert=2))
    return daemon


def hinted_flags(stderr: str) -> list[str]:
    return [
        word
        for line in stderr.splitlines()
        if re.match(r"  --(golden|target)-view ", line)
        for word in shlex.split(line)
    ]


def test_the_order_is_suggested_and_the_fault_is_found(runs: Daemon) -> None:
    good = runs.ctl("compare", "run", "golden", "good", expect=FAILED)
    assert "has the rows of golden in another order" in good.stderr
    assert "the order of the rows of these tensors is then no longer" in good.stderr
    flags = hinted_flags(good.stderr)
    assert flags == [
        *("--target-view", "model.*.experts.*@input=any_order(0)"),
        *("--target-view", "model.*.experts.*@output=any_order(0)"),
    ]
    header = runs.ctl_json("compare", "get", "latest")
    assert len(header["view_hints"]) == 1
    assert header["fail_count"] == header["view_hints"][0]["row_count"]

    passed = runs.ctl("compare", "run", "golden", "good", *flags)
    assert passed.stderr == ""
    assert "in any order of rows where views permit it" in passed.stdout
    rows = runs.ctl_json("compare", "rows", "latest")["rows"]
    assert {row["verdict"] for row in rows} == {"PASS"}
    moved = [row for row in rows if "rows are in another place" in row["reason"]]
    assert all(".experts." in row["op"] for row in moved)
    assert len(moved) >= 2 * LAYERS * EXPERTS

    failed = runs.ctl("compare", "run", "golden", "bad", *flags, expect=FAILED)
    header = runs.ctl_json("compare", "get", "latest")
    first = header["first_divergence"]
    assert first["op"] == "model.0.experts.2.up"
    assert "have no partner" in first["reason"]
    assert header["makers"][0]["op"] == "model.0.experts.2.up"
    assert not header["view_hints"]
    assert hinted_flags(failed.stderr) == []


def test_without_the_flags_a_fault_is_not_hidden_by_a_hint(runs: Daemon) -> None:
    result = runs.ctl("compare", "run", "golden", "bad", expect=FAILED)
    flags = hinted_flags(result.stderr)
    runs.ctl("compare", "run", "golden", "bad", *flags, expect=FAILED)


def test_a_step_after_any_order_is_refused(runs: Daemon) -> None:
    view = ("--target-view", "*=any_order(0).flatten")
    result = runs.ctl("compare", "run", "golden", "good", *view, expect=2)
    assert "any_order must be the last step" in result.stderr


def test_axes_are_suggested(daemon: Daemon) -> None:
    rng = np.random.default_rng(4)
    values = rng.standard_normal((3, 4, 4, 8), dtype=np.float32)
    for run, order in (("g", (0, 1, 2)), ("t", (1, 0, 2))):
        records = [
            Record(
                f"l.{i}.fc", value.transpose(order).tobytes(), value.shape, sequence=i
            )
            for i, value in enumerate(values)
        ]
        write(daemon.channel(), run, [Chunk(run, records).pack()])
    result = daemon.ctl("compare", "run", "g", "t", expect=FAILED)
    assert "has the elements of golden with its axes in another order" in result.stderr
    flags = hinted_flags(result.stderr)
    assert flags == ["--target-view", "l.*.fc@output=permute(1,0,2)"]
    daemon.ctl("compare", "run", "g", "t", *flags)
