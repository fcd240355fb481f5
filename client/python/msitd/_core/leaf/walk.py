"""Finds the tensors and values in the arguments and results of a module.

The index of a tensor is the position of an argument or of an element, the name
of a keyword or of a key, or a dotted path of these where tensors are nested.
Mappings, tuples, lists, dataclasses and classes of attrs are searched. All
other objects are values, which have an index of the same kind.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, MappingView
from typing import Any

# Deeper nesting is not searched, which also ends structures that contain
# themselves.
_DEPTH_MAX = 16


class _TooDeep:
    """Stands in for a structure that is nested too deep to be searched."""


TOO_DEEP = _TooDeep()


def walk_arguments(
    args: tuple[Any, ...], kwargs: dict[str, Any], tensor_type: type, values: bool
) -> Iterator[tuple[str, Any]]:
    """Yields the tensors and values in the arguments of a call, by name.

    Args:
        args: Positional arguments.
        kwargs: Keyword arguments.
        tensor_type: The class of tensors.
        values: Whether to yield values, too.
    """
    for position, value in enumerate(args):
        if isinstance(value, tensor_type):
            yield str(position), value
        else:
            yield from _walk(value, str(position), 0, tensor_type, values)
    for name, value in kwargs.items():
        if isinstance(value, tensor_type):
            yield name, value
        else:
            yield from _walk(value, name, 0, tensor_type, values)


def walk_result(
    result: Any, tensor_type: type, values: bool
) -> Iterator[tuple[str, Any]]:
    """Does the same for the result of a call. A single tensor or value is named `0`."""
    if isinstance(result, tensor_type):
        yield "0", result
    else:
        yield from _walk(result, "", 0, tensor_type, values)


def tensors_given(
    args: tuple[Any, ...], kwargs: dict[str, Any], tensor_type: type
) -> Iterator[tuple[str, Any]]:
    """Yields only the tensors in the arguments of a call, by name."""
    for index, leaf in walk_arguments(args, kwargs, tensor_type, False):
        if isinstance(leaf, tensor_type):
            yield index, leaf


def tensors_returned(result: Any, tensor_type: type) -> Iterator[tuple[str, Any]]:
    """Yields only the tensors in the result of a call, by name."""
    for index, leaf in walk_result(result, tensor_type, False):
        if isinstance(leaf, tensor_type):
            yield index, leaf


def walk(
    value: Any, path: str, depth: int, tensor_type: type
) -> Iterator[tuple[str, Any]]:
    """Yields the tensors and values in a part of an argument or of a result, by name.

    Args:
        value: The part, which may itself be a tensor or a value.
        path: Its index, or "" for a whole result.
        depth: Number of structures around it.
        tensor_type: The class of tensors.
    """
    if isinstance(value, tensor_type):
        yield path if path or depth else "0", value
    else:
        yield from _walk(value, path, depth, tensor_type, True)


def _walk(
    value: Any, path: str, depth: int, tensor_type: type, values: bool
) -> Iterator[tuple[str, Any]]:
    if isinstance(value, tensor_type):
        yield path, value
        return
    children = _children_of(value)
    if children is None:
        if values:
            yield path or "0", value
        return
    if depth >= _DEPTH_MAX:
        if values:
            yield path, TOO_DEEP
        return
    for key, child in children:
        child_path = f"{path}.{key}" if path else str(key)
        yield from _walk(child, child_path, depth + 1, tensor_type, values)


def _children_of(value: Any) -> Iterable[tuple[Any, Any]] | None:
    """Returns the members of a structure by key; None if `value` is not a structure."""
    if value is None or isinstance(value, (str, bytes, int, float)):
        return None
    if isinstance(value, Mapping):
        return value.items() or None
    if isinstance(value, (tuple, list)):
        return enumerate(value) if value else None
    # The result of `values()` and similar methods of a dict.
    if isinstance(value, MappingView):
        return enumerate(value)
    # Some versions of Dynamo do not trace classes of torch itself, such as
    # torch.device.
    if type(value).__module__ == "torch":
        return None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        if fields:
            return ((field.name, getattr(value, field.name, None)) for field in fields)
    attributes = getattr(type(value), "__attrs_attrs__", None)
    if attributes and not isinstance(value, type):
        return ((field.name, getattr(value, field.name, None)) for field in attributes)
    return None
