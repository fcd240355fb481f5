"""State of each thread that runs a hooked model."""

from __future__ import annotations

import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any

from msitd._core.call import Call
from msitd._core.graph.sites import Caller
from msitd._core.leaf.memory import torch_reader
from msitd._core.leaf.stacks import stack_of_caller, stack_of_graph
from msitd._msit import Identities

if TYPE_CHECKING:
    from types import FrameType

    import torch


class Forward:
    """Position of one thread in a forward."""

    __slots__ = ("calls", "depth", "has_gradients", "op", "token", "trains")

    def __init__(self) -> None:
        # Number of nested calls that could be passes. The outermost of them is
        # the pass, with its op, its token, whether gradients are enabled, and
        # whether it trains.
        self.depth = 0
        self.op = ""
        self.token = 0
        self.has_gradients = False
        self.trains = False
        # Calls that have not ended.
        self.calls: list[Call] = []

    def forget_raised(self, op: str) -> bool:
        """Forgets all calls inside the call of `op` that ends, because they
        raised exceptions.

        torch calls hooks in that case, but a graph does not. Returns whether
        `op` has begun.
        """
        for place in reversed(range(len(self.calls))):
            if self.calls[place].op == op:
                del self.calls[place + 1 :]
                return True
        return False

    def abandon(self) -> None:
        """Forgets a pass that ended without calling a hook."""
        self.depth = 0
        self.calls.clear()


def call_count(module: torch.nn.Module | None) -> int:
    """Returns how many nested calls of `module` are running.

    Calls in a graph of torch.compile are not included.
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
    """Returns whether the module is one of the replicas that DataParallel runs
    in parallel.
    """
    return getattr(module, "_is_replica", False)


class Thread(threading.local):
    """The position of a thread in a model, and the tensors that it has recorded."""

    def __init__(self) -> None:
        self.forward = Forward()
        self.known: Identities | None = None
        # torch does not count changes that are made by the kernels of a graph.
        self.is_in_graph = False
        # Caller of the call in a graph that a hook records now.
        self.caller: Caller | None = None

    def identities(self) -> Identities | None:
        """Returns the registry of unchanged tensors; None if changes cannot be
        detected.
        """
        if self.is_in_graph:
            return None
        if self.known is None:
            self.known = Identities(torch_reader())
        return self.known

    def stack(self, level: str) -> str | None:
        """Returns the stack of the call that begins now; see stack_of_caller."""
        if level == "none":
            return None
        caller = self.caller
        if caller is None:
            return stack_of_caller(level)
        return stack_of_graph(level, caller.lines)

    def is_outermost(self, module: weakref.ref[torch.nn.Module]) -> bool:
        """Returns whether the call that begins now is not nested in another
        call of the module.

        torch does not call hooks after Ctrl-C and other exceptions that do not
        derive from Exception, and graphs do not call them after any exception.
        A pass may therefore seem to continue although it has ended.
        """
        caller = self.caller
        if caller is None:
            return call_count(module()) == 1
        return not caller.is_recursive and call_count(module()) == 0
