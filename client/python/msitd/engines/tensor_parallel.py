"""How tensors of Megatron-core's parallel layers are placed on the ranks of a group."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msitd._core.leaf.placement import describe_mesh
from msitd._core.module.wrappers import PLAIN

if TYPE_CHECKING:
    from msitd._core.leaf.leaves import Placements

# Placement of a tensor that every rank of the group holds in full.
_WHOLE = None
_LAST = -1
_FIRST = 0

# Op, io, index.
_Place = tuple[str, str, str]


def placements_of(model: Any, op_of: Callable[[str], str]) -> Placements | None:
    """Returns a function that returns the placement of a tensor by op, io,
    index and tensor.

    Returns None if no group of ranks shares a layer. The function returns None
    for tensors whose placement is unknown. These are the tensors of gated
    layers, whose ranks have a piece of each half, the tensors of experts, and
    all activations except those of the parallel layers.
    """
    found: dict[_Place, tuple[str, int | None]] = {}
    for name, module in PLAIN.named_modules(model):
        mesh = _mesh_of(module)
        if mesh is None:
            continue
        op = op_of(name)
        for side, cut in _cuts(module, name):
            found[(op, *side)] = (mesh, cut)
        # Parameters outside parallel layers are complete on each rank that runs
        # them.
        for index, parameter in module.named_parameters(recurse=False):
            cut = _cut_of(parameter)
            if _is_uneven(module, name) and cut is not _WHOLE:
                continue
            # Parts of an expert belong to another group.
            if getattr(parameter, "allreduce", True) is False:
                continue
            found[op, "weight", index] = (mesh, cut)
            # Each rank has the sum over its part of the sequence.
            if not getattr(parameter, "sequence_parallel", False):
                found[op, "grad_weight", index] = (mesh, cut)
    if not found:
        return None
    return functools.partial(_placement, found)


def _placement(
    found: dict[_Place, tuple[str, int | None]],
    op: str,
    io: str,
    index: str,
    tensor: Any,
) -> str | None:
    known = found.get((op, io, index))
    if known is None:
        return None
    mesh, cut = known
    if cut is _WHOLE:
        return f"{mesh}:R"
    count = tensor.dim()
    return f"{mesh}:S({cut % count})" if count > 0 else None


def _mesh_of(module: Any) -> str | None:
    """Returns the ranks that share a module, as the first part of a placement;
    None if none do.
    """
    group = getattr(module, "tp_group", None)
    if group is None:
        group = _default_group()
    if group is None or getattr(module, "is_expert", False):
        return None
    return _mesh_text(group)


@functools.lru_cache(maxsize=64)
def _mesh_text(group: Any) -> str | None:
    from torch import distributed

    ranks = distributed.get_process_group_ranks(group)
    if len(ranks) < 2:
        return None
    described = describe_mesh((len(ranks),), ranks)
    if described is None:
        return None
    first, (stride,) = described
    return f"{first}+{len(ranks)}/{stride}"


def _default_group() -> Any:
    state = sys.modules.get("megatron.core.parallel_state")
    if state is None or not state.model_parallel_is_initialized():
        return None
    return state.get_tensor_model_parallel_group(check_initialized=False)


def _cut_of(parameter: Any) -> int | None:
    """Returns the dimension along which a parameter is split."""
    if not getattr(parameter, "tensor_model_parallel", False):
        return _WHOLE
    dim = int(getattr(parameter, "partition_dim", -1))
    return dim if dim >= 0 else _WHOLE


def _is_uneven(module: Any, name: str) -> bool:
    """Returns whether ranks have pieces of each half of a gated layer."""
    config = getattr(module, "config", None)
    is_gated = bool(getattr(config, "gated_linear_unit", False))
    return is_gated and name.rpartition(".")[2] == "linear_fc1"


def _cuts(module: Any, name: str) -> list[tuple[tuple[str, str], int | None]]:
    """Returns how the activations of a parallel layer are split, by io and index."""
    names = {kind.__name__ for kind in type(module).__mro__}
    whole = _FIRST if getattr(module, "sequence_parallel", False) else _WHOLE
    if "ColumnParallelLinear" in names:
        result = _WHOLE if getattr(module, "gather_output", False) else _LAST
        sides: dict[tuple[str, str], int | None] = {("input", "0"): whole}
        if not _is_uneven(module, name):
            sides["output", "0"] = result
            # A bias that the next layer adds.
            sides["output", "1"] = _FIRST
    elif "RowParallelLinear" in names:
        is_cut = getattr(module, "input_is_parallel", False)
        sides = {
            ("input", "0"): _LAST if is_cut else _WHOLE,
            ("output", "0"): whole,
            ("output", "1"): _WHOLE,
        }
    elif "VocabParallelEmbedding" in names:
        is_cut = getattr(module, "reduce_scatter_embeddings", False)
        sides = {("input", "0"): _WHOLE, ("output", "0"): _FIRST if is_cut else _WHOLE}
    else:
        return []
    gradients = {(f"grad_{io}", index): cut for (io, index), cut in sides.items()}
    return [*sides.items(), *gradients.items()]
