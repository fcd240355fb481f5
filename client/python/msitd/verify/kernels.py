"""Roundings inside of kernels that no disturbance of the arguments shows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msitd.verify import trees
from msitd.verify.arguments import Arguments
from msitd.verify.table import Spec

if TYPE_CHECKING:
    import torch

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
