"""Reports the losses of a client to the daemon during the run.

The document is specified in docs/format/not_recorded.md.
"""

from __future__ import annotations

import json
import secrets
import threading
import weakref
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from msitd import _msit
from msitd._core.vocabulary import IO_NUMBERS

DOCUMENT_NAME = "not_recorded"

# Maximum number of reasons with counts of their own. Texts of errors may differ
# each time.
_REASONS_MAX = 64
_OTHER_REASONS = "other reasons"
_REASON_CHARS_MAX = 256
_NAME_CHARS_MAX = 256

# Maximum number of ops without a call that are named.
_UNCALLED_MAX = 1024

RECOMPUTED = "a forward that checkpointing runs again; the first one is recorded"

CLOSED = "the client of the hooks is closed: call remove() of their handle"

REPLICA = (
    "a forward of a replica ends no step: register hooks on DataParallel, not in it"
)

# Reasons for which no data is missing.
HARMLESS = frozenset((RECOMPUTED, REPLICA))


@dataclass
class Skip:
    """The records that are missing for one reason, and the first of them."""

    reason: str
    count: int
    op: str
    index: str


class Tally:
    """Skips by reason. The caller holds a lock."""

    def __init__(self) -> None:
        self.by_reason: dict[str, Skip] = {}
        self.count = 0

    def add(self, op: str, index: str, reason: str) -> bool:
        """Counts one skip. Returns whether the reason is new."""
        skip = self.by_reason.get(reason)
        is_new = skip is None
        if skip is None:
            if len(self.by_reason) >= _REASONS_MAX:
                reason = _OTHER_REASONS
            place = (_text(op, _NAME_CHARS_MAX), _text(index, _NAME_CHARS_MAX))
            skip = self.by_reason.setdefault(reason, Skip(reason, 0, *place))
            is_new = skip.count == 0
        skip.count += 1
        self.count += 1
        return is_new


def reason_of(error: object) -> str:
    """Returns the text under which a reason or an exception is counted."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an exception of the program may have any class
        text = ""
    return _text(text or type(error).__name__, _REASON_CHARS_MAX)


def _text(text: str, chars_max: int) -> str:
    """Returns the beginning of a text, encodable as UTF-8."""
    return text[:chars_max].encode(errors="replace").decode()


class NotRecorded:
    """Counts the records that all hooks of a client omit. Any thread may count.

    Each new reason is reported to the daemon at once, and counts are reported
    when they have grown by a quarter. The daemon therefore always has most of
    the count, from few documents.
    """

    def __init__(self, native: _msit.Client) -> None:
        self._native = native
        # Reentrant, because signal handlers may count, too.
        self._lock = threading.RLock()
        self._tally = Tally()
        self._uncalled: set[str] = set()
        self._sources: list[weakref.WeakMethod[Callable[[], None]]] = []
        # Random, because each client of the rank has a document of its own.
        self._name = f"{DOCUMENT_NAME}/{secrets.token_hex(8)}.json"
        self._version = 0
        self._due_count = 0
        self._has_news = False

    def count(self, op: str, index: str, reason: str) -> None:
        """Counts one leaf or call."""
        with self._lock:
            is_new = self._tally.add(op, index, reason)
            self._has_news = True
            is_due = is_new or self._tally.count >= self._due_count
        if is_due:
            self.tell()

    def add_uncalled(self, ops: Collection[str]) -> None:
        """Adds ops for which no call was seen."""
        with self._lock:
            self._has_news = self._has_news or not self._uncalled.issuperset(ops)
            self._uncalled.update(ops)

    def add_source(self, report: Callable[[], None]) -> None:
        """Adds a method that, at the end, counts skips that are only known then."""
        with self._lock:
            self._sources = [each for each in self._sources if each() is not None]
            self._sources.append(weakref.WeakMethod(report))

    def finish(self) -> int:
        """Lets all sources count, and reports to the daemon.

        Returns a code of libmsit.
        """
        with self._lock:
            sources = [source() for source in self._sources]
        for report in sources:
            if report is not None:
                report()
        return self.tell()

    def tell(self) -> int:
        """Reports new counts to the daemon. Returns a code of libmsit."""
        with self._lock:
            if not self._has_news:
                return _msit.OK
            self._has_news = False
            count = self._tally.count
            self._due_count = count + max(1, count // 4)
            text = self._document()
            version = self._version
            self._version += 1
        code = None
        place = (
            None,
            0,
            self._name,
            version,
            IO_NUMBERS["state"],
            "",
            None,
        )
        try:
            code = self._native.record_document(text, place)
        finally:
            if code != _msit.OK:
                self._has_news = True
        return code

    def _document(self) -> str:
        skipped: list[dict[str, Any]] = [
            {**vars(skip), "is_harmless": skip.reason in HARMLESS}
            for skip in self._tally.by_reason.values()
        ]
        uncalled = sorted(self._uncalled)[:_UNCALLED_MAX]
        facts = {
            "version": 1,
            "skipped": skipped,
            "uncalled": [_text(op, _NAME_CHARS_MAX) for op in uncalled],
            "uncalled_count": len(self._uncalled),
        }
        return json.dumps(facts, ensure_ascii=False, separators=(",", ":"))
