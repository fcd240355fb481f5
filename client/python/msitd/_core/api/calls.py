"""Records one call of a torch function."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from msitd import _msit
from msitd._core.api.collectives import Collectives, open_p2p, sent
from msitd._core.api.targets import DISTRIBUTED_PREFIX, Target
from msitd._core.call import Call
from msitd._core.gradient.gradients import Gradients
from msitd._core.gradient.node_gradients import NodeGradients
from msitd._core.graph.sites import BEFORE, Caller
from msitd._core.leaf import memory
from msitd._core.leaf.forms import Form
from msitd._core.leaf.leaves import LeafRecorder
from msitd._core.leaf.stacks import stack_of_caller, stack_of_graph
from msitd._core.leaf.stand_ins import are_in_use, recorded_leaves
from msitd._core.leaf.values import Described, Value
from msitd._core.not_recorded import CLOSED, RECOMPUTED, reason_of
from msitd._core.skips import Skips, is_in_backward
from msitd._core.tokens import references
from msitd._core.vocabulary import IO_ANY, KIND_NUMBERS
from msitd._msit import Identities

if TYPE_CHECKING:
    from types import FrameType

    from msitd._core.api.options import ApiOptions
    from msitd._core.client import Client
    from msitd._core.listening import CallListener

_IN_GRAPH = "calls in graphs of torch.compile, counted when a graph is made"
_NO_BYTES = "calls with what stands for tensors while a graph is made, or is fake"
_NEVER_WAITED = "a collective that was never waited for"

# Modules whose frames may lie between a function and its caller. In torch,
# these keep Dynamo away from modes, or run functions that they receive.
_BETWEEN = (
    "msitd._core.api.",
    "torch._compile",
    "torch._dynamo.eval_frame",
    "torch._functorch.apis",
    "torch._functorch.autograd_function",
    "torch._functorch.deprecated",
    "torch._functorch.eager_transforms",
    "torch._functorch.functional_call",
    "torch._functorch.make_functional",
    "torch._functorch.predispatch",
    "torch._functorch.pyfunctorch",
    "torch._functorch.vmap",
    "torch.fx.interpreter",
    "torch.utils._python_dispatch",
)

# Calls from these modules are not calls of the program: they record, or trace
# graphs.
_CALLERS_PASSED_OVER = (
    "msitd.",
    "torch._decomp",
    "torch._dynamo.",
    "torch._functorch.",
    "torch._inductor.",
    "torch._meta_registrations",
    "torch._prims",
    "torch._refs",
    "torch._subclasses.",
    "torch._tensor_str",
    "torch.fx.",
)

# Number of outer frames that are searched for a checkpoint.
_FRAMES_MAX = 64
_CHECKPOINT = "torch.utils.checkpoint"

# Tensors that stand in for others while torch traces a graph.
_SYMBOLIC = ("FakeTensor", "FunctionalTensor", "ProxyTensor")


class _Thread(threading.local):
    """The state of each thread."""

    def __init__(self) -> None:
        # Number of recorded functions that are nested now.
        self.depth = 0
        # Whether msitd itself is using torch.
        self.is_ours = False
        self.known: Identities | None = None
        self.token = -1
        # The call in a graph that has begun.
        self.in_graph: Call | None = None
        self.in_graph_function = ""


class ApiCalls:
    """Records calls of functions. Any thread may call them.

    Args:
        matches: Returns whether an op is recorded.
    """

    # Gradients of functions in graphs are not recorded.
    graph_gradients = None

    def __init__(
        self,
        client: Client,
        skips: Skips,
        collectives: Collectives,
        options: ApiOptions,
        matches: Callable[[str], Any],
        listener: CallListener | None,
        form: Form,
    ) -> None:
        import torch

        self._torch = torch
        self._client = client
        self._recording = client._recording
        self._skips = skips
        self._leaves = leaves = LeafRecorder(
            client,
            skips,
            values=options.values,
            objects=options.objects,
            listener=listener,
            form=form,
        )
        self._collectives = collectives
        self._matches = matches
        self._tokens = references(client._native, client._numbering, options.tokens)
        self._inputs = options.inputs
        self._outputs = options.outputs
        self.stack_level = options.stack
        self._aliases = options.aliases
        self._nested = options.nested
        self._operators = options.operators
        self._name_of = options.name_of
        self._listener = listener
        self.is_paused = False
        # Whether the client is closed.
        self.is_over = False
        self._current_token = client._native.token
        self._gradients: Gradients | None = None
        if options.gradients:
            kind = NodeGradients if form.has_node_gradients else Gradients
            self._gradients = kind(client, leaves, skips)
        self._native_calls = self._native_calls_of()
        self._thread = _Thread()
        # Whether graphs cannot hold notes.
        self.counts_graphs = True
        self._is_removed = False
        # Whether an op is selected. There are few names.
        self._wanted: dict[str, bool] = {}

    def _native_calls_of(self) -> _msit.FunctionRecorder | None:
        """Returns the native recorder; None if every call needs Python."""
        reader = memory.torch_reader()
        if (
            reader is None
            or self._gradients is not None
            or self._name_of is not None
            or not self._leaves.is_native
        ):
            return None
        return _msit.FunctionRecorder(
            client=self._client._native,
            reader=reader,
            input_side=self._leaves.side("input") if self._inputs else None,
            output_side=self._leaves.side("output") if self._outputs else None,
            special=(self._torch.Tensor, self._torch.fx.Proxy),
            call_type=Call,
            backward_id=self._torch._C._current_graph_task_id,
        )

    def stop(self) -> None:
        """Stops recording because the client is closed; see HookLife."""
        self.is_over = True
        self.is_paused = True
        if self._gradients is not None:
            self._gradients.remove(CLOSED)

    def remove(self) -> None:
        """Records nothing more of backwards and graphs."""
        self._is_removed = True
        if self._gradients is not None:
            self._gradients.remove()

    def may_be_needed(self, target: Target) -> bool:
        """Returns whether calls of a function are recorded, or hide other calls."""
        return bool(self._matches(target.op)) or self._hides(target.original)

    def is_inside(self) -> bool:
        """Returns whether the calls of this thread are parts of a recorded call."""
        thread = self._thread
        return thread.is_ours or (thread.depth > 0 and not self._nested)

    def call(
        self,
        function: Callable[..., Any],
        op: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Calls `function` and records the call. See wrapper.Calls."""
        # Fast path: this token is not recorded.
        tokens = self._tokens
        if self.is_paused or (
            tokens is not None and self._current_token() not in tokens
        ):
            if self.is_over and self._matches(op):
                self._skips.count(op, "", CLOSED)
            return function(*args, **kwargs)
        thread = self._thread
        if thread.is_ours or (thread.depth > 0 and not self._nested):
            return function(*args, **kwargs)
        if self._is_idle(function, op):
            return function(*args, **kwargs)
        caller = _caller_of(sys._getframe(1))
        if caller == "" and thread.in_graph is not None:
            # The note in the graph records this call.
            thread.depth += 1
            try:
                return function(*args, **kwargs)
            finally:
                thread.depth -= 1
        if caller.startswith(_CALLERS_PASSED_OVER):
            thread.is_ours = True
            try:
                return function(*args, **kwargs)
            finally:
                thread.is_ours = False
        call = self._quietly(self._begin, op, args, kwargs)
        thread.depth += 1
        try:
            result = function(*args, **kwargs)
        finally:
            thread.depth -= 1
        if call is not None:
            self._quietly(self._end, call, op, args, kwargs, result)
        return result

    def _is_idle(self, function: Callable[..., Any], op: str) -> bool:
        """Returns whether nothing in a call of `function` is recorded."""
        try:
            return not (self._hides(function) or self._wants(op, self._current_token()))
        except Exception:  # noqa: BLE001 - who records finds the same, and counts it
            return False

    def _hides(self, function: Callable[..., Any]) -> bool:
        """Returns whether parts of a call may be recorded if the call itself is not."""
        if self._nested:
            return False
        # C functions do not call stand-ins.
        return self._operators or isinstance(function, FunctionType)

    def count_in_graph(self, op: str, reason: str = _IN_GRAPH) -> None:
        """See wrapper.Calls and graphs.Recorder."""
        has_note = reason is _IN_GRAPH and not self.counts_graphs
        if has_note and not op.startswith(DISTRIBUTED_PREFIX):
            return
        if self._matches(op):
            self._skips.count(op, "", reason)

    def run_in_graph(
        self, side: str, op: str, leaves: dict[str, Any], caller: Caller
    ) -> None:
        """See graphs.Recorder."""
        if self._is_removed or self.is_paused:
            return
        thread = self._thread
        call, thread.in_graph = thread.in_graph, None
        if side == BEFORE:
            if not self.is_inside():
                thread.in_graph_function = op
                thread.in_graph = self._quietly(
                    self._begin_in_graph, op, leaves, caller.lines
                )
        elif call is not None and thread.in_graph_function == op:
            self._quietly(self._record_in_graph, call, leaves, "output")

    def _begin_in_graph(
        self, op: str, leaves: dict[str, Any], lines: str
    ) -> Call | None:
        token = self._current_token()
        if not self._wants(op, token):
            return None
        if is_in_backward():
            self._skips.count(op, "", RECOMPUTED)
            return None
        name = self._named(op)
        if name is None:
            return None
        op = name
        stack = None
        if self.stack_level != "none":
            stack = stack_of_graph(self.stack_level, lines)
        call = Call(op, token, self._client.begin_call(op, token), stack)
        if self._listener is not None:
            self._listener.function_begins(call)
        self._record_in_graph(call, leaves, "input")
        return call

    def _record_in_graph(self, call: Call, leaves: dict[str, Any], io: str) -> None:
        # torch does not count changes by the kernels of a graph, so nothing is
        # an alias.
        if self._client.selects(call.op, io, call.token):
            self._leaves.record(leaves.items(), io, call, None)

    def _quietly(self, record: Callable[..., Any], op: Any, *arguments: Any) -> Any:
        """Records, and catches all exceptions. Its own torch calls are not recorded."""
        thread = self._thread
        thread.is_ours = True
        try:
            with self._recording:
                return record(op, *arguments)
        except Exception as error:  # noqa: BLE001 - never the program's problem
            name = op if isinstance(op, str) else op.op
            self._skips.count(name, "", reason_of(error))
            return None
        finally:
            thread.is_ours = False

    def _begin(
        self, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Call | None:
        token = self._current_token()
        if not self._wants(op, token):
            return None
        level = self.stack_level
        stack = None if level == "none" else stack_of_caller(level)
        native = self._native_of(op)
        if native is not None and not are_in_use():
            known = self._identities(token)
            call = native.begin(op, token, stack, args, kwargs, known)
            if call is not None:
                return call
        given = _all_of(args, kwargs)
        if any(self._is_symbolic(leaf) for leaf in given):
            self._count_symbolic(op)
            return None
        if not self._leaves.form.records_repeats and (
            is_in_backward() and _is_checkpoint(sys._getframe(2))
        ):
            self._skips.count(op, "", RECOMPUTED)
            return None
        function, name = op, self._named(op)
        if name is None:
            return None
        op = name
        call = Call(op, token, self._client.begin_call(op, token), stack)
        if self._listener is not None:
            self._listener.function_begins(call)
        if self._gradients is not None and self._torch.is_grad_enabled():
            call = call._replace(inputs=self._gradients.begin(call, args, kwargs))
        if self._inputs:
            if function.startswith(DISTRIBUTED_PREFIX):
                args, kwargs = sent(
                    function.removeprefix(DISTRIBUTED_PREFIX), args, kwargs
                )
            leaves = self._leaves.form.arguments(args, kwargs)
            self._record(recorded_leaves(leaves), "input", call)
        return call

    def _end(
        self,
        call: Call,
        function: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
    ) -> None:
        native = self._native_of(function)
        if (
            native is not None
            and result is not None
            and native.end(call, result, self._identities(call.token))
        ):
            return
        if any(self._is_symbolic(leaf) for leaf in _all_of((result,), {})):
            self._count_symbolic(call.op)
            return
        if self._gradients is not None and call.inputs is not None:
            self._gradients.end(call, call.inputs, result)
        if not self._outputs:
            return
        if function.startswith(DISTRIBUTED_PREFIX):
            given = tuple(open_p2p(each) for each in (*args, *kwargs.values()))

            def finish(was_waited: bool) -> None:
                self._quietly(self._finish, call, given, was_waited)

            self._collectives.when_complete(result, finish)
            return
        if result is None and self._leaves.form.shows_in_place:
            # The function worked in place.
            result = (*args, *kwargs.values())
        self._record(self._leaves.form.result(result), "output", call)

    def _native_of(self, op: str) -> _msit.FunctionRecorder | None:
        """Returns the native recorder if it may record calls of `op`."""
        return None if op.startswith(DISTRIBUTED_PREFIX) else self._native_calls

    def _finish(self, call: Call, given: tuple[Any, ...], was_waited: bool) -> None:
        """Records a collective whose arguments are its result."""
        if self._thread.known is not None:
            # Their identities may date from before its completion.
            self._thread.known.clear()
        if was_waited:
            leaves = self._leaves.form.result(given)
            self._record(leaves, "output", call)
            return
        self._skips.count(call.op, "", _NEVER_WAITED)
        text = f"<not recorded, since it is of {_NEVER_WAITED}>"
        place = Described(Value(KIND_NUMBERS["other"], None, text))
        self._leaves.record([("0", place)], "output", call, None)

    def _record(self, leaves: Iterable[tuple[str, Any]], io: str, call: Call) -> None:
        if not self._client.selects(call.op, io, call.token):
            return
        self._leaves.record(leaves, io, call, self._identities(call.token))

    def _identities(self, token: int) -> Identities | None:
        if not self._aliases:
            return None
        thread = self._thread
        if thread.known is None:
            thread.known = Identities(memory.torch_reader())
        if thread.token != token:
            thread.token = token
            thread.known.clear()
        return thread.known

    def _wants(self, op: str, token: int) -> bool:
        if self._tokens is not None and token not in self._tokens:
            return False
        is_wanted = self._wanted.get(op)
        if is_wanted is None:
            is_wanted = self._wanted[op] = bool(self._matches(op))
        if not is_wanted:
            return False
        # With renaming, the code that records checks the policy for the new
        # name.
        return self._name_of is not None or self._client._native.selects(
            token, op, IO_ANY
        )

    def _named(self, op: str) -> str | None:
        """Returns the op under which a function is recorded; None if it is not
        recorded.
        """
        return op if self._name_of is None else self._name_of(op)

    def _count_symbolic(self, op: str) -> None:
        # Calls in graphs of torch.compile are counted elsewhere.
        if self._torch._guards.TracingContext.try_get() is None:
            self._skips.count(op, "", _NO_BYTES)

    def _is_symbolic(self, leaf: Any) -> bool:
        if not isinstance(leaf, self._torch.Tensor):
            return isinstance(leaf, self._torch.fx.Proxy)
        if type(leaf).__name__ in _SYMBOLIC:
            return True
        torch = self._torch
        return torch._is_functional_tensor(leaf) and self._is_symbolic(
            torch._from_functional_tensor(leaf)
        )


def _all_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Returns the arguments, and the elements of those that are lists or tuples."""
    found: list[Any] = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, (list, tuple)):
            found.extend(value)
        else:
            found.append(value)
    return found


def _caller_of(frame: FrameType | None) -> str:
    """Returns the name of the calling module; "" for the code of a graph."""
    name = ""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith(_BETWEEN):
            break
        frame = frame.f_back
    return name


def _is_checkpoint(frame: FrameType | None) -> bool:
    for _ in range(_FRAMES_MAX):
        if frame is None:
            return False
        if frame.f_globals.get("__name__") == _CHECKPOINT:
            return True
        frame = frame.f_back
    return False
