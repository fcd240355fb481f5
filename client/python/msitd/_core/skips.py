"""Counts what hooks do not record, by reason."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msitd._core.recorder import Client

_logger = logging.getLogger("msitd")

# Reasons that are counted apart. Texts of errors may differ each time.
_REASONS_MAX = 64
_OTHER_REASONS = "other reasons"

# The document that says so in the run.
SKIPS_NAME = "not_recorded.json"

RECOMPUTED = "a forward that checkpointing runs again; the first one is recorded"


REPLICA = (
    "a forward of a replica ends no step: register hooks on DataParallel, not in it"
)


@dataclass
class Skip:
    """What is not recorded for one reason, and where that came first."""

    reason: str
    count: int
    op: str
    index: str

    def as_json(self) -> dict[str, Any]:
        """Returns it as the document of the hooks has it."""
        return dict(vars(self))


class Skips:
    """What the hooks of one model do not record. Any thread may count."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_reason: dict[str, Skip] = {}

    def count(self, op: str, index: str, reason: str) -> None:
        """Counts one leaf or call. The first loss is told to the user."""
        with self._lock:
            has_told = any(known not in _NO_LOSS for known in self._by_reason)
            if reason not in self._by_reason and len(self._by_reason) >= _REASONS_MAX:
                reason = _OTHER_REASONS
            skip = self._by_reason.setdefault(reason, Skip(reason, 0, op, index))
            skip.count += 1
        if not has_told and reason not in _NO_LOSS:
            _logger.warning(
                "%s %s is not recorded: %s (said once; see HookHandle.skipped)",
                op,
                index,
                reason,
            )

    def by_reason(self) -> dict[str, int]:
        """Returns the count of each reason."""
        with self._lock:
            return {skip.reason: skip.count for skip in self._by_reason.values()}

    def lost_count(self) -> int:
        """Returns the sum of those that should have been recorded."""
        counts = self.by_reason()
        return sum(counts[reason] for reason in counts if reason not in _NO_LOSS)

    def record(self, client: Client, uncalled: Collection[str]) -> None:
        """Records the document of the hooks, if there is anything to say.

        Args:
            client: Where to.
            uncalled: Ops of which no call was seen.
        """
        with self._lock:
            skipped = [skip.as_json() for skip in self._by_reason.values()]
        if skipped or uncalled:
            facts = {"version": 1, "skipped": skipped, "uncalled": sorted(uncalled)}
            text = json.dumps(facts, ensure_ascii=False, separators=(",", ":"))
            client.record_document(SKIPS_NAME, text)


# Nothing is missing because of these.
_NO_LOSS = (RECOMPUTED, REPLICA)


def is_in_backward() -> bool:
    """Returns whether autograd runs the caller, as checkpoints make it run modules."""
    import torch

    return torch._C._current_graph_task_id() != -1
