"""Roundings inside of kernels: correct results pass, and small faults are found."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from msitd.verify import replay
from msitd.verify.scores import Checked
from replaying import DTYPES, FLOATS, cast, run
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


NARROW: list[tuple[str, Callable[[], tuple[Any, ...]]]] = [
    ("Torch.conv_transpose1d", lambda: (r(2, 24, 30), r(24, 9, 6), r(9), 2)),
    ("Torch.conv_transpose2d", lambda: (r(2, 16, 6, 7), r(16, 5, 4, 4), r(5), 2, 1)),
    ("Torch.conv_transpose2d", lambda: (r(1, 12, 6, 6), r(12, 3, 5, 5))),
    ("Aten.convolution", lambda: transposed(r(2, 12, 9), r(12, 4, 5))),
    ("Functional.fold", lambda: (r(2, 27, 36), (8, 8), 3)),
    ("Functional.instance_norm", lambda: (r(3, 5, 40) + 2,)),
    ("Torch.bilinear", lambda: (r(7, 9), r(7, 12), r(4, 9, 12), r(4))),
    ("Torch.addbmm", lambda: (r(6, 5), r(11, 6, 24), r(11, 24, 5))),
    ("Torch.addr", lambda: (r(12, 17), r(12), r(17))),
    ("Torch.cross", lambda: (r(50, 3), r(50, 3), 1)),
    ("Torch.prod", lambda: (r(6, 14), 1)),
    ("Torch.chain_matmul", lambda: (r(20, 30), r(30, 25), r(25, 8))),
    ("Torch.einsum", lambda: ("ij,jk,kl->il", r(6, 30), r(30, 25), r(25, 8))),
    ("Torch.index_add", lambda: (r(5, 8), 0, torch.randint(0, 5, (40,)), r(40, 8))),
    (
        "Tensor.index_put_",
        lambda: (r(5, 8), (torch.randint(0, 5, (40,)),), r(40, 8), True),
    ),
]


def r(*shape: int) -> Tensor:
    return torch.randn(shape)


def transposed(x: Tensor, weight: Tensor) -> tuple[Any, ...]:
    return x, weight, None, (1,), (0,), (1,), True, (0,), 1


@pytest.mark.parametrize("dtype", DTYPES, ids=FLOATS)
@pytest.mark.parametrize("op, make", NARROW, ids=[op for op, _ in NARROW])
def test_kernels_that_round_between_steps(
    op: str, make: Callable[[], tuple[Any, ...]], dtype: torch.dtype
) -> None:
    def with_wrong_element(out: Tensor) -> Tensor:
        out = out.clone()
        at = int(out.abs().argmax())
        out.view(-1)[at] *= 0.7
        return out

    for seed in SEEDS:
        torch.manual_seed(seed)
        args = cast(make(), dtype)
        assert units(op, args, {}) < 2, seed
        off = 1.0001 if dtype == torch.float32 else 1.1
        for change in (
            lambda out, off=off: out * off,
            lambda out: out.flip(-1),
            with_wrong_element,
        ):
            assert units(op, args, {}, change) >= 2, (seed, change)


@pytest.mark.parametrize("dtype", DTYPES, ids=FLOATS)
def test_backwards_of_convolutions(dtype: torch.dtype) -> None:
    for seed, kernel in enumerate((1, 3, 5)):
        torch.manual_seed(seed)
        x, weight = r(6, 8, 12, 12), r(10, 8, kernel, kernel)
        grad = r(6, 10, 12, 12)
        args = cast((grad, x, weight), dtype)
        args += ((10,), (1, 1), (kernel // 2,) * 2, (1, 1), False, (0, 0), 1)
        args += ((True, True, True),)
        op = "Aten.convolution_backward"
        assert units(op, args, {}) < 2
        assert units(op, args, {}, lambda out: out * 1.1) >= 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_that_add_in_float32_are_as_sharp_as_before(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for op, args in (
        ("Functional.linear", (r(8, 64), r(16, 64))),
        ("Functional.conv2d", (r(2, 8, 9, 9), r(6, 8, 3, 3))),
        ("Functional.layer_norm", (r(8, 64), (64,))),
        ("Torch.baddbmm", (r(3, 8, 9), r(3, 8, 40), r(3, 40, 9))),
    ):
        given = cast(args, dtype)
        step = 4 * float(torch.finfo(dtype).eps)
        assert units(op, given, {}) < 1.2
        assert units(op, given, {}, lambda out, step=step: out * (1 + step)) >= 2
