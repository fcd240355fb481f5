"""Finds the first run of a forward that a checkpoint runs again.

A reentrant checkpoint runs the modules without a graph first, and again, with one, in
the backward. The gradients belong to the calls of the first run. Both runs happen in
one function of autograd, which is how they know each other.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections import deque
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msitd._core.leaf.leaves import Call

# Calls of one op in one checkpoint that are remembered, and ops.
_CALLS_MAX = 1024
_OPS_MAX = 65536


class FirstRuns:
    """The calls of one model that may run again. Any thread may use it."""

    def __init__(self) -> None:
        # A caller with a module has torch.
        import torch

        self._function_type = torch._C._FunctionBase
        self._forward_code = _forward_code()
        self._backward_code = torch.autograd.function.BackwardCFunction.apply.__code__
        # Old versions of torch do not tell.
        self._node = getattr(torch._C, "_current_autograd_node", lambda: None)
        self._lock = threading.Lock()
        # By the function that runs them again, and by op.
        self._calls: weakref.WeakKeyDictionary[Any, dict[str, deque[Call]]] = (
            weakref.WeakKeyDictionary()
        )

    def add(self, call: Call) -> None:
        """Remembers a call that has begun, if a function of autograd runs it."""
        function = self._outermost_function(self._node())
        if function is None:
            return
        with self._lock:
            ops = self._calls.setdefault(function, {})
            if call.op in ops or len(ops) < _OPS_MAX:
                ops.setdefault(call.op, deque(maxlen=_CALLS_MAX)).append(call)

    def take(self, op: str) -> Call | None:
        """Returns the call that runs again now, once; None if nothing knows it."""
        node = self._node()
        if not isinstance(node, self._function_type):
            return None
        with self._lock:
            calls = self._calls.get(node, {}).get(op)
            return calls.popleft() if calls else None

    def is_lost(self) -> bool:
        """Returns whether a function of autograd runs what `take` does not know.

        The other kind of checkpoint, which runs again where a saved tensor is
        asked for, has the gradients of the first run in any case.
        """
        if not isinstance(self._node(), self._function_type):
            return False
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not self._backward_code:
            if frame.f_code.co_name == "unpack_hook":
                return False
            frame = frame.f_back
        return frame is not None

    def _outermost_function(self, node: Any) -> Any:
        """Returns the function of which the forward runs; None if none does.

        The outermost one runs again first. What runs inside of `node` is the part
        of a checkpoint in another one that runs for the second time.
        """
        found = None
        inner: FrameType | None = None
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            # No other frame is looked into: that would keep its tensors.
            if frame.f_code is self._backward_code:
                if frame.f_locals.get("self") is node:
                    break
            elif frame.f_code is self._forward_code and inner is not None:
                found = _function_in(inner) or found
            inner, frame = frame, frame.f_back
        return found


def innermost_function() -> Any:
    """Returns the innermost function of autograd that runs its forward now, or None."""
    forward_code = _forward_code()
    inner: FrameType | None = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is forward_code and inner is not None:
            function = _function_in(inner)
            if function is not None:
                return function
        inner, frame = frame, frame.f_back
    return None


@functools.cache
def _forward_code() -> CodeType:
    import torch

    return torch.autograd.Function.apply.__func__.__code__  # type: ignore[attr-defined,no-any-return]


def _function_in(frame: FrameType) -> Any:
    """Returns the function of autograd of which `frame` is the forward, or None."""
    import torch

    names = frame.f_code.co_varnames
    first = frame.f_locals.get(names[0]) if names else None
    if isinstance(first, tuple) and first:
        # Of a wrapper that takes anything.
        first = first[0]
    return first if isinstance(first, torch._C._FunctionBase) else None
