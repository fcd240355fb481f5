"""The exceptions for calls that fail."""

from __future__ import annotations

from collections.abc import Mapping

from msitd._core.errors import MsitError

CODES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
"""Names of the gRPC status codes, by number."""


def code_name(number: int) -> str:
    """Returns the name of a status code.

    A failure without an error code is a bug in the daemon, and is named
    `INTERNAL`.
    """
    return CODES[number] if 0 < number < len(CODES) else "INTERNAL"


def code_number(name: str) -> int:
    """The inverse of `code_name`."""
    return CODES.index(name if name in CODES[1:] else "INTERNAL")


class QueryError(MsitError):
    """A call failed: the daemon refused it, or was not reached in time."""

    code: str
    """The gRPC code, such as `NOT_FOUND`. `UNAVAILABLE` if the daemon was not
    reached, `DEADLINE_EXCEEDED` if the time limit was exceeded.
    """
    reason: str
    """The value of msitd.v1.ErrorReason, such as `RUN_NOT_FOUND`. Empty if the
    answer has no reason, such as the answer of a proxy.
    """
    message: str
    """The error message."""

    def __init__(self, code: str, reason: str, message: str) -> None:
        super().__init__(code, reason, message)
        self.code = code
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        """Returns the line that msitctl prints."""
        reason = f" ({self.reason})" if self.reason else ""
        message = f": {self.message}" if self.message else ""
        return f"{self.code}{reason}{message}"


class PartialError(QueryError):
    """Some of several daemons do not answer, so that the result would be incomplete."""

    unreachable: dict[str, str]
    """Reasons, by node."""

    def __init__(self, unreachable: Mapping[str, str]) -> None:
        why = "; ".join(f"no answer from {n}: {e}" for n, e in unreachable.items())
        super().__init__(
            "UNAVAILABLE", "", f"{why}; with allow_partial=True others suffice"
        )
        self.unreachable = dict(unreachable)
