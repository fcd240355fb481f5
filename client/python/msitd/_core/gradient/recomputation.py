"""Finds the first run of a forward that a checkpoint repeats.

A reentrant checkpoint first runs the modules without an autograd graph, and
repeats them with one in the backward. The gradients belong to the calls of the
first run. Both runs happen inside the same autograd function, which identifies
them.
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
    from msitd._core.call import Call

# Maximum number of remembered calls of one op in one checkpoint, and of ops.
_CALLS_MAX = 1024
_OPS_MAX = 65536


class FirstRuns:
    """The calls of one model that may be repeated. Any thread may use it."""

    def __init__(self) -> None:
        # torch is installed, since there is a module.
        import torch

        self._function_type = torch._C._FunctionBase
        self._forward_code = _forward_code()
        self._backward_code = torch.autograd.function.BackwardCFunction.apply.__code__
        # Older versions of torch do not provide it.
        self._node = getattr(torch._C, "_current_autograd_node", lambda: None)
        self._lock = threading.Lock()
        # By the function that repeats the calls, and by op.
        self._calls: weakref.WeakKeyDictionary[Any, dict[str, deque[Call]]] = (
            weakref.WeakKeyDictionary()
        )

    def add(self, call: Call) -> None:
        """Remembers a call that has begun, if an autograd function runs it."""
        function = self._outermost_function(self._node())
        if function is None:
            return
        with self._lock:
            ops = self._calls.setdefault(function, {})
            if call.op in ops or len(ops) < _OPS_MAX:
                ops.setdefault(call.op, deque(maxlen=_CALLS_MAX)).append(call)

    def take(self, op: str) -> Call | None:
        """Returns the first run of the call that is repeated now, once; None if
        unknown.
        """
        node = self._node()
        if not isinstance(node, self._function_type):
            return None
        with self._lock:
            calls = self._calls.get(node, {}).get(op)
            return calls.popleft() if calls else None

    def is_lost(self) -> bool:
        """Returns whether an autograd function runs a call that `take` does not find.

        The other kind of checkpoint repeats its forward when a saved tensor is
        needed. The gradients of its first run are recorded in any case.
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
        """Returns the outermost autograd function whose forward runs; None if
        none does.

        The outermost function is the first to be repeated. Inside `node` runs
        the part of a nested checkpoint that is repeated for the second time.
        """
        found = None
        inner: FrameType | None = None
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            # Other frames are not inspected, because that would keep their
            # tensors alive.
            if frame.f_code is self._backward_code:
                if frame.f_locals.get("self") is node:
                    break
            elif frame.f_code is self._forward_code and inner is not None:
                found = _function_in(inner) or found
            inner, frame = frame, frame.f_back
        return found


def innermost_function() -> Any:
    """Returns the innermost autograd function whose forward runs now, or None."""
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
    """Returns the autograd function whose forward `frame` is, or None."""
    import torch

    names = frame.f_code.co_varnames
    first = frame.f_locals.get(names[0]) if names else None
    if isinstance(first, tuple) and first:
        # The frame belongs to a wrapper that takes any arguments.
        first = first[0]
    return first if isinstance(first, torch._C._FunctionBase) else None
