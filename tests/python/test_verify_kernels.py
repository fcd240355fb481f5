"""Roundings inside of kernels: correct results pass, and small faults are found."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from msitd.verify import replay
from msitd.verify.scores import Checked
from replaying import run
from torch import Tensor

SEEDS = range(8)


def units(op: str, args: Any, kwargs: Any, change: Any = None) -> float:
    """Returns the largest score of the results, of which `change` makes others."""
    spec, arguments, outputs = run(op, args, kwargs)
    if change is not None:
        outputs = {i: change(v) if i == "0" else v for i, v in outputs.items()}
    checked = replay.check_call(spec, arguments, outputs).values()
    scores = [each.score.units for each in checked if isinstance(each, Checked)]
    assert len(scores) == len(outputs), checked
    return max(scores)


def z(*shape: int) -> Tensor:
    return torch.complex(torch.randn(shape), torch.randn(shape))


def turned(*shape: int) -> Tensor:
    return torch.polar(torch.ones(shape), torch.rand(shape) * 100)


def thin(*shape: int) -> Tensor:
    return torch.complex(torch.randn(shape), torch.randn(shape) * 1e-4)


COMPLEX: list[tuple[str, Callable[[Callable[..., Tensor]], tuple[Any, ...]]]] = [
    ("Torch.mul", lambda make: (make(4, 57), make(57))),
    ("Tensor.__mul__", lambda make: (make(2, 12, 4, 32), turned(12, 1, 32))),
    ("Tensor.__truediv__", lambda make: (make(4, 57), make(4, 57))),
    ("Tensor.__rtruediv__", lambda make: (make(4, 57), 2.0)),
    ("Tensor.__pow__", lambda make: (make(4, 57), 3)),
    ("Torch.pow", lambda make: (make(4, 57), make(4, 57))),
    ("Tensor.__rpow__", lambda make: (make(4, 57), 2.5)),
    ("Torch.square", lambda make: (make(4, 57),)),
    ("Torch.sqrt", lambda make: (make(4, 57),)),
    ("Torch.exp", lambda make: (make(4, 57),)),
    ("Torch.log", lambda make: (make(4, 57),)),
    ("Torch.reciprocal", lambda make: (make(4, 57),)),
    ("Torch.abs", lambda make: (make(4, 57),)),
    ("Torch.sgn", lambda make: (make(4, 57),)),
    ("Torch.matmul", lambda make: (make(5, 40), make(40, 7))),
    ("Torch.einsum", lambda make: ("ij,kj->ik", make(5, 40), make(7, 40))),
    ("Torch.fft.fft", lambda make: (make(3, 60),)),
    ("Torch.prod", lambda make: (make(3, 20), 1)),
]


@pytest.mark.parametrize("make", [z, turned, thin])
@pytest.mark.parametrize("op, args", COMPLEX, ids=[op for op, _ in COMPLEX])
def test_complex_results(op: str, args: Any, make: Callable[..., Tensor]) -> None:
    for seed in SEEDS:
        torch.manual_seed(seed)
        given = args(make)
        assert units(op, given, {}) < 2
        assert units(op, given, {}, lambda out: out * (1 + 1e-5)) >= 2


@pytest.mark.parametrize("seed", SEEDS)
def test_wrong_complex_products_are_found(seed: int) -> None:
    torch.manual_seed(seed)
    first, second = z(6, 30), turned(30)

    def one_sign(out: Tensor) -> Tensor:
        out = torch.view_as_real(out.clone())
        out[2, 7, 1] *= -1
        return torch.view_as_complex(out)

    def without_a_term(out: Tensor) -> Tensor:
        return out + first.imag * second.imag

    for change in (torch.conj_physical, one_sign, without_a_term):
        assert units("Torch.mul", (first, second), {}, change) >= 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_factor_of_a_sum_is_rounded(dtype: torch.dtype) -> None:
    for seed in range(200):
        torch.manual_seed(seed)
        given = torch.randn(3).to(dtype), torch.randn(3).to(dtype)
        for op in ("Torch.add", "Torch.sub", "Torch.rsub"):
            assert units(op, given, {"alpha": 3}) < 2
            assert units(op, given, {"alpha": 3}, lambda out: out * 1.1) >= 2
