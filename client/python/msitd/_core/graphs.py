"""Lets the graphs of torch.compile hold what hooks record.

A graph holds operators of torch alone. So there is one that records: Dynamo runs the
hooks while it makes a graph, and they leave that operator in it, with the tensors, the
numbers, and a text that says what they are. It has an ordered effect: no pass removes
it, and all of them run in the order of the hooks. Where autograd makes a backward of
the graph, the operator puts hooks on the nodes of autograd that leave it there too; see
`graph_gradients`.
"""

from __future__ import annotations

import enum
import functools
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msitd._core import stacks
from msitd._core.compiled import make_opaque
from msitd._core.effect_order import keep_order
from msitd._core.graph_gradients import number_in_dynamo
from msitd._core.values import Described, Value, describe
from msitd._core.vocabulary import KIND_NUMBERS
from msitd._core.walk import walk_arguments, walk_result

if TYPE_CHECKING:
    import torch

    from msitd._core.graph_gradients import GraphGradients

# Between the parts of a site, and between the words of one leaf. No name of a module
# has them.
_PART = "\x1e"
_WORD = "\x1f"
# Of texts in a site that have these. A digit follows.
_ESCAPE = "\x1d"

BEFORE = "before"
AFTER = "after"
_GRADIENT = "gradient"

_INT64_MIN = -(1 << 63)
_INT64_MAX = (1 << 63) - 1

# By its number.
_KINDS = {number: name for name, number in KIND_NUMBERS.items()}

# Sites of which the meaning is remembered. More are read again.
_SITES_MAX = 65536


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


# By the number that is in the text of a site.
_recorders: weakref.WeakValueDictionary[str, Recorder] = weakref.WeakValueDictionary()
_next_number = itertools.count(1).__next__

Note = Callable[[str, str, Iterable[tuple[str, Any]]], None]

_IN_A_BODY = (
    "a module in the body of an operator of a graph, such as of torch.cond: "
    "no record is possible there"
)
_IN_A_TRANSFORM = (
    "a module in torch.func of a compiled model: no record is possible there"
)

# Operators of which a body may have effects.
_BODIES = frozenset(("invoke_subgraph", "tag_activation_checkpoint", "wrap"))


def _head(name: str, side: str, op: str) -> str:
    """Returns how the text of a site begins; "" if the graph can have none here.

    Dynamo runs it once, while it makes the graph.
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
    lines = stacks.stack_of_dynamo(recorder.stack_level)
    recursive = "recursive" if stacks.is_recursive_in_dynamo() else ""
    # Dynamo makes another graph where this differs.
    grad = "grad" if torch.is_grad_enabled() else ""
    return _PART.join((name, side, op, recursive, grad, _escaped(lines)))


def _number(name: str, side: str, op: str, needs_gradient: bool) -> str:
    """Returns the part of a site that tells which call it is; "" without gradients.

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
        if name not in _BODIES:
            return _IN_A_BODY
    return ""


def _escaped(text: str) -> str:
    """Returns text that UTF-8 has, without what ends a part."""
    for number, mark in enumerate((_ESCAPE, _PART, _WORD)):
        text = text.replace(mark, _ESCAPE + str(number))
    return text.encode(errors="backslashreplace").decode()


def _plain(text: str) -> str:
    for number, mark in reversed(tuple(enumerate((_ESCAPE, _PART, _WORD)))):
        text = text.replace(_ESCAPE + str(number), mark)
    return text


def _word_of(leaf: Any) -> str:
    """Returns what a site says of a constant."""
    value = describe(leaf)
    word = _KINDS[value.kind]
    if word == "number":
        word = type(value.number).__name__
    return word + _WORD + _escaped(value.text)


for _constant in (_head, _number, _escaped, _word_of):
    # As torch.compiler.assume_constant_result does.
    _constant._dynamo_marked_constant = True  # type: ignore[attr-defined]


def note_of(recorder: Recorder) -> Note | None:
    """Returns the function by which hooks of `recorder` record into a graph.

    Dynamo runs it, while it makes the graph. None if this torch has no means
    for it.
    """
    import torch

    record = _operator()
    if record is None:
        return None
    name = str(_next_number())
    _recorders[name] = recorder
    tensor_type = torch.Tensor
    constant_types = (
        str,
        bytes,
        complex,
        enum.Enum,
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
    )

    def note(side: str, op: str, leaves: Iterable[tuple[str, Any]]) -> None:
        tensors: list[torch.Tensor] = []
        ints: list[int] = []
        floats: list[float] = []
        site = _head(name, side, op)
        if not site:
            return
        told = ""
        needs_gradient = False
        for index, leaf in leaves:
            if isinstance(leaf, tensor_type):
                # With one on `meta` among its tensors, torch would not run the operator.
                if leaf.is_meta:
                    word = "meta" + _WORD + "<torch.Tensor " + str(leaf.dtype) + ">"
                else:
                    tensors.append(leaf)
                    word = "trained" if leaf.requires_grad else "tensor"
                    needs_gradient = needs_gradient or leaf.requires_grad
            elif leaf is None:
                word = "none"
            elif isinstance(leaf, bool):
                word = "true" if leaf else "false"
            elif isinstance(leaf, constant_types):
                word = _word_of(leaf)
            # Dynamo may have made a symbol of a number.
            elif isinstance(leaf, int):
                if _INT64_MIN <= leaf <= _INT64_MAX:
                    ints.append(leaf)
                    word = "int"
                else:
                    word = _word_of(leaf)
            elif isinstance(leaf, float):
                floats.append(leaf)
                word = "float"
            elif isinstance(leaf, (tuple, list, dict)):
                word = "other" + _WORD + repr(leaf)
            elif isinstance(leaf, (slice, range)):
                word = _word_of(leaf)
            else:
                kind = type(leaf)
                word = "other" if kind.__module__ == "torch" else "object"
                word = word + _WORD + "<" + kind.__module__ + "."
                word = word + kind.__qualname__ + ">"
            told = told + _PART + _escaped(index) + _WORD + word
        number = _number(name, side, op, needs_gradient)
        record(tensors, ints, floats, site + _PART + number + told)

    return note


