"""Functions that read at coordinates: torch's results pass, and shifted ones do not."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from msitd.verify import replay
from msitd.verify.arguments import Arguments
from msitd.verify.scores import Checked
from replaying import DTYPES, FLOATS, is_float, run
from torch import Tensor

Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def resize(shape: tuple[int, ...], **kwargs: Any) -> Call:
    return "Functional.interpolate", (torch.randn(shape),), kwargs


def sample(mode: str, padding: str, corners: bool) -> Call:
    grid = torch.rand(1, 12, 15, 2) * 2.4 - 1.2
    args = (torch.randn(1, 3, 22, 19), grid, mode, padding, corners)
    return "Functional.grid_sample", args, {}


def center(mode: str, size: int) -> Call:
    grid = (torch.rand(1, 12, 15, 2) - 0.5) * 1e-3
    return (
        "Functional.grid_sample",
        (torch.randn(1, 2, size, size), grid, mode),
        {"align_corners": False},
    )


def volume(corners: bool) -> Call:
    grid = torch.rand(1, 4, 6, 5, 3) * 2.4 - 1.2
    args = (torch.randn(1, 2, 9, 7, 8), grid, "bilinear", "zeros", corners)
    return "Functional.grid_sample", args, {}


def grid(shape: tuple[int, ...], corners: bool) -> Call:
    size = len(shape) - 2
    args = (torch.randn(shape[0], size, size + 1), shape, corners)
    return "Functional.affine_grid", args, {}


CALLS: dict[str, Callable[[], Call]] = {
    "linear": lambda: resize((2, 3, 21), size=50, mode="linear"),
    "bilinear 14 to 37": lambda: resize((2, 3, 14, 14), size=(37, 37), mode="bilinear"),
    "bilinear 2.3": lambda: resize((1, 2, 15, 9), scale_factor=2.3, mode="bilinear"),
    "bilinear 0.6": lambda: resize((1, 2, 40, 31), scale_factor=0.6, mode="bilinear"),
    "bicubic 16 to 24": lambda: resize((1, 4, 16, 16), size=(24, 24), mode="bicubic"),
    "bicubic 64 to 200": lambda: resize(
        (1, 1, 64, 64), size=(200, 190), mode="bicubic"
    ),
    "bicubic corners": lambda: resize(
        (1, 2, 14, 17), size=(33, 21), mode="bicubic", align_corners=True
    ),
    "trilinear": lambda: resize((1, 2, 6, 7, 5), size=(9, 13, 8), mode="trilinear"),
    "antialias": lambda: resize(
        (1, 2, 37, 29), size=(15, 13), mode="bilinear", antialias=True
    ),
    "area": lambda: resize((1, 2, 23, 21), size=(7, 9), mode="area"),
    "grid": lambda: sample("bilinear", "zeros", False),
    "grid border": lambda: sample("bilinear", "border", True),
    "grid reflection": lambda: sample("bicubic", "reflection", False),
    "grid of the center": lambda: center("bilinear", 200),
    "grid of the center, bicubic": lambda: center("bicubic", 30),
    "grid of a volume": lambda: volume(True),
    "affine grid": lambda: grid((2, 3, 14, 17), True),
    "large affine grid": lambda: grid((1, 2, 81, 97), False),
    "affine grid of a volume": lambda: grid((1, 3, 6, 7, 5), False),
}


def score(call: Call, change: Callable[[Tensor], Tensor] | None = None) -> float:
    spec, arguments, outputs = run(*call)
    result = outputs["0"] if change is None else change(outputs["0"].clone())
    found = replay.check_call(spec, arguments, {"0": result})["0"]
    assert isinstance(found, Checked)
    return found.score.units


def gradient_score(call: Call, factor: float = 1.0) -> float:
    op, args, kwargs = call
    spec, arguments, _ = run(op, args, kwargs)
    given = [v.clone().requires_grad_() if is_float(v) else v for v in args]
    result = spec.function(*given, **kwargs)
    grad = torch.randn(result.shape).to(result.dtype)
    found = torch.autograd.grad(result, given[0], grad)[0]
    outputs, grads = {"0": result.detach()}, {"0": grad}
    arguments = Arguments(args, kwargs)
    outcome = replay.check_gradients(
        spec, arguments, outputs, grads, {"0": found * factor}
    )["0"]
    assert isinstance(outcome, Checked)
    return outcome.score.units


def cast_call(call: Call, dtype: torch.dtype) -> Call:
    op, args, kwargs = call
    return op, tuple(v.to(dtype) if is_float(v) else v for v in args), kwargs


@pytest.mark.parametrize("dtype", DTYPES, ids=FLOATS)
@pytest.mark.parametrize("name", CALLS)
def test_correct_results_and_gradients_pass(name: str, dtype: torch.dtype) -> None:
    for seed in range(6):
        torch.manual_seed(seed)
        call = cast_call(CALLS[name](), dtype)
        if name == "antialias" and dtype != torch.float32:
            pytest.skip("torch has no such kernel")
        assert score(call) < 2, seed
        assert gradient_score(call) < 2, seed


@pytest.mark.parametrize("name", CALLS)
def test_small_faults_are_found(name: str) -> None:
    def with_wrong_element(out: Tensor) -> Tensor:
        at = int(out.abs().argmax())
        out.view(-1)[at] *= 1.002
        return out

    for seed in range(3):
        torch.manual_seed(seed)
        call = CALLS[name]()
        assert score(call, lambda out: out * 1.0003) >= 2
        assert score(call, with_wrong_element) >= 2
        assert score(call, torch.neg) >= 2
        assert gradient_score(call, 1.001) >= 2


@pytest.mark.parametrize("dtype", DTYPES[:2], ids=FLOATS[:2])
def test_other_corners_modes_and_coordinates_are_found(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 3, 14, 14).to(dtype)
    size = {"size": (24, 24)}
    resizing = torch.nn.functional.interpolate
    for mode, other in (("bilinear", "bicubic"), ("bicubic", "bilinear")):
        call: Call = "Functional.interpolate", (x,), {**size, "mode": mode}
        results = (
            resizing(x, **size, mode=other),
            resizing(x, **size, mode=mode, align_corners=True),
            resizing(x, scale_factor=24.2 / 14, mode=mode),
        )
        for result in results:
            assert score(call, lambda _, result=result: result) >= 2
