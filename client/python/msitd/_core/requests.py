"""Records which requests are processed in a token.

A request is a document at the token: its name contains the id, its text the
part of the batch. protos/base/request.h defines the same format. Further
documents state where the request is in caches; see `cache_places`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msitd import _msit
from msitd._core.cache_places import CachePlaces, Span
from msitd._core.vocabulary import IO_NUMBERS

# The argument of `record_requests`: ids, or a mapping of ids to rows.
Requests = Mapping[Any, Any] | Iterable[Any]

# The maximum that a daemon shows per token.
REQUESTS_MAX = 4096

_DEVICE = "cpu:0"
_OP_PREFIX = "request/"
_CACHE_OP_PREFIX = "cache/"
# The maximum for each request, and the longest name of a cache.
_CACHES_MAX = 256
_NAME_BYTES_MAX = 1024
_CACHE_TEXT_BYTES_MAX = 1 << 20
_ID_BYTES_MAX = 128
# The longest text that a daemon reads.
_TEXT_BYTES_MAX = 128
# Daemons count rows with a number above 2^40 as unknown.
_NUMBER_MAX = (1 << 63) - 1

# Texts of documents by their op.
Texts = dict[str, str]


@dataclass(frozen=True)
class RequestRows:
    """The part of a batch that belongs to a request.

    Two runs of a model seldom have equal batches: a prompt is padded to the
    longest of its batch, or processed in chunks. These facts make the elements
    of a request comparable across batches. `register_hook` determines most of
    them from the arguments of the model; see its argument `requests`.

    Attributes:
        rows: Rows of the first dimension, as `(first, end)`, a range, a slice or
            a number, or None if unknown. Stored as `(first, end)`.
        columns: Elements of the second dimension that are not padding, in the
            same forms. Only for batches of two dimensions, (batch, sequence).
            None: all of them, if `batch` has two dimensions.
        position: Position of the first of these elements in the sequence of the
            request: the number of its tokens before it, without padding. None
            if unknown.
        batch: Lengths of the batch: the number of rows of a packed batch, which
            has only this dimension, or `(rows, columns)`. None if unknown.
        caches: Where the request is in caches of attention after the token, as
            `CacheColumns` or `CachePages`, by the name of the cache: the index
            of its tensors or of the argument or object that contains them, or
            for results and states their op, its last part, or a pattern for it.

    Raises:
        ValueError: A value is out of its range, or does not fit another one.
        TypeError: A value is not a number.
    """

    rows: Any = None
    columns: Any = None
    position: int | None = None
    batch: Any = None
    caches: Mapping[str, CachePlaces] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _check_caches(self.caches)
        rows, columns = _span_of("rows", self.rows), _span_of("columns", self.columns)
        batch = _lengths_of(self.batch)
        position = self.position
        if position is not None:
            position = operator.index(position)
            if not 0 <= position <= _NUMBER_MAX:
                raise ValueError(f"position {position} is not 0 or a positive number")
        if columns is not None and rows is None:
            raise ValueError(f"columns {self.columns!r} need rows")
        if columns is not None and batch is not None and len(batch) == 1:
            raise ValueError(f"columns {self.columns!r} need a batch of two dimensions")
        spans = (("rows", rows), ("columns", columns))
        for (name, span), length in zip(spans, batch or (), strict=False):
            if span is not None and span[1] > length:
                raise ValueError(
                    f"{name} {span[0]}:{span[1]} end after those of the batch {batch}"
                )
        for name, value in zip(
            ("rows", "columns", "position", "batch"),
            (rows, columns, position, batch),
            strict=True,
        ):
            object.__setattr__(self, name, value)

    def text(self) -> str:
        """Returns the text of the document, `[ROWS[,COLUMNS]][@POSITION][/N[,M]]`.

        Raises:
            ValueError: It is too long.
        """
        text = document_text(self.rows, self.columns, self.position, self.batch)
        if len(text) > _TEXT_BYTES_MAX:
            raise ValueError(f"rows {text} have more than {_TEXT_BYTES_MAX} characters")
        return text


def document_text(
    rows: Span | None,
    columns: Span | None,
    position: int | None,
    batch: tuple[int, ...] | None,
) -> str:
    """Returns the text of a document; see RequestRows for its parts."""
    spans = (span for span in (rows, columns) if span is not None)
    text = ",".join(f"{first}:{end}" for first, end in spans)
    if position is not None:
        text += f"@{position}"
    if batch is not None:
        text += "/" + ",".join(map(str, batch))
    return text


class UncountedRows(RequestRows):
    """Rows whose position is unknown, and not the number of the rows before."""


class TokenRequests:
    """The requests of the tokens of one client. Not thread-safe."""

    def __init__(self, native: _msit.Client) -> None:
        self._native = native
        # The last token and its documents, so that nothing is recorded twice.
        self._token = -1
        self._texts: Texts = {}

    def record(self, requests: Requests, token: int) -> int:
        """Records the requests that are new at the token. Returns a code of libmsit.

        Raises:
            ValueError: There are too many requests, or rows are not a range.
            TypeError: An id is not a str.
        """
        return self._record(texts_of(rows_by_id(requests)), token, False)

    def record_first(self, texts: Texts, token: int) -> int:
        """Like `record`, for the documents of one of several forwards.

        A document that is known at the token keeps its text.
        """
        return self._record(texts, token, True)

    def _record(self, texts: Texts, token: int, keeps_first: bool) -> int:
        if token != self._token:
            self._token, self._texts = token, {}
        for op, text in texts.items():
            known = self._texts.get(op)
            if known == text or (keeps_first and known is not None):
                continue
            place = (_DEVICE, token, op, 0, IO_NUMBERS["state"], "", None)
            code = self._native.record_document(text, place)
            if code != _msit.OK:
                return code
            self._texts[op] = text
        return _msit.OK


def texts_of(rows: Mapping[str, RequestRows]) -> Texts:
    """Returns the texts of the documents of requests."""
    out = {request_op(request): part.text() for request, part in rows.items()}
    for request, part in rows.items():
        if part.caches:
            out[cache_op(request)] = cache_text(part.caches)
    return out


def request_op(request: str) -> str:
    """Returns the op of the document of a request."""
    return _OP_PREFIX + request


def cache_op(request: str) -> str:
    """Returns the op of the document of a request in caches."""
    return _CACHE_OP_PREFIX + request


def cache_text(caches: Mapping[str, CachePlaces]) -> str:
    """Returns the text of that document: a line for each cache.

    Raises:
        ValueError: The text is too long for a daemon.
    """
    text = "\n".join(f"{name} = {places.text()}" for name, places in caches.items())
    if len(text) > _CACHE_TEXT_BYTES_MAX:
        raise ValueError(
            f"the places in caches have {len(text)} characters, at most "
            f"{_CACHE_TEXT_BYTES_MAX}"
        )
    return text


def rows_by_id(requests: Requests) -> dict[str, RequestRows]:
    """Returns the rows of each request.

    Raises:
        ValueError: There are too many requests, or rows are not a range.
        TypeError: Rows are not numbers.
    """
    if isinstance(requests, Mapping):
        out = {str(request): _rows_of(rows) for request, rows in requests.items()}
    else:
        # A str is one id, not a list of characters.
        ids = [requests] if isinstance(requests, str) else requests
        out = {str(request): RequestRows() for request in ids}
    if len(out) > REQUESTS_MAX:
        raise ValueError(f"{len(out)} requests, a token has at most {REQUESTS_MAX}")
    for request in out:
        if not 0 < len(request.encode(errors="replace")) <= _ID_BYTES_MAX:
            raise ValueError(f"request {request[:32]!r}… is not 1 to 128 bytes long")
    return out


def _check_caches(caches: Mapping[str, CachePlaces]) -> None:
    if len(caches) > _CACHES_MAX:
        raise ValueError(f"{len(caches)} caches, a request has at most {_CACHES_MAX}")
    for name in caches:
        if not 0 < len(name.encode(errors="replace")) <= _NAME_BYTES_MAX:
            raise ValueError(
                f"the name of a cache {name[:32]!r}… is not 1 to 1024 bytes long"
            )
        if "\n" in name or " = " in name:
            raise ValueError(f"the name of a cache {name!r} has a line end or ` = `")


def _rows_of(rows: Any) -> RequestRows:
    return rows if isinstance(rows, RequestRows) else RequestRows(rows)


def _span_of(name: str, span: Any) -> Span | None:
    if span is None:
        return None
    step: Any = 1
    if isinstance(span, (range, slice)):
        first, end, step = span.start or 0, span.stop, span.step or 1
    else:
        try:
            first = operator.index(span)
            end = first + 1
        except TypeError:
            first, end = span
    if step != 1 or end is None or not 0 <= first <= end <= _NUMBER_MAX:
        raise ValueError(f"{name} {span!r} are no range from 0 on, in steps of one")
    return operator.index(first), operator.index(end)


def _lengths_of(batch: Any) -> tuple[int, ...] | None:
    if batch is None:
        return None
    lengths = (batch,) if hasattr(batch, "__index__") else tuple(batch)
    lengths = tuple(map(operator.index, lengths))
    if len(lengths) not in (1, 2):
        raise ValueError(f"batch {batch!r} does not have one or two dimensions")
    if not all(0 <= length <= _NUMBER_MAX for length in lengths):
        raise ValueError(f"batch {batch!r} has a length that is not 0 or positive")
    return lengths
