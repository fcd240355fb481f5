"""Records gradients in the graphs of torch.compile.

torch builds the backward of a graph with autograd: it runs the graph with
tensors that have no bytes, and keeps the operators that autograd runs. The node
hooks that record in an eager model therefore leave an operator in the backward
graph, which records when that graph runs. Its autograd node identifies the
calls of the forward.
"""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from msitd._core.call import Call
from msitd._core.gradient.gradients import Gradients
from msitd._core.gradient.inputs import Inputs
from msitd._core.gradient.recomputation import innermost_function
from msitd._core.not_recorded import reason_of

if TYPE_CHECKING:
    import torch

    from msitd._core.client import Client
    from msitd._core.skips import Skips

# Leaves an operator in the backward that records a gradient with this io and
# indexes.
Emit = Callable[[str, list[str], "torch.Tensor"], None]

# Follows the number of a call of which an argument needs a gradient.
_NEEDED = "+"

_APART = "gradients: grad_input of a call that begins in one graph and ends in another"
_COMPILED = "gradients: a backward that torch.compile compiles, of a graph in it"
_UNKNOWN = "gradients: the backward of a graph of which the forward is not known"


class _Numbers:
    """Numbers the calls in a graph that Dynamo is tracing."""

    def __init__(self) -> None:
        self._next = itertools.count().__next__
        self._open: list[tuple[str, str]] = []

    def begin(self, op: str, needs_gradient: bool) -> str:
        number = str(self._next()) + (_NEEDED if needs_gradient else "")
        self._open.append((op, number))
        return number

    def end(self, op: str, needs_gradient: bool) -> str:
        for place in reversed(range(len(self._open))):
            if self._open[place][0] == op:
                number = self._open[place][1]
                # Calls that raised an exception do not end.
                del self._open[place:]
                return number
        return str(self._next()) + (_NEEDED if needs_gradient else "")


class _Making(threading.local):
    """The graph that Dynamo traces in this thread, one at a time."""

    def __init__(self) -> None:
        self.graph: Callable[[], Any] = lambda: None
        # By the name of the recorder.
        self.numbers: dict[str, _Numbers] = {}


_making = _Making()


def number_in_dynamo(name: str, op: str, begins: bool, needs_gradient: bool) -> str:
    """Returns a number that identifies a call in the graph that Dynamo is tracing.

    Other processes give the same number to the same call, because they may
    share graphs.

    Args:
        name: Name of the recorder.
        begins: True if the call begins, False if it ends.
        needs_gradient: Whether an argument of the call needs a gradient.
    """
    from torch._dynamo.symbolic_convert import InstructionTranslator

    graph = InstructionTranslator.current_tx().output
    if _making.graph() is not graph:
        _making.graph = weakref.ref(graph)
        _making.numbers = {}
    numbers = _making.numbers.setdefault(name, _Numbers())
    return (numbers.begin if begins else numbers.end)(op, needs_gradient)


class _Traced(Gradients):
    """Leaves operators in a backward instead of recording."""

    emit: Emit

    def arrive(self, task: int, call: Call) -> None:
        """Has no effect, because no backward runs."""

    def record(
        self, call: Call, io: str, indexes: Iterable[str], round: int, gradient: Any
    ) -> None:
        """See Gradients."""
        indexes = list(indexes)
        if gradient is None or not indexes:
            return
        try:
            self.emit(io, indexes, gradient)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._count(call, "", error)


class _Run(NamedTuple):
    """A call in a graph that has run."""

    call: Call
    # Number of backwards that arrived, by io and index.
    rounds: dict[tuple[str, str], int]


class GraphGradients:
    """Gradients of one model in graphs. Any thread may use it; nothing raises."""

    def __init__(self, gradients: Gradients, client: Client, skips: Skips) -> None:
        # torch is installed, since there is a module.
        import torch

        self._torch = torch
        # Older versions of torch do not provide it.
        self._node = getattr(torch._C, "_current_autograd_node", lambda: None)
        self._gradients = gradients
        self._client = client
        self._skips = skips
        self._lock = threading.Lock()
        # Arguments of calls, by the tracer of the graph and by number.
        self._begun: weakref.WeakKeyDictionary[Any, dict[str, Inputs]] = (
            weakref.WeakKeyDictionary()
        )
        # By the autograd function that runs a graph, and by number.
        self._runs: weakref.WeakKeyDictionary[Any, dict[str, _Run]] = (
            weakref.WeakKeyDictionary()
        )

    def begin_traced(
        self,
        tracer: Any,
        op: str,
        number: str,
        given: list[tuple[str, torch.Tensor]],
    ) -> None:
        """Handles the beginning of a call in a graph for which `tracer` builds
        a backward.
        """
        if not self._torch.is_grad_enabled():
            return
        try:
            inputs = self._gradients.inputs_of(given)
            with self._lock:
                self._begun.setdefault(tracer, {})[number] = inputs
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skips.count(op, "", "gradients: " + reason_of(error))

    def end_traced(
        self,
        tracer: Any,
        op: str,
        number: str,
        returned: list[tuple[str, torch.Tensor]],
        emit: Emit,
    ) -> None:
        """Handles the end of the call. Puts hooks on the autograd nodes."""
        if not self._torch.is_grad_enabled():
            return
        with self._lock:
            inputs = self._begun.get(tracer, {}).pop(number, None)
        if inputs is None:
            inputs = Inputs(0, [], {})
            if number.endswith(_NEEDED):
                self._skips.count(op, "", _APART)
        traced = _Traced(self._client, self._gradients.leaves, self._skips)
        traced.emit = emit
        traced.watch(Call(op, 0, 0, None), inputs, returned)

    def end(self, call: Call, number: str) -> None:
        """Handles the end of a call in a graph through which a backward may run."""
        function = innermost_function()
        if function is None:
            # Nothing in the graph needs a gradient.
            return
        with self._lock:
            self._runs.setdefault(function, {})[number] = _Run(call, {})

    def count_if_compiled(self) -> None:
        """Counts a backward that reached a parameter, but no call."""
        module = sys.modules.get("torch._dynamo.compiled_autograd")
        if getattr(module, "in_compiled_autograd_region", False):
            self._skips.count("root", "", _COMPILED)

    def record(
        self, op: str, number: str, io: str, leaves: list[tuple[str, torch.Tensor]]
    ) -> None:
        """Records gradients in a backward that is running."""
        node = self._node()
        run = None
        if isinstance(node, self._torch._C._FunctionBase):
            with self._lock:
                run = self._runs.get(node, {}).get(number)
        if run is None:
            self._skips.count(op, "", _UNKNOWN)
            return
        if run.call.number < 0:
            return
        if io == "grad_output":
            self._gradients.arrive(self._torch._C._current_graph_task_id(), run.call)
        for index, gradient in leaves:
            round = run.rounds.get((io, index), 0)
            run.rounds[io, index] = round + 1
            self._gradients.record(run.call, io, [index], round, gradient)
