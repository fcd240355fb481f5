"""Locates the functions that a user wants to dump."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, NamedTuple

from msitd._core.api.targets import Target, targets

_logger = logging.getLogger("msitd")

# Groups that are dumped by default.
API_GROUPS = ("torch", "functional", "distributed", "npu")
# Other groups of torch from which a user may choose.
_OTHER_GROUPS = ("tensor", "vf")


class Choice(NamedTuple):
    """The functions that are dumped."""

    # All functions that are watched: calls inside one of them are part of it.
    functions: list[Target]
    # Ops of the functions that are dumped; None: all.
    ops: list[str] | None


def chosen_functions(functions: list[Callable[..., Any]]) -> Choice:
    """Returns the functions to dump of `functions`; an empty list stands for
    API_GROUPS.

    Supports functions of torch, and Python functions that a module has under
    their name, as such or in a class. The logger reports the others.

    Raises:
        ValueError: None of the functions is found.
    """
    usual = targets(API_GROUPS)
    if not functions:
        return Choice(usual, None)
    found: list[Target] = []
    missing: list[str] = []
    for function in functions:
        # While functions are recorded, their stand-ins are equal to them.
        places = (
            _places(usual, function)
            or _places(targets(_OTHER_GROUPS), function)
            or _place_by_name(function)
        )
        found += places
        if not places:
            missing.append(_name_of(function))
    if missing:
        text = (
            f"api_list has {', '.join(missing)}: neither a function of torch that "
            "computes, nor one of Python that its module has by its name"
        )
        if not found:
            raise ValueError(text)
        _logger.warning("%s; it is not dumped", text)
    more = [each for each in found if each not in usual]
    return Choice([*usual, *more], sorted({each.op for each in found}))


def _places(among: list[Target], function: Any) -> list[Target]:
    return [each for each in among if each.original == function]


def _place_by_name(function: Any) -> list[Target]:
    if not isinstance(function, FunctionType):
        return []
    owner: Any = sys.modules.get(function.__module__)
    above, _, name = function.__qualname__.rpartition(".")
    for part in above.split(".") if above else ():
        owner = getattr(owner, part, None)
    if owner is None or getattr(owner, name, None) is not function:
        return []
    # A static method is called without the object that a stand-in would pass.
    if isinstance(owner, type) and vars(owner).get(name) is not function:
        return []
    return [
        Target(owner, name, f"{function.__module__}.{function.__qualname__}", function)
    ]


def _name_of(function: Any) -> str:
    name = getattr(function, "__qualname__", None)
    if name is None:
        return repr(function)
    module = getattr(function, "__module__", None)
    return f"{module}.{name}" if module else str(name)
