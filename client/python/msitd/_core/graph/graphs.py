"""Records inside the graphs of torch.compile.

The problem: torch.compile replaces the Python code of a model by graphs. A hook
that copies a tensor cannot be traced into a graph, because tracing runs it
once, with tensors that have no bytes. There are three ways to record
nevertheless:

- Break the graph at each hook. This is simple, but fullgraph=True forbids it,
  and the model then runs as many small graphs. Fusions across the hooks
  disappear, so the program with hooks is slower, and may compute other numbers
  than the program without them.
- Return the tensors as additional outputs of the graph. This keeps one graph,
  but all recorded tensors stay alive until the graph ends, which raises the
  peak memory.
- Put an operator that records into the graph. The tensors are copied where the
  operator runs, and the graph stays whole.

This module does the third. Dynamo runs the hooks while it traces the graph, and
each hook leaves a call of the operator `msitd::note` there. The operator
receives the tensors, the numbers, and a text, the site, that describes them;
see `sites`. When the compiled graph runs, the operator finds its recorder by
the name in the site.

The operator is registered with an ordered effect. No pass removes it as dead
code, and the calls run in the order of the hooks; `effect_order` repairs the
cases in which Inductor does not comply. Where autograd builds a backward of the
graph, the operator attaches hooks to the autograd nodes, and these hooks leave
the operator in the backward graph too; see `graph_gradients`.

The costs: a recorded tensor must be written to memory, so Inductor cannot fuse
it away. CUDA graphs are split at the operator, because it copies to the host
and a replay would not repeat the copy. Where the graph cannot hold the
operator, such as in the bodies of most higher-order operators or inside
functorch transforms, the call is not recorded but counted with its reason.
Versions of torch without effects for Python operators fall back to graph
breaks.
"""

from __future__ import annotations

import functools
import itertools
import sys
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msitd._core.gradient.graph_gradients import number_in_dynamo
from msitd._core.graph import compiled, sites
from msitd._core.graph.compiled import make_opaque
from msitd._core.graph.effect_order import keep_order
from msitd._core.graph.sites import AFTER, BEFORE, GRADIENT, Caller, Site
from msitd._core.leaf import stacks
from msitd._core.leaf.leaves import SAME_INDEX
from msitd._core.leaf.walk import walk_arguments, walk_result
from msitd._core.not_recorded import reason_of

if TYPE_CHECKING:
    import torch

    from msitd._core.gradient.graph_gradients import GraphGradients


class Recorder(Protocol):
    """The object that the operator calls when the graph runs."""

    # One of stacks.STACK_LEVELS.
    stack_level: str
    # None if no gradients are recorded.
    graph_gradients: GraphGradients | None

    def run_in_graph(
        self, side: str, op: str, leaves: dict[str, Any], caller: Caller
    ) -> None:
        """Runs the hook `side` of `op`, with the leaves by index. Raises nothing."""

    def count_in_graph(self, op: str, reason: str) -> None:
        """Called during tracing for a call that no graph can record."""


# By the name in the text of a site.
_recorders: weakref.WeakValueDictionary[str, Recorder] = weakref.WeakValueDictionary()
_next_number = itertools.count(1).__next__


def enlist(recorder: Recorder) -> str:
    """Returns the name by which sites refer to `recorder` while it is alive."""
    name = str(_next_number())
    _recorders[name] = recorder
    return name


Note = Callable[[str, str, Iterable[tuple[str, Any]]], None]

_IN_A_BODY = (
    "a module in the body of an operator of a graph, such as of torch.cond: "
    "no record is possible there"
)
_IN_A_TRANSFORM = (
    "a module in torch.func of a compiled model: no record is possible there"
)

# Operators whose bodies may have effects.
BODIES = frozenset(("invoke_subgraph", "tag_activation_checkpoint", "wrap"))


