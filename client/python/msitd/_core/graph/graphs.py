"""Lets the graphs of torch.compile hold what hooks record.

A graph holds operators of torch alone. So there is one that records: Dynamo runs the
hooks while it makes a graph, and they leave that operator in it, with the tensors, the
numbers, and a text that says what they are. It has an ordered effect: no pass removes
it, and all of them run in the order of the hooks. Where autograd makes a backward of
the graph, the operator puts hooks on the nodes of autograd that leave it there too; see
`graph_gradients`.
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
    """What the operator calls when the graph runs."""

    # One of stacks.STACK_LEVELS.
    stack_level: str
    # None if no gradients are recorded.
    graph_gradients: GraphGradients | None

    def run_in_graph(
        self, side: str, op: str, leaves: dict[str, Any], caller: Caller
    ) -> None:
        """Runs the hook `side` of `op`, with the leaves by index. Raises nothing."""

    def count_in_graph(self, op: str, reason: str) -> None:
        """Is told of a call that no graph can record, when the graph is made."""


# By the name that is in the text of a site.
_recorders: weakref.WeakValueDictionary[str, Recorder] = weakref.WeakValueDictionary()
_next_number = itertools.count(1).__next__


def enlist(recorder: Recorder) -> str:
    """Returns the name by which sites call `recorder`, as long as it lives."""
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

# Operators of which a body may have effects.
BODIES = frozenset(("invoke_subgraph", "tag_activation_checkpoint", "wrap"))


def _head(name: str, side: str, op: str) -> str:
    """Returns how the text of a site begins; "" if the graph can have none here.

    The number of the call is not in it. Dynamo runs it once, while it makes the graph.
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
        # Dynamo makes another graph where this differs.
        torch.is_grad_enabled(),
        number="",
    )
    return sites.head_of(name, side, op, caller)


def _number(name: str, side: str, op: str, needs_gradient: bool) -> str:
    """Returns what ends the head of a site: which call it is; "" without gradients.

    Dynamo runs it like `_head`.
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
        # It runs the bodies as they are.
        return ""
    for tracer in output.tracers[1:]:
        name = getattr(tracer.source_target, "__name__", str(tracer.source_target))
        if name not in BODIES:
            return _IN_A_BODY
    return ""


for _constant in (_head, _number):
    # As torch.compiler.assume_constant_result does.
    _constant._dynamo_marked_constant = True  # type: ignore[attr-defined]


def note_of(recorder: Recorder) -> Note | None:
    """Returns the function by which hooks of `recorder` record into a graph.

    Dynamo runs it, while it makes the graph. None if this torch has no means
    for it.
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
    """Returns the operator that records; None if this torch has no means for it.

    Operators in Python came with torch 2.4, their effects later.
    """
    import torch

    try:
        from torch._library.effects import EffectType

        library = torch.library.Library("msitd", "FRAGMENT")
        # It copies to the host, which no replay of a CUDA graph would do again.
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
    # The operator goes with its library.
    _libraries.append(library)
    return torch.ops.msitd.note.default


def _keep_out_of_cuda_graphs() -> None:
    """Lets Inductor cut its CUDA graphs at the operator.

    It looks for the tag in operators that have no effects alone.
    """
    config = sys.modules.get("torch._inductor.config")
    names = getattr(config, "custom_should_partition_ops", None)
    if names is not None and _NAME not in names:
        names.append(_NAME)


_NAME = "msitd::note"
_SCHEMA = "note(Tensor[] tensors, SymInt[] ints, float[] floats, str site) -> ()"

_libraries: list[Any] = []


class HooksInGraph(NamedTuple):
    """What Dynamo runs in place of the two hooks of one module."""

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

    # An exported program is for other processes too. Of the function of torch for it,
    # Dynamo says True in every graph, up to torch 2.12.
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
    """Is the operator."""
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
                # The first one counts, as without a graph.
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
    """Is the operator where autograd sees it.

    In what traces a graph, it puts hooks on the nodes of autograd.
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
    """Is the operator for tensors without bytes, as in what makes a graph."""
    _keep_out_of_cuda_graphs()
    keep_order(operator())
