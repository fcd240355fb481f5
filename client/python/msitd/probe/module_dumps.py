"""Dumps one module under a name of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msitd.probe.debugger import latest

if TYPE_CHECKING:
    import torch

_ends: list[Callable[[], None]] = []


def module_dump(module: torch.nn.Module, dump_name: str) -> None:
    """Dumps calls of `module` as `Module.<dump_name>.<class>`, until `module_dump_end`.

    It needs a `PrecisionDebugger`, and no `start`.

    Raises:
        ValueError: An argument is none.
        RuntimeError: There is no debugger.
    """
    # Who has a module has torch.
    import torch

    if not isinstance(module, torch.nn.Module):
        raise ValueError(f"module is {type(module).__name__}, and no torch.nn.Module")  # noqa: TRY004 - as msprobe
    if not isinstance(dump_name, str) or not dump_name:
        raise ValueError(f"dump_name is {dump_name!r}, and no text")
    _ends.append(latest().hook_module(module, dump_name))


def module_dump_end() -> None:
    """Ends all that `module_dump` has begun."""
    while _ends:
        _ends.pop()()
