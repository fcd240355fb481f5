"""Puts recorded tensors in the place of those that a program computes."""

from __future__ import annotations

from typing import Any


class UnfitError(Exception):
    """A tensor cannot stand for another one; the text says why."""


def replacement(value: Any, recorded: Any, keeps_gradient: bool) -> Any:
    """Returns `recorded` as what a module is given in place of `value`.

    Args:
        value: A tensor of the program.
        recorded: A tensor on any device.
        keeps_gradient: Whether the gradient of the result goes to `value`. If not,
            the result is a leaf, and nothing before it has a gradient of it.

    Raises:
        UnfitError: The shapes or dtypes differ.
    """
    # Who has a tensor has torch.
    import torch

    if recorded.shape != value.shape or recorded.dtype != value.dtype:
        raise UnfitError(
            f"it was {recorded.dtype} {tuple(recorded.shape)}, and is "
            f"{value.dtype} {tuple(value.shape)}"
        )
    recorded = recorded.to(value.device)
    if not value.requires_grad:
        return recorded
    if not keeps_gradient:
        return recorded.clone().requires_grad_(True)

    class Replaced(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, original: torch.Tensor) -> torch.Tensor:
            return recorded.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return gradients[0]

    return Replaced.apply(value)
