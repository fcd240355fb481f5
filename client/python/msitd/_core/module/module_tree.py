"""Describes the modules of a torch model."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msitd._core.module.wrappers import ModuleNames

if TYPE_CHECKING:
    import torch

DOCUMENT_NAME = "module_tree.json"

_VERSION = 1

# Limits for the attributes of a module, as in module_tree.proto.
_ATTRIBUTES_MAX = 32
_ATTRIBUTE_MAX = 256
_TUPLE_MAX = 16
# Configurations of models have fewer numbers.
_CONFIG_MAX = 256
# Namespace packages, and those of their parts that define models.
_NAMESPACES = {"megatron": ("megatron.core",)}
# Attributes that are as large as a 64-bit integer allows are not sizes.
_NUMBER_MAX = 2**62


def module_tree(
    model: torch.nn.Module, op_of: Callable[[str], str], names: ModuleNames
) -> list[dict[str, Any]]:
    """Returns the modules of a model in the form that `document` takes.

    Args:
        model: The model, without wrappers.
        op_of: Maps a dotted name to its op.
        names: Provides the dotted names.
    """
    ops: set[str] = set()
    modules = []
    for name, module in names.named_modules(model):
        op = op_of(name)
        ops.add(op)
        kind = type(module)
        entry = {
            "op": op,
            "class": f"{kind.__module__}.{kind.__qualname__}",
            "parent": _parent_of(name, ops, op_of),
            "training": bool(module.training),
            "parameters": _shapes(module.named_parameters(recurse=False)),
            "buffers": _shapes(module.named_buffers(recurse=False)),
            "attributes": _attributes_of(module),
        }
        if not name:
            config = _numbers_of(getattr(module, "config", None))
            if config:
                entry["config"] = config
        modules.append(entry)
    return modules


def document(trees: Iterable[list[dict[str, Any]]]) -> str:
    """Returns the document `module_tree.json` of the models of a rank.

    `version` is 1. `modules` has one object per module, parents before their children:
    `op`, `class`, `parent`, `training`, `parameters`, `buffers` and `attributes`.
    `class` includes the path of the Python module. `parent` is the op of the enclosing
    module, or null for a model itself. `parameters` and `buffers` are those of the
    module itself by name, with `shape` and `dtype`. `attributes` are its attributes
    that are numbers, bools, words, None, or tuples of numbers, as Python writes them. A
    model has the whole numbers of its attribute `config`, if it has one. `packages` has
    the versions of the packages that define the classes.
    """
    modules = [one for tree in trees for one in tree]
    return json.dumps(
        {
            "version": _VERSION,
            "modules": modules,
            "packages": _versions_of(one["class"] for one in modules),
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def _numbers_of(config: Any) -> dict[str, int]:
    """Returns the whole numbers among the attributes of a configuration."""
    out: dict[str, int] = {}
    for name, value in getattr(config, "__dict__", {}).items():
        is_number = type(value) is int and abs(value) < _NUMBER_MAX
        if is_number and not name.startswith("_") and len(out) < _CONFIG_MAX:
            out[name] = value
    return out


def _versions_of(classes: Iterable[str]) -> dict[str, str]:
    """Returns the versions of the packages that define classes, by name."""
    out: dict[str, str] = {}
    for name in {one.partition(".")[0] for one in classes}:
        # The parts of a namespace package have versions of their own.
        for package in (name, *_NAMESPACES.get(name, ())):
            version = getattr(sys.modules.get(package), "__version__", None)
            if isinstance(version, str):
                out[package] = version
    return out


def outermost_modules(
    model: torch.nn.Module, names: ModuleNames
) -> Iterator[torch.nn.Module]:
    """Yields the modules that are called if nothing calls the model itself: its
    children.

    A list of modules cannot be called, so its elements are yielded instead.
    """
    for child in names.children_of(model):
        # Modules without a forward of their own inherit one that raises.
        if getattr(type(child), "forward", None) is _no_forward():
            yield from outermost_modules(child, names)
        else:
            yield child


def _no_forward() -> Any:
    import torch

    return torch.nn.Module.forward


def _parent_of(name: str, ops: set[str], op_of: Callable[[str], str]) -> str | None:
    while name:
        name = name.rpartition(".")[0]
        op = op_of(name)
        # A container that is not a module itself has no op.
        if op in ops:
            return op
    return None


def _shapes(tensors: Iterable[tuple[str, torch.Tensor]]) -> dict[str, Any]:
    return {
        name: {
            "shape": _shape_of(tensor),
            "dtype": str(tensor.dtype).removeprefix("torch."),
        }
        for name, tensor in tensors
    }


def _attributes_of(module: torch.nn.Module) -> dict[str, str]:
    out: dict[str, str] = {}
    for name, value in vars(module).items():
        if len(out) == _ATTRIBUTES_MAX:
            break
        if name.startswith("_") or name == "training" or not _is_plain(value):
            continue
        text = repr(value)
        if name.isidentifier() and len(text) <= _ATTRIBUTE_MAX and text.isascii():
            out[name] = text
    return out


def _is_plain(value: Any) -> bool:
    if type(value) is tuple:
        return len(value) <= _TUPLE_MAX and all(map(_is_number, value))
    # Other texts may be secrets or paths. Options of modules are words.
    is_word = type(value) is str and value.isidentifier()
    return value is None or is_word or _is_number(value)


def _is_number(value: Any) -> bool:
    return type(value) in (bool, float) or (
        type(value) is int and value.bit_length() < 64
    )


def _shape_of(tensor: torch.Tensor) -> list[int] | None:
    try:
        return [int(length) for length in tensor.shape]
    except (RuntimeError, ValueError):
        # The shapes of a lazy module are not known before its first forward.
        return None
