"""Stands in the place of functions of torch."""

from __future__ import annotations

import functools
import importlib
import threading
import types
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from msitd._core.api.targets import Target


class Calls(Protocol):
    """What a function of torch that is called tells."""

    def call(
        self,
        function: Callable[..., Any],
        op: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Calls `function`, and returns or raises what it does."""

    def count_in_graph(self, op: str) -> None:
        """Is told of a call that becomes part of a graph of torch.compile."""


def _no() -> bool:
    return False


class Wrapped:
    """A function of torch, whose calls are recorded while it is in its place.

    It is equal to the function and has its hash, so that tables of functions
    find it. Kept by somebody when it is out of its place, it is the function.
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
        # By name, so that it is the function where it is read.
        owner, name = self._msitd_target[:2]
        return getattr, (owner if isinstance(owner, type) else _Module(owner), name)


class _Module:
    """A module that is imported where its pickle is read."""

    def __init__(self, module: Any) -> None:
        self._name = module.__name__

    def __reduce__(self) -> Any:
        return importlib.import_module, (self._name,)


_lock = threading.Lock()
_installed: Calls | None = None


def count_in_graph(op: str) -> None:
    """Tells of a call that becomes part of a graph. Dynamo runs it once, for that."""
    calls = _installed
    if calls is not None:
        calls.count_in_graph(op)


# As torch.compiler.assume_constant_result does.
count_in_graph._dynamo_marked_constant = True  # type: ignore[attr-defined]


class Installation:
    """All functions that are replaced. There is one at a time in a process."""

    def __init__(
        self, targets: Iterable[Target], calls: Calls, is_tracing: Callable[[], bool]
    ) -> None:
        """Replaces the functions.

        Raises:
            RuntimeError: Functions are replaced already.
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
        # One function is one stand-in, wherever it is: torch compares some with `is`.
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
        """Puts all functions back. Doing so again does nothing.

        What somebody else has put in the place of ours stays.
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
                    # A base class or a fallback of the module has it.
                    delattr(owner, name)
            if _installed is self._calls:
                _installed = None
