"""Changes how a program computes, for the second run of `msitctl exec --against`.

The program itself does not change. A variation applies to the whole process, such
as another device, or to its main model, right before the first call of that model.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from msitd._core.guard import GuardedHook
from msitd._core.module.wrappers import AS_HELD, PLAIN

if TYPE_CHECKING:
    import torch

_COMPILED = "compiled"

# The other types of devices that torch itself supports.
_ACCELERATORS = ("cuda", "xpu", "mps")

# Receives a module that is called, and the frame that calls it. Returns whether it
# has to be called for later modules too.
CallSeen = Callable[["torch.nn.Module", FrameType], bool]


def changes_model(variation: str) -> bool:
    """Returns whether `change_model` must be called for this variation."""
    return variation == "float64" or compiles(variation)


def compiles(variation: str) -> bool:
    """Returns whether this variation compiles the model."""
    return variation.split(":")[0] == _COMPILED


def devices_of(variation: str) -> tuple[tuple[str, str], ...]:
    """Returns the mapping of devices that a variation requires: old, new.

    Raises:
        ValueError: The run would be the same as without the variation.
    """
    if variation != "cpu":
        return ()
    # The program has imported torch.
    import torch

    found = [kind for kind in _ACCELERATORS if _is_available(getattr(torch, kind))]
    if importlib.util.find_spec("torch_npu") is not None:
        found.append("npu")
    if not found:
        raise ValueError(
            "--against cpu: torch finds no other device on this machine, so both "
            "runs would be on the CPU"
        )
    return tuple((kind, "cpu") for kind in found)


def change_process(variation: str, changed: Callable[[], object]) -> None:
    """Applies what concerns the whole process, apart from its devices.

    Args:
        variation: Any variation.
        changed: Called when the program would compile something.
    """
    if variation != "eager":
        return
    import torch._dynamo

    torch._dynamo.config.disable = True
    compile_ = torch.compile

    @functools.wraps(compile_)
    def call(*args: Any, **kwargs: Any) -> Any:
        changed()
        return compile_(*args, **kwargs)

    torch.compile = call


def change_model(
    model: torch.nn.Module, variation: str, report: Callable[[Exception], None]
) -> None:
    """Applies a variation to a model that has not been called yet.

    Args:
        model: The model.
        variation: One that changes the model.
        report: Called for each call of the model that could not be changed.

    Raises:
        ValueError: It cannot be applied to this model.
    """
    if variation == "float64":
        _use_float64(model, report)
    else:
        _compile(model, variation.partition(":")[2])


def is_compiled(module: torch.nn.Module) -> bool:
    """Returns whether torch.compile has changed how this module is called."""
    is_called_compiled = getattr(module, "_compiled_call_impl", None) is not None
    return is_called_compiled or AS_HELD.unwrap(module) is not module


def before_calls(seen: CallSeen) -> None:
    """Calls `seen` before each call of a module, until it returns False.

    A hook would be too late to change the model: when torch calls hooks, it has
    already chosen how the model is run.
    """
    import torch

    original = torch.nn.Module.__call__
    lock = threading.RLock()
    is_done = False

    def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        nonlocal is_done
        # Inside of a graph, the model has been called already.
        if not torch.compiler.is_compiling():
            with lock:
                if not is_done and not seen(module, sys._getframe(1)):
                    is_done = True
                    torch.nn.Module.__call__ = original  # type: ignore[method-assign]
        return original(module, *args, **kwargs)

    torch.nn.Module.__call__ = call  # type: ignore[method-assign]


def _is_available(module: Any) -> bool:
    return bool(module.is_available())


def _compile(model: torch.nn.Module, backend: str) -> None:
    if any(map(is_compiled, model.modules())):
        raise ValueError("the program compiles its model itself: use --against eager")
    from torch._inductor import config

    # Otherwise, dropout would select other elements.

    config.fallback_random = True
    if backend:
        model.compile(backend=backend)
    else:
        model.compile()


def _use_float64(model: torch.nn.Module, report: Callable[[Exception], None]) -> None:
    import torch

    if PLAIN.unwrap(model) is not model:
        raise ValueError(
            f"a {type(model).__name__} has prepared its communication for the dtypes "
            "of the parameters"
        )
    usual = next(
        (each.dtype for each in model.parameters() if each.is_floating_point()),
        torch.get_default_dtype(),
    )
    model.double()

    def widen(_: Any, args: Any, kwargs: Any) -> Any:
        return _cast((args, kwargs), _wider)

    def narrow(_: Any, __: Any, ___: Any, output: Any) -> Any:
        # The program expects the usual dtype.
        return _cast(output, {torch.float64: usual}.get)

    model.register_forward_pre_hook(GuardedHook(widen, report), with_kwargs=True)
    model.register_forward_hook(GuardedHook(narrow, report), with_kwargs=True)


def _wider(dtype: torch.dtype) -> torch.dtype | None:
    import torch

    if dtype.is_floating_point:
        return torch.float64
    return torch.complex128 if dtype.is_complex else None


def _cast(values: Any, dtype_of: Callable[[torch.dtype], torch.dtype | None]) -> Any:
    """Returns values whose tensors have other dtypes, except where that is None."""
    import torch

    def cast(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        dtype = dtype_of(value.dtype)
        return value if dtype is None else value.to(dtype)

    return torch.utils._pytree.tree_map(cast, values)
