"""Remembers the sequences that a model continues in its next forward."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from msitd._core.cache_places import Span

# Maximum number of caches that are followed at a time.
_CACHES_MAX = 1024


class SequenceState:
    """The sequences of one batch after a forward, a row each.

    Attributes:
        count: Number of rows.
        ids: The request of each row, None where it is unknown.
        end: Length of the cache after the forward, or None if unknown.
        mask_length: Length of the mask, or None if no mask was read.
        nexts: Number of tokens of each row so far, without padding, or None if no
            mask was read.
        columns: The columns of the cache that each row has, in the order of its
            positions, or None if they are unknown. None for all rows if the
            cache is not followed.
        is_padded: Whether a row may contain padding, or None if unknown.
        has_cache: Whether the state is found by the identity of its cache.
    """

    __slots__ = (
        *("columns", "count", "end", "has_cache", "ids", "is_padded"),
        *("mask_length", "nexts"),
    )

    def __init__(self, count: int) -> None:
        self.count = count
        self.ids: list[str | None] | None = None
        self.columns: list[list[Span] | None] | None = None
        self.end: int | None = 0
        self.mask_length: int | None = None
        self.nexts: list[int] | None = None
        self.is_padded: bool | None = False
        self.has_cache = False

    def advance(
        self,
        end: int | None,
        mask_length: int | None,
        nexts: list[int] | None,
        is_masked: bool | None,
    ) -> None:
        """Handles a forward.

        Args:
            is_masked: Whether it had a mask, or None if the mask was not read.
        """
        self.end, self.mask_length, self.nexts = end, mask_length, nexts
        if is_masked is None:
            self.is_padded = None
        elif is_masked:
            self.is_padded = any(each != mask_length for each in nexts or ())


class SequenceStates:
    """The states of the caches of one model. Not thread-safe.

    A state belongs to the object that holds the cache. Where a cache has no
    identity, as a tuple or within a graph, only the last state can continue, if
    the length of the cache is the length that the state has reached.
    """

    def __init__(self) -> None:
        # By the id of the cache. Nothing keeps a cache alive.
        self._by_id: dict[int, tuple[weakref.ref[Any], SequenceState]] = {}
        self._last: SequenceState | None = None

    def find(self, cache: Any, past: int | None, count: int) -> SequenceState | None:
        """Returns the state that a forward with a cache of length `past` continues."""
        if cache is None or not past:
            return None
        reference, state = self._by_id.get(id(cache), (None, None))
        if reference is None or reference() is not cache:
            state = self._last
            if state is None or state.has_cache or state.end != past:
                return None
            if _reference_to(cache, None) is not None:
                # Another cache of this length.
                return None
        return state if state is not None and state.count == count else None

    def keep(self, cache: Any, state: SequenceState) -> None:
        """Remembers the state of a forward; `cache` is None if it had none."""
        self._last = state
        key, states = id(cache), self._by_id

        def forget(reference: Any) -> None:
            known = states.get(key)
            if known is not None and known[0] is reference:
                states.pop(key, None)

        reference = _reference_to(cache, forget)
        if reference is None:
            return
        state.has_cache = True
        known = states.get(key)
        if known is not None and known[0]() is cache:
            reference = known[0]
        while len(states) >= _CACHES_MAX and key not in states:
            # Another thread may forget a cache at any time.
            states.pop(next(iter(states)), None)
        states[key] = (reference, state)


def _reference_to(
    cache: Any, forget: Callable[[Any], None] | None
) -> weakref.ref[Any] | None:
    if cache is None:
        return None
    try:
        return weakref.ref(cache, forget)
    except TypeError:
        return None
