"""Gradients with the roundings that no disturbance of the arguments shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from msitd.verify import trees


def softmax(
    x: torch.Tensor,
    dim: int,
    steps: trees.Disturbance | None,
    *,
    roundoff: float = 1.0,
    terms: Sequence[torch.Tensor] = (),
) -> torch.Tensor:
    """A softmax whose gradient has roundings if `steps` is given.

    The gradient is p (g - sum of p g). Where p is nearly 1, the difference cancels, and
    so do roundings of the arguments in it, but not those of the sum.

    Args:
        x: The argument.
        dim: The dimension of the sum.
        steps: Disturbs the gradient.
        roundoff: The unit roundoff in which it is computed, if `steps` are larger.
        terms: If g is a sum, the norm of its terms, which is known when the gradient
            is computed.
    """
    import torch

    if steps is None or not x.requires_grad:
        return torch.softmax(x, dim)
    size = torch.zeros_like(x)
    given = seen(x, lambda grad: grad + steps.rounding(size, roundoff))
    out = torch.softmax(given, dim)
    # Exponentials below the smallest number are 0.
    weights = out.detach() + torch.finfo(torch.float32).tiny

    def keep(grad: torch.Tensor) -> torch.Tensor:
        sizes = grad.abs().maximum(terms[0]) if terms else grad.abs()
        products = (weights * sizes).sum(dim, keepdim=True)
        size.copy_(weights * (sizes + products))
        return grad

    return seen(out, keep)


def seen(
    value: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """Returns the same tensor, of which `change` makes the gradient."""
    import torch

    class Seen(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, given: torch.Tensor) -> torch.Tensor:
            return given.view_as(given)

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return change(grad)

    made: torch.Tensor = Seen.apply(value)
    return made
