"""References of transforms, linear algebra and scaled products."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from msitd.verify import replay, table
from msitd.verify.arguments import Arguments
from msitd.verify.scores import Checked
from msitd.verify.unchecked import Unchecked
from replaying import run, worse

Make = Callable[[int], tuple[Any, ...]]


def z(*shape: int) -> torch.Tensor:
    return torch.complex(torch.randn(shape), torch.randn(shape))


def conditioned(size: int, digits: float) -> torch.Tensor:
    """Returns a matrix whose condition number has so many digits."""
    first, second = (
        torch.linalg.qr(torch.randn(size, size, dtype=torch.float64))[0]
        for _ in range(2)
    )
    return (first * torch.logspace(0, -digits, size).double() @ second).float()


def positive(size: int) -> torch.Tensor:
    root = torch.randn(size, size)
    return root @ root.T + torch.eye(size)


def assert_checked(op: str, args: Any, kwargs: Any) -> None:
    """Asserts that the results of torch pass, and that one wrong element fails."""
    spec, arguments, outputs = run(op, args, kwargs)
    checked = replay.check_call(spec, arguments, outputs)
    for index, each in checked.items():
        assert isinstance(each, Checked), (op, index, each.reason)
        assert not each.score.is_wrong, (op, index, each.score)
    first = checked["0"]
    assert isinstance(first, Checked)
    wrong = {**outputs, "0": worse(outputs["0"], first)}
    found = replay.check_call(spec, arguments, wrong)["0"]
    assert isinstance(found, Checked)
    assert found.score.is_wrong, (op, found.score)


TRANSFORMS: list[tuple[str, Make, dict[str, Any]]] = [
    ("Torch.fft.fft", lambda n: (z(3, n),), {}),
    ("Torch.fft.ifft", lambda n: (torch.randn(3, n),), {"norm": "ortho"}),
    ("Torch.fft.rfft", lambda n: (torch.randn(3, n),), {}),
    ("Torch.fft.rfft", lambda n: (torch.linspace(0, 1, n).sin(),), {}),
    ("Torch.fft.irfft", lambda n: (z(2, n),), {}),
    ("Torch.fft.hfft", lambda n: (z(2, n),), {}),
    ("Torch.fft.ihfft", lambda n: (torch.randn(2, n),), {}),
    ("Torch.fft.fft2", lambda n: (z(2, n, 9),), {}),
    ("Torch.fft.irfftn", lambda n: (z(n, 8),), {}),
    ("Torch.stft", lambda n: (torch.randn(2, 8 * n), 32), {"return_complex": True}),
    ("Aten._fft_r2c", lambda n: (torch.randn(2, n), (1,), 0, True), {}),
]


@pytest.mark.parametrize("size", [8, 37, 1000, 2047])
@pytest.mark.parametrize("call", TRANSFORMS, ids=lambda call: call[0])
def test_transforms(call: Any, size: int) -> None:
    op, make, kwargs = call
    if op == "Torch.stft":
        kwargs = {**kwargs, "window": torch.hann_window(32)}
    for seed in range(2):
        torch.manual_seed(seed)
        assert_checked(op, make(size), kwargs)


def test_shifts_of_transforms_are_exact() -> None:
    spec, arguments, outputs = run("Torch.fft.fftshift", (z(3, 8),), {})
    for results, wrong in ((outputs["0"], False), (outputs["0"].roll(1, 0), True)):
        found = replay.check_call(spec, arguments, {"0": results})["0"]
        assert isinstance(found, Checked)
        assert found.score.is_wrong == wrong


ALGEBRA: list[tuple[str, Make, dict[str, Any]]] = [
    ("Torch.inv", lambda n: (torch.randn(n, n),), {}),
    ("Torch.inv", lambda n: (torch.randn(n, n).tril() + 3 * torch.eye(n),), {}),
    ("Torch.inverse", lambda n: (torch.randn(4, n, n),), {}),
    ("Torch.solve", lambda n: (torch.randn(n, n), torch.randn(n, 3)), {}),
    ("Torch.solve", lambda n: (conditioned(n, 4), torch.randn(n)), {}),
    (
        "Torch.solve_triangular",
        lambda n: (torch.randn(n, n).tril(), torch.randn(n, 2)),
        {"upper": False},
    ),
    ("Torch.cholesky", lambda n: (positive(n),), {}),
    ("Torch.cholesky_ex", lambda n: (positive(n),), {}),
    ("Torch.det", lambda n: (torch.randn(n, n) / n**0.5,), {}),
    ("Torch.logdet", lambda n: (positive(n),), {}),
    ("Torch.slogdet", lambda n: (torch.randn(2, n, n),), {}),
    ("Torch.svdvals", lambda n: (torch.randn(n, n + 3),), {}),
    ("Torch.svdvals", lambda n: (conditioned(n, 6),), {}),
    ("Torch.eigvalsh", lambda n: (positive(n),), {}),
    ("Torch.vector_norm", lambda n: (torch.randn(n, n),), {"ord": 3, "dim": -1}),
    ("Torch.matrix_norm", lambda n: (torch.randn(3, n, n),), {}),
    ("Torch.matrix_norm", lambda n: (torch.randn(3, n, n), 2), {}),
    ("Torch.matrix_power", lambda n: (torch.randn(n, n), 3), {}),
    ("Aten.linalg_vector_norm", lambda n: (torch.randn(n, n),), {}),
]


@pytest.mark.parametrize("size", [3, 16, 40])
@pytest.mark.parametrize("call", ALGEBRA, ids=lambda call: call[0])
def test_linear_algebra(call: Any, size: int) -> None:
    op, make, kwargs = call
    for seed in range(2):
        torch.manual_seed(seed)
        assert_checked(op, make(size), kwargs)


@pytest.mark.parametrize("digits", [2, 4, 6, 8, 12])
def test_ill_conditioned_matrices_raise_no_alarm(digits: int) -> None:
    torch.manual_seed(digits)
    for size in (4, 20):
        given = conditioned(size, digits)
        for op, args in (
            ("Torch.inv", (given,)),
            ("Torch.solve", (given, torch.randn(size, 2))),
            ("Torch.slogdet", (given,)),
        ):
            spec, arguments, outputs = run(op, args, {})
            try:
                checked = replay.check_call(spec, arguments, outputs)
            except Unchecked as problem:
                assert digits > 4
                assert "ill-conditioned" in problem.reason
                continue
            for each in checked.values():
                assert isinstance(each, Checked)
                assert not each.score.is_wrong, (op, size, each.score)


def test_a_wrong_inverse_of_an_ill_conditioned_matrix_is_found() -> None:
    torch.manual_seed(0)
    given = conditioned(20, 4)
    spec, arguments, outputs = run("Torch.inv", (given,), {})
    found = replay.check_call(spec, arguments, {"0": outputs["0"] * 1.1})["0"]
    assert isinstance(found, Checked)
    assert found.score.is_wrong


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_norms_of_narrow_types(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    given = torch.randn(12, 40).to(dtype)
    for op, kwargs in (
        ("Torch.vector_norm", {"dim": -1}),
        ("Torch.matrix_norm", {}),
        ("Torch.norm", {"dim": 1}),
    ):
        assert_checked(op, (given,), kwargs)


def test_functions_of_two_places_with_the_same_op() -> None:
    torch.manual_seed(0)
    given = torch.randn(2, 3, 4)
    cases: list[tuple[str, Any, tuple[Any, ...]]] = [
        ("Torch.norm", torch.norm, (given[0], 2)),
        ("Torch.norm", torch.linalg.norm, (given[0], 2)),
        ("Torch.diagonal", torch.diagonal, (given,)),
        ("Torch.diagonal", torch.linalg.diagonal, (given,)),
        ("Torch.cross", torch.linalg.cross, (torch.randn(3, 3), torch.randn(3, 3))),
    ]
    for op, function, args in cases:
        spec = table.find(op)
        assert isinstance(spec, table.Spec)
        result = function(*args)
        for factor, wrong in ((1.0, False), (1.01, True)):
            found = replay.check_call(spec, Arguments(args, {}), {"0": result * factor})
            each = found["0"]
            assert isinstance(each, Checked)
            assert each.score.is_wrong == wrong, (op, function)


def test_decompositions_with_several_correct_results_are_not_checked() -> None:
    for name in ("qr", "svd", "eigh", "lu"):
        assert table.find(f"Torch.{name}") == table.Refusal(table.AMBIGUOUS_REASON)
        assert isinstance(table.find(f"Aten.linalg_{name}"), table.Refusal)


GRADIENTS: list[tuple[str, Any, tuple[Any, ...]]] = [
    ("Torch.inv", torch.linalg.inv, (torch.randn(9, 9),)),
    ("Torch.solve", torch.linalg.solve, (torch.randn(9, 9), torch.randn(9, 2))),
    ("Torch.norm", torch.linalg.norm, (torch.randn(9, 9), 2)),
    ("Torch.fft.rfft", torch.fft.rfft, (torch.randn(4, 20),)),
    ("Torch.fft.irfft", torch.fft.irfft, (z(4, 11),)),
]


@pytest.mark.parametrize("call", GRADIENTS, ids=lambda call: call[0])
def test_gradients(call: Any) -> None:
    op, function, args = call
    spec = table.find(op)
    assert isinstance(spec, table.Spec)
    given = args[0].clone().requires_grad_()
    result = function(given, *args[1:])
    grads = {"0": torch.randn_like(result)}
    (found,) = torch.autograd.grad(result, given, grads["0"])
    outputs = {"0": result.detach()}
    for factor, wrong in ((1.0, False), (1.01, True)):
        wanted = {"0": found.resolve_conj() * factor}
        each = replay.check_gradients(
            spec, Arguments(args, {}), outputs, grads, wanted
        )["0"]
        assert isinstance(each, Checked)
        assert each.score.is_wrong == wrong, each.score


FP8 = torch.float8_e4m3fn


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, FP8])
@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("is_fast", [False, True])
def test_scaled_products(dtype: torch.dtype, by_row: bool, is_fast: bool) -> None:
    for seed, (m, k, n) in enumerate(((16, 32, 16), (17, 256, 48), (1, 1024, 16))):
        torch.manual_seed(seed)
        a, b = torch.randn(m, k).to(FP8), torch.randn(n, k).to(FP8).t()
        scales = (torch.tensor(0.3), torch.tensor(0.7))
        if by_row:
            scales = (torch.rand(m, 1) + 0.1, torch.rand(1, n) + 0.1)
        kwargs = {"out_dtype": dtype, "use_fast_accum": is_fast}
        assert_checked("Torch._scaled_mm", (a, b, *scales), kwargs)


def test_scaled_products_with_the_wrong_scale_of_a_row() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(16, 32).to(FP8), torch.randn(16, 32).to(FP8).t()
    scales = torch.rand(16, 1) + 0.1, torch.rand(1, 16) + 0.1
    kwargs = {"out_dtype": torch.bfloat16}
    spec, arguments, outputs = run("Aten._scaled_mm", (a, b, *scales), kwargs)
    outputs["0"][3] *= scales[0][4] / scales[0][3]
    found = replay.check_call(spec, arguments, outputs)["0"]
    assert isinstance(found, Checked)
    assert found.score.is_wrong
    blocks = (torch.rand(16, 2), torch.rand(2, 16))
    with pytest.raises(Unchecked, match="form of the function"):
        replay.check_call(spec, Arguments((a, b, *blocks), kwargs), outputs)


def test_results_of_eight_bits_saturate() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(16, 32).to(FP8), torch.randn(16, 32).to(FP8).t()
    args = (a, b, torch.tensor(100.0), torch.tensor(1.0))
    spec, arguments, outputs = run("Torch._scaled_mm", args, {"out_dtype": FP8})
    largest = float(torch.finfo(FP8).max)
    assert bool((outputs["0"].float().abs() == largest).any())
    found = replay.check_call(spec, arguments, outputs)["0"]
    assert isinstance(found, Checked)
    assert not found.score.is_wrong, found.score
    flipped = {"0": (-outputs["0"].float()).to(FP8)}
    found = replay.check_call(spec, arguments, flipped)["0"]
    assert isinstance(found, Checked)
    assert found.score.is_wrong
