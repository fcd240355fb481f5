"""Sees torch functions wherever they were imported, in one thread.

torch calls a mode for every function that a thread calls. Only a mode receives
a function that was imported before it was replaced, as by `from torch import
relu`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from msitd._core.api.calls import ApiCalls
from msitd._core.api.targets import Target, aten_op
from msitd._core.api.wrapper import Wrapped
from msitd._core.graph import compiled

# Operators that only create another tensor with the same bytes.
_PASSED_OVER = ("Aten.detach", "Aten.alias", "Aten.lift_fresh")


def function_mode(
    calls: ApiCalls,
    targets: list[Target],
    has_aten: bool,
    is_tracing: Callable[[], bool],
) -> Any:
    """Returns a mode that records calls of functions in `targets`, wherever
    they were imported from, and with `has_aten` also those of `torch.ops`.
    """
    from torch.overrides import TorchFunctionMode

    ops: dict[Any, str] = {}
    for target in targets:
        ops.setdefault(target.original, target.op)

    def op_of(function: Any) -> str | None:
        try:
            op = ops.get(function)
        except TypeError:
            # An unhashable callable is not a torch function.
            return None
        return aten_op(function) if op is None and has_aten else op

    class ApiFunctionMode(TorchFunctionMode):
        # None after the mode was left. A class is part of a reference cycle, so
        # its functions must not keep the calls alive.
        calls: ApiCalls | None = None
        # For compiled.make_modes_transparent: stand-ins count calls in graphs.
        is_transparent = True

        def __torch_function__(
            self,
            func: Any,
            types: Any,
            args: tuple[Any, ...] = (),
            kwargs: dict[str, Any] | None = None,
        ) -> Any:
            kwargs = kwargs or {}
            current = self.calls
            if current is None or is_tracing():
                return func(*args, **kwargs)
            if isinstance(func, Wrapped):
                op: str | None = func._msitd_target.op
                func = func._msitd_target.original
            else:
                op = op_of(func)
            if op is None:
                return func(*args, **kwargs)
            return current.call(func, op, args, kwargs)

    compiled.make_no_frame(ApiFunctionMode.__torch_function__)
    compiled.make_modes_transparent()
    mode = ApiFunctionMode()
    mode.calls = calls
    return mode


def dispatch_mode(calls: ApiCalls) -> Any:
    """Returns a mode that records every operator that torch runs."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class ApiDispatchMode(TorchDispatchMode):
        calls: ApiCalls | None = None

        def __torch_dispatch__(
            self,
            func: Any,
            types: Any,
            args: tuple[Any, ...] = (),
            kwargs: dict[str, Any] | None = None,
        ) -> Any:
            kwargs = kwargs or {}
            current = self.calls
            if current is None or current.is_inside():
                return func(*args, **kwargs)
            op = aten_op(func)
            if op is None or op in _PASSED_OVER:
                return func(*args, **kwargs)
            return current.call(func, op, args, kwargs)

    compiled.make_no_frame(ApiDispatchMode.__torch_dispatch__)
    mode = ApiDispatchMode()
    mode.calls = calls
    return mode


def enter(mode: Any) -> None:
    """Enters a mode, below the modes of others that this thread has already entered.

    On exit, those modes assume that the topmost mode is their own.
    """
    stack = _stack_of(mode)
    others = [each for each in stack.modes() if not _stays_lowest(each)]
    mode.__enter__()
    for _ in (*others, mode):
        stack.pop()
    for each in (mode, *others):
        stack.push(each)
    if others:
        for ours, lowest, *rest in _flags_of(mode, *others):
            ours[-1] = lowest[-1]
            for flags in (lowest, *rest):
                flags[-1] = True


def leave(mode: Any) -> bool:
    """Removes a mode from those of this thread, even from below modes of others.

    Returns whether it was there. A mode of another thread stays, and records
    nothing.
    """
    mode.calls = None
    stack = _stack_of(mode)
    modes = stack.modes()
    if mode not in modes:
        return False
    above = modes[modes.index(mode) + 1 :]
    if above:
        for ours, lowest, *_ in _flags_of(mode, *above):
            lowest[-1] = ours[-1]
            ours[-1] = True
    for _ in above:
        stack.pop()
    mode.__exit__(None, None, None)
    for each in above:
        stack.push(each)
    return True


class _Stack(NamedTuple):
    """The modes of one kind that this thread has entered."""

    modes: Callable[[], list[Any]]
    pop: Callable[[], Any]
    push: Callable[[Any], None]


def _stack_of(mode: Any) -> _Stack:
    from torch import overrides
    from torch.utils import _python_dispatch

    if isinstance(mode, overrides.TorchFunctionMode):
        return _Stack(
            overrides._get_current_function_mode_stack,
            overrides._pop_mode,
            overrides._push_mode,
        )
    return _Stack(
        _python_dispatch._get_current_dispatch_mode_stack,
        _python_dispatch._pop_mode,
        _python_dispatch._push_mode,
    )


def _stays_lowest(mode: Any) -> bool:
    """Returns whether torch keeps a mode below all others."""
    from torch.utils import _device

    if isinstance(mode, _device.DeviceContext):
        # Modes of `with torch.device(...)`, and those of older versions of
        # torch, are ordered like other modes.
        return hasattr(_device, "_push_mode") and hasattr(mode, "old_device")
    return getattr(mode, "_mode_key", None) is not None


def _flags_of(*modes: Any) -> Iterator[list[Any]]:
    """Returns, for each flag of torch, where each mode keeps the flag's earlier value.

    Modes restore that value when they are left.
    """
    for name in (
        "old_dispatch_mode_flags",
        "old_non_infra_dispatch_mode_flags",
        "old_without_ignore_compile_internals_dispatch_mode_flags",
    ):
        flags = [getattr(mode, name, None) for mode in modes]
        if all(flags):
            yield flags
