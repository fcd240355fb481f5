"""Finds the first run of a forward that a checkpoint runs again.

A reentrant checkpoint runs the modules without a graph first, and again, with one, in
the backward. The gradients belong to the calls of the first run.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from msitd._core.walk import tensors_given

if TYPE_CHECKING:
    from msitd._core.leaves import Call

# Calls of one op that are remembered, and ops.
_CALLS_MAX = 1024
_OPS_MAX = 65536


class _First(NamedTuple):
    """A call of a first run."""

    number: int
    # Of the first tensor that it gets.
    address: int
    call: Call


class FirstRuns:
    """The calls of one model that may run again. Any thread may use it."""

    def __init__(self) -> None:
        # A caller with a module has torch.
        import torch

        self._tensor_type = torch.Tensor
        self._lock = threading.Lock()
        self._calls: dict[str, deque[_First]] = {}
        self._last_number = 0
        # Of the call that ran again last. Those behind it follow in their order.
        self._cursor: int | None = None

    def add(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Remembers a call that has begun."""
        address = self._address(args, kwargs)
        with self._lock:
            if call.op not in self._calls and len(self._calls) >= _OPS_MAX:
                return
            self._last_number += 1
            calls = self._calls.setdefault(call.op, deque(maxlen=_CALLS_MAX))
            calls.append(_First(self._last_number, address, call))

    def take(
        self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Call | None:
        """Returns the call that runs again now, once; None if nothing knows it."""
        address = self._address(args, kwargs)
        with self._lock:
            calls = self._calls.get(op)
            if not calls:
                return None
            found = self._following(calls) or self._last(calls, address)
            calls.remove(found)
            self._cursor = found.number
            return found.call

    def leave(self) -> None:
        """Is told that the backward goes on: the next call begins another part."""
        self._cursor = None

    def _following(self, calls: deque[_First]) -> _First | None:
        if self._cursor is not None:
            for first in calls:
                if first.number > self._cursor:
                    return first
        return None

    @staticmethod
    def _last(calls: deque[_First], address: int) -> _First:
        """A checkpoint keeps what its first module got. The backward begins behind."""
        for first in reversed(calls):
            if first.address == address != 0:
                return first
        return calls[-1]

    def _address(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        for _, tensor in tensors_given(args, kwargs, self._tensor_type):
            try:
                return int(tensor.data_ptr())
            except RuntimeError:
                return 0
        return 0
