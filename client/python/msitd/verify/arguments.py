"""Builds the arguments of a call from the recorded leaves.

Texts of a run are foreign. Each is compared with the few forms that the recorder
writes, and becomes a number, a name of torch, or an error. Nothing is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from msitd.verify.unchecked import Unchecked

if TYPE_CHECKING:
    import torch

# Maximum number of leaves and of digits of one call. The recorder writes fewer.
_LEAVES_MAX = 4096
_DIGITS_MAX = 40
_DEPTH_MAX = 16

_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_SLICE = re.compile(
    r"slice\((None|-?[0-9]{1,19}), (None|-?[0-9]{1,19}), (None|-?[0-9]{1,19})\)\Z"
)
_DEVICE = re.compile(r"device\(type='[a-z]{1,16}'(, index=[0-9]{1,4})?\)\Z")
_DEVICE_TEXT = re.compile(r"(cpu|cuda|npu|xpu|mps|hpu|mlu|musa)(:[0-9]{1,4})?\Z")

_DTYPES = frozenset(
    [
        "bool",
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "complex64",
        "complex128",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
    ]
)
_OTHER_NAMES = frozenset(
    [
        "strided",
        "contiguous_format",
        "preserve_format",
        "channels_last",
        "channels_last_3d",
    ]
)
_EMPTY = frozenset(("()", "[]", "{}"))


class Leaf(NamedTuple):
    """One recorded argument, or one element of an argument or of a result."""

    # Path, such as `0`, `1.0` or `dim`.
    index: str
    # `tensor`, or the kind of a value.
    kind: str
    # The text of a value.
    text: str
    # The argument of `load` for a tensor.
    record: Any = None


class Arguments(NamedTuple):
    """The arguments of a call. Sequences are tuples."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def build(leaves: Mapping[str, Leaf], load: Callable[[Leaf], Any]) -> Arguments:
    """Returns the arguments that a call had.

    Args:
        leaves: The leaves of the inputs by their index.
        load: Returns the tensor of a leaf.

    Raises:
        Unchecked: An argument is missing or has no value that is known here.
    """
    if len(leaves) > _LEAVES_MAX:
        raise Unchecked("it has too many arguments")
    tree: dict[str, Any] = {}
    for index, leaf in leaves.items():
        _put(tree, index.split("."), leaf)
    positional: dict[int, Any] = {}
    kwargs: dict[str, Any] = {}
    for name, value in tree.items():
        built = _value_of(value, load, 0)
        if name.isdecimal():
            positional[int(name)] = built
        elif name.isidentifier():
            kwargs[name] = built
        else:
            raise Unchecked("an argument has no valid name")
    if sorted(positional) != list(range(len(positional))):
        raise Unchecked("an argument was not recorded")
    return Arguments(tuple(positional[i] for i in range(len(positional))), kwargs)


def _put(tree: dict[str, Any], path: list[str], leaf: Leaf) -> None:
    if len(path) > _DEPTH_MAX or not all(path):
        raise Unchecked("an argument has no valid name")
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
        if not isinstance(tree, dict):
            raise Unchecked("an argument was recorded twice")
    if path[-1] in tree:
        raise Unchecked("an argument was recorded twice")
    tree[path[-1]] = leaf


def _value_of(node: Any, load: Callable[[Leaf], Any], depth: int) -> Any:
    if isinstance(node, Leaf):
        return load(node) if node.kind == "tensor" else parse(node.kind, node.text)
    built = {name: _value_of(each, load, depth + 1) for name, each in node.items()}
    if not all(name.isdecimal() for name in built):
        raise Unchecked("an argument is not a tensor, a number or a list of these")
    numbers = sorted(int(name) for name in built)
    if numbers != list(range(len(numbers))):
        raise Unchecked("an argument was not recorded")
    return tuple(built[str(number)] for number in numbers)


def parse(kind: str, text: str) -> Any:
    """Returns the value that the recorder wrote as `text`.

    Raises:
        Unchecked: The text has none of the known forms.
    """
    if kind == "none":
        return None
    if kind == "number":
        return _number_of(text)
    if kind == "text":
        return "cpu" if _DEVICE_TEXT.match(text) else text
    if kind == "dtype":
        return dtype_of(text.removeprefix("torch."))
    if kind == "other":
        return _other_of(text)
    raise Unchecked("an argument is not a tensor, a number or a list of these")


def dtype_of(name: str) -> torch.dtype:
    """Returns a dtype of torch by its name.

    Raises:
        Unchecked: torch has no such dtype, or none that can be computed with.
    """
    import torch

    if not has_dtype(name):
        raise Unchecked("it has a dtype that torch cannot compute with")
    found: torch.dtype = getattr(torch, name)
    return found


def has_dtype(name: str) -> bool:
    """Returns whether torch has a dtype of this name that can be computed with."""
    import torch

    return name in _DTYPES and hasattr(torch, name)


def _number_of(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    if len(text) <= _DIGITS_MAX:
        if _INTEGER.match(text):
            return int(text)
        try:
            return float(text)
        except ValueError:
            pass
    raise Unchecked("an argument is a number that is not known here")


def _other_of(text: str) -> Any:
    import torch

    if text in _EMPTY:
        return ()
    if text == "Ellipsis":
        return Ellipsis
    found = _SLICE.match(text)
    if found is not None:
        return slice(
            *(None if each == "None" else int(each) for each in found.groups())
        )
    if _DEVICE.match(text):
        return torch.device("cpu")
    name = text.removeprefix("torch.")
    if name in _OTHER_NAMES:
        return getattr(torch, name)
    if text.startswith("<") and "not recorded" in text:
        raise Unchecked("an argument was not recorded")
    raise Unchecked("an argument is an object of a class that is not known here")
