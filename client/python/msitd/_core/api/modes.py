"""Sees functions of torch wherever they were imported, in one thread.

A mode of torch is told of every function that a thread calls. One that was imported
before its place was taken, as by `from torch import relu`, is told by a mode alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msitd._core import compiled
from msitd._core.api.calls import ApiCalls
from msitd._core.api.targets import Target, aten_op
from msitd._core.api.wrapper import Wrapped

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

    class ApiFunctionMode(TorchFunctionMode):
        is_on = True

        def __torch_function__(
            self,
            func: Any,
            types: Any,
            args: tuple[Any, ...] = (),
            kwargs: dict[str, Any] | None = None,
        ) -> Any:
            kwargs = kwargs or {}
            if not self.is_on or is_tracing():
                return func(*args, **kwargs)
            if isinstance(func, Wrapped):
                op: str | None = func._msitd_target.op
                func = func._msitd_target.original
            else:
                op = ops.get(func)
                if op is None and has_aten:
                    op = aten_op(func)
            if op is None:
                return func(*args, **kwargs)
            return calls.call(func, op, args, kwargs)

    compiled.make_no_frame(ApiFunctionMode.__torch_function__)
    return ApiFunctionMode()


def dispatch_mode(calls: ApiCalls) -> Any:
    """Returns a mode that records every operator that torch runs."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class ApiDispatchMode(TorchDispatchMode):
        is_on = True

        def __torch_dispatch__(
            self,
            func: Any,
            types: Any,
            args: tuple[Any, ...] = (),
            kwargs: dict[str, Any] | None = None,
        ) -> Any:
            kwargs = kwargs or {}
            is_off = not self.is_on or calls.is_inside()
            op = None if is_off else aten_op(func)
            if op is None or op in _PASSED_OVER:
                return func(*args, **kwargs)
            return calls.call(func, op, args, kwargs)

    compiled.make_no_frame(ApiDispatchMode.__torch_dispatch__)
    return ApiDispatchMode()


def leave(mode: Any) -> None:
    """Takes a mode out of those of this thread, also from below modes of others.

    One of another thread stays, and lets all through.
    """
    from torch import overrides
    from torch.utils import _python_dispatch

    mode.is_on = False
    if mode in overrides._get_current_function_mode_stack():
        _take_out(mode, overrides._pop_mode, overrides._push_mode)
    elif mode in _python_dispatch._get_current_dispatch_mode_stack():
        _take_out(mode, _python_dispatch._pop_mode, _python_dispatch._push_mode)


def _take_out(mode: Any, pop: Callable[[], Any], push: Callable[[Any], None]) -> None:
    above = []
    top = pop()
    while top is not mode:
        above.append(top)
        top = pop()
    push(mode)
    mode.__exit__(None, None, None)
    for each in reversed(above):
        push(each)
