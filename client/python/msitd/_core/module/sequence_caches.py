"""Follows where the sequences of a batch are in the cache of a model.

Each forward appends the elements of its batch, including padding, to the columns
of the cache. Which positions of a sequence they are follows from the rows of the
batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msitd._core.cache_places import (
    CacheColumns,
    CachePlaces,
    Span,
    UnknownPlaces,
    add_span,
)
from msitd._core.requests import Texts, cache_op, cache_text

if TYPE_CHECKING:
    from msitd._core.module.batches import Batch
    from msitd._core.module.sequence_states import SequenceState

# Keys and values of transformers are [batch, heads, length, head size].
_DIMS = (0, 2)
_DIM_COUNT = 4

# Layers whose problems are stated one by one.
_LAYERS_MAX = 64

_SLIDES = "it has a sliding window"
_IS_QUANTIZED = "it is quantized"
_OTHER_SHAPE = "its keys are not [batch, heads, length, size]"
_OTHER_ROWS = "its rows are not those of the batch"
_OTHER_CLASS = "its class is not one of transformers that is known"

# Classes of older versions, whose tensors are in lists.
_OLD_CLASSES = ("DynamicCache", "StaticCache")


def follow(state: SequenceState, batch: Batch) -> None:
    """Adds the elements of a batch to the columns of its sequences."""
    count, past, rows = batch.lengths[0], batch.past, batch.rows
    columns = state.columns
    if columns is None:
        columns = state.columns = [None] * count
    for number in range(count):
        row = None if rows is None else rows[number]
        if row is None or row.position is None or past is None:
            # A row without elements stays where it is.
            if row is None or row.end > row.first:
                columns[number] = None
            continue
        known = [] if row.position == 0 else _first(columns[number], row.position)
        if known is not None:
            add_span(known, past + row.first, past + row.end)
        columns[number] = known


def texts_of(
    caches: dict[str, Any], state: SequenceState, ids: list[str | None]
) -> Texts:
    """Returns the documents of caches.

    Args:
        caches: By name.
        state: The state of their sequences after the forward.
        ids: The request of each row.
    """
    known = {name: problems_in(cache, state.count) for name, cache in caches.items()}
    out: Texts = {}
    for number, request in enumerate(ids):
        columns = None if state.columns is None else state.columns[number]
        places: dict[str, CachePlaces] = {}
        for name, problems in known.items():
            if "" not in problems and columns is not None:
                places[name] = CacheColumns(number, columns, _DIMS)
            for path, reason in problems.items():
                places[name + path] = UnknownPlaces(reason)
        if request and places:
            out[cache_op(request)] = cache_text(places)
    return out


def problems_in(cache: Any, count: int) -> dict[str, str]:
    """Returns why elements of a cache are not those of single positions.

    Args:
        count: Number of rows of the batch.

    Returns:
        Reasons by the path of a part of the cache, "" for all of it.
    """
    if isinstance(cache, (tuple, list)):
        first = cache
        while isinstance(first, (tuple, list)) and first:
            first = first[0]
        reason = _problem_of_keys(first, count)
        return {"": reason} if reason else {}
    layers = getattr(cache, "layers", None)
    if layers is None:
        is_known = type(cache).__name__ in _OLD_CLASSES
        return {} if is_known else {"": _OTHER_CLASS}
    found = [_problem_of(layer, count) for layer in layers]
    reasons = set(found)
    if reasons <= {""}:
        return {}
    if len(reasons) == 1 or len(found) > _LAYERS_MAX:
        return {"": next(each for each in found if each)}
    return {f".layers.{number}": each for number, each in enumerate(found) if each}


def _problem_of(layer: Any, count: int) -> str:
    if getattr(layer, "is_sliding", False):
        return _SLIDES
    if "Quantized" in type(layer).__name__:
        return _IS_QUANTIZED
    keys = getattr(layer, "keys", None)
    return "" if keys is None else _problem_of_keys(keys, count)


def _problem_of_keys(keys: Any, count: int) -> str:
    shape = tuple(getattr(keys, "shape", ()))
    if len(shape) != _DIM_COUNT:
        return _OTHER_SHAPE
    return "" if shape[0] == count else _OTHER_ROWS


def _first(spans: list[Span] | None, count: int) -> list[Span] | None:
    """Returns the first elements of spans; None if there are fewer."""
    if spans is None:
        return None
    out: list[Span] = []
    for first, end in spans:
        if count == 0:
            break
        taken = min(count, end - first)
        out.append((first, first + taken))
        count -= taken
    return out if count == 0 else None
