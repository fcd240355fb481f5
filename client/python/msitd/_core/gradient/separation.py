"""Gives each argument and each result of a module a gradient of its own.

A module may be given one tensor several times, as self-attention is. Autograd then
adds the gradients of all uses. If each argument is a view of the tensor, each has the
gradient of its own uses. It is the same with results, which may be computed from one
another.
"""

from __future__ import annotations

import itertools
from typing import Any

from msitd._core.skips import is_in_backward

# Deeper nesting is not searched.
_DEPTH_MAX = 16


class Separation:
    """Replaces repeated arguments by views, for the modules of one model.

    A checkpoint must repeat a call with arguments of the same kind, or torch finds
    that other tensors are saved. Any thread may use it.
    """

    def __init__(self) -> None:
        # torch is installed, since there is a module.
        import torch

        self._tensor_type = torch.Tensor
        self._is_enabled = torch.is_grad_enabled
        # Ops whose last call outside a backward was given views.
        self._separated: set[str] = set()

    def of_call(
        self, op: str, args: tuple[Any, ...], is_recorded: bool
    ) -> tuple[Any, ...] | None:
        """Returns the arguments that the module is to be given; None for `args`.

        Args:
            is_recorded: Whether the call and its gradients are recorded.
        """
        is_again = is_in_backward()
        if is_again:
            is_recorded = op in self._separated
        views = self._views_of(args) if is_recorded else None
        if not is_again:
            if views is not None:
                self._separated.add(op)
            else:
                self._separated.discard(op)
        return views

    def of_result(self, result: Any) -> Any:
        """Returns the result that the module is to return.

        If it holds several tensors, each of them is a view, because one of them may be
        computed from another.
        """
        if isinstance(result, self._tensor_type):
            return result
        if self._count(result, 0) < 2:
            return result
        return self._replaced(result, 0)

    def _views_of(self, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if len(args) < 2 or not self._is_enabled():
            return None
        places: dict[int, list[int]] = {}
        for position, each in enumerate(args):
            if isinstance(each, self._tensor_type) and each.requires_grad:
                places.setdefault(id(each), []).append(position)
        repeated = [each for each in places.values() if len(each) > 1]
        if not repeated:
            return None
        views = list(args)
        # Autograd adds the gradient of the last view first.
        for position in sorted(itertools.chain(*repeated), reverse=True):
            views[position] = views[position].view_as(views[position])
        return tuple(views)

    def _needs_gradient(self, value: Any) -> bool:
        return (
            isinstance(value, self._tensor_type)
            and value.requires_grad
            and value.grad_fn is not None
        )

    def _count(self, value: Any, depth: int) -> int:
        if self._needs_gradient(value):
            return 1
        return sum(self._count(each, depth + 1) for each in _members_of(value, depth))

    def _replaced(self, value: Any, depth: int) -> Any:
        if self._needs_gradient(value):
            return value.view_as(value)
        if depth >= _DEPTH_MAX:
            return value
        if type(value) in (tuple, list):
            return type(value)(self._replaced(each, depth + 1) for each in value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self._replaced(each, depth + 1) for each in value))
        if isinstance(value, dict):
            # A dict of another class may have attributes, so it remains the same.
            made = {} if type(value) is dict else value
            for key, each in list(value.items()):
                made[key] = self._replaced(each, depth + 1)
            return made
        return value


def _members_of(value: Any, depth: int) -> list[Any]:
    if depth >= _DEPTH_MAX:
        return []
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, (list, tuple)) else []
