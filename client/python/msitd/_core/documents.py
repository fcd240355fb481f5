"""Texts that a client records in addition to tensors and values."""

from __future__ import annotations

import threading
import time
from typing import Any

from msitd import _msit
from msitd._core.arguments import problem_of
from msitd._core.requests import Requests, Texts, TokenRequests
from msitd._core.vocabulary import CALL_AUTO, IO_NUMBERS

# Clients that append to a run number their versions by the seconds since 2024.
# A version has 30 bits.
_EPOCH_S = 1_704_067_200

_lock = threading.Lock()
_last_version = 0


def _next_version() -> int:
    """Returns a version that is higher than those of earlier clients in any process."""
    global _last_version
    with _lock:
        _last_version = max(_last_version + 1, int(time.time()) - _EPOCH_S)
        return _last_version


class Documents:
    """The part of a client that records texts.

    Args:
        is_appended: Whether the run may have documents of an earlier client.
            The first version of a document has the number 0, which never
            changes.
    """

    def __init__(self, native: _msit.Client, is_appended: bool) -> None:
        self._native = native
        self._is_appended = is_appended
        # Names, tokens and hashes of the documents that were recorded.
        self._documents: set[tuple[str, int, int]] = set()
        self._requests = TokenRequests(native)
        # The modules of each hooked model, by the op of the model.
        self.module_trees: dict[str, list[dict[str, Any]]] = {}
        # The names of the sequences of each hooked model, by the op of the model.
        self.sequence_ids: dict[str, Any] = {}

    def record_document(self, name: str, text: str, token: int = 0) -> bool:
        """Records a text that describes this rank, such as its module tree.

        The capture policy does not apply. The same text under the same name and
        token is recorded only once. A different text is a later version of the
        document.

        Args:
            name: 1 to 1024 bytes, such as `module_tree.json`.
            text: Text of any length.
            token: Token that the text describes, or 0 for the whole rank.

        Returns:
            See `record`.

        Raises:
            ValueError: An argument is out of its range.
            MsitError: The client is closed.
        """
        self._check_open()
        try:
            known = (name, token, hash(text))
            if known in self._documents:
                return True
            version = _next_version() if self._is_appended else CALL_AUTO
            place = (None, token, name, version, IO_NUMBERS["state"], "", None)
            code = self._native.record_document(text, place)
        except TypeError as error:
            raise problem_of(
                error, {"name": name, "text": text}, {"token": token}
            ) from None
        if code == _msit.OK:
            self._documents.add(known)
        return code == _msit.OK or self._is_recorded(code)

    def record_requests(self, requests: Requests, token: int | None = None) -> bool:
        """Records which requests are processed in a token, for engines that
        batch requests.

        Call it once for each token, before or after the token's records. If it
        is before, a capture policy can select the token by its requests; of
        tokens ahead, the requests of the 64 highest ones are known. The requests
        themselves are always recorded. Daemons show the requests with the
        tensors of the token, and can select tensors by request.

        Args:
            requests: Ids, or a mapping of ids to their rows of the batch:
                `(first, end)`, a range, a slice, a number, a `RequestRows` with
                columns and position, or None if unknown. An id has 1 to 128
                bytes; there are at most 4096. Several calls for the same token
                add up; the first rows of an id are kept.
            token: Default: the current token.

        Returns:
            See `record`.

        Raises:
            ValueError: An argument is out of its range.
            MsitError: The client is closed.
        """
        self._check_open()
        token = self._native.token() if token is None else token
        try:
            code = self._requests.record(requests, token)
        except TypeError as error:
            raise problem_of(error, {}, {"token": token}) from None
        return code == _msit.OK or self._is_recorded(code)

    def _record_request_texts(self, texts: Texts, token: int) -> None:
        """Records the documents of the requests of a forward.

        If a token has several forwards, the first text of a document is kept.
        """
        self._check_open()
        code = self._requests.record_first(texts, token)
        if code != _msit.OK:
            self._is_recorded(code)

    def _is_recorded(self, code: int) -> bool:
        raise NotImplementedError

    def _check_open(self) -> None:
        raise NotImplementedError
