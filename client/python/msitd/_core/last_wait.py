"""The wait for a daemon before a client ends.

A slow daemon is worth the whole time. A daemon that cannot be connected to is gone or
is being restarted, and a program must not wait long for it at its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from msitd import _msit

# Time in seconds without a connection after which a daemon counts as gone.
GONE_S = 5.0
_SLICE_S = 0.25
_MICROSECONDS = 1_000_000


def is_unreachable(error: str) -> bool:
    """Returns whether the error of a stream is that it has no connection."""
    return error.startswith("UNAVAILABLE") and "connect" in error.lower()


def wait_unless_gone(
    flush: Callable[[float], bool], error: Callable[[], str], timeout: float
) -> float:
    """Waits until everything is acknowledged, or the daemon is gone.

    Args:
        flush: Waits for at most so many seconds. Returns whether the wait is over.
        error: Returns the error of the stream, or "".
        timeout: Maximum time in seconds.

    Returns:
        The seconds that are left, or 0 if the daemon is gone.
    """
    now = time.monotonic()
    deadline, gone_since = now + timeout, None
    while now < deadline:
        if not is_unreachable(error()):
            gone_since = None
        elif gone_since is None:
            gone_since = now
        elif now - gone_since >= GONE_S:
            return 0.0
        if flush(min(_SLICE_S, deadline - now)):
            return max(deadline - time.monotonic(), 0)
        now = time.monotonic()
    return 0.0


def close_native(native: _msit.Client, timeout: float, gives_up: bool) -> int:
    """Closes a native client, and returns its code.

    Args:
        timeout: Maximum time in seconds to wait for the daemon.
        gives_up: Whether the wait ends early if the daemon is gone.
    """

    def flush(seconds: float) -> bool:
        return native.flush(int(seconds * _MICROSECONDS)) != _msit.TIMEOUT

    if gives_up:
        try:
            timeout = wait_unless_gone(flush, native.stream_error, timeout)
        except BaseException:
            # A signal handler has raised an exception. The client is closed in any
            # case.
            native.close(0)
            raise
    return native.close(int(timeout * _MICROSECONDS))
