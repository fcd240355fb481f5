"""Records torch functions in the graphs of torch.compile.

The graph that Dynamo passes to a backend consists of calls of functions, one
node each. The operator that records is therefore inserted around the selected
nodes.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msitd._core.api.targets import DISTRIBUTED_PREFIX, Target
from msitd._core.graph import compiled, graphs, sites
from msitd._core.graph.sites import AFTER, BEFORE, Caller
from msitd._core.leaf.walk import walk_arguments, walk_result

if TYPE_CHECKING:
    import torch

    from msitd._core.graph.graphs import Recorder

_NO_GRADIENTS = "gradients of functions in graphs of torch.compile"
_IN_A_BODY = (
    "a function in the body of an operator of a graph, such as of torch.cond: no "
    "record is possible there"
)
_IN_A_TRANSFORM = (
    "a function in torch.func of a compiled model: no record is possible there"
)

# Functions that Dynamo writes for Python operators, and for those with reversed
# operands.
_OPERATORS = (
    "add and eq floordiv ge gt iadd iand ifloordiv ilshift imod imul invert ior ipow "
    "irshift isub ixor le lshift lt matmul mod mul ne or pow rshift setitem sub "
    "truediv xor"
)
_REFLECTED = frozenset(("add", "and", "mod", "mul", "or", "pow", "sub", "xor"))
_REFLECTED_OPS = frozenset(f"Tensor.__r{word}__" for word in _REFLECTED)

# In the facts of a graph that has notes.
_MARK = "msitd_notes"

# Functions of torch.func that begin and end a transform.
_BEGIN = "_increment_nesting"
_END = "_decrement_nesting"

_FRAME = re.compile(r'File "(.*)", line (\d+), in (.*)')

_OURS = str(Path(__file__).parents[2]) + os.sep


class Notes:
    """Inserts notes of the selected functions into graphs.

    Args:
        recorder: See graphs.Recorder.
        targets: The functions.
        wants: Returns whether an op is recorded.
        inputs: Whether arguments are recorded.
        outputs: Whether results are recorded.
        gradients: Whether gradients should be recorded.
    """

    def __init__(
        self,
        recorder: Recorder,
        targets: Iterable[Target],
        *,
        wants: Callable[[str], Any],
        inputs: bool,
        outputs: bool,
        gradients: bool,
    ) -> None:
        import torch

        self._name = graphs.enlist(recorder)
        self._write = sites.writer()
        self._count = recorder.count_in_graph
        self._stack = recorder.stack_level
        self._wants = wants
        self._inputs = inputs
        self._outputs = outputs
        self._gradients = gradients
        self._node_type = torch.fx.Node
        self._graph_type = torch.fx.GraphModule
        self._tensor_type = torch.Tensor
        self._symbol_type = torch.SymInt
        self._torch_folder = str(Path(torch.__file__).parent) + os.sep
        # By function, and by name of a method.
        self._ops: dict[Any, str] = {}
        self._methods: dict[str, str] = {}
        for target in targets:
            if target.op.startswith(DISTRIBUTED_PREFIX):
                continue
            self._ops.setdefault(target.original, target.op)
            if target.owner is torch.Tensor:
                self._methods[target.name] = target.op
        for word in _OPERATORS.split():
            function = getattr(operator, word, None) or getattr(operator, f"{word}_")
            method = self._methods.get(f"__{word}__")
            if method is not None:
                self._ops.setdefault(function, method)

    def put_into(self, gm: torch.fx.GraphModule, runs_bodies: bool) -> None:
        """Changes a graph before it is passed to a backend. Raises nothing.

        Args:
            runs_bodies: Whether the backend runs bodies of operators, and code
                in torch.func, unchanged. Stand-ins then record there.
        """
        # A graph that is specialized is passed again.
        if _MARK in gm.meta:
            return
        gm.meta[_MARK] = True
        level = 0
        for node in list(gm.graph.nodes):
            name = getattr(node.target, "__name__", "")
            if name.endswith(_BEGIN):
                level += 1
            elif name.endswith(_END):
                level -= 1
            if node.op == "get_attr":
                self._look_into(gm, node, runs_bodies)
                continue
            op = self._op_of(node)
            if op is None or not self._wants(op):
                continue
            if self._gradients:
                self._count(op, _NO_GRADIENTS)
            if level > 0:
                if not runs_bodies:
                    self._count(op, _IN_A_TRANSFORM)
                continue
            try:
                self._put_around(gm.graph, node, op)
            except Exception as error:  # noqa: BLE001 - never the program's problem
                self._count(op, str(error) or type(error).__name__)
        gm.recompile()

    def _look_into(
        self, gm: torch.fx.GraphModule, node: torch.fx.Node, runs_bodies: bool
    ) -> None:
        """Does the same for the body of an operator, if recording is possible there."""
        body = getattr(gm, str(node.target), None)
        if not isinstance(body, self._graph_type):
            return
        users = {
            getattr(user.target, "__name__", str(user.target)) for user in node.users
        }
        if users <= graphs.BODIES:
            self.put_into(body, runs_bodies)
            return
        if runs_bodies:
            return
        for module in body.modules():
            for inner in module.graph.nodes if hasattr(module, "graph") else ():
                op = self._op_of(inner)
                if op is not None and self._wants(op):
                    self._count(op, _IN_A_BODY)

    def _op_of(self, node: torch.fx.Node) -> str | None:
        if node.op == "call_method":
            return self._methods.get(str(node.target))
        if node.op != "call_function":
            return None
        try:
            op = self._ops.get(node.target)
        except TypeError:
            return None
        if op is None or getattr(node.target, "__module__", "") != "_operator":
            return op
        # Sizes are Python numbers.
        if not any(map(self._is_tensor, node.args)):
            return None
        word = op.removeprefix("Tensor.__").removesuffix("__")
        if word in _REFLECTED and not self._is_tensor(node.args[0]):
            return self._methods.get(f"__r{word}__")
        return op

    def _is_tensor(self, value: Any) -> bool:
        return isinstance(value, self._node_type) and isinstance(
            _example(value), self._tensor_type
        )

    def _put_around(self, graph: torch.fx.Graph, node: torch.fx.Node, op: str) -> None:
        args, kwargs = node.args, node.kwargs
        if op in _REFLECTED_OPS:
            # The order in which the method of the second operand receives them.
            args = args[::-1]
        with graph.inserting_before(node):
            args = tuple(self._opened(graph, arg) for arg in args)
            kwargs = {name: self._opened(graph, arg) for name, arg in kwargs.items()}
            given = list(walk_arguments(args, kwargs, self._node_type, True))
            self._put(graph, BEFORE, op, given if self._inputs else [], node)
        result = _example(node)
        # Nodes that are inserted after the same node end up in reverse order.
        with graph.inserting_before(node.next):
            if result is None:
                # The function worked in place.
                made = walk_result((*args, *kwargs.values()), self._node_type, True)
            else:
                opened = self._opened(graph, node)
                made = walk_result(opened, self._node_type, True)
            self._put(graph, AFTER, op, list(made) if self._outputs else [], node)

    def _opened(self, graph: torch.fx.Graph, value: Any) -> Any:
        """Returns the elements of a value that consists of several tensors,
        each as a node.
        """
        if not isinstance(value, self._node_type):
            return value
        example = _example(value)
        if not isinstance(example, (tuple, list)):
            return value
        out = []
        for position, element in enumerate(example):
            item = graph.call_function(operator.getitem, (value, position))
            item.meta["example_value"] = element
            out.append(self._opened(graph, item))
        return out

    def _put(
        self,
        graph: torch.fx.Graph,
        side: str,
        op: str,
        leaves: list[tuple[str, Any]],
        node: torch.fx.Node,
    ) -> None:
        caller = Caller(self._lines_of(node), False, False, number="")
        head = sites.head_of(self._name, side, op, caller)
        tensors, ints, floats, told, _ = self._write(leaves, self._likeness)
        arguments = (tensors, ints, floats, head + told)
        note = graph.call_function(graphs.operator(), arguments)
        note.meta["example_value"] = None
        if "stack_trace" in node.meta:
            note.meta["stack_trace"] = node.meta["stack_trace"]

    def _likeness(self, leaf: Any) -> Any:
        """Returns the properties of a leaf in a graph, as sites.writer takes them."""
        if not isinstance(leaf, self._node_type):
            return leaf
        example = _example(leaf)
        # A size may be any number; reading it would turn it into a constant.
        return 0 if isinstance(example, self._symbol_type) else example

    def _lines_of(self, node: torch.fx.Node) -> str:
        """Returns the frames of the caller in the format of stacks.stack_of_dynamo."""
        if self._stack == "none":
            return ""
        frames = _FRAME.findall(node.stack_trace or "")
        lines = []
        for file, line, function in reversed(frames):
            if file.startswith(_OURS):
                continue
            text = f"{file}:{line} {function}"
            if self._stack == "full":
                lines.append(text)
            elif not file.startswith(self._torch_folder):
                return text
        return "\n".join(lines)


def are_possible() -> bool:
    """Returns whether graphs of this version of torch can hold notes."""
    return graphs.operator() is not None


def _example(node: Any) -> Any:
    return node.meta.get("example_value")


class _Installed:
    """The notes that are inserted into graphs now, and Dynamo's original function."""

    notes: Notes | None = None


