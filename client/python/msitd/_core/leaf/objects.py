"""Finds tensors in objects other than Python containers."""

from __future__ import annotations

import io
import sys
import types
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping
from typing import Any

# Limits for the number of objects searched in one argument, and for their
# depth.
_OBJECTS_MAX = 4096
_DEPTH_MAX = 16

_CLOSED = (
    type,
    types.ModuleType,
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
    str,
    bytes,
    int,
    float,
    complex,
)

# Classes of objects in which a tensor was found.
_holders: set[type] = set()


def is_used_up(value: Any) -> bool:
    """Returns whether iterating over `value` would consume it."""
    return isinstance(value, (Iterator, AsyncIterator, Awaitable)) and not isinstance(
        value, io.IOBase
    )


def holds_tensors(value: Any, tensor_type: type) -> bool:
    """Returns whether `value` holds tensors, or an object of its class did earlier.

    The answer is fast if an object of the class held tensors before.
    """
    kind = type(value)
    if kind in _holders:
        return True
    if next(tensors_in(value, tensor_type), None) is None:
        return False
    _holders.add(kind)
    return True


def tensors_in(value: Any, tensor_type: type) -> Iterator[tuple[str, Any]]:
    """Yields the tensors in an object, named by the attributes and keys that
    lead to them.

    Objects that are registered with torch's pytree are flattened as pytree
    does.
    """
    seen: set[int] = set()
    yield from _search(value, "", 0, tensor_type, seen)


def _search(
    value: Any, path: str, depth: int, tensor_type: type, seen: set[int]
) -> Iterator[tuple[str, Any]]:
    if isinstance(value, tensor_type):
        yield path, value
        return
    if isinstance(value, _CLOSED) or value is None or depth >= _DEPTH_MAX:
        return
    if id(value) in seen or len(seen) >= _OBJECTS_MAX:
        return
    seen.add(id(value))
    for key, child in _children_of(value):
        child_path = f"{path}.{key}" if path else str(key)
        yield from _search(child, child_path, depth + 1, tensor_type, seen)


def _children_of(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, (tuple, list, set, frozenset)):
        return enumerate(list(value))
    torch = sys.modules.get("torch")
    if torch is not None:
        # The tensors of a module are parameters, not data. Accessing those of a
        # proxy would add the access to the graph that is traced.
        if isinstance(value, (torch.nn.Module, torch.fx.Proxy)):
            return ()
        node = torch.utils._pytree.SUPPORTED_NODES.get(type(value))
        if node is not None:
            return enumerate(node.flatten_fn(value)[0])
    attributes = dict(getattr(value, "__dict__", None) or {})
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            member = kind.__dict__.get(name)
            if isinstance(member, types.MemberDescriptorType):
                attributes.setdefault(name, getattr(value, name, None))
    return attributes.items()
