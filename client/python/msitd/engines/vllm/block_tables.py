"""Reads which blocks of the key-value cache belong to the requests of a step.

The runner states the blocks of each request in its batch, and the backend of
attention in which dimensions of the cache they are. Without one of the two,
nothing is recorded, so that a cache is never cut at a guess.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msitd._core.cache_places import CachePages, CachePlaces, UnknownPlaces

# The name of the caches, and the prefix of those of single layers.
_NAME = "kv_cache"

# Sizes that no other dimension of a cache has, which identify the dimension of the
# blocks and that of the positions within a block.
_BLOCKS, _BLOCK_SIZE, _HEADS, _HEAD_SIZE = 1009, 48, 5, 64

_SLIDES = "it has a sliding window"
_IS_DIVIDED = "its positions are divided among ranks"
_IS_STATE = "it is a state, which has no positions"


def caches_of(runner: Any, ids: Iterable[str]) -> dict[str, dict[str, CachePlaces]]:
    """Returns the places of each request of a batch, by the names of caches.

    Args:
        runner: A model runner that has prepared its batch.
    """
    batch = getattr(runner, "input_batch", None)
    tables = getattr(getattr(batch, "block_table", None), "block_tables", None)
    rows = getattr(batch, "req_id_to_index", None)
    if not tables or not isinstance(rows, dict):
        return {}
    out: dict[str, dict[str, CachePlaces]] = {id_: {} for id_ in ids if id_ in rows}
    for number, table in enumerate(tables):
        names = _names_of(runner, number, len(tables))
        problem = _problem_of(runner, number, table)
        dims = None if problem else _dims_of(runner, number)
        if not problem and dims is None:
            continue
        for id_, places in out.items():
            found: CachePlaces = UnknownPlaces(problem)
            if dims is not None:
                count = int(table.num_blocks_per_row[rows[id_]])
                blocks = table.get_numpy_array()[rows[id_], :count].tolist()
                found = CachePages(blocks, int(table.block_size), dims)
            places.update(dict.fromkeys(names, found))
    return out


def _group_of(runner: Any, number: int) -> Any:
    config = getattr(runner, "kv_cache_config", None)
    groups = getattr(config, "kv_cache_groups", None) or ()
    return groups[number] if number < len(groups) else None


def _names_of(runner: Any, number: int, count: int) -> list[str]:
    """Returns the names of the caches of a group."""
    if count == 1:
        return [_NAME]
    layers = getattr(_group_of(runner, number), "layer_names", ())
    return [f"*{layer}.{_NAME}" for layer in layers]


def _problem_of(runner: Any, number: int, table: Any) -> str:
    spec = getattr(_group_of(runner, number), "kv_cache_spec", None)
    if "Mamba" in type(spec).__name__:
        return _IS_STATE
    if getattr(spec, "sliding_window", None) or getattr(
        spec, "attention_chunk_size", None
    ):
        return _SLIDES
    return _IS_DIVIDED if getattr(table, "dcp_world_size", 1) != 1 else ""


def _dims_of(runner: Any, number: int) -> tuple[int, int] | None:
    """Returns the dimensions of blocks and of positions; None if unknown."""
    groups = getattr(runner, "attn_groups", None) or ()
    if number >= len(groups):
        return None
    found = set()
    for group in groups[number]:
        shape = tuple(
            group.backend.get_kv_cache_shape(_BLOCKS, _BLOCK_SIZE, _HEADS, _HEAD_SIZE)
        )
        if shape.count(_BLOCKS) != 1 or shape.count(_BLOCK_SIZE) != 1:
            return None
        found.add((shape.index(_BLOCKS), shape.index(_BLOCK_SIZE)))
    return found.pop() if len(found) == 1 else None
