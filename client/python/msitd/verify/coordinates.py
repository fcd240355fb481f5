"""Roundings of the coordinates at which a function reads its argument.

Kernels compute the coordinate of each element in float32. Its error is relative to the
coordinate, and thus some units of the length of the dimension, and changes the result by
the difference of neighboring elements. No rounding of an element shows that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msitd.verify import trees
from msitd.verify.arguments import Arguments
from msitd.verify.table import Spec

if TYPE_CHECKING:
    import torch

# The parameters of the functions, in their order.
_RESIZE = "input size scale_factor mode align_corners recompute_scale_factor antialias"
_RESIZING = {
    "interpolate": _RESIZE,
    "upsample": "input size scale_factor mode align_corners",
    "upsample_bilinear": "input size scale_factor",
}
_SAMPLING = {
    "grid_sample": "input grid mode padding_mode align_corners",
    "grid_sampler": "input grid interpolation_mode padding_mode align_corners",
}
_GRID = "theta size align_corners"
_INTERPOLATING = ("linear", "bilinear", "bicubic", "trilinear")
_FLOAT32_ROUNDOFF = 2.0**-24
# Roundings of a coordinate and of the weights that are made from it.
_ROUNDINGS = 2.0


def disturbed(
    spec: Spec, given: Arguments, result: torch.Tensor, steps: trees.Disturbance
) -> torch.Tensor:
    """Returns the result of a function with disturbed coordinates; that of a function
    without coordinates as it is.

    Args:
        spec: The function.
        given: Its arguments.
        result: Its result.
        steps: The disturbance.
    """
    import torch

    if spec.plain in _RESIZING:
        return _resized(spec, given, result, steps)
    if spec.plain in _SAMPLING:
        at = trees.named(given, _SAMPLING[spec.plain])
        # A coordinate is made from the distance to a border, which is at -1.
        sizes = (1 + at["grid"].detach().abs()) * _ROUNDINGS
        at["grid"] = at["grid"] + steps.rounding(sizes, 1.0)
        if spec.plain == "grid_sample":
            moved: torch.Tensor = spec.function(**at)
            return moved
        return spec.function(*at.values())
    if spec.plain == "affine_grid":
        theta = trees.named(given, _GRID)["theta"]
        ones = torch.ones(result.shape, dtype=torch.float64)
        errors = steps.rounding(ones * _ROUNDINGS, 1.0).flatten(1, -2)
        return result + (errors @ theta[..., :-1].mT).reshape(result.shape)
    return result


def _resized(
    spec: Spec, given: Arguments, result: torch.Tensor, steps: trees.Disturbance
) -> torch.Tensor:
    """Returns the result of a function that resizes, with disturbed coordinates. A tensor
    that is shifted by one has the elements that are read at coordinates off by one.
    """
    import torch

    at = trees.named(given, _RESIZING[spec.plain])
    mode = "bilinear" if spec.plain == "upsample_bilinear" else at.get("mode")
    x = at["input"]
    if mode not in _INTERPOLATING:
        return result
    out = result
    for dim in range(2, x.dim()):
        length, count = x.shape[dim], result.shape[dim]
        if length == 1 or (length == count and at.get("scale_factor") is None):
            continue
        places = torch.arange(1, count + 1, dtype=torch.float64) * (length / count)
        shape = [count if each == dim else 1 for each in range(x.dim())]
        sizes = (places.reshape(shape) * _ROUNDINGS).expand(result.shape)
        first, last = x.narrow(dim, 0, 1), x.narrow(dim, length - 1, 1)
        rest = length - 1
        for pieces in (
            (x.narrow(dim, 1, rest), last),
            (first, x.narrow(dim, 0, rest)),
        ):
            moved = spec.function(**{**at, "input": torch.cat(pieces, dim)})
            out = out + (moved - result) * steps.rounding(sizes, _FLOAT32_ROUNDOFF)
    return out
