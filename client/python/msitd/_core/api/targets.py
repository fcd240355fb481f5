"""Finds the recorded functions in the installed torch, and names their ops.

An op has the name that msprobe uses: a prefix for the place where the function
was found, and the last part of its name. Functions with the same op share its
calls.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

from msitd._core.api import names

# The groups that users may select.
GROUPS = ("torch", "functional", "tensor", "vf", "aten", "distributed", "npu")

DISTRIBUTED_PREFIX = "Distributed."
_ATEN_PREFIX = "Aten."

# Namespaces of operators that compute nothing.
_BOOKKEEPING = ("msitd", "prim", "profiler")


class Target(NamedTuple):
    """A function in one place."""

    owner: Any
    name: str
    op: str
    original: Callable[..., Any]


class _Place(NamedTuple):
    """A place that has functions of a group."""

    group: str
    # Dotted path of the module or class.
    path: str
    # Names of functions, separated by white space.
    names: str
    prefix: str


# A function in several places has the op of the first one if it is unknown from
# which place the caller took it.
_PLACES = (
    _Place("functional", "torch.nn.functional", names.FUNCTIONAL, "Functional."),
    _Place("torch", "torch", names.TORCH, "Torch."),
    _Place("torch", "torch.linalg", names.LINALG, "Torch."),
    _Place("torch", "torch.fft", names.FFT, "Torch.fft."),
    _Place("torch", "torch.special", names.SPECIAL, "Torch.special."),
    _Place("tensor", "torch.Tensor", names.TENSOR, "Tensor."),
    _Place("vf", "torch._VF", names.VF, "VF."),
    _Place("distributed", "torch.distributed", names.DISTRIBUTED, DISTRIBUTED_PREFIX),
    # Where functions of torch.distributed find each other.
    _Place(
        "distributed",
        "torch.distributed.distributed_c10d",
        names.DISTRIBUTED,
        DISTRIBUTED_PREFIX,
    ),
)


def check_groups(groups: Iterable[str]) -> None:
    """Checks the names of groups.

    Raises:
        ValueError: A group does not exist.
    """
    unknown = [group for group in groups if group not in GROUPS]
    if unknown:
        raise ValueError(f"group {unknown[0]!r} is none of {list(GROUPS)}")


def targets(groups: Collection[str]) -> list[Target]:
    """Returns all existing functions of `groups`."""
    places = [place for place in _PLACES if place.group in groups]
    if "npu" in groups:
        places.extend(_npu_places())
    return [target for place in places for target in _targets_of(place)]


def target_in(group: str, name: str) -> list[Target]:
    """Returns one function of a group, even if the group's table does not list it.

    Args:
        group: One of GROUPS except `aten`.
        name: A name in the first place of the group, or a path such as
            `linalg.norm`.

    Returns:
        One target for each place that has the function. The list is empty if it
        does not exist.
    """
    above, _, name = name.rpartition(".")
    places = [place for place in _PLACES if place.group == group]
    if group == "npu":
        places = [_Place("npu", "torch_npu", "", "NPU.")]
    # The other places of torch are inside the first one.
    paths = {"distributed": 2}.get(group, 1)
    found: list[Target] = []
    for place in places[:paths]:
        path = f"{place.path}.{above}" if above else place.path
        found.extend(_targets_of(place._replace(path=path, names=name)))
    return found


def _targets_of(place: _Place) -> Iterator[Target]:
    owner = _find(place.path)
    if owner is None:
        return
    for name in place.names.split():
        original = getattr(owner, name, None)
        if callable(original) and not isinstance(original, type):
            yield Target(owner, name, place.prefix + name, original)


def _npu_places() -> Iterator[_Place]:
    """Functions of torch_npu, if the caller has loaded it: all that start with
    `npu_`.
    """
    module = sys.modules.get("torch_npu")
    if module is not None:
        found = [name for name in dir(module) if name.startswith("npu_")]
        yield _Place("npu", "torch_npu", " ".join(found), "NPU.")


def _find(path: str) -> Any:
    """Returns a loaded module or class; None if it does not exist."""
    module, _, rest = path.partition(".")
    found: Any = sys.modules.get(module)
    for name in rest.split(".") if rest else ():
        found = getattr(found, name, None)
    return found


@functools.lru_cache(maxsize=4096)
def aten_op(function: Any) -> str | None:
    """Returns the op of an operator of torch.ops; None for other functions."""
    kind = type(function).__name__
    if kind == "OpOverload":
        name = str(function._schema.name)
    elif kind == "OpOverloadPacket":
        name = str(function._qualified_op_name)
    else:
        return None
    namespace, _, name = name.partition("::")
    if namespace in _BOOKKEEPING:
        return None
    return _ATEN_PREFIX + name if namespace == "aten" else f"{namespace}.{name}"
