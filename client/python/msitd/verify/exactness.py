"""Checks results that are not rounded: moved, selected and compared elements."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msitd.verify import references, trees
from msitd.verify.arguments import Arguments
from msitd.verify.scores import EQUAL, OTHER_SHAPE, Checked, Score, score_equal
from msitd.verify.table import Kind
from msitd.verify.unchecked import Unchecked

if TYPE_CHECKING:
    import torch

    from msitd.verify.table import Spec

    Tensors = Mapping[str, torch.Tensor]

# Results whose difference is a smaller part of them have the same elements.
_NEAR = 0.02


def check_exact(
    spec: Spec, arguments: Arguments, outputs: Tensors
) -> dict[str, Checked | Unchecked]:
    """Checks results that are known bit by bit."""
    import torch

    found = references.call(spec, arguments)
    out: dict[str, Checked | Unchecked] = {}
    for index, recorded in outputs.items():
        exact = found.get(index)
        if exact is None or exact.shape != recorded.shape:
            out[index] = mismatch(exact, recorded, has_fixed_shape(spec, index))
        elif exact.dtype != recorded.dtype:
            # Functions on tensors of integers may return floats of any dtype.
            out[index] = Checked(
                exact, score_equal(recorded.to(torch.float64), exact.to(torch.float64))
            )
        else:
            out[index] = Checked(exact, score_equal(recorded, exact))
    return out


def mismatch(
    exact: torch.Tensor | None, recorded: torch.Tensor, is_fixed: bool
) -> Checked | Unchecked:
    """Returns the outcome for a recorded result that has not the shape of the exact one.

    It is wrong if it has the elements of the exact result, apart from some that are
    missing or too many. Otherwise it may be correct: in a vmap, arguments and results
    are recorded with the dimension of the batch, of which the function is not aware.

    Args:
        exact: The exact result. None if the function has no such result.
        recorded: The recorded result.
        is_fixed: See `has_fixed_shape`.
    """
    if exact is None:
        return Unchecked("its recorded results are not those of the function")
    shapes = f"{tuple(recorded.shape)} instead of {tuple(exact.shape)}"
    if not (is_fixed and _has_same_elements(recorded, exact)):
        reason = "its result has another shape than the function returns"
        return Unchecked(reason, shapes)
    score = Score(math.inf, math.inf, (), EQUAL, OTHER_SHAPE + shapes)
    return Checked(exact, score)


def has_fixed_shape(spec: Spec, index: str) -> bool:
    """Returns whether a result has the same shape with all kernels and versions of torch.

    That of internal functions depends on the kernel, and hooks may change the result
    of a module.
    """
    name = spec.plain
    if spec.of_module or name.startswith(("_", "native_")) or "_backward" in name:
        return False
    return index == "0" or spec.kind in (Kind.EXACT, Kind.CHOICE)


def _has_same_elements(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Returns whether two tensors have the same elements, apart from rounding, in another
    shape, or one of them has more indexes of one dimension.
    """
    if first.numel() > second.numel():
        first, second = second, first
    if first.numel() == 0 or bool((first == first.flatten()[0]).all()):
        return False
    if first.numel() == second.numel():
        return bool(_are_near(first.reshape(1, -1), second.reshape(1, -1)).all())
    import torch

    differing = [
        dim
        for dim, pair in enumerate(zip(first.shape, second.shape, strict=False))
        if len({*pair}) > 1
    ]
    if first.dim() != second.dim() or len(differing) != 1:
        return False
    some, every = (
        each.movedim(differing[0], 0).reshape(each.shape[differing[0]], -1)
        for each in (first, second)
    )
    count, missing = len(some), len(every) - len(some)
    # The rows before the missing ones, and those after them.
    is_same = _are_near(some, every[:count])
    before = count if bool(is_same.all()) else int(is_same.to(torch.uint8).argmin())
    return bool(_are_near(some[before:], every[before + missing :]).all())


def _are_near(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Returns which rows of two matrices are equal apart from rounding."""
    import torch

    is_complex = first.dtype.is_complex or second.dtype.is_complex
    wide = torch.complex128 if is_complex else torch.float64
    first, second = (torch.nan_to_num(each.to(wide)) for each in (first, second))
    size = torch.linalg.vector_norm(second, dim=1)
    return torch.linalg.vector_norm(first - second, dim=1) <= size * _NEAR


def check_choice(
    spec: Spec, arguments: Arguments, outputs: Tensors
) -> dict[str, Checked | Unchecked]:
    """Checks the values and the positions that a function has selected.

    Positions of equal elements may differ from those that torch selects here. They
    are right if the elements at them are the selected ones.
    """
    import torch

    found = references.call(spec, arguments)
    out = check_exact(spec, arguments, outputs)
    wrong = [
        index
        for index, each in out.items()
        if isinstance(each, Checked)
        and each.score.is_wrong
        and each.golden.shape == outputs[index].shape
    ]
    if not wrong or any(found[index].dtype != torch.int64 for index in wrong):
        return out
    if is_stable(spec, arguments):
        return out
    for index in wrong:
        chosen = _elements_at(spec, arguments, outputs[index])
        right = _elements_at(spec, arguments, found[index])
        if chosen is None or right is None:
            continue
        score = score_equal(chosen, right)
        is_order = spec.plain in ("sort", "argsort", "msort", "topk")
        if not score.is_wrong and not (
            is_order and _repeats(outputs[index], _dim_of(spec, arguments))
        ):
            out[index] = Checked(outputs[index], score)
    return out


def is_stable(spec: Spec, arguments: Arguments) -> bool:
    """Returns whether a function keeps the order of equal elements."""
    return spec.plain in ("sort", "argsort") and bool(arguments.kwargs.get("stable"))


def _elements_at(
    spec: Spec, arguments: Arguments, positions: torch.Tensor
) -> torch.Tensor | None:
    """Returns the elements of the first argument at positions along the dimension
    that a function reduces; None if that is not known.
    """
    import torch

    tensors = trees.tensors_of(arguments)
    x = tensors[0]
    dim = _dim_of(spec, arguments)
    if "pool" in spec.plain:
        # Positions are those in the last dimensions, 2 of them for `max_pool2d`.
        count = int(spec.plain.partition("pool")[2][0])
        flat, where, dim = x.flatten(-count), positions.flatten(-count), -1
    elif dim is None and spec.plain in ("argmax", "argmin"):
        flat, where, dim = x.flatten(), positions.reshape(1), 0
    else:
        dim = -1 if type(dim) is not int else dim
        flat = x
        where = positions
        if positions.dim() < x.dim():
            where = positions.unsqueeze(dim)
    if bool(((where < 0) | (where >= flat.shape[dim])).any()):
        return None
    try:
        return torch.gather(flat, dim, where)
    except RuntimeError:
        return None


def _dim_of(spec: Spec, arguments: Arguments) -> Any:
    """Returns the argument `dim` of a function that selects; None without it."""
    order = "input k dim" if spec.plain in ("topk", "kthvalue") else "input dim"
    given = Arguments(arguments.args[:3], arguments.kwargs)
    return trees.named(given, order + " a b c").get("dim")


def _repeats(positions: torch.Tensor, dim: Any) -> bool:
    """Returns whether an order has a position twice along its dimension."""
    import torch

    if positions.dim() == 0:
        return False
    at = dim if type(dim) is int else -1
    ordered = torch.sort(positions, at).values
    return bool((ordered.diff(dim=at) == 0).any())
