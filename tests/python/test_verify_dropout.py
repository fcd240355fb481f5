"""Results of dropout: random choices of the right size pass, and others are found."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from msitd.verify import replay
from msitd.verify.scores import Checked
from replaying import run
from torch import Tensor

CALLS: list[tuple[str, tuple[int, ...]]] = [
    ("Functional.dropout", (8, 64)),
    ("Functional.dropout", (7,)),
    ("Functional.dropout", (3, 1)),
    ("Torch.dropout", (4, 5, 60)),
    ("Functional.dropout1d", (4, 30, 6)),
    ("Functional.dropout1d", (30, 6)),
    ("Functional.dropout2d", (4, 30, 3, 3)),
    ("Functional.dropout2d", (4, 30, 3)),
    ("Functional.dropout3d", (4, 30, 2, 2, 2)),
    ("Functional.dropout3d", (30, 2, 2, 2)),
    ("Torch.feature_dropout", (4, 30, 6)),
]


def outcome(op: str, args: Any, change: Callable[[Tensor], Tensor]) -> Checked:
    spec, arguments, outputs = run(op, args, {})
    found = replay.check_call(spec, arguments, {"0": change(outputs["0"])})["0"]
    assert isinstance(found, Checked)
    return found


@pytest.mark.parametrize("op, shape", CALLS, ids=[op for op, _ in CALLS])
@pytest.mark.parametrize("p", [0.01, 0.1, 0.5, 0.9, 0.999])
def test_random_choices_are_correct(op: str, shape: tuple[int, ...], p: float) -> None:
    for seed in range(40):
        torch.manual_seed(seed)
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            args = (torch.randn(shape).relu().to(dtype), p, True)
            found = outcome(op, args, lambda out: out)
            assert not found.score.is_wrong, found.score


@pytest.mark.parametrize("p", [0.1, 0.3])
def test_a_result_of_zeros_is_wrong(p: float) -> None:
    for op, shape in CALLS:
        if len(shape) > 1 and shape[0] > 3:
            found = outcome(op, (torch.randn(shape), p, True), torch.zeros_like)
            assert found.score.is_wrong, op
            assert "it kept 0 of" in found.score.problem
            assert bool(found.golden.any())


def test_a_result_that_drops_nothing_is_wrong() -> None:
    for op, shape in CALLS:
        if len(shape) > 1 and shape[0] > 3:
            x = torch.randn(shape)
            found = outcome(op, (x, 0.7, True), lambda _, x=x: x / (1 - 0.7))
            assert found.score.is_wrong, op
            assert not torch.equal(found.golden.float(), x / (1 - 0.7))


def test_another_probability_with_the_right_factor_is_wrong() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 64)
    dropped = torch.rand(64, 64) < 0.2
    found = outcome("Functional.dropout", (x, 0.1, True), lambda _: x / 0.9 * ~dropped)
    assert found.score.is_wrong


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_channels_that_are_dropped_in_part_are_wrong(dim: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 30, *[3] * dim)
    kept = torch.rand(x.shape) < 0.5
    found = outcome(f"Functional.dropout{dim}d", (x, 0.5, True), lambda _: x * kept * 2)
    assert found.score.is_wrong
    assert "in part" in found.score.problem


def test_dropout_that_is_off_keeps_everything() -> None:
    x = torch.randn(30, 30)
    for p, training in ((0.5, False), (0.0, True)):
        args = (x, p, training)
        assert not outcome("Functional.dropout", args, lambda out: out).score.is_wrong
        assert outcome("Functional.dropout", args, torch.zeros_like).score.is_wrong
