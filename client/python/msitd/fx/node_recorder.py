"""Records nodes of graphs while they run."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msitd._core.call import Call
from msitd._core.leaf.leaves import LeafRecorder
from msitd._core.not_recorded import reason_of
from msitd._core.patterns import compile_patterns
from msitd._core.skips import Skips

if TYPE_CHECKING:
    from msitd._core.client import Client
    from msitd._core.graph.sites import Caller


# A module that checks the arguments of an exported program.
_GUARDS = "_guards_fn"


class _Thread(threading.local):
    def __init__(self) -> None:
        # The call of the node that has begun.
        self.call: Call | None = None


class NodeRecorder:
    """Passes calls of nodes to a client. Any thread may run a graph.

    Also implements graphs.Recorder.
    """

    stack_level = "none"
    graph_gradients = None

    def __init__(self, client: Client, ops: str | Iterable[str] | None) -> None:
        self.client = client
        self._pid = os.getpid()
        self._ops = ops
        self.wants: Callable[[str], Any] = compile_patterns(ops)
        self._skips = Skips(client)
        self._leaves = LeafRecorder(client, self._skips, values=True, objects=False)
        self._lock = threading.Lock()
        # Functions that Dynamo has compiled, by Dynamo's key, in order.
        self._functions: dict[Any, int] = {}
        # Functions that have run in this token.
        self._ran: set[int] = set()
        self._thread = _Thread()

    def is_of(self, pid: int, ops: str | Iterable[str] | None) -> bool:
        """Returns whether this process created the recorder for these ops."""
        return self._pid == pid and self._ops == ops

    def number_of_function(self) -> int:
        """Returns the number of the function that Dynamo compiles now, from 0."""
        from torch._guards import CompileContext

        known = CompileContext.current_compile_id()
        key = getattr(known, "frame_id", known)
        with self._lock:
            return self._functions.setdefault(key, len(self._functions))

    def begin_function(self, number: int) -> None:
        """Handles the start of a function's graph. Raises nothing."""
        try:
            with self._lock:
                if number in self._ran:
                    self._ran.clear()
                    self.client.next_token()
                self._ran.add(number)
        except Exception as error:  # noqa: BLE001 - never the program's problem
            self._skips.count(f"graph_{number}", "", reason_of(error))

    def begin(self, op: str, leaves: Iterable[tuple[str, Any]]) -> Call | None:
        """Records the inputs of a node. Raises nothing; returns None if that fails."""
        try:
            self.client._check_open()
            token = self.client._native.token()
            call = Call(op, token, self._leaves.begin_call(op, token), None)
            self._record(call, "input", leaves)
        except Exception as error:  # noqa: BLE001 - never the program's problem
            self._skips.count(op, "", reason_of(error))
            return None
        return call

    def end(self, call: Call | None, leaves: Iterable[tuple[str, Any]]) -> None:
        """Records the outputs of the node of `call`. Raises nothing."""
        if call is None:
            return
        try:
            self._record(call, "output", leaves)
        except Exception as error:  # noqa: BLE001 - never the program's problem
            self._skips.count(call.op, "", reason_of(error))

    def run_in_graph(
        self, side: str, op: str, leaves: dict[str, Any], caller: Caller
    ) -> None:
        """See graphs.Recorder."""
        thread = self._thread
        if side == "before":
            thread.call = self.begin(op, leaves.items())
        elif thread.call is not None and thread.call.op == op:
            call, thread.call = thread.call, None
            self.end(call, leaves.items())

    def count_in_graph(self, op: str, reason: str) -> None:
        """See graphs.Recorder."""
        self._skips.count(op, "", reason)

    def _record(self, call: Call, io: str, leaves: Iterable[tuple[str, Any]]) -> None:
        if call.number >= 0 and self.client.selects(call.op, io, call.token):
            self._leaves.record(leaves, io, call, None)


def op_of(node: Any, number: int, is_backward: bool) -> str | None:
    """Returns the op of a node; None if the node calls nothing.

    Args:
        number: Number of the function to which its graph belongs.
    """
    if node.op == "call_method":
        target = f"method.{node.target}"
    elif node.op == "call_module" and node.target != _GUARDS:
        target = f"module.{node.target}"
    elif node.op == "call_function":
        target = _text_of(node.target)
    else:
        return None
    prefix = f"graph_{number}/" if number else ""
    if is_backward:
        prefix += "backward/"
    return f"{prefix}{node.name}-{target}"


def _text_of(function: Any) -> str:
    """Returns `aten.mm.default` for an operator, and the dotted name of other
    functions.
    """
    if type(function).__name__ in ("OpOverload", "OpOverloadPacket"):
        return str(function)
    name = getattr(function, "__name__", type(function).__name__)
    module = getattr(function, "__module__", None) or "torch"
    return f"{module.removeprefix('_')}.{name}"
