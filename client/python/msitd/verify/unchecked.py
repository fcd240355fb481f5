"""The exception for calls that cannot be checked."""

from __future__ import annotations

# Maximum length of a reason.
_REASON_MAX = 200


class Unchecked(Exception):
    """A call cannot be made again, or nothing is known about its result.

    `reason` is one of few texts, by which calls are counted. `detail` may name what
    is special about this call, and may contain text of the run.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail[:_REASON_MAX]
