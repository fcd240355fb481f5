"""How the leaves of a call are named, and which gradients it has.

`PLAIN` is the way of msitd. Faces of other tools have forms of their own, so that
their users find the names and numbers that they know.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from msitd._core.leaf.walk import (
    tensors_given,
    tensors_returned,
    walk_arguments,
    walk_result,
)

Leaves = Iterable[tuple[str, Any]]


class Form(Protocol):
    """Names the leaves of calls. Any thread may call it.

    Attributes:
        has_node_gradients: Whether a function has the gradients that the autograd
            node of its result receives and returns. Otherwise it has those of its
            results and of its arguments.
        separates_arguments: Whether a tensor that a module is given several times
            has one gradient for each time, and each of several results its own. The
            module then receives and returns views.
        has_null_gradients: Whether a module records None for a gradient that a
            backward does not compute, and for a result that is None.
        has_accumulated_gradients: Whether the gradient of a parameter is recorded
            after a backward has added to it, if its module was called. Otherwise,
            only the part that the backward adds is recorded.
        records_repeats: Whether the calls that a checkpoint repeats are recorded.
        shows_in_place: Whether the result of a function that returns None is its
            arguments, which it may have changed.
    """

    has_node_gradients: bool
    separates_arguments: bool
    has_null_gradients: bool
    has_accumulated_gradients: bool
    records_repeats: bool
    shows_in_place: bool

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Leaves:
        """Yields the tensors and values in the arguments of a call, by name."""

    def result(self, result: Any) -> Leaves:
        """Yields the tensors and values in the result of a call, by name."""

    def tensors_given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Leaves:
        """Yields the tensors in the arguments that may have a gradient, by its name."""

    def tensors_returned(self, result: Any) -> Leaves:
        """Yields the tensors in the result that may have a gradient, by its name."""


class PlainForm:
    """The form of msitd: see walk.py."""

    has_node_gradients = False
    separates_arguments = False
    has_null_gradients = False
    has_accumulated_gradients = False
    records_repeats = False
    shows_in_place = True

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Leaves:
        """See Form."""
        return walk_arguments(args, kwargs, _tensor_type(), True)

    def result(self, result: Any) -> Leaves:
        """See Form."""
        return walk_result(result, _tensor_type(), True)

    def tensors_given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Leaves:
        """See Form."""
        return tensors_given(args, kwargs, _tensor_type())

    def tensors_returned(self, result: Any) -> Leaves:
        """See Form."""
        return tensors_returned(result, _tensor_type())


PLAIN_FORM = PlainForm()


def _tensor_type() -> Any:
    # torch is installed, since there is a call to record.
    import torch

    return torch.Tensor
