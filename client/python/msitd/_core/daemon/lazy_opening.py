"""Opens a recorder on first use, inside the program that is recorded.

An engine has no place of its own where a client could be opened, so its first
tensor opens one. If no daemon answers, that takes seconds, and the next tensor
would take as long again. A failure is therefore remembered. Later tensors
receive the same error at once, and only some of them try again, with a shorter
wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from msitd._core.daemon.patience import SHORT_S

# How long the first attempt waits for a daemon.
FIRST_TRY_S = 5.0
# Pauses between attempts. Each is twice as long as the one before.
_FIRST_PAUSE_S = 30.0
_PAUSE_MAX_S = 960.0

_T = TypeVar("_T")


class LazyOpening(Generic[_T]):
    """An object that is opened on first use. Any thread may use it.

    Args:
        open_within: Opens the object. The argument is the maximum time in
            seconds to wait for a daemon.
    """

    def __init__(self, open_within: Callable[[float], _T]) -> None:
        self._open_within = open_within
        self._lock = threading.RLock()
        self._opened: _T | None = None
        self._error: Exception | None = None
        self._pause_s = _FIRST_PAUSE_S
        self._next_try = 0.0

    @property
    def opened(self) -> _T | None:
        """The open object; None if nothing is open."""
        return self._opened

    def get(self) -> _T:
        """Returns the open object, and opens it if necessary.

        Raises:
            Exception: It cannot be opened, or could not be opened shortly
                before.
        """
        opened = self._opened
        if opened is not None:
            return opened
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def take(self) -> _T | None:
        """Forgets the open object, and returns it for the caller to close.

        The next use opens another one, even after a failure.
        """
        with self._lock:
            opened, self._opened = self._opened, None
            self._error = None
            self._pause_s = _FIRST_PAUSE_S
            return opened

    def _open(self) -> _T:
        if self._error is None:
            wait_s = FIRST_TRY_S
        elif time.monotonic() < self._next_try:
            # Drops the frames of earlier callers.
            raise self._error.with_traceback(None)
        else:
            wait_s = SHORT_S
        try:
            opened = self._open_within(wait_s)
        except Exception as error:
            self._error = error.with_traceback(None)
            self._next_try = time.monotonic() + self._pause_s
            self._pause_s = min(2 * self._pause_s, _PAUSE_MAX_S)
            raise
        self._error = None
        self._pause_s = _FIRST_PAUSE_S
        return opened
