"""How long a face waits for a daemon.

A program that is recorded shares two waits with its daemon. A record waits for room in
the buffer of the client, and the end of a step waits until the daemon has all records of
the step. A daemon that is slow is worth both, as a slow disk would be for a program that
writes files itself. A daemon that is gone is not. The difference is progress: a daemon
that has acknowledged nothing during a whole wait is away until it acknowledges something.
"""

from __future__ import annotations

import time
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msitd._core.recorder import Client

# Longest time in seconds that one record, or one step, waits for a daemon.
LONG_S = 60.0
# The same for a daemon that is away.
SHORT_S = 1.0
# After a short wait in vain, there is none for so many seconds.
_PAUSE_S = 30.0


@dataclass
class _Absence:
    """A daemon is away since a wait in vain."""

    # Records that it had acknowledged then.
    acknowledged_count: int
    # When it may be waited for again.
    next_wait: float


_absences: weakref.WeakKeyDictionary[Client, _Absence] = weakref.WeakKeyDictionary()


class Patience:
    """Waits long for a daemon that is slow, and shortly for one that is gone.

    A face waits for the daemon in each step of a program. Once a daemon is away, a later
    wait is short, and most are none at all, so that a daemon that is gone delays the
    program once and not in each step. All instances with the same client share what they
    know. One thread at a time may use a client in this way.

    Args:
        client: Whose records are waited for.
        long_s: Longest time in seconds to wait while the daemon answers.
    """

    def __init__(self, client: Client, long_s: float) -> None:
        self._client = client
        self._long_s = long_s

    @property
    def is_away(self) -> bool:
        """Whether the daemon has acknowledged nothing since a wait in vain."""
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
            is_last: Whether no later wait follows that could still succeed. Such a
                wait is long, also if the one before was in vain.

        Raises:
            TimeoutError: They are not, in time.
            MsitError: The client is closed, or the daemon ended the stream for good.
        """
        acknowledged_count = self._acknowledged_count()
        try:
            self._client.flush(self._long_s if is_last else self._wait_s())
        except Exception:
            if self._acknowledged_count() == acknowledged_count:
                self._record_wait_in_vain(acknowledged_count)
            raise
        _absences.pop(self._client, None)

    def _record_wait_in_vain(self, acknowledged_count: int) -> None:
        now = time.monotonic()
        absence = _absences.get(self._client)
        if absence is None:
            # The daemon may be starting again, so the next wait is a short one.
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
