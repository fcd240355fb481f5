"""Counts what hooks do not record, by reason."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from msitd._core.guard import GuardedHook
from msitd._core.not_recorded import HARMLESS, Tally, reason_of

if TYPE_CHECKING:
    from msitd._core.client import Client

_logger = logging.getLogger("msitd")


class Skips:
    """Counts the records that the hooks of one handle omit. Any thread may
    count."""

    def __init__(self, client: Client) -> None:
        self._not_recorded = client._not_recorded
        self._lock = threading.Lock()
        self._tally = Tally()

    def count(
        self, op: str, index: str, reason: str, *, is_logged: bool = True
    ) -> None:
        """Counts one leaf or call. Raises nothing.

        Args:
            is_logged: Whether the first loss is logged.
        """
        try:
            self._count(op, index, reason_of(reason), is_logged)
        except Exception:  # noqa: BLE001 - a handler of the logger may raise anything
            return

    def count_error(self, op: str, index: str, error: Exception) -> None:
        """Counts one leaf or call whose recording failed. Raises nothing."""
        self.count(op, index, reason_of(error))

    def guarded(
        self, hook: Callable[..., Any], op: str, index: str = "", what: str = ""
    ) -> GuardedHook:
        """Returns a hook that raises nothing: its exceptions are counted here.

        Args:
            op: The op that the hook records.
            what: First part of the reason.
        """
        return GuardedHook(hook, _Report(self, op, index, what))

    def _count(self, op: str, index: str, reason: str, is_logged: bool) -> None:
        with self._lock:
            has_told = any(known not in HARMLESS for known in self._tally.by_reason)
            self._tally.add(op, index, reason)
        try:
            self._not_recorded.count(op, index, reason)
        finally:
            if is_logged and not has_told and reason not in HARMLESS:
                _logger.warning(
                    "%s %s is not recorded: %s (said once; see HookHandle.skipped)",
                    op,
                    index,
                    reason,
                )

    def by_reason(self) -> dict[str, int]:
        """Returns the number of skips by reason."""
        with self._lock:
            skips = list(self._tally.by_reason.values())
        return {skip.reason: skip.count for skip in skips}

    def lost_count(self) -> int:
        """Returns the number of skips that lose data."""
        counts = self.by_reason()
        return sum(counts[reason] for reason in counts if reason not in HARMLESS)

    def tell(self, client: Client, uncalled: Collection[str]) -> None:
        """Reports to the daemon everything that was not reported yet.

        Args:
            client: The client of the handle.
            uncalled: Ops for which no call was seen.

        Raises:
            MsitError: The client is closed.
        """
        self._not_recorded.add_uncalled(uncalled)
        client._is_recorded(self._not_recorded.tell())


class _Report:
    """Counts the exceptions of one hook. Not a closure; see `gradient.gradients`."""

    __slots__ = ("_index", "_op", "_skips", "_what")

    def __init__(self, skips: Skips, op: str, index: str, what: str) -> None:
        self._skips = skips
        self._op = op
        self._index = index
        self._what = what

    def __call__(self, error: Exception) -> None:
        self._skips.count(self._op, self._index, self._what + reason_of(error))


def is_in_backward() -> bool:
    """Returns whether autograd runs the caller, as it does for checkpointed modules."""
    import torch

    return torch._C._current_graph_task_id() != -1
