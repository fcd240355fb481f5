"""Keeps the errors of hooks out of the program that runs them.

A hook runs inside of a forward, a backward, a step of an optimizer or a call of an
engine. An exception of it would end that, and with it a training that has nothing to do
with what was recorded. So everything that is given to torch or to an engine to be called
is a `GuardedHook`, or catches exceptions itself where one more frame would cost too much.
`tests/tidy` checks that.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from typing import Any

from msitd._core.not_recorded import reason_of

_logger = logging.getLogger("msitd")

# Different reasons that one Failures logs.
_LOGGED_MAX = 20

Report = Callable[[Exception], None]


class GuardedHook:
    """A hook that raises no Exception. Any thread may call it.

    If the hook raises, `report` is called with the exception, and the result is None,
    which changes nothing for torch. KeyboardInterrupt and other exceptions that are not
    an Exception belong to the program, and continue.
    """

    __slots__ = ("__weakref__", "_hook", "_report")

    def __init__(self, hook: Callable[..., Any], report: Report) -> None:
        self._hook = hook
        self._report = report

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._hook(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - never the program's problem
            report_safely(self._report, error)
            return None


class FirstHook(GuardedHook):
    """A hook that changes what a module gets, before hooks that record it run."""

    __slots__ = ()


def report_safely(report: Report, error: Exception) -> None:
    """Reports an exception. An exception of the report itself is lost."""
    try:
        report(error)
    except Exception:  # noqa: BLE001 - never the program's problem
        return


class Failures:
    """Counts and logs what failed where no client counts it. Any thread may use it.

    Args:
        what: What did not happen, such as `the dataloader is not followed`.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}

    def count(self, error: Exception) -> None:
        """Counts an exception, and logs the first one of each reason."""
        reason = reason_of(error)
        with self._lock:
            is_new = reason not in self._counts and len(self._counts) < _LOGGED_MAX
            if is_new or reason in self._counts:
                self._counts[reason] = self._counts.get(reason, 0) + 1
        if is_new:
            _logger.warning("%s: %s (reported once)", self._what, reason)

    def by_reason(self) -> dict[str, int]:
        """Returns the count of each reason."""
        with self._lock:
            return dict(self._counts)

    def guarded(self, hook: Callable[..., Any]) -> GuardedHook:
        """Returns a hook whose exceptions are counted here."""
        return GuardedHook(hook, self.count)

    def guards(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function of the same name that returns None if it fails."""
        return functools.wraps(function)(_plain(self.guarded(function)))


def _plain(hook: GuardedHook) -> Callable[..., Any]:
    """Returns a function, which becomes a method in a class."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return hook(*args, **kwargs)

    return call
