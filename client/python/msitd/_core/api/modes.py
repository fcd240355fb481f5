"""Sees functions of torch wherever they were imported, in one thread.

A mode of torch is told of every function that a thread calls. One that was imported
before its place was taken, as by `from torch import relu`, is told by a mode alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from msitd._core.api.calls import ApiCalls
from msitd._core.api.targets import Target, aten_op
from msitd._core.api.wrapper import Wrapped
from msitd._core.graph import compiled

# Operators that only make another tensor of the same bytes.
_PASSED_OVER = ("Aten.detach", "Aten.alias", "Aten.lift_fresh")


def function_mode(
    calls: ApiCalls,
    targets: list[Target],
    has_aten: bool,
    is_tracing: Callable[[], bool],
) -> Any:
    """Returns a mode that records calls of functions in `targets`, wherever they
    were imported, and if `has_aten` those of `torch.ops`."""
    from torch.overrides import TorchFunctionMode

    ops: dict[Any, str] = {}
    for target in targets:
        ops.setdefault(target.original, target.op)

    def op_of(function: Any) -> str | None:
        try:
            op = ops.get(function)
        except TypeError:
            # A callable that has no hash is no function of torch.
            return None
        return aten_op(function) if op is None and has_aten else op

    class ApiFunctionMode(TorchFunctionMode):
        # Until it is left. A class lies in a circle, so its functions do not hold it.
        calls: ApiCalls | None = None
        # To compiled.make_modes_transparent: stand-ins count calls in graphs.
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
    """Enters a mode, below those of others that this thread is in already.

    They take what lies on top for theirs when they are left.
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
    """Takes a mode out of those of this thread, also from below modes of others.

    Returns whether it was there. One of another thread stays, and lets all through.
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
    """The modes of one kind that this thread is in."""

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
        # One of `with torch.device(...)` and one of an older torch lie as others do.
        return hasattr(_device, "_push_mode") and hasattr(mode, "old_device")
    return getattr(mode, "_mode_key", None) is not None


def _flags_of(*modes: Any) -> Iterator[list[Any]]:
    """Returns, for each flag of torch, where each mode keeps what it was before.

    Modes give the flag back what they keep when they are left.
    """
    for name in (
        "old_dispatch_mode_flags",
        "old_non_infra_dispatch_mode_flags",
        "old_without_ignore_compile_internals_dispatch_mode_flags",
    ):
        flags = [getattr(mode, name, None) for mode in modes]
        if all(flags):
            yield flags
