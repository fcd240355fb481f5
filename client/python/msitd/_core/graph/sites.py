"""Encodes as text what an operator that records in a graph is there for.

A graph holds tensors, numbers and texts. The operator therefore receives the
leaves of a call sorted by their kinds, and a text, called its site. The site
states the call, the side of the call, and the meaning of each leaf. It is
written while the graph is traced, and the operator reads it when the graph
runs.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from msitd._core.leaf.values import Described, Value, describe
from msitd._core.vocabulary import KIND_NUMBERS

if TYPE_CHECKING:
    import torch

# Separates the parts of a site, and the words of one leaf. No name of a module
# contains it.
_PART = "\x1e"
_WORD = "\x1f"
# Escapes these characters in texts of a site. A digit follows.
_ESCAPE = "\x1d"

BEFORE = "before"
AFTER = "after"
GRADIENT = "gradient"

_INT64_MIN = -(1 << 63)
_INT64_MAX = (1 << 63) - 1

# Names of the kinds, by number.
_KINDS = {number: name for name, number in KIND_NUMBERS.items()}

# Maximum number of sites whose parsed form is cached. Other sites are parsed
# again.
_SITES_MAX = 65536

# Words of leaves that are tensors of the operator.
TENSOR_WORDS = ("tensor", "trained")

# Why a leaf with such a word is not recorded.
_LACKS = {
    "meta": "a tensor on the device `meta` has no bytes",
    "object": "what is in an object that becomes part of a graph",
}

_CONSTANTS = {"none": None, "true": True, "false": False}


class Caller(NamedTuple):
    """Where a call was seen while its graph was traced."""

    # The stack, as returned by `stacks.stack_of_dynamo`.
    lines: str
    # Whether the module calls itself there.
    is_recursive: bool
    is_grad_enabled: bool
    # See graph_gradients; "" if no gradients are recorded.
    number: str


class Site(NamedTuple):
    """The content of the records of one operator of a graph."""

    # See graphs.enlist.
    recorder: str
    # BEFORE, AFTER or GRADIENT.
    side: str
    op: str
    caller: Caller
    # Index, word and text of each leaf.
    leaves: tuple[tuple[str, str, str], ...]


def head_of(recorder: str, side: str, op: str, caller: Caller) -> str:
    """Returns the beginning of a site's text: everything except its leaves."""
    recursive = "recursive" if caller.is_recursive else ""
    grad = "grad" if caller.is_grad_enabled else ""
    lines = _escaped(caller.lines)
    return _PART.join((recorder, side, op, recursive, grad, lines, caller.number))


def gradient_site(recorder: str, op: str, number: str, leaves: Iterable[str]) -> str:
    """Returns the site of a gradient.

    Args:
        recorder: See graphs.enlist.
        op: Op of the call.
        number: Number of the call.
        leaves: See `gradient_leaf`.
    """
    head = head_of(recorder, GRADIENT, op, Caller("", False, False, number))
    return _PART.join((head, *leaves))


def gradient_leaf(index: str, io: str) -> str:
    """Returns the part of such a site that describes one leaf."""
    return _escaped(index) + _WORD + io


def _escaped(text: str) -> str:
    """Returns the text, encodable as UTF-8, without characters that end a part."""
    for number, mark in enumerate((_ESCAPE, _PART, _WORD)):
        text = text.replace(mark, _ESCAPE + str(number))
    return text.encode(errors="backslashreplace").decode()


def _plain(text: str) -> str:
    for number, mark in reversed(tuple(enumerate((_ESCAPE, _PART, _WORD)))):
        text = text.replace(_ESCAPE + str(number), mark)
    return text


def _word_of_constant(leaf: Any) -> str:
    value = describe(leaf)
    word = _KINDS[value.kind]
    if word == "number":
        word = type(value.number).__name__
    return word + _WORD + _escaped(value.text)


for _constant in (_escaped, _word_of_constant):
    # Equivalent to torch.compiler.assume_constant_result.
    _constant._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _constant_types() -> tuple[type, ...]:
    """Returns the types whose values a graph never replaces by placeholders."""
    import torch

    return (
        str,
        bytes,
        complex,
        enum.Enum,
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
    )


# Tensors, integers and floats of the operator, the rest of its site, and
# whether one of the tensors requires a gradient.
Written = tuple[list[Any], list[Any], list[Any], str, bool]


def writer() -> Callable[[Iterable[tuple[str, Any]], Callable[[Any], Any]], Written]:
    """Returns the function that writes the leaves of a site.

    Dynamo may trace it. It takes the leaves by index, and a function that
    returns the properties of a leaf for which the leaf is a placeholder in a
    graph.
    """
    import torch

    tensor_type = torch.Tensor
    constant_types = _constant_types()

    def write(
        leaves: Iterable[tuple[str, Any]], likeness: Callable[[Any], Any]
    ) -> Written:
        tensors: list[Any] = []
        ints: list[Any] = []
        floats: list[Any] = []
        told = ""
        needs_gradient = False
        for index, leaf in leaves:
            seen = likeness(leaf)
            if isinstance(seen, tensor_type):
                # If one of its tensors were on `meta`, torch would not run the
                # operator.
                if seen.is_meta:
                    word = "meta" + _WORD + "<torch.Tensor " + str(seen.dtype) + ">"
                else:
                    tensors.append(leaf)
                    word = "trained" if seen.requires_grad else "tensor"
                    needs_gradient = needs_gradient or seen.requires_grad
            elif seen is None:
                word = "none"
            elif isinstance(seen, bool):
                word = "true" if seen else "false"
            elif isinstance(seen, constant_types):
                word = _word_of_constant(seen)
            # Dynamo may have turned a number into a symbol.
            elif isinstance(seen, int):
                if _INT64_MIN <= seen <= _INT64_MAX:
                    ints.append(leaf)
                    word = "int"
                else:
                    word = _word_of_constant(seen)
            elif isinstance(seen, float):
                floats.append(leaf)
                word = "float"
            elif isinstance(seen, (tuple, list, dict)):
                word = "other" + _WORD + repr(seen)
            elif isinstance(seen, (slice, range)):
                word = _word_of_constant(seen)
            else:
                kind = type(seen)
                word = "other" if kind.__module__ == "torch" else "object"
                word = word + _WORD + "<" + kind.__module__ + "."
                word = word + kind.__qualname__ + ">"
            told = told + _PART + _escaped(index) + _WORD + word
        return tensors, ints, floats, told, needs_gradient

    return write


def itself(leaf: Any) -> Any:
    """Returns the leaf itself, for leaves that are not placeholders."""
    return leaf


@functools.lru_cache(maxsize=_SITES_MAX)
def read_site(text: str) -> Site:
    """Parses a site."""
    recorder, side, op, recursive, grad, lines, number, *leaves = text.split(_PART)
    caller = Caller(_plain(lines), bool(recursive), bool(grad), number)
    return Site(recorder, side, op, caller, tuple(map(_read_leaf, leaves)))


def _read_leaf(text: str) -> tuple[str, str, str]:
    index, _, rest = text.partition(_WORD)
    word, _, text = rest.partition(_WORD)
    return _plain(index), word, _plain(text)


def read_leaves(
    site: Site, tensors: list[torch.Tensor], ints: list[int], floats: list[float]
) -> Iterator[tuple[str, Any]]:
    """Yields the leaves of a call from the arguments of the operator."""
    given = (iter(tensors), iter(ints), iter(floats))
    for index, word, text in site.leaves:
        yield index, _leaf_of(word, text, *given)


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
