"""Dumps one module under its own name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msitd.probe.debugger import latest

if TYPE_CHECKING:
    import torch

_ends: list[Callable[[], None]] = []


def module_dump(module: torch.nn.Module, dump_name: str) -> None:
    """Dumps calls of `module` as `Module.<dump_name>.<class>`, until `module_dump_end`.

    Requires a `PrecisionDebugger`, but no call of `start`.

    Raises:
        ValueError: An argument is invalid.
        RuntimeError: No debugger exists.
    """
    # torch is installed, since there is a module.
    import torch

    if not isinstance(module, torch.nn.Module):
        raise ValueError(f"module is {type(module).__name__}, and no torch.nn.Module")  # noqa: TRY004 - as msprobe
    if not isinstance(dump_name, str) or not dump_name:
        raise ValueError(f"dump_name is {dump_name!r}, and no text")
    _ends.append(latest().hook_module(module, dump_name))


def module_dump_end() -> None:
    """Ends all dumps that `module_dump` has begun."""
    while _ends:
        _ends.pop()()
