"""Reports lost records to the user, each of them once."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from msitd import _msit
from msitd._core.counters import Counters
from msitd._core.errors import DroppedError
from msitd._core.last_wait import close_native

if TYPE_CHECKING:
    from msitd._core.devices.copies import DeviceCopies
    from msitd._core.not_recorded import NotRecorded
    from msitd._core.open_clients import SharedStream

_logger = logging.getLogger("msitd")


class Losses:
    """The losses of one client. Reports each lost record once.

    Args:
        on_drop: The argument of `Client`.
    """

    def __init__(self, native: _msit.Client, on_drop: str = "raise") -> None:
        self._native = native
        self._raises = on_drop == "raise"
        # Reentrant: signal handlers may run inside take(), and may close the
        # client.
        self._lock = threading.RLock()
        self._told = (0, 0)
        self._has_told_of_conflicts = False
        self._has_warned = False

    def must_raise(self, check: bool | None) -> bool:
        """Returns whether losses raise exceptions; `check` is that of `Client.flush`."""
        return self._raises if check is None else check

    def tell(self, check: bool | None) -> int:
        """Reports new losses. Returns their count.

        Raises:
            DroppedError: There are losses, and `must_raise`.
        """
        self.warn_of_conflicts()
        lost = self.take()
        if any(lost):
            if self.must_raise(check):
                raise DroppedError(*lost)
            if check is None:
                self.warn(lost, self._native.stream_error())
        return sum(lost)

    def warn_of_conflicts(self) -> None:
        """Logs once that the run already had some of the tensors."""
        if self._has_told_of_conflicts:
            return
        count = Counters(*self._native.counters()).conflict_count
        if count == 0:
            return
        with self._lock:
            if self._has_told_of_conflicts:
                return
            self._has_told_of_conflicts = True
        _logger.warning(
            "run %r had %d of these records already, with other bytes: the first "
            "ones stay, these are not kept (said once; see Client.counters)",
            self._native.run(),
            count,
        )

    def take(self) -> tuple[int, int]:
        """Returns how many records were dropped and truncated since the last call."""
        with self._lock:
            counters = Counters(*self._native.counters())
            lost = (counters.dropped_count, counters.truncated_count)
            told = self._told
            # A signal handler may have reported more in between.
            if lost <= told:
                return (0, 0)
            self._told = lost
            return lost[0] - told[0], lost[1] - told[1]

    def warn_once(self) -> None:
        """Logs once that a record was dropped, while it is recorded."""
        if self._has_warned:
            return
        self._has_warned = True
        _logger.warning(
            "records are dropped: %s (said once; see Client.counters)",
            _msit.last_error(),
        )

    def warn(self, lost: tuple[int, int], reason: str) -> None:
        """Logs losses in places where an exception would do harm."""
        _logger.warning(
            "%d records were dropped and %d truncated%s",
            *lost,
            f": {reason}" if reason else "",
        )


def close_forgotten(
    stream: SharedStream,
    losses: Losses,
    native: _msit.Client,
    copies: DeviceCopies,
    not_recorded: NotRecorded,
    timeout_us: int,
) -> None:
    """Closes a client that the program did not close. Raises nothing."""
    if not stream.leave():
        return
    try:
        left = copies.wait(timeout_us / 1_000_000)
        not_recorded.finish()
        code = close_native(native, max(left, 0), gives_up=True)
    except KeyboardInterrupt:
        code = _msit.TIMEOUT
    if code == _msit.FORKED:
        return
    copies.stop()
    losses.warn_of_conflicts()
    lost = losses.take()
    if any(lost):
        losses.warn(lost, native.stream_error())
