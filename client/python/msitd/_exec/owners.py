"""Finds the model to which a called module belongs.

The first module that a program calls is not always its model: `generate` of an
encoder-decoder model calls the encoder before the model itself, and a method such
as `get_text_features` calls only a part. Such methods run in a frame whose `self`
is the model, so the outermost of these is what the program calls.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def owner_of(
    module: torch.nn.Module,
    frame: FrameType | None,
    call_code: CodeType,
    may_own: Callable[[torch.nn.Module], bool],
) -> torch.nn.Module:
    """Returns the outermost model one of whose methods calls a module.

    Args:
        module: The module, which no other module calls.
        frame: The frame of its call.
        call_code: The code that calls modules in torch.
        may_own: Returns whether a model may be returned.

    Returns:
        The module itself if no method of a model calls it.
    """
    owner = module
    while frame is not None:
        if frame.f_code is not call_code:
            candidate = _self_of(frame)
            if (
                candidate is not owner
                and _is_module(candidate)
                and may_own(candidate)
                and any(each is owner for each in candidate.modules())
            ):
                owner = candidate
        frame = frame.f_back
    return owner


def path_of(
    module: torch.nn.Module, named: list[tuple[str, torch.nn.Module]]
) -> str | None:
    """Returns the first name of a module among named ones; None if it has none."""
    return next((path for path, each in named if each is module), None)


def _self_of(frame: FrameType) -> Any:
    """Returns the first argument of a function that is running."""
    code = frame.f_code
    if not code.co_argcount:
        return None
    return frame.f_locals.get(code.co_varnames[0])


def _is_module(value: Any) -> bool:
    # The program has imported torch.
    import torch

    return isinstance(value, torch.nn.Module)
