"""Opens what records when it is first needed, inside of the program that is recorded.

An engine has no place of its own where a client could be opened: its first tensor opens
one. If no daemon answers, that takes seconds, and the next tensor would take as long. So
a failure is remembered. Later tensors get the same error at once, and only some of them
try again, for a shorter time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from msitd._core.daemon.patience import SHORT_S

# How long the first try waits for a daemon.
FIRST_TRY_S = 5.0
# Pauses between tries. Each one is twice as long as the one before.
_FIRST_PAUSE_S = 30.0
_PAUSE_MAX_S = 960.0

_T = TypeVar("_T")


class LazyOpening(Generic[_T]):
    """What is opened at the first use. Any thread may use it.

    Args:
        open_within: Opens it. The argument is how long it may wait for a daemon, in
            seconds.
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
        """What is open; None if nothing is."""
        return self._opened

    def get(self) -> _T:
        """Returns what is open, and opens it if nothing is.

        Raises:
            Exception: It cannot be opened, or could not be a short while ago.
        """
        opened = self._opened
        if opened is not None:
            return opened
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def take(self) -> _T | None:
        """Forgets what is open, and returns it for the caller to close.

        The next use opens another one, also after a failure.
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
            # Without the frames of the earlier callers.
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
