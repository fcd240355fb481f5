"""The input tensors of a call, as nodes and edges of the graph of autograd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

# An edge of the graph: the node that made a tensor, and the number of its
# result.
_Edge = tuple[Any, int]


class View(NamedTuple):
    """Position of a view in its base."""

    base_shape: tuple[int, ...]
    base_stride: tuple[int, ...]
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def of(self, gradient: torch.Tensor) -> torch.Tensor:
        """Returns the gradient of the view, from the gradient of its base."""
        gradient = gradient.detach()
        if gradient.stride() != self.base_stride:
            other = gradient.new_empty_strided(self.base_shape, self.base_stride)
            gradient = other.copy_(gradient)
        return gradient.as_strided(
            self.shape, self.stride, gradient.storage_offset() + self.offset
        )


class Inputs(NamedTuple):
    """The input tensors of a call in the graph of autograd."""

    # Nodes that the call creates have this number or a higher one.
    first_number: int
    # Indexes of each tensor.
    indexes: list[list[str]]
    # Positions in `indexes`, by the edge through which gradients arrive. A view
    # that is changed in place has the edge of its base.
    edges: dict[_Edge, list[tuple[int, View | None]]]


def add_input(inputs: Inputs, index: str, tensor: torch.Tensor) -> None:
    edge = _edge_of(tensor)
    for position, view in inputs.edges.get(edge, ()):
        if view is None:
            inputs.indexes[position].append(index)
            return
    position = len(inputs.indexes)
    inputs.indexes.append([index])
    inputs.edges.setdefault(edge, []).append((position, None))
    base = tensor._base
    if base is not None and base.grad_fn is not None:
        places = inputs.edges.setdefault((base.grad_fn, base.output_nr), [])
        places.append((position, view_of(tensor, base)))


def view_of(tensor: torch.Tensor, base: torch.Tensor) -> View:
    return View(
        tuple(base.shape),
        tuple(base.stride()),
        tuple(tensor.shape),
        tuple(tensor.stride()),
        tensor.storage_offset() - base.storage_offset(),
    )


def _edge_of(tensor: torch.Tensor) -> _Edge:
    """Returns the edge of a tensor's gradient. torch 2.1 has no function for it."""
    node = tensor.grad_fn
    if node is None:
        # A leaf does not provide its node, but an operation that uses it does.
        node = tensor.view_as(tensor).grad_fn.next_functions[0][0]
    return node, tensor.output_nr
