"""Tests that a share of the cases is explained, and that few answers are wrong."""

import os
import random
from pathlib import Path

import pytest
import torch
from explaining import Answer, Explainer, shares
from op_cases import cases
from op_faults import FAULTS, NEGATIVES

torch.set_num_threads(1)
ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("MSITD_BIN_DIR", ROOT / "build/release/bin"))
EXPLAINED_MIN = 0.85
WRONG_MAX = 0.02
TESTED = 8


@pytest.fixture(scope="module")
def answers() -> list[Answer]:
    """Explanations of some cases of each fault of the calibration half."""
    explainer = Explainer(BIN.parent / "tests" / "explain_cases")
    draw = random.Random(1)
    out = []
    for fault in (*FAULTS, *NEGATIVES):
        of_fault = list(cases("calibration", fault))
        for case in draw.sample(of_fault, min(TESTED, len(of_fault))):
            out.append(explainer.explain(case))
    explainer.close()
    return out


def test_most_faults_are_explained_and_few_answers_are_wrong(
    answers: list[Answer],
) -> None:
    found = shares(answers)
    assert found["faults"] > len(FAULTS)
    assert found["negatives"] > len(NEGATIVES)
    assert found["explained"] >= EXPLAINED_MIN
    assert found["wrong"] <= WRONG_MAX


def test_each_fault_is_explained_in_some_case(answers: list[Answer]) -> None:
    explained = {a.case.fault for a in answers if a.is_explained}
    assert explained == set(FAULTS)


def test_an_answer_of_another_kind_is_wrong(answers: list[Answer]) -> None:
    answer = next(a for a in answers if a.kinds == ["SIGN"])
    answer.case.expected = ("EPS",)
    assert answer.is_wrong
    assert not answer.is_explained
