"""Lets the graphs of torch.compile hold what hooks record.

A graph holds operators of torch alone. So there is one that records: Dynamo runs the
hooks while it makes a graph, and they leave that operator in it, with the tensors, the
numbers, and a text that says what they are. It has an ordered effect: no pass removes
it, and all of them run in the order of the hooks.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msitd._core.values import Described, Value
from msitd._core.vocabulary import KIND_NUMBERS
from msitd._core.walk import walk_arguments, walk_result

if TYPE_CHECKING:
    import torch

# Between the parts of a site, and between the words of one leaf. No name of a module
# has them.
_PART = "\x1e"
_WORD = "\x1f"

BEFORE = "before"
AFTER = "after"

# Sites of which the meaning is remembered. More are read again.
_SITES_MAX = 65536


class Recorder(Protocol):
    """What the operator calls when the graph runs."""

    def run_in_graph(self, side: str, op: str, leaves: dict[str, Any]) -> None:
        """Runs the hook `side` of `op`, with the leaves by index. Raises nothing."""


# By the number that is in the text of a site.
_recorders: weakref.WeakValueDictionary[str, Recorder] = weakref.WeakValueDictionary()
_next_number = itertools.count(1).__next__

Note = Callable[[str, str, Iterable[tuple[str, Any]]], None]


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
    tensor_type, dtype_type = torch.Tensor, torch.dtype

    def note(side: str, op: str, leaves: Iterable[tuple[str, Any]]) -> None:
        tensors: list[torch.Tensor] = []
        ints: list[int] = []
        floats: list[float] = []
        site = name + _PART + side + _PART + op
        for index, leaf in leaves:
            if isinstance(leaf, tensor_type):
                # With one on `meta` among its tensors, torch would not run the operator.
                if leaf.is_meta:
                    word = "meta" + _WORD + "<torch.Tensor " + str(leaf.dtype) + ">"
                else:
                    tensors.append(leaf)
                    word = "tensor"
            elif leaf is None:
                word = "none"
            elif isinstance(leaf, bool):
                word = "true" if leaf else "false"
            # Dynamo may have made a symbol of a number.
            elif isinstance(leaf, int):
                ints.append(leaf)
                word = "int"
            elif isinstance(leaf, float):
                floats.append(leaf)
                word = "float"
            elif isinstance(leaf, str):
                word = "text" + _WORD + leaf
            elif isinstance(leaf, dtype_type):
                word = "dtype" + _WORD + str(leaf)
            elif isinstance(leaf, (tuple, list, dict)):
                word = "other" + _WORD + repr(leaf)
            else:
                kind = type(leaf)
                word = "other" if kind.__module__ == "torch" else "object"
                word = word + _WORD + "<" + kind.__module__ + "."
                word = word + kind.__qualname__ + ">"
            site = site + _PART + index + _WORD + word
        record(tensors, ints, floats, site)

    return note


@functools.cache
def _operator() -> Any:
    """Returns the operator that records; None if this torch has no means for it.

    Operators in Python came with torch 2.4, their effects later.
    """
    import torch

    try:
        from torch._library.effects import EffectType

        options: dict[str, Any] = {}
        tag = getattr(torch.Tag, "cudagraph_unsafe", None)
        if tag is not None:
            # It copies to the host, which no replay would do again.
            options["tags"] = (tag,)
        note = torch.library.custom_op(
            "msitd::note",
            _note,
            mutates_args=(),
            schema="(Tensor[] tensors, SymInt[] ints, float[] floats, str site) -> ()",
            **options,
        )
        note.register_fake(lambda tensors, ints, floats, site: None)
        note.register_effect(EffectType.ORDERED)
    except (AttributeError, ImportError, TypeError):
        return None
    return torch.ops.msitd.note.default


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


class _Site(NamedTuple):
    """What one operator of a graph is there for."""

    recorder: str
    side: str
    op: str
    # Index, word and text of each leaf.
    leaves: tuple[tuple[str, str, str], ...]


@functools.lru_cache(maxsize=_SITES_MAX)
def _read_site(text: str) -> _Site:
    recorder, side, op, *leaves = text.split(_PART)
    return _Site(recorder, side, op, tuple(_read_leaf(leaf) for leaf in leaves))


def _read_leaf(text: str) -> tuple[str, str, str]:
    index, _, rest = text.partition(_WORD)
    word, _, text = rest.partition(_WORD)
    return index, word, text


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
    numbers = {"tensor": iter(tensors), "int": iter(ints), "float": iter(floats)}
    leaves: dict[str, Any] = {}
    for index, word, text in place.leaves:
        if word in numbers:
            leaves[index] = next(numbers[word])
        elif word in _CONSTANTS:
            leaves[index] = _CONSTANTS[word]
        else:
            lack = _LACKS.get(word, "")
            kind = KIND_NUMBERS["other" if lack else word]
            leaves[index] = Described(Value(kind, None, text), lack)
    recorder.run_in_graph(place.side, place.op, leaves)
