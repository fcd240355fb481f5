"""How long a face waits for a daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msitd._core.recorder import Client

# How long is waited for a daemon that did not answer in time before.
SHORT_S = 1.0


class Patience:
    """Waits long for a daemon that is slow, and shortly for one that is gone.

    A face waits for the daemon in each step of a program. Once a wait has been in vain,
    later ones are short, so that a daemon that is gone delays the program once and not
    in each step. With the first answer, waits are long again. One thread at a time may
    use it.

    Args:
        client: Whose records are waited for.
        long_s: Longest time in seconds to wait while the daemon answers.
    """

    def __init__(self, client: Client, long_s: float) -> None:
        self._client = client
        self._long_s = long_s
        # Whether the last wait was in vain.
        self._is_away = False

    def flush(self, *, is_last: bool = False) -> None:
        """Waits until all records so far are acknowledged or dropped.

        Args:
            is_last: Whether no later wait follows that could still succeed. Such a
                wait is long, also if the one before was in vain.

        Raises:
            TimeoutError: They are not, in time.
            MsitError: The client is closed, or the daemon ended the stream for good.
        """
        try:
            is_short = self._is_away and not is_last
            self._client.flush(SHORT_S if is_short else self._long_s)
        except Exception:
            self._is_away = True
            raise
        self._is_away = False