def _head(name: str, side: str, op: str) -> str:
    """Returns the beginning of a site's text; "" if the graph cannot record here.

    It does not include the number of the call. Dynamo runs this function once,
    while it traces the graph.
    """
    import torch

    recorder = _recorders.get(name)
    if recorder is None:
        return ""
    reason = _problem()
    if reason:
        if side == BEFORE:
            recorder.count_in_graph(op, reason)
        return ""
    caller = Caller(
        stacks.stack_of_dynamo(recorder.stack_level),
        stacks.is_recursive_in_dynamo(),
        # Dynamo traces a separate graph for each value of this flag.
        torch.is_grad_enabled(),
        number="",
    )
    return sites.head_of(name, side, op, caller)


def _number(name: str, side: str, op: str, needs_gradient: bool) -> str:
    """Returns the end of a site's head, the number of the call; "" without gradients.

    Dynamo runs this function as it does `_head`.
    """
    recorder = _recorders.get(name)
    if recorder is None or recorder.graph_gradients is None:
        return ""
    return number_in_dynamo(name, op, side == BEFORE, needs_gradient)


def _problem() -> str:
    import torch
    from torch._dynamo.symbolic_convert import InstructionTranslator

    if torch._C._functorch.peek_interpreter_stack() is not None:
        return _IN_A_TRANSFORM
    output = InstructionTranslator.current_tx().output
    if getattr(output.compiler_fn, "compiler_name", "") == "eager":
        # The eager backend runs the bodies unchanged.
        return ""
    for tracer in output.tracers[1:]:
        name = getattr(tracer.source_target, "__name__", str(tracer.source_target))
        if name not in BODIES:
            return _IN_A_BODY
    return ""


for _constant in (_head, _number):
    # Equivalent to torch.compiler.assume_constant_result.
    _constant._dynamo_marked_constant = True  # type: ignore[attr-defined]


def note_of(recorder: Recorder) -> Note | None:
    """Returns the function with which hooks of `recorder` record into a graph.

    Dynamo runs that function while it traces the graph. None if this version of
    torch cannot record in graphs.
    """
    record = operator()
    if record is None:
        return None
    name = enlist(recorder)
    write = sites.writer()
    likeness = sites.itself

    def note(side: str, op: str, leaves: Iterable[tuple[str, Any]]) -> None:
        head = _head(name, side, op)
        if not head:
            return
        tensors, ints, floats, told, needs_gradient = write(leaves, likeness)
        number = _number(name, side, op, needs_gradient)
        record(tensors, ints, floats, head + number + told)

    return note


@functools.cache
def operator() -> Any:
    """Returns the operator that records; None if this version of torch has no support.

    Operators in Python appeared in torch 2.4, their effects later.
    """
    import torch

    try:
        from torch._library.effects import EffectType

        library = torch.library.Library("msitd", "FRAGMENT")
        # The operator copies to the host, which the replay of a CUDA graph
        # would not repeat.
        tag = getattr(torch.Tag, "cudagraph_unsafe", None)
        library.define(_SCHEMA, tags=() if tag is None else (tag,))
        library.impl("note", _note, "CompositeExplicitAutograd")
        library.impl("note", _note_above_autograd, "Autograd", with_keyset=True)
        torch.library.register_fake(_NAME, _no_note, lib=library)
        library._register_effectful_op(_NAME, EffectType.ORDERED)
    except (AttributeError, ImportError, TypeError):
        return None
    for function in (_note, _note_above_autograd, _no_note):
        make_opaque(function)
    # The operator is removed together with its library.
    _libraries.append(library)
    return torch.ops.msitd.note.default


def _keep_out_of_cuda_graphs() -> None:
    """Makes Inductor split its CUDA graphs at the operator.

    Inductor checks the tag only for operators without effects.
    """
    config = sys.modules.get("torch._inductor.config")
    names = getattr(config, "custom_should_partition_ops", None)
    if names is not None and _NAME not in names:
        names.append(_NAME)


_NAME = "msitd::note"
_SCHEMA = "note(Tensor[] tensors, SymInt[] ints, float[] floats, str site) -> ()"

_libraries: list[Any] = []


class HooksInGraph(NamedTuple):
    """The hooks that Dynamo runs instead of the two hooks of one module."""

    before: Callable[[Any, tuple[Any, ...], dict[str, Any]], None]
    after: Callable[[Any, tuple[Any, ...], dict[str, Any], Any], None]