@functools.cache
def _operator() -> Any:
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
        torch.library.register_fake("msitd::note", _no_note, lib=library)
        library._register_effectful_op("msitd::note", EffectType.ORDERED)
    except (AttributeError, ImportError, TypeError):
        return None
    for function in (_note, _note_above_autograd, _no_note):
        make_opaque(function)
    # The operator goes with its library.
    _libraries.append(library)
    return torch.ops.msitd.note.default


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

    # An exported program is for other processes too.
    is_exporting = getattr(torch.compiler, "is_exporting", None) or _no

    def before(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if is_exporting():
            return
        given = walk_arguments(args, kwargs, tensor_type, True)
        note(BEFORE, op, given if inputs else ())  # type: ignore[misc]

    def after(
        module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        if is_exporting():
            return
        is_there = outputs and result is not None
        given = walk_result(result, tensor_type, True)
        note(AFTER, op, given if is_there else ())  # type: ignore[misc]

    return HooksInGraph(before, after)


def _no() -> bool:
    return False


class Caller(NamedTuple):
    """Where Dynamo has seen a call."""

    # As `stacks.stack_of_dynamo` gives it.
    lines: str
    # Whether the module calls itself there.
    is_recursive: bool
    is_grad_enabled: bool
    # See graph_gradients; "" if no gradients are recorded.
    number: str


class _Site(NamedTuple):
    """What one operator of a graph is there for."""

    recorder: str
    side: str
    op: str
    caller: Caller
    # Index, word and text of each leaf.
    leaves: tuple[tuple[str, str, str], ...]


@functools.lru_cache(maxsize=_SITES_MAX)
def _read_site(text: str) -> _Site:
    recorder, side, op, recursive, grad, lines, number, *leaves = text.split(_PART)
    caller = Caller(_plain(lines), bool(recursive), bool(grad), number)
    return _Site(recorder, side, op, caller, tuple(map(_read_leaf, leaves)))


def _read_leaf(text: str) -> tuple[str, str, str]:
    index, _, rest = text.partition(_WORD)
    word, _, text = rest.partition(_WORD)
    return _plain(index), word, _plain(text)


# Why what has such a word is not recorded.
_LACKS = {
    "meta": "a tensor on the device `meta` has no bytes",
    "object": "what is in an object that becomes part of a graph",
}

_CONSTANTS = {"none": None, "true": True, "false": False}


def _note(
    tensors: list[torch.Tensor], ints: list[int], floats: list[float], site: str
) -> None:
    """Is the operator."""
    place = _read_site(site)
    recorder = _recorders.get(place.recorder)
    if recorder is None:
        return
    if place.side == _GRADIENT:
        _record_gradient(recorder, place, tensors)
        return
    leaves: dict[str, Any] = {}
    try:
        given = [iter(tensors), iter(ints), iter(floats)]
        for index, word, text in place.leaves:
            leaves[index] = _leaf_of(word, text, *given)
    except Exception as error:  # noqa: BLE001 - never the model's problem
        recorder.count_in_graph(place.op, str(error) or type(error).__name__)
    recorder.run_in_graph(place.side, place.op, leaves, place.caller)


def _record_gradient(
    recorder: Recorder, place: _Site, tensors: list[torch.Tensor]
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
        _operator().redispatch(keys, tensors, ints, floats, site)
    if proxy is not None:
        _watch(proxy.tracer, _read_site(site), tensors)


def _watch(tracer: Any, place: _Site, tensors: list[torch.Tensor]) -> None:
    recorder = _recorders.get(place.recorder)
    gradients = None if recorder is None else recorder.graph_gradients
    number = place.caller.number
    if gradients is None or not number or place.side == _GRADIENT:
        return
    words = ("tensor", "trained")
    indexes = [index for index, word, _ in place.leaves if word in words]
    given = list(zip(indexes, tensors, strict=True))
    if place.side == BEFORE:
        gradients.begin_traced(tracer, place.op, number, given)
        return

    def emit(io: str, indexes: list[str], gradient: torch.Tensor) -> None:
        leaves = [_escaped(index) + _WORD + io for index in indexes]
        head = (place.recorder, _GRADIENT, place.op, "", "", "", number)
        site = _PART.join((*head, *leaves))
        _operator()([gradient] * len(indexes), [], [], site)

    gradients.end_traced(tracer, place.op, number, given, emit)


def _no_note(
    tensors: list[torch.Tensor], ints: list[int], floats: list[float], site: str
) -> None:
    """Is the operator for tensors without bytes, as in what makes a graph."""
    keep_order(_operator())


def _leaf_of(
    word: str,
    text: str,
    tensors: Iterator[torch.Tensor],
    ints: Iterator[int],
    floats: Iterator[float],
) -> Any:
    if word == "tensor":
        return next(tensors)
    if word == "trained":
        # A graph may run without autograd.
        tensor = next(tensors)
        if tensor.requires_grad or tensor.is_inference():
            return tensor
        return tensor.detach().requires_grad_()
    if word == "int":
        return next(ints)
    if word == "float":
        return next(floats)
    if word == "complex":
        return complex(text)
    if word in _CONSTANTS:
        return _CONSTANTS[word]
    lack = _LACKS.get(word, "")
    kind = KIND_NUMBERS["other" if lack else word]
    return Described(Value(kind, None, text), lack)
