"""The names and gradients that msprobe gives to the leaves of a call."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from typing import Any

from msitd._core.leaf.objects import holds_tensors
from msitd._core.leaf.values import Described, Value
from msitd._core.leaf.walk import TOO_DEEP
from msitd._core.vocabulary import KIND_NUMBERS

# Deeper nesting is not searched, which also ends structures that contain themselves.
_DEPTH_MAX = 64

# Keywords whose values are described as dtypes or devices, even if they are texts.
_DTYPE_KEYS = ("dtype", "output_dtype")
_DEVICE_KEYS = ("device",)

_PLAIN = (bool, int, float, str, slice, type(...))


def _literal(text: str) -> Described:
    """Returns a value whose description in a dump is a literal of Python."""
    return Described(Value(KIND_NUMBERS["other"], None, text))


class MsprobeForm:
    """Names leaves as msprobe 26.2.0 does.

    A result is a tuple of results. Any other result has the index 0, and its members
    have indexes below that. Objects of unknown classes are null.
    """

    has_node_gradients = True
    separates_arguments = True
    has_null_gradients = True
    has_accumulated_gradients = True
    records_repeats = True
    shows_in_place = False

    def __init__(self) -> None:
        # torch is installed, since there are hooks.
        import torch

        self._torch = torch
        self._tensor_type = torch.Tensor
        kinds: list[Any] = [torch.Tensor, torch.Size, torch.memory_format]
        distributed = torch.distributed
        if distributed.is_available():
            kinds += [
                distributed.ProcessGroup,
                distributed.ReduceOp,
                distributed.ReduceOp.RedOpType,
            ]
        self._described = tuple(kinds)
        self._nameless = (torch.dtype, torch.device)

    def arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Iterator[tuple[str, Any]]:
        """See Form."""
        for position, value in enumerate(args):
            yield from self._walk(value, str(position), position, 0)
        for name, value in kwargs.items():
            yield from self._walk(value, name, name, 0)

    def result(self, result: Any) -> Iterator[tuple[str, Any]]:
        """See Form."""
        if isinstance(result, tuple) and not isinstance(result, self._torch.Size):
            for key, value in _children_of(result) or ():
                yield from self._walk(value, str(key), key, 0)
            return
        yield from self._walk(result, "0", 0, 0)

    def tensors_given(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Iterator[tuple[str, Any]]:
        """See Form. Keyword arguments have no gradients in msprobe."""
        return self._differentiable(args)

    def tensors_returned(self, result: Any) -> Iterator[tuple[str, Any]]:
        """See Form."""
        return self._differentiable(result)

    def _differentiable(self, value: Any) -> Iterator[tuple[str, Any]]:
        """Yields the tensors that need a gradient by their number among these."""
        for number, tensor in enumerate(self._tensors_in(value, 0)):
            yield str(number), tensor

    def _tensors_in(self, value: Any, depth: int) -> Iterator[Any]:
        if isinstance(value, self._tensor_type):
            if value.requires_grad:
                yield value
        elif depth < _DEPTH_MAX and isinstance(value, (list, tuple)):
            for each in value:
                yield from self._tensors_in(each, depth + 1)
        elif depth < _DEPTH_MAX and isinstance(value, dict):
            for each in value.values():
                yield from self._tensors_in(each, depth + 1)

    def _walk(
        self, value: Any, path: str, key: Any, depth: int
    ) -> Iterator[tuple[str, Any]]:
        if value is None or isinstance(value, self._tensor_type):
            yield path, value
            return
        numpy = sys.modules.get("numpy")
        is_of_numpy = numpy is not None and isinstance(
            value, (numpy.ndarray, numpy.generic)
        )
        if isinstance(value, (*_PLAIN, *self._described)) or is_of_numpy:
            yield path, self._by_key(value, key)
            return
        if isinstance(value, self._nameless):
            yield path, self._by_key(value, key)
            return
        children = _children_of(value)
        if children is None:
            yield path, self._unknown(value)
        elif not children:
            yield path, _literal("{}" if isinstance(value, dict) else "[]")
        elif depth >= _DEPTH_MAX:
            yield path, TOO_DEEP
        else:
            for child_key, child in children:
                yield from self._walk(
                    child, f"{path}.{child_key}", child_key, depth + 1
                )

    def _by_key(self, value: Any, key: Any) -> Any:
        """Returns a value as msprobe describes it under a key."""
        if key in _DTYPE_KEYS:
            return _literal(repr({"type": "torch.dtype", "value": str(value)}))
        if key in _DEVICE_KEYS:
            if isinstance(value, self._torch.device):
                value = f"{value.type}:{value.index}"
            if isinstance(value, (int, str)):
                return _literal(repr({"type": "torch.device", "value": value}))
            return _literal(repr({"type": "torch.device"}))
        return _literal("{}") if isinstance(value, self._nameless) else value

    def _unknown(self, value: Any) -> Any:
        lack = ""
        if holds_tensors(value, self._tensor_type):
            kind = type(value)
            lack = (
                f"tensors in an object of class {kind.__module__}.{kind.__qualname__}"
            )
        return Described(Value(KIND_NUMBERS["none"], None, "None"), lack)


def _children_of(value: Any) -> list[tuple[Any, Any]] | None:
    """Returns the members of a structure; None if msprobe does not search it."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(name, getattr(value, name)) for name in value._fields]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return [(name, getattr(value, name, None)) for name in names]
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    if isinstance(value, dict):
        return list(value.items())
    return None
