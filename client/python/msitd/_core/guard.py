"""Keeps exceptions of hooks away from the program that runs them.

A hook runs inside a forward, a backward, an optimizer step or a call of an
engine. If it raised an exception, it would end that call, and with it a
training that does not depend on the recording. Therefore everything that is
passed to torch or to an engine as a callback is a `GuardedHook`, or catches
exceptions itself where one more frame would cost too much. `tests/tidy` checks
this rule.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from msitd._core.not_recorded import reason_of

_logger = logging.getLogger("msitd")

# Maximum number of different reasons that one Failures logs.
_LOGGED_MAX = 20

Report = Callable[[Exception], None]


class GuardedHook:
    """A hook that raises no Exception. Any thread may call it.

    If the hook raises, `report` is called with the exception, and the hook
    returns None, which torch treats as no change. KeyboardInterrupt and other
    exceptions that do not derive from Exception belong to the program and
    propagate.
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
    """A hook that changes the inputs of a module, before the hooks that record
    them run.
    """

    __slots__ = ()


def report_safely(report: Report, error: Exception) -> None:
    """Reports an exception. An exception that the report raises is lost."""
    try:
        report(error)
    except Exception:  # noqa: BLE001 - never the program's problem
        return


class Failures:
    """Counts and logs failures that no client counts. Any thread may use it.

    Args:
        what: The effect of a failure, such as `the dataloader is not followed`.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}

    def count(self, error: Exception) -> None:
        """Counts an exception, and logs the first one for each reason."""
        reason = reason_of(error)
        with self._lock:
            is_new = reason not in self._counts and len(self._counts) < _LOGGED_MAX
            if is_new or reason in self._counts:
                self._counts[reason] = self._counts.get(reason, 0) + 1
        if is_new:
            _logger.warning("%s: %s (reported once)", self._what, reason)

    def by_reason(self) -> dict[str, int]:
        """Returns the number of failures by reason."""
        with self._lock:
            return dict(self._counts)

    def guarded(self, hook: Callable[..., Any]) -> GuardedHook:
        """Returns a hook whose exceptions are counted here."""
        return GuardedHook(hook, self.count)