def hooks_of(op: str, note: Note | None, inputs: bool, outputs: bool) -> HooksInGraph:
    """Returns hooks that record the calls of `op` into a graph.

    Args:
        op: Name of the module.
        note: See `note_of`.
        inputs: Whether arguments are recorded.
        outputs: Whether results are recorded.
    """
    import torch

    tensor_type = torch.Tensor

    # An exported program also runs in other processes. torch's own function for
    # this test returns True in every graph, up to torch 2.12.
    exporter = compiled.exporter()

    def before(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if exporter._is_exporting_flag:
            return
        given = walk_arguments(args, kwargs, tensor_type, True)
        note(BEFORE, op, given if inputs else ())  # type: ignore[misc]

    def after(
        module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        if exporter._is_exporting_flag:
            return
        is_there = outputs and result is not None
        given = walk_result(result, tensor_type, True)
        note(AFTER, op, given if is_there else ())  # type: ignore[misc]

    return HooksInGraph(before, after)


def _note(
    tensors: list[torch.Tensor], ints: list[int], floats: list[float], site: str
) -> None:
    """Implements the operator for tensors with bytes."""
    place = sites.read_site(site)
    recorder = _recorders.get(place.recorder)
    if recorder is None:
        return
    try:
        if place.side == GRADIENT:
            _record_gradient(recorder, place, tensors)
            return
        leaves: dict[str, Any] = {}
        try:
            for index, leaf in sites.read_leaves(place, tensors, ints, floats):
                # The first leaf with an index counts, as without a graph.
                if index in leaves:
                    recorder.count_in_graph(place.op, SAME_INDEX)
                else:
                    leaves[index] = leaf
        finally:
            recorder.run_in_graph(place.side, place.op, leaves, place.caller)
    except Exception as error:  # noqa: BLE001 - never the model's problem
        recorder.count_in_graph(place.op, reason_of(error))


def _record_gradient(
    recorder: Recorder, place: Site, tensors: list[torch.Tensor]
) -> None:
    gradients = recorder.graph_gradients
    if gradients is None:
        return
    indexes, ios, _ = zip(*place.leaves, strict=True)
    given = list(zip(indexes, tensors, strict=True))
    gradients.record(place.op, place.caller.number, ios[0], given)


def _note_above_autograd(
    keys: Any,
    tensors: list[torch.Tensor],
    ints: list[int],
    floats: list[float],
    site: str,
) -> None:
    """Implements the operator above autograd.

    During tracing, it attaches hooks to the autograd nodes.
    """
    import torch

    mode = torch._C._get_dispatch_mode
    kinds = torch._C._TorchDispatchModeKey
    proxy = mode(kinds.PROXY)
    if proxy is None and mode(kinds.FUNCTIONAL) is None and mode(kinds.FAKE) is None:
        _note(tensors, ints, floats, site)
        return
    with torch._C._AutoDispatchBelowAutograd():
        keys = keys & torch._C._after_autograd_keyset
        operator().redispatch(keys, tensors, ints, floats, site)
    if proxy is not None:
        _watch(proxy.tracer, sites.read_site(site), tensors)


def _watch(tracer: Any, place: Site, tensors: list[torch.Tensor]) -> None:
    recorder = _recorders.get(place.recorder)
    gradients = None if recorder is None else recorder.graph_gradients
    number = place.caller.number
    if gradients is None or not number or place.side == GRADIENT:
        return
    indexes = [i for i, word, _ in place.leaves if word in sites.TENSOR_WORDS]
    given = list(zip(indexes, tensors, strict=True))
    if place.side == BEFORE:
        gradients.begin_traced(tracer, place.op, number, given)
        return

    def emit(io: str, indexes: list[str], gradient: torch.Tensor) -> None:
        leaves = [sites.gradient_leaf(index, io) for index in indexes]
        site = sites.gradient_site(place.recorder, place.op, number, leaves)
        operator()([gradient] * len(indexes), [], [], site)

    gradients.end_traced(tracer, place.op, number, given, emit)


def _no_note(
    tensors: list[torch.Tensor], ints: list[int], floats: list[float], site: str
) -> None:
    """Implements the operator for tensors without bytes, as during tracing."""
    _keep_out_of_cuda_graphs()
    keep_order(operator())
