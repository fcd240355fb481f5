"""Tests of the benchmark itself: it counts what it states, and cannot pass by accident."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import counting
import pytest
import torch
from anatomy import Place
from judging_trials import (
    NONE,
    NOT_ASKED,
    RIGHT,
    UNLIKE_LINE,
    WRONG,
    Judge,
    Outcome,
    is_noted,
    judge_golden,
)
from seeding import FAMILIES, HALVES, MISTAKES
from torch.nn import functional
from trials import HEALTHY, Trial, all_trials, target_of

from daemon import Daemon

torch.set_num_threads(1)
HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    daemon = Daemon(tmp_path_factory.mktemp("daemon"))
    daemon.start()
    yield Judge(daemon)
    daemon.clean()


@pytest.mark.parametrize(
    ("subject", "kind", "answers"),
    [
        ("vit", "linear_kernel_without_bias", (RIGHT, RIGHT, RIGHT)),
        ("vit", "norm_epsilon_wrong", (RIGHT, RIGHT, RIGHT)),
        ("vit", HEALTHY, (NONE, NONE, NONE)),
    ],
)
def test_a_trial_that_is_known_has_its_outcome(
    judge: Judge, subject: str, kind: str, answers: tuple[str, ...]
) -> None:
    (found,) = judge.judge_all([Trial("calibration", subject, "float32", kind)])
    assert not found.failure
    assert (found.golden, found.alone, found.cause) == answers, found.texts
    assert found.is_above_noise == (kind != HEALTHY)
    json.dumps(dataclasses.asdict(found))


def test_a_trial_that_raises_is_a_failure_and_no_outcome(judge: Judge) -> None:
    trial = Trial("calibration", "vit", "float3", HEALTHY)
    (found,) = judge.judge_all([trial])
    assert "float3" in found.failure
    assert not counting.counted([found])


def test_functions_are_restored() -> None:
    plain = functional.linear, torch.Tensor.index_copy_
    for trial in (
        Trial("calibration", "vit", "float32", "linear_kernel_without_bias"),
        Trial("held_out", "served", "float32", "scatter_kernel_writes_rows_in_reverse"),
    ):
        plot, _ = target_of(trial)
        with plot.patched():
            assert (functional.linear, torch.Tensor.index_copy_) != plain
        assert (functional.linear, torch.Tensor.index_copy_) == plain


def test_all_halves_have_mistakes_of_all_families() -> None:
    for half in HALVES:
        found = {one.family for one in MISTAKES.values() if one.half == half}
        assert found == set(FAMILIES)
    trials = all_trials()
    assert len({one.name for one in trials}) == len(trials)


def test_the_held_out_halves_are_frozen() -> None:
    """Other mistakes need another half, which was never run."""
    frozen = json.loads((HERE / "frozen.json").read_text())
    assert frozen == {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(HERE.glob("held_out_*.py"))
    }


MISTAKE = dataclasses.replace(
    MISTAKES["linear_kernel_without_bias"], kinds=frozenset({"OFFSET"})
)


def _answer(kind: str, op: str, *explanations: str) -> dict[str, Any]:
    maker = {
        "kind": kind,
        "op": op,
        "after": "",
        "before": "",
        "note": "only golden calls Tensor.add",
        "row": {"token": "0", "io": "IO_OUTPUT", "sequence": "5"},
        "explanations": [{"kind": one} for one in explanations],
    }
    return {"verdict": "FAIL", "comparison": {"makers": [maker]}}


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (_answer("OP", "root.a", "OFFSET"), (RIGHT, RIGHT)),
        (_answer("OP", "root.a", "FACTOR"), (RIGHT, WRONG)),
        (_answer("OP", "root.a", "SUBSET"), (RIGHT, NONE)),
        (_answer("OP", "root.a"), (RIGHT, NONE)),
        (_answer("OP", "root.b", "OFFSET"), (WRONG, WRONG)),
        (_answer("OP", "root.b"), (WRONG, NONE)),
        (_answer("OP", "Functional.linear"), (RIGHT, NONE)),
        # Within the place, but another function.
        (_answer("OP", "Functional.gelu"), (WRONG, NONE)),
        (_answer("DRIFT", "root.a"), (NONE, NONE)),
        (_answer("FLIP", "root.a"), (NONE, NONE)),
        (_answer("MODEL_INPUTS", ""), (WRONG, NONE)),
        ({"verdict": "PASS", "comparison": {"makers": []}}, (NONE, NONE)),
    ],
)
def test_an_answer_is_right_or_not(
    answer: dict[str, Any], outcome: tuple[str, str]
) -> None:
    positions = {(0, "root.a", "input"): [4], (0, "root.a", "output"): [6]}
    assert judge_golden(answer, MISTAKE, [Place("a")], positions) == outcome


def test_a_note_names_a_mistake_or_not() -> None:
    answer = _answer("OP", "root.a")
    assert is_noted(answer, dataclasses.replace(MISTAKE, note="golden calls .*add"))
    assert not is_noted(answer, dataclasses.replace(MISTAKE, note="target calls"))
    assert not is_noted(answer, MISTAKE)


def _outcome(**values: Any) -> Outcome:
    texts = dict.fromkeys(("half", "subject", "precision", "setting"), "")
    shared = {"name": "", "family": "eps", "shows_by_itself": True}
    return Outcome(**{**texts, **shared, "is_above_noise": True, **values})


def test_bars_are_met_or_missed() -> None:
    right = _outcome(golden=RIGHT, verify=RIGHT, cause=RIGHT)
    wrong = _outcome(golden=WRONG, verify=WRONG, cause=WRONG)
    within = _outcome(is_above_noise=False)
    assert all(bar.is_met for bar in counting.bars([right, within]))
    assert not any(bar.is_met for bar in counting.bars([wrong]))
    assert not any(bar.is_met for bar in counting.bars([within]))
    # 4 of 5 are exactly 80 %, and 1 of 5 exceeds 5 %.
    met = [bar.is_met for bar in counting.bars([right] * 4 + [wrong])]
    assert met == [True, True, True, False]


def test_commands_that_were_not_run_have_no_bar() -> None:
    asked = _outcome(golden=RIGHT, cause=RIGHT)
    not_asked = dataclasses.replace(asked, verify=NOT_ASKED, origin=NOT_ASKED)
    assert [bar.is_met for bar in counting.bars([asked])] == [True, False, True, True]
    assert all(bar.is_met for bar in counting.bars([not_asked]))
    assert len(counting.bars([not_asked])) == 3
    assert "of all mistakes: -" in counting.facts([not_asked])[0]


def test_origins_precede_results_of_verify_and_wrong_ops_of_both_count() -> None:
    assert _outcome(verify=RIGHT, origin=WRONG).alone == WRONG
    assert _outcome(verify=WRONG, origin=RIGHT).alone == RIGHT
    assert _outcome(verify=WRONG, origin=RIGHT).is_wrong_alone
    assert _outcome(verify=RIGHT).alone == RIGHT
    assert _outcome().alone == NONE
    assert not _outcome().is_wrong_alone


def test_observations_of_siblings_count_only_if_nothing_else_is_named() -> None:
    assert _outcome(siblings=RIGHT).alone == RIGHT
    assert _outcome(siblings=WRONG).is_wrong_alone
    assert _outcome(siblings=RIGHT, verify=WRONG).alone == WRONG
    named = _outcome(siblings=WRONG, verify=RIGHT)
    assert named.alone == RIGHT
    assert not named.is_wrong_alone


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "Tensor.f call 1 in root.a, input/scale, rank 0, token 2: 1, in 2 siblings 2",
            ("Tensor.f", "1", "input", "scale", "2"),
        ),
        (
            "code of root.a call 3 after root.a.q before root.a.o, rank 1, token 0: x",
            ("root.a", "3", None, None, "0"),
        ),
        ("root.a.norm, rank 0: eps 1, in 2 siblings 2", ("root.a.norm", *[None] * 4)),
        ("root.a call 0, rank 0, token 0: it", ("root.a", "0", None, None, "0")),
        (
            "root.a call 0 before root.b, rank 0, token 0: it",
            ("root.a", "0", None, None, "0"),
        ),
    ],
)
def test_lines_about_siblings_are_parsed(line: str, found: tuple[str, ...]) -> None:
    match = UNLIKE_LINE.match(f"unlike siblings   {line}")
    assert match is not None
    assert tuple(match[n] for n in ("op", "call", "io", "index", "token")) == found
    is_code = line.startswith("code of")
    assert bool(match["code"]) == is_code
    assert (match["after"], match["before"]) == (
        ("root.a.q", "root.a.o") if is_code else (None, match["before"])
    )