def install(notes: Notes) -> None:
    """Inserts `notes` into all graphs that are compiled until `uninstall`."""
    _Installed.notes = notes
    _patch()


def uninstall(notes: Notes | None) -> None:
    """Ends `install`. Further calls have no effect."""
    if notes is not None and _Installed.notes is notes:
        _Installed.notes = None


def _patch() -> None:
    """Makes Dynamo pass each graph to this module before a backend receives it."""
    from torch._dynamo.output_graph import OutputGraph

    original = OutputGraph.call_user_compiler
    if hasattr(original, "_msitd_is_ours"):
        return

    def call_user_compiler(self: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
        notes = _Installed.notes
        if notes is not None and _takes_notes(self):
            # Backends that run the graph unchanged also run the stand-ins.
            name = getattr(self.compiler_fn, "compiler_name", "")
            notes.put_into(gm, runs_bodies=name == "eager")
        return original(self, gm, *args, **kwargs)

    call_user_compiler._msitd_is_ours = True  # type: ignore[attr-defined]
    OutputGraph.call_user_compiler = call_user_compiler  # type: ignore[method-assign]


def _takes_notes(output: Any) -> bool:
    # An exported program also runs in other processes.
    return not (
        getattr(output, "export", False) or compiled.exporter()._is_exporting_flag
    )
