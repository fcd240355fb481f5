"""Replaces tensors that a program computes by recorded ones."""

from __future__ import annotations

from typing import Any


class UnfitError(Exception):
    """A tensor cannot replace another one; the text states the reason."""


def replacement(value: Any, recorded: Any, keeps_gradient: bool) -> Any:
    """Returns `recorded` in the form that a module receives instead of `value`.

    Args:
        value: A tensor of the program.
        recorded: A tensor on any device.
        keeps_gradient: Whether the gradient of the result flows to `value`. If
            not, the result is a leaf, and nothing before it receives a gradient
            from it.

    Raises:
        UnfitError: The shapes or dtypes differ.
    """
    # torch is installed, since there is a tensor.
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
