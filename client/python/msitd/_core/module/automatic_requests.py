"""Records the rows of a batch as requests, for models of transformers.

A request needs an id that is the same in two runs, also if their batches differ.
The id is derived from the tokens of the row, without padding, in the forward that
begins the sequence. The forwards that continue the sequence with its cache keep
the id.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from array import array
from typing import TYPE_CHECKING, Any

from msitd._core.module import sequence_caches
from msitd._core.module.batches import EMPTY, Batch, BatchReader, Row, caches_in
from msitd._core.module.wrappers import PLAIN
from msitd._core.requests import REQUESTS_MAX, document_text, request_op

if TYPE_CHECKING:
    import torch

    from msitd._core.client import Client
    from msitd._core.module.sequence_states import SequenceState
    from msitd._core.skips import Skips

_PREFIX = "auto-"
_DIGEST_BYTES = 6

# Maximum number of different sequences of a run that are counted.
_SEQUENCES_MAX = 1 << 18

_TOO_MANY_ROWS = f"requests of a batch of more than {REQUESTS_MAX} rows"
_TOO_MANY_SEQUENCES = f"requests after the first {_SEQUENCES_MAX} different sequences"


class SequenceIds:
    """Names the sequences of one model in one run. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[bytes, int] = {}

    def name(self, tokens: list[int], position: int | None) -> str | None:
        """Returns the id of a sequence that begins; None if there are too many.

        Args:
            position: Position of the first token, which is not 0 if the cache
                was filled elsewhere.
        """
        data = array("q", tokens)
        if position != 0:
            data.append(-1 if position is None else position)
        digest = hashlib.blake2b(data.tobytes(), digest_size=_DIGEST_BYTES)
        key = digest.digest()
        with self._lock:
            count = self._counts.get(key, 0) + 1
            if count == 1 and len(self._counts) >= _SEQUENCES_MAX:
                return None
            self._counts[key] = count
        suffix = f"-{count}" if count > 1 else ""
        return f"{_PREFIX}{digest.hexdigest()}{suffix}"


class AutomaticRequests:
    """Records the requests of one model.

    Args:
        op: Op of the model.
        reader: Reads the batches of the model.
        objects: Whether tensors in objects are recorded, such as those of a
            cache. Where a request is in a cache is recorded then, and if the
            cache is a tuple.
    """

    def __init__(
        self,
        client: Client,
        skips: Skips,
        op: str,
        reader: BatchReader,
        objects: bool = False,
    ) -> None:
        self._client = client
        self._skips = skips
        self._op = op
        self._reader = reader
        self._objects = objects
        # A model that is hooked again continues the numbers of its run.
        self._ids = client.sequence_ids.setdefault(op, SequenceIds())
        # The state of a forward without a cache, until the forward returns one.
        # `followed` are the batch and the token, if the cache is followed.
        self._running = threading.local()

    def begin(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        token: int | None,
        *,
        is_root: bool,
        is_in_graph: bool,
    ) -> None:
        """Handles a forward that begins.

        Args:
            token: None if the forward is not recorded.
        """
        self._running.state = self._running.followed = None
        if not is_root:
            return
        batch = self._reader.read(args, kwargs, is_in_graph)
        if batch is None or batch.state is None or batch.ids is None:
            return
        count, columns = batch.lengths
        if batch.is_divided or not columns:
            return
        if count > REQUESTS_MAX:
            self._skips.count(self._op, "", _TOO_MANY_ROWS)
            return
        state = batch.state
        self._running.state = state
        self._name_rows(batch, state)
        if self._objects or any(map(_is_tuple, batch.caches.values())):
            sequence_caches.follow(state, batch)
            self._running.followed = (batch, token)
        if token is not None:
            texts = {
                request_op(request): text
                for number, request in enumerate(state.ids or ())
                if request and (text := _text_of(number, batch))
            }
            self._client._record_request_texts(texts, token)

    def miss(self) -> None:
        """Handles a forward during a pause."""
        self._running.state = None

    def end(self, result: Any) -> None:
        """Handles the end of a forward."""
        state = getattr(self._running, "state", None)
        self._running.state = None
        if state is None or result is None:
            return
        if not state.has_cache:
            self._reader.bind(state, result)
        batch, token = self._running.followed or (None, None)
        if batch is not None and token is not None and state.ids is not None:
            caches = {**batch.caches, **caches_in(result)}
            texts = sequence_caches.texts_of(caches, state, state.ids)
            self._client._record_request_texts(texts, token)

    def _name_rows(self, batch: Batch, state: SequenceState) -> None:
        """Names the rows whose sequences begin."""
        count, columns = batch.lengths
        is_new = state.ids is None
        ids = state.ids = state.ids or [None] * count
        # A step of a sequence whose beginning was not seen has too few tokens
        # for an id.
        all_begin = batch.begins or (is_new and batch.begins is False and columns > 1)
        begun: list[tuple[int, int | None]] = []
        for number, request in enumerate(ids):
            row = _row_of(number, batch)
            if request is not None or row == EMPTY:
                continue
            position = (0 if batch.begins else None) if row is None else row.position
            # The first chunk of a prompt may consist of padding.
            if all_begin or position == 0:
                begun.append((number, position))
        tokens = self._reader.tokens_of(batch) if begun else None
        if tokens is None:
            return
        for number, position in begun:
            ids[number] = self._ids.name(tokens[number], position)
            if ids[number] is None:
                self._skips.count(self._op, "", _TOO_MANY_SEQUENCES)


def can_record(model: torch.nn.Module) -> bool:
    """Returns whether the rows of a model are requests by themselves.

    These are models of transformers whose sequence is `input_ids`.

    Args:
        model: A model, or one in DataParallel.
    """
    home = sys.modules.get("transformers.modeling_utils")
    kind = getattr(home, "PreTrainedModel", None)
    model = PLAIN.unwrap_copied(model)
    if not isinstance(kind, type) or not isinstance(model, kind):
        return False
    config = getattr(model, "config", None)
    has_ids = getattr(model, "main_input_name", "") == "input_ids"
    return has_ids and not getattr(config, "is_encoder_decoder", False)


def _is_tuple(cache: Any) -> bool:
    return isinstance(cache, (tuple, list))


def _row_of(number: int, batch: Batch) -> Row | None:
    return None if batch.rows is None else batch.rows[number]


def _text_of(number: int, batch: Batch) -> str:
    """Returns the text of a row's request; "" if the row is not in the batch."""
    row = _row_of(number, batch)
    rows = (number, number + 1)
    if row is None:
        # With the lengths, but without columns, all columns would belong to it.
        return document_text(rows, None, None, None)
    if row == EMPTY:
        return ""
    columns = (row.first, row.end) if batch.mask is not None else None
    return document_text(rows, columns, row.position, batch.lengths)
