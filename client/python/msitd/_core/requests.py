"""Records which requests are processed in a token.

A request is a document at the token: its name contains the id, its text the
rows. protos/base/request.h defines the same format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msitd import _msit
from msitd._core.vocabulary import IO_NUMBERS

# The argument of `record_requests`: ids, or a mapping of ids to rows.
Requests = Mapping[Any, Any] | Iterable[Any]

# The maximum that a daemon shows per token.
_REQUESTS_MAX = 4096

_DEVICE = "cpu:0"
_OP_PREFIX = "request/"
_ID_BYTES_MAX = 128


class TokenRequests:
    """The requests of the tokens of one client. Not thread-safe."""

    def __init__(self, native: _msit.Client) -> None:
        self._native = native
        # The last token and its requests, so that nothing is recorded twice.
        self._token = -1
        self._rows: dict[str, str] = {}

    def record(self, requests: Requests, token: int) -> int:
        """Records the requests that are new at the token. Returns a code of libmsit.

        Raises:
            ValueError: There are too many requests, or rows are not a range.
            TypeError: An id is not a str.
        """
        rows = _rows_by_id(requests)
        if token != self._token:
            self._token, self._rows = token, {}
        for request, text in rows.items():
            if self._rows.get(request) == text:
                continue
            op = _OP_PREFIX + request
            place = (_DEVICE, token, op, 0, IO_NUMBERS["state"], "", None)
            code = self._native.record_document(text, place)
            if code != _msit.OK:
                return code
            self._rows[request] = text
        return _msit.OK


def _rows_by_id(requests: Requests) -> dict[str, str]:
    if isinstance(requests, Mapping):
        out = {str(request): _text_of(rows) for request, rows in requests.items()}
    else:
        # A str is one id, not a list of characters.
        ids = [requests] if isinstance(requests, str) else requests
        out = {str(request): "" for request in ids}
    if len(out) > _REQUESTS_MAX:
        raise ValueError(f"{len(out)} requests, a token has at most {_REQUESTS_MAX}")
    for request in out:
        if not 0 < len(request.encode(errors="replace")) <= _ID_BYTES_MAX:
            raise ValueError(f"request {request[:32]!r}… is not 1 to 128 bytes long")
    return out


def _text_of(rows: Any) -> str:
    if rows is None:
        return ""
    if isinstance(rows, int):
        first, end, step = rows, rows + 1, 1
    elif isinstance(rows, (range, slice)):
        first, end, step = rows.start or 0, rows.stop, rows.step or 1
    else:
        first, end = rows
        step = 1
    if step != 1 or end is None or not 0 <= first <= end:
        raise ValueError(f"rows {rows!r} are no range from 0 on, in steps of one")
    return f"{int(first)}:{int(end)}"
