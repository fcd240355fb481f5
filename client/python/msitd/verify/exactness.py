"""Checks results that are not rounded: moved, selected and compared elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msitd.verify import references, trees
from msitd.verify.arguments import Arguments
from msitd.verify.scores import Checked, score_equal
from msitd.verify.unchecked import Unchecked

if TYPE_CHECKING:
    import torch

    from msitd.verify.table import Spec

    Tensors = Mapping[str, torch.Tensor]


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
            out[index] = mismatch(exact, recorded)
        elif exact.dtype != recorded.dtype:
            # Functions on tensors of integers may return floats of any dtype.
            out[index] = Checked(
                exact, score_equal(recorded.to(torch.float64), exact.to(torch.float64))
            )
        else:
            out[index] = Checked(exact, score_equal(recorded, exact))
    return out


def mismatch(exact: torch.Tensor | None, recorded: torch.Tensor) -> Unchecked:
    """Returns why a recorded result is not compared with the exact one."""
    if exact is None:
        return Unchecked("its recorded results are not those of the function")
    return Unchecked(
        "its result has another shape than the function returns",
        f"{tuple(recorded.shape)} instead of {tuple(exact.shape)}",
    )


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
        if isinstance(each, Checked) and each.score.is_wrong
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
    return references.named(given, order + " a b c").get("dim")


def _repeats(positions: torch.Tensor, dim: Any) -> bool:
    """Returns whether an order has a position twice along its dimension."""
    import torch

    if positions.dim() == 0:
        return False
    at = dim if type(dim) is int else -1
    ordered = torch.sort(positions, at).values
    return bool((ordered.diff(dim=at) == 0).any())
