"""Wrong versions of functions of torch, for `Plot.break_kernel`.

Each receives the correct function, and then the arguments of the call.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

Wrong = Callable[..., Any]


def changed(change: Callable[[Tensor], Tensor]) -> Wrong:
    """Returns a version that changes a copy of the result."""

    def wrong(plain: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        return change(plain(*args, **kwargs).clone())

    return wrong


def stale() -> Wrong:
    """Returns a version whose result is that of its previous call.

    A result of another shape is correct.
    """
    last: list[Tensor] = []

    def wrong(plain: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        y = plain(*args, **kwargs)
        held = last[0] if last and last[0].shape == y.shape else y
        last[:] = [y.clone()]
        return held.clone()

    return wrong


def without_bias(
    plain: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Any = None
) -> Tensor:
    """A linear function without its bias."""
    return plain(x, weight)


def zero_rows(size: int) -> Wrong:
    """Returns a version that does not write the last row of each tile."""

    def change(y: Tensor) -> Tensor:
        y.view(-1, y.shape[-1])[size - 1 :: size] = 0
        return y

    return changed(change)
