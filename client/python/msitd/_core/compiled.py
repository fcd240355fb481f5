"""What torch.compile is told of this package: to leave it out of its graphs.

A graph has no room for a record, which copies bytes at the moment it is made.
Python that takes part in one is run while the graph is made, with tensors that
have no bytes. So the functions here are opaque to Dynamo: a graph ends before
them and another one begins behind them.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from types import ModuleType

    import torch

_Function = TypeVar("_Function", bound=Callable[..., Any])

# Dynamo shows it where a graph may not end, with fullgraph=True.
_REASON = (
    "msitd records here, which no graph can hold: compile without "
    "fullgraph=True, or remove the hooks of msitd"
)

# The name under which torch.compile keeps the module that it wraps.
_WRAPPED = "_orig_mod"


def is_loaded() -> bool:
    """Returns whether anything can have been compiled yet."""
    return "torch._dynamo" in sys.modules


def make_opaque(function: _Function) -> _Function:
    """Has Dynamo never look into `function`; imports Dynamo.

    The function itself comes back, without a frame around it.

    Raises:
        RuntimeError: This version of torch has no means for it.
    """
    try:
        from torch._dynamo.decorators import skip
    except ImportError as error:
        raise RuntimeError(
            "this version of torch cannot be told to leave functions out of its graphs"
        ) from error
    skip(function)
    # What torch.compiler.disable(reason=...) does.
    function._torchdynamo_disable_msg = _REASON  # type: ignore[attr-defined]
    return function


@functools.cache
def make_package_opaque() -> None:
    """The same for all functions of the core that are handed tensors."""
    for name in ("hooks", "losses", "memory", "placement", "recorder", "walk"):
        module = sys.modules.get(f"msitd._core.{name}")
        if module is not None:
            for function in _functions_of(module):
                make_opaque(function)


def forget_graphs() -> None:
    """Has Dynamo make all graphs of the process again.

    It does not notice hooks that come to a module, or leave one, which is in a
    graph already.
    """
    if is_loaded():
        sys.modules["torch"].compiler.reset()


def is_running() -> bool:
    """Returns whether the caller is part of something compiled."""
    native = sys.modules.get("torch._C._dynamo.eval_frame")
    callback = getattr(native, "get_eval_frame_callback", lambda: None)
    return callable(callback())


def unwrap(module: torch.nn.Module) -> torch.nn.Module:
    """Returns the module that torch.compile was given, or the module itself."""
    while _is_wrapper(module):
        module = getattr(module, _WRAPPED)
    return module


def named_modules(
    model: torch.nn.Module,
) -> Iterator[tuple[str, torch.nn.Module]]:
    """Names modules as if none of them was compiled; leaves out the wrappers.

    Each module comes once, under its first name.
    """
    for name, module in model.named_modules():
        if not _is_wrapper(module):
            yield plain_name(name), module


def plain_name(name: str) -> str:
    """Returns a dotted name without what torch.compile puts in it."""
    if _WRAPPED not in name:
        return name
    return ".".join(part for part in name.split(".") if part != _WRAPPED)


def _is_wrapper(module: torch.nn.Module) -> bool:
    eval_frame = sys.modules.get("torch._dynamo.eval_frame")
    return eval_frame is not None and isinstance(module, eval_frame.OptimizedModule)


def _functions_of(module: ModuleType) -> Iterator[Callable[..., Any]]:
    for value in vars(module).values():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(value):
            yield value
        elif inspect.isclass(value):
            for member in vars(value).values():
                member = getattr(member, "__func__", member)
                member = getattr(member, "fget", member)
                if inspect.isfunction(member) and member.__module__ == value.__module__:
                    yield member
