"""Counts what hooks do not record, by reason."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from typing import TYPE_CHECKING

from msitd._core.not_recorded import HARMLESS, Tally, reason_of

if TYPE_CHECKING:
    from msitd._core.recorder import Client

_logger = logging.getLogger("msitd")


class Skips:
    """What the hooks of one handle do not record. Any thread may count."""

    def __init__(self, client: Client) -> None:
        self._not_recorded = client._not_recorded
        self._lock = threading.Lock()
        self._tally = Tally()

    def count(self, op: str, index: str, reason: str) -> None:
        """Counts one leaf or call. The first loss is told to the user."""
        reason = reason_of(reason)
        with self._lock:
            has_told = any(known not in HARMLESS for known in self._tally.by_reason)
            self._tally.add(op, index, reason)
        if not has_told and reason not in HARMLESS:
            _logger.warning(
                "%s %s is not recorded: %s (said once; see HookHandle.skipped)",
                op,
                index,
                reason,
            )
        self._not_recorded.count(op, index, reason)

    def by_reason(self) -> dict[str, int]:
        """Returns the count of each reason."""
        with self._lock:
            skips = list(self._tally.by_reason.values())
        return {skip.reason: skip.count for skip in skips}

    def lost_count(self) -> int:
        """Returns the sum of those that should have been recorded."""
        counts = self.by_reason()
        return sum(counts[reason] for reason in counts if reason not in HARMLESS)

    def tell(self, client: Client, uncalled: Collection[str]) -> None:
        """Tells the daemon all that it has not been told.

        Args:
            client: That of the handle.
            uncalled: Ops of which no call was seen.

        Raises:
            MsitError: The client is closed.
        """
        self._not_recorded.add_uncalled(uncalled)
        client._is_recorded(self._not_recorded.tell())


def is_in_backward() -> bool:
    """Returns whether autograd runs the caller, as checkpoints make it run modules."""
    import torch

    return torch._C._current_graph_task_id() != -1
