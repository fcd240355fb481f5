"""Finds the tensors in what a module gets and gives.

The index of a tensor is the position of an argument or of an element, the name of
a keyword or of a key, or a dotted path of these where tensors are nested.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# Deeper nesting is not searched. Nothing real has it, and a structure that contains
# itself ends there.
_DEPTH_MAX = 16


def walk_arguments(
    args: tuple[Any, ...], kwargs: dict[str, Any], tensor_type: type
) -> Iterator[tuple[str, torch.Tensor]]:
    """Names the tensors in the arguments of a call by their index."""
    for position, value in enumerate(args):
        yield from _walk(value, str(position), 0, tensor_type)
    for name, value in kwargs.items():
        yield from _walk(value, name, 0, tensor_type)


def walk_result(result: Any, tensor_type: type) -> Iterator[tuple[str, torch.Tensor]]:
    """Names the tensors in the result of a call; the only one is `0`."""
    if isinstance(result, tensor_type):
        yield "0", result
    else:
        yield from _walk(result, "", 0, tensor_type)


def _walk(
    value: Any, path: str, depth: int, tensor_type: type
) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, tensor_type):
        yield path, value
        return
    if value is None or isinstance(value, (str, bytes, int, float)):
        return
    if depth >= _DEPTH_MAX:
        return
    children: Iterable[tuple[Any, Any]]
    if isinstance(value, Mapping):
        children = value.items()
    elif isinstance(value, (tuple, list)):
        children = enumerate(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        children = (
            (field.name, getattr(value, field.name, None))
            for field in dataclasses.fields(value)
        )
    else:
        return
    for key, child in children:
        child_path = f"{path}.{key}" if path else str(key)
        yield from _walk(child, child_path, depth + 1, tensor_type)
