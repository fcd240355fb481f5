"""Stand-ins that replace torch functions."""

from __future__ import annotations

import functools
import importlib
import threading
import types
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from msitd._core.api.targets import Target


class Calls(Protocol):
    """Called by the stand-ins of torch functions."""

    def call(
        self,
        function: Callable[..., Any],
        op: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Calls `function`, and returns its result or raises its exception."""

    def count_in_graph(self, op: str) -> None:
        """Counts a call that becomes part of a graph of torch.compile."""


def _no() -> bool:
    return False


class Wrapped:
    """A stand-in for a torch function that records its calls while it is installed.

    It is equal to the function and has the same hash, so that lookups in tables
    of functions succeed. After it was uninstalled, references to it act as the
    function.
    """

    def __init__(
        self,
        target: Target,
        is_tracing: Callable[[], bool] = _no,
    ) -> None:
        functools.update_wrapper(self, target.original)
        self._msitd_target = target
        self._msitd_calls: Calls | None = None
        self._msitd_is_tracing = is_tracing

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        target = self._msitd_target
        calls = self._msitd_calls
        if calls is None:
            return target.original(*args, **kwargs)
        if self._msitd_is_tracing():
            count_in_graph(target.op)
            return target.original(*args, **kwargs)
        return calls.call(target.original, target.op, args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        is_method = isinstance(self._msitd_target.owner, type)
        if instance is None or not is_method:
            return self
        return types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_msitd_"):
            raise AttributeError(name)
        return getattr(self._msitd_target.original, name)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Wrapped):
            other = other._msitd_target.original
        return bool(self._msitd_target.original == other)

    def __hash__(self) -> int:
        return hash(self._msitd_target.original)

    def __repr__(self) -> str:
        return repr(self._msitd_target.original)

    def __copy__(self) -> Wrapped:
        return self

    def __deepcopy__(self, memo: Any) -> Wrapped:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        # By name, so that unpickling returns the function.
        owner, name = self._msitd_target[:2]
        return getattr, (owner if isinstance(owner, type) else _Module(owner), name)


class _Module:
    """A module that is imported when its pickle is loaded."""

    def __init__(self, module: Any) -> None:
        self._name = module.__name__

    def __reduce__(self) -> Any:
        return importlib.import_module, (self._name,)


_lock = threading.Lock()
_installed: Calls | None = None


def count_in_graph(op: str) -> None:
    """Counts a call that becomes part of a graph.

    Dynamo runs it once, while tracing.
    """
    calls = _installed
    if calls is not None:
        calls.count_in_graph(op)


# Equivalent to torch.compiler.assume_constant_result.
count_in_graph._dynamo_marked_constant = True  # type: ignore[attr-defined]


class Installation:
    """All functions that are replaced. A process has at most one installation."""

    def __init__(
        self, targets: Iterable[Target], calls: Calls, is_tracing: Callable[[], bool]
    ) -> None:
        """Replaces the functions.

        Raises:
            RuntimeError: Functions are already replaced.
        """
        global _installed
        with _lock:
            if _installed is not None:
                raise RuntimeError(
                    "functions of torch are recorded already: remove the handle of "
                    "that first"
                )
            _installed = calls
        self._calls = calls
        self._places: list[tuple[Any, str, Wrapped, bool]] = []
        # Each function has only one stand-in, because torch compares some with
        # `is`.
        known: dict[tuple[int, str], Wrapped] = {}
        try:
            for target in targets:
                owner, name, op, original = target
                wrapped = known.setdefault(
                    (id(original), op), Wrapped(target, is_tracing)
                )
                wrapped._msitd_calls = calls
                self._places.append((owner, name, wrapped, name in vars(owner)))
                setattr(owner, name, wrapped)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Restores all functions. Further calls have no effect.

        A function that other code has put in place of a stand-in stays.
        """
        global _installed
        with _lock:
            places, self._places = self._places, []
            for owner, name, wrapped, is_own in reversed(places):
                wrapped._msitd_calls = None
                if vars(owner).get(name) is not wrapped:
                    continue
                if is_own:
                    setattr(owner, name, wrapped._msitd_target.original)
                else:
                    # A base class, or a fallback of the module, has the
                    # function.
                    delattr(owner, name)
            if _installed is self._calls:
                _installed = None
