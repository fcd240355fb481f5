"""Limits how long a recorded program waits for a daemon.

A recorded program waits for its daemon in two places. A record waits for free
memory in the client's buffer, and the end of a step waits until the daemon has
all records of the step. A slow daemon is worth both waits, as a slow disk would
be if the program wrote files itself. A daemon that is gone is not. Progress
distinguishes the two: a daemon that has acknowledged nothing during a whole
wait counts as away until it acknowledges something.
"""

from __future__ import annotations

import time
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msitd._core.last_wait import is_unreachable, wait_unless_gone

if TYPE_CHECKING:
    from msitd._core.client import Client

# Maximum time in seconds that one record, or one step, waits for a daemon.
LONG_S = 60.0
# The same for a daemon that is away.
SHORT_S = 1.0
# After a short wait without success, there are no waits for this many seconds.
_PAUSE_S = 30.0


@dataclass
class _Absence:
    """A daemon that is away since a wait without success."""

    # Number of records that it had acknowledged then.
    acknowledged_count: int
    # Earliest time of the next wait.
    next_wait: float


_absences: weakref.WeakKeyDictionary[Client, _Absence] = weakref.WeakKeyDictionary()


class Patience:
    """Waits long for a slow daemon, and briefly for one that is gone.

    A step of a program ends with a wait for the daemon. Once the daemon is
    away, later waits are short, and most are skipped, so that a missing daemon
    delays the program once and not in each step. All instances with the same
    client share this state. Only one thread at a time may use a client in this
    way.

    Args:
        client: The client whose records are waited for.
        long_s: Maximum time in seconds to wait while the daemon answers.
    """

    def __init__(self, client: Client, long_s: float) -> None:
        self._client = client
        self._long_s = long_s

    @property
    def is_away(self) -> bool:
        """Whether the daemon has acknowledged nothing since a wait without success."""
        absence = _absences.get(self._client)
        if absence is None:
            return False
        if self._acknowledged_count() != absence.acknowledged_count:
            del _absences[self._client]
            return False
        return True

    def flush(self, *, is_last: bool = False) -> None:
        """Waits until all records so far are acknowledged or dropped.

        Args:
            is_last: Whether no later wait follows that could still succeed.
                Such a wait is long, even if the one before failed, unless the
                daemon cannot be reached.

        Raises:
            TimeoutError: Some records are neither, in time.
            MsitError: The client is closed, or the daemon ended the stream
                permanently.
        """
        acknowledged_count = self._acknowledged_count()
        try:
            if is_last and self._is_gone():
                self._client.flush(0)
            else:
                self._client.flush(self._long_s if is_last else self._wait_s())
        except Exception:
            if self._acknowledged_count() == acknowledged_count:
                self._record_wait_in_vain(acknowledged_count)
            raise
        _absences.pop(self._client, None)

    def _is_gone(self) -> bool:
        """Waits until a daemon that is not reachable is, or counts as gone."""
        if not is_unreachable(self._client.stream_error()):
            return False

        def is_reached(seconds: float) -> bool:
            time.sleep(seconds)
            return not is_unreachable(self._client.stream_error())

        return wait_unless_gone(is_reached, self._client.stream_error, LONG_S) == 0.0

    def _record_wait_in_vain(self, acknowledged_count: int) -> None:
        now = time.monotonic()
        absence = _absences.get(self._client)
        if absence is None:
            # The daemon may be restarting, so the next wait is a short one.
            _absences[self._client] = _Absence(acknowledged_count, now)
        elif now >= absence.next_wait:
            absence.next_wait = now + _PAUSE_S

    def _wait_s(self) -> float:
        if not self.is_away:
            return self._long_s
        is_due = time.monotonic() >= _absences[self._client].next_wait
        return SHORT_S if is_due else 0.0

    def _acknowledged_count(self) -> int:
        return self._client.counters().acknowledged_count
