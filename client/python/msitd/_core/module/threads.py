"""What each thread that runs a hooked model has for itself."""

from __future__ import annotations

import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

from msitd._core.graph.sites import Caller
from msitd._core.leaf.identities import Identities
from msitd._core.leaf.leaves import Call
from msitd._core.leaf.stacks import stack_of_caller, stack_of_graph

if TYPE_CHECKING:
    from types import FrameType

    import torch


class Forward:
    """Where the forward of one thread is."""

    __slots__ = ("calls", "depth", "has_gradients", "op", "token", "trains")

    def __init__(self) -> None:
        # How many calls that could be passes are nested now. The outermost is one: its
        # op, its token, whether gradients are enabled there, and whether it trains.
        self.depth = 0
        self.op = ""
        self.token = 0
        self.has_gradients = False
        self.trains = False
        # Calls that have not ended.
        self.calls: list[Call] = []

    def forget_raised(self, op: str) -> bool:
        """Forgets all calls in the call of `op` that ends: they have raised.

        Torch tells hooks of that, but a graph does not. Returns whether `op` has
        begun.
        """
        for place in reversed(range(len(self.calls))):
            if self.calls[place].op == op:
                del self.calls[place + 1 :]
                return True
        return False

    def abandon(self) -> None:
        """Forgets a pass that has ended without a word."""
        self.depth = 0
        self.calls.clear()


def call_count(module: torch.nn.Module | None) -> int:
    """Returns how many calls of `module` run now, each inside of the one before.

    Those in a graph of torch.compile are not among them.
    """
    import torch

    code = torch.nn.Module._call_impl.__code__
    frame: FrameType | None = sys._getframe(1)
    count = 0
    while frame is not None:
        if frame.f_code is code and frame.f_locals.get("self") is module:
            count += 1
        frame = frame.f_back
    return count


def is_replica(module: Any) -> bool:
    """Returns whether DataParallel runs the module beside others of its kind."""
    return getattr(module, "_is_replica", False)


class Thread(threading.local):
    """Where a thread is, and which tensors it knows."""

    def __init__(self) -> None:
        self.forward = Forward()
        self.known: Identities | None = None
        # Torch does not count what the kernels of a graph change.
        self.is_in_graph = False
        # Of the call in a graph that a hook records now.
        self.caller: Caller | None = None

    def identities(self) -> Identities | None:
        """Returns which tensors have not changed; None if nothing can tell."""
        if self.is_in_graph:
            return None
        if self.known is None:
            self.known = Identities()
        return self.known

    def stack(self, level: str) -> str | None:
        """Returns where the call that begins now comes from; see stack_of_caller."""
        if level == "none":
            return None
        caller = self.caller
        if caller is None:
            return stack_of_caller(level)
        return stack_of_graph(level, caller.lines)

    def is_outermost(self, module: weakref.ref[torch.nn.Module]) -> bool:
        """Returns whether the call that begins now is in no other call of the module.

        Torch does not tell hooks of Ctrl-C and other exceptions that are no
        Exception, and graphs tell of none, so a pass may seem to last although it
        has ended.
        """
        caller = self.caller
        if caller is None:
            return call_count(module()) == 1
        return not caller.is_recursive and call_count(module()) == 0
