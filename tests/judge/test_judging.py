"""Tests of the harness itself: it finds what it must find, and cannot pass by
accident.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import tables
import torch
from anatomy import Place, own
from cases import HALVES, Case, all_cases
from judging import Judging
from kernels import OTHERS, PRODUCTS, Kernels
from kinds import FAULTS
from subjects import MODELS, distance, make, run
from verdicts import judge_fault, names, spans

from daemon import Daemon

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def judging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judging]:
    daemon = Daemon(tmp_path_factory.mktemp("daemon"))
    daemon.start()
    yield Judging(daemon, seed=1)
    daemon.clean()


@pytest.mark.parametrize(
    ("model", "precision", "kind", "outcome"),
    [
        ("llama", "float32", "weight_times_3", "right"),
        ("llama", "float32", "attention_scale_missing", "right"),
        ("gpt2", "float32", "causal_mask_forgotten", "right"),
        ("vit", "float32", "class_token_at_the_end", "right"),
        ("llama", "float32", "repeat", "passed"),
        ("gpt2", "float32", "products: split_k", "passed"),
        # Tensors of a token have other shapes without a cache.
        ("llama", "float32", "no cache", "failed"),
    ],
)
def test_a_case_that_is_known_has_its_outcome(
    judging: Judging, model: str, precision: str, kind: str, outcome: str
) -> None:
    found = judging.judge(Case(model, precision, kind, kind in FAULTS))
    assert found.outcome == outcome, found.header
    json.dumps(vars(found))


def test_a_case_that_raises_is_an_error_and_no_outcome(judging: Judging) -> None:
    (found,) = judging.judge_all([Case("vit", "float32", "no such kind", True)])
    assert found.outcome == "error"
    assert "no such kind" in found.header


def test_there_are_enough_cases_of_all_models() -> None:
    cases = all_cases()
    assert len(FAULTS) >= 40
    assert len({(case.model, case.kind) for case in cases if not case.is_fault}) >= 60
    assert {case.model for case in cases} == set(MODELS)
    assert len({case.name for case in cases}) == len(cases)


def test_halves_never_change_and_are_about_equal() -> None:
    cases = all_cases()
    # A change of this line means that unseen cases have been looked at.
    assert Case("llama", "float32", "weight_times_3", True).half == "seen"
    assert Case("gpt2", "bfloat16", "residual_dropped", True).half == "seen"
    assert Case("t5", "float16", "products: noisy", False).half == "seen"
    seen = sum(case.half == HALVES[0] for case in cases)
    assert 0.4 * len(cases) < seen < 0.6 * len(cases)


@pytest.mark.parametrize("model", sorted(set(MODELS) - {"deep"}))
def test_other_kernels_are_called_and_differ_by_rounding_only(model: str) -> None:
    golden = run(make(model, "float32"))
    assert distance(golden, run(make(model, "float32"))) == 0
    for product in PRODUCTS:
        setup, kernels = make(model, "float32"), Kernels(product, tuple(OTHERS))
        with kernels:
            assert distance(golden, run(setup)) < 1e-4, product
        assert kernels.count > 0


def _maker(kind: str, op: str, **others: Any) -> dict[str, Any]:
    row = {"token": "1", "io": "IO_OUTPUT", "sequence": others.pop("sequence", "5")}
    return {"kind": kind, "op": op, "after": "", "before": "", "row": row, **others}


@pytest.mark.parametrize(
    ("maker", "place", "is_it"),
    [
        (_maker("OP", "root.a"), Place("a"), True),
        (_maker("OP", "root.b"), Place("a"), False),
        (_maker("OP", "root.a.b"), Place("a.*"), True),
        (_maker("OWN_CODE", "root.a"), Place("a"), False),
        (_maker("OP", "root.a"), Place("a", token=2), False),
        (_maker("OP", "root.a"), Place("a", io="state"), False),
        (_maker("DRIFT", "root.a"), Place("a"), False),
        (_maker("OWN_CODE", "root.a", after="root.a.b"), own("a", "b", ""), True),
        (_maker("OWN_CODE", "root.a", after="root.a.c"), own("a", "b", ""), False),
        (_maker("OWN_CODE", "root", after="root.a"), own("", "a", ""), True),
        (_maker("OP", "root.a"), own("a", "b", ""), False),
    ],
)
def test_a_maker_is_a_place_or_not(
    maker: dict[str, Any], place: Place, is_it: bool
) -> None:
    assert names(maker, place) == is_it


@pytest.mark.parametrize(
    ("sequence", "is_it"), [("3", False), ("4", True), ("6", True), ("7", False)]
)
def test_a_function_is_within_a_place_or_not(sequence: str, is_it: bool) -> None:
    positions = {
        (1, "root.a", "input"): [4],
        (1, "root.a", "output"): [6],
        (0, "root.a", "output"): [2],
    }
    maker = _maker("OP", "Functional.linear", sequence=sequence)
    assert spans(maker, Place("a"), positions) == is_it
    # Modules are judged by name only.
    module = _maker("OP", "root.b", sequence=sequence)
    assert not spans(module, Place("a"), positions)


@pytest.mark.parametrize(
    ("verdict", "makers", "outcome"),
    [
        ("PASS", [], "unnoticed"),
        ("FAIL", [], "not known"),
        ("FAIL", [_maker("NOT_KNOWN", "")], "not known"),
        ("FAIL", [_maker("DRIFT", "root.a")], "drift"),
        ("FAIL", [_maker("OP", "root.a")], "right"),
        ("FAIL", [_maker("OP", "root.b"), _maker("OP", "root.a")], "wrong"),
    ],
)
def test_a_comparison_has_an_outcome(
    verdict: str, makers: list[dict[str, Any]], outcome: str
) -> None:
    answer = {"verdict": verdict, "comparison": {"makers": makers}}
    assert judge_fault(answer, [Place("a")], {}) == outcome


def test_totals_count_each_case_once_per_group() -> None:
    one = {
        "precision": "float32",
        "category": "fault",
        "is_above_noise": True,
        "mode": "modules",
        "setting": "same",
    }
    counts = tables.totals([{**one, "outcome": "right"}, {**one, "outcome": "wrong"}])
    assert counts["all/fault"] == counts["float32/fault"] == {"right": 1, "wrong": 1}
    assert counts["all/fault above noise"] == {"right": 1, "wrong": 1}
    assert "50%" in tables.text(counts)
