"""Roundings inside of kernels that no disturbance of the arguments shows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msitd.verify import references, trees
from msitd.verify.arguments import Arguments
from msitd.verify.table import Spec

if TYPE_CHECKING:
    import torch

# Functions whose kernels round each product or step to the type of the result, with the
# number of these roundings.
_STEPS = {"addmv": 1, "addr": 2, "cross": 3, "instance_norm": 4, "prod": 4}
_ADDING = ("index_add", "index_put", "scatter_add", "scatter_reduce")

_DIFFERENCES = frozenset(["add", "sub", "subtract", "rsub"])


def products_between(
    spec: Spec, wide: Arguments, result: torch.Tensor
) -> torch.Tensor | None:
    """Returns the absolute values of the products that a function of single elements
    rounds before its last step. None if it has only one step.

    Args:
        spec: The function.
        wide: Its arguments in float64.
        result: The exact result.
    """
    if spec.plain in _DIFFERENCES:
        factor = wide.kwargs.get("alpha", 1)
        tensors = trees.tensors_of(wide)
        if factor == 1 or not isinstance(factor, (int, float, complex)):
            return None
        at = 0 if spec.plain == "rsub" else 1
        if at >= len(tensors):
            # The other term is a number.
            return (result - tensors[0]).abs()
        return tensors[at].abs() * abs(factor)
    if result.dtype.is_complex and spec.plain in ("pow", "exp2"):
        return result.abs() * _exponents(spec, wide)
    return None


def _exponents(spec: Spec, wide: Arguments) -> torch.Tensor:
    """Returns the absolute values of the arguments of the exponential function from which
    powers of complex numbers are made.
    """
    import torch

    if spec.plain == "exp2":
        return trees.tensors_of(wide)[0].abs() * math.log(2)
    base, power = (
        torch.as_tensor(each, dtype=torch.complex128)
        for _, each in list(trees.leaves_of(wide))[:2]
    )
    if spec.name == "__rpow__":
        base, power = power, base
    exponents = power * base.log()
    return torch.nan_to_num(exponents.abs(), 0.0, 0.0, 0.0)


def narrow_roundings(spec: Spec, wide: Arguments) -> int:
    """Returns how often kernels for narrow types round an element to the type of the
    result before the last step, or more. 0 if they compute in float32.

    Kernels of the CPU add the products of overlapping windows, of the matrices of a
    batch and of equal indexes one by one to the result.
    """
    name, tensors = spec.plain, trees.tensors_of(wide)
    if name in _STEPS:
        return _STEPS[name]
    if name in ("multi_dot", "chain_matmul") or (name == "einsum" and len(tensors) > 2):
        return len(tensors)
    if name == "addbmm" and len(tensors) == 3:
        return len(tensors[1]) + 1
    if name == "bilinear":
        return int(tensors[0].shape[-1]) + 1
    if name == "fold":
        size = wide.args[2] if len(wide.args) > 2 else wide.kwargs.get("kernel_size")
        return math.prod(size) if isinstance(size, tuple) else int(size or 0) ** 2
    if name in _ADDING:
        return _repetitions(tensors) + 1
    if name in references.TRANSPOSED or (
        name == "convolution" and _is_transposed(wide)
    ):
        return math.prod(tensors[1].shape[2:]) + 1
    if name == "convolution_backward" and len(tensors) > 2:
        return max(len(tensors[0]), math.prod(tensors[2].shape[2:])) + 1
    return 0


def _is_transposed(wide: Arguments) -> bool:
    position = 6
    given = wide.args[position] if len(wide.args) > position else None
    return bool(wide.kwargs.get("transposed", given))


def _repetitions(tensors: list[torch.Tensor]) -> int:
    """Returns how often an index is given at most. Those of several dimensions may all
    be equal.
    """
    indexes = [each for each in tensors if not trees.is_real(each) and each.numel()]
    if len(indexes) != 1 or bool((indexes[0] < 0).any()):
        return max((each.numel() for each in indexes), default=0)
    return int(indexes[0].flatten().bincount().max())
