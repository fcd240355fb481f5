"""Describes how a DTensor of torch is placed on the ranks of its job."""

from __future__ import annotations

import functools
import itertools
import re
from typing import Any

# The same as in protos/base/limits.h.
_MESH_DIMS_MAX = 8
_TEXT_BYTES_MAX = 256

_REDUCTION = re.compile("[a-z_]{1,16}")


def placement_of(tensor: Any) -> str | None:
    """Returns the placement of a DTensor in the format of `Client.record`.

    Returns None if it has no such format: the ranks of its mesh are not evenly
    spaced, the kind of sharding is unknown, or this process is not in the mesh.
    """
    mesh = getattr(tensor, "device_mesh", None)
    placements = getattr(tensor, "placements", None)
    if mesh is None or placements is None:
        return None
    try:
        if mesh.get_coordinate() is None:
            return None
        return _text(mesh, tuple(placements), tuple(tensor.shape))
    except (AttributeError, TypeError, ValueError, RuntimeError):
        # The classes are not public in every version of torch, and losing the
        # placement is better than losing the record.
        return None


@functools.lru_cache(maxsize=1024)
def _text(mesh: Any, placements: tuple[Any, ...], shape: tuple[int, ...]) -> str | None:
    ranks = mesh.mesh
    sizes = tuple(ranks.shape)
    described = describe_mesh(sizes, ranks.flatten().tolist())
    if described is None or len(placements) != len(sizes):
        return None
    first, strides = described
    order = _order_of_cuts(placements, sizes, shape)
    if order is None:
        return None
    words = [_word(placement, len(shape)) for placement in placements]
    if None in words:
        return None
    text = (
        f"{first}+{'x'.join(str(sizes[i]) for i in order)}"
        f"/{'x'.join(str(strides[i]) for i in order)}"
        f":{','.join(str(words[i]) for i in order)}"
    )
    return text if len(text) <= _TEXT_BYTES_MAX else None


def describe_mesh(
    sizes: tuple[int, ...], ranks: list[int]
) -> tuple[int, list[int]] | None:
    """Returns the first rank and the strides of a mesh, or None if a stride is
    uneven.
    """
    if not ranks or not 1 <= len(sizes) <= _MESH_DIMS_MAX:
        return None
    strides = []
    step = len(ranks)
    for size in sizes:
        step //= size
        strides.append(ranks[step] - ranks[0] if size > 1 else 1)
    # Each stride must be larger than the reach of all smaller strides together,
    # so that no two positions of the mesh are the same rank.
    reach = 0
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        if stride <= (reach if size > 1 else 0):
            return None
        reach += (size - 1) * stride
    for place, rank in zip(itertools.product(*map(range, sizes)), ranks, strict=True):
        if rank != ranks[0] + sum(i * s for i, s in zip(place, strides, strict=True)):
            return None
    return ranks[0], strides


def _order_of_cuts(
    placements: tuple[Any, ...], sizes: tuple[int, ...], shape: tuple[int, ...]
) -> list[int] | None:
    """Returns the dimensions of the mesh in the order in which they split the tensor.

    Usually this is their own order. A strided dimension (`split_factor`) splits
    after later dimensions that shard the same dimension of the tensor, so it is
    moved after the last of them. Returns None if the pieces are uneven, because
    then no order describes them.
    """
    strided = [i for i, p in enumerate(placements) if hasattr(p, "split_factor")]
    order = list(range(len(placements)))
    if not strided:
        return order
    (moved,) = strided
    dim = placements[moved].dim
    later = [
        i
        for i in order[moved + 1 :]
        if placements[i].is_shard() and placements[i].dim == dim
    ]
    pieces = 1
    for i in later:
        pieces *= sizes[i]
    # No order of splits produces uneven pieces.
    if pieces != placements[moved].split_factor or shape[dim] % (pieces * sizes[moved]):
        return None
    order.remove(moved)
    order.insert(order.index(later[-1]) + 1 if later else moved, moved)
    return order


def _word(placement: Any, dim_count: int) -> str | None:
    """Returns `R`, `S(0)` or `P(sum)`."""
    if placement.is_replicate():
        return "R"
    if placement.is_partial():
        # Subclasses need more than the reduction to be assembled into one
        # tensor.
        if type(placement).__name__ not in ("Partial", "_Partial"):
            return "P(masked)"
        reduction = str(placement.reduce_op).rpartition(".")[2].lower()
        return f"P({reduction})" if _REDUCTION.fullmatch(reduction) else None
    if hasattr(placement, "dim"):
        return f"S({placement.dim % dim_count})"
    return None
