"""Reads the batch that a forward of a language model receives.

The shape of a batch, its padding and the length of its cache are facts of the
arguments. `position_ids` and `cache_position` are not read: they state what the
program believes, which may be the error that the user is looking for.

A fact that cannot be determined is left out. Nothing here changes an argument,
and no exception leaves a `BatchReader`.
"""

from __future__ import annotations

import inspect
import itertools
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from msitd._core.leaf.memory import is_captured
from msitd._core.module.sequence_states import SequenceState, SequenceStates

if TYPE_CHECKING:
    import torch

_IDS = "input_ids"
_EMBEDDINGS = "inputs_embeds"
_MASK = "attention_mask"
# Arguments that contain the state of earlier forwards. Their name depends on
# the model and on the version of transformers.
_CACHES = (
    *("past_key_values", "cache", "cache_params"),
    *("mems", "past_buckets_states", "state"),
)
# Arguments that divide one row into several sequences.
_DIVISIONS = ("cu_seq_lens_q", "cu_seq_lens_k", "cu_seqlens", "seq_idx")

# A cache that is part of a graph, and so has no attributes here.
_IN_GRAPH = object()


class Row(NamedTuple):
    """The elements of one row that are not padding: a slice of its columns."""

    first: int
    end: int
    # Position of the first of them in its sequence; None if unknown.
    position: int | None


# A row that consists only of padding.
EMPTY = Row(0, 0, None)


class Batch:
    """The batch of one forward.

    Args:
        lengths: Lengths of its one or two dimensions.
        ids: `input_ids`, if they are a readable tensor of integers.
        rows: The elements of each row, None where they are not one slice. None
            if the padding is unknown.
        mask: `attention_mask` of any kind, or None.
        state: The state of its sequences, for the next forward.
        begins: Whether its sequences begin in this forward, or None if unknown.
        is_divided: Whether a row contains several sequences.
        past: Number of columns of the cache before the forward, including
            padding, or None if unknown.
        caches: The caches among the arguments, by name.
    """

    __slots__ = (
        *("begins", "caches", "ids", "is_divided", "lengths", "mask", "past"),
        *("rows", "state"),
    )

    def __init__(
        self,
        lengths: tuple[int, ...],
        ids: torch.Tensor | None,
        rows: list[Row | None] | None = None,
        mask: Any = None,
        state: SequenceState | None = None,
        begins: bool | None = None,
        is_divided: bool = False,
        past: int | None = None,
        caches: dict[str, Any] | None = None,
    ) -> None:
        self.lengths = lengths
        self.ids = ids
        self.rows = rows
        self.mask = mask
        self.state = state
        self.begins = begins
        self.is_divided = is_divided
        self.past = past
        self.caches = caches or {}


class BatchReader:
    """Reads the batches of one model. Any thread may call.

    Args:
        model: The model, without wrappers.
        is_pretrained: Whether it is a model of transformers, in which each
            forward without a cache begins new sequences.
    """

    def __init__(self, model: torch.nn.Module, is_pretrained: bool) -> None:
        # torch is installed, since there is a module.
        import torch

        self._torch = torch
        self._is_pretrained = is_pretrained
        self._names = _names_of(type(model).forward)
        self._has_cache = is_pretrained or any(name in self._names for name in _CACHES)
        self._lock = threading.Lock()
        self._states = SequenceStates()

    def read(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], is_in_graph: bool
    ) -> Batch | None:
        """Returns the batch of a forward that begins; None if there is none.

        Args:
            is_in_graph: Whether `kwargs` has the leaves of a call in a graph.
        """
        try:
            if self._torch._C._get_tracing_state() is not None:
                return None
            given = self._given(args, kwargs, is_in_graph)
            lengths, ids = self._lengths_of(given)
            if len(lengths) != 2:
                return Batch(lengths, ids) if lengths else None
            with self._lock:
                return self._read(given, lengths, ids)
        except Exception:  # noqa: BLE001 - arguments may be anything
            return None

    def bind(self, state: SequenceState, result: Any) -> None:
        """Lets the state continue with the cache that a forward without one returned."""
        try:
            cache = _cache_in(result)
            if cache is not None:
                with self._lock:
                    self._states.keep(cache, state)
        except Exception:  # noqa: BLE001 - a result may be anything
            return

    def tokens_of(self, batch: Batch) -> list[list[int]] | None:
        """Returns the elements of each row without padding, as far as it is known.

        Returns None if they cannot be read.
        """
        ids, rows = batch.ids, batch.rows
        if ids is None or self._is_unreadable(ids):
            return None
        try:
            with _Undisturbed(self._torch):
                tokens: list[list[int]] = ids.tolist()
                if rows is None:
                    return tokens
                mask: list[list[int]] = []
                if None in rows:
                    mask = (batch.mask != 0)[:, -batch.lengths[1] :].tolist()
        except Exception:  # noqa: BLE001 - such as in a transform of torch.func
            return None
        return [
            list(itertools.compress(tokens[number], mask[number]))
            if row is None
            else tokens[number][row.first : row.end]
            for number, row in enumerate(rows)
        ]

    def _given(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], is_in_graph: bool
    ) -> dict[str, Any]:
        """Returns the arguments of a forward by name."""
        if not is_in_graph:
            return {**dict(zip(self._names, args, strict=False)), **kwargs}
        given: dict[str, Any] = {}
        for index, leaf in kwargs.items():
            name, dot, _ = index.partition(".")
            if name.isdecimal() and int(name) < len(self._names):
                name = self._names[int(name)]
            is_cache = name in _CACHES and leaf is not None
            given[name] = _IN_GRAPH if dot or is_cache else leaf
        return given

    def _lengths_of(
        self, given: dict[str, Any]
    ) -> tuple[tuple[int, ...], torch.Tensor | None]:
        ids: Any = given.get(_IDS)
        embeddings: Any = given.get(_EMBEDDINGS)
        lengths: tuple[int, ...] = ()
        if self._is_plain(ids):
            lengths = tuple(ids.shape)
            if ids.is_floating_point() or ids.is_complex():
                ids = None
        else:
            ids = None
            if self._is_plain(embeddings):
                lengths = tuple(embeddings.shape[:-1])
        if len(lengths) > 2 or any(type(length) is not int for length in lengths):
            lengths = ()
        return lengths, ids

    def _read(
        self, given: dict[str, Any], lengths: tuple[int, ...], ids: torch.Tensor | None
    ) -> Batch:
        count, columns = lengths
        mask = given.get(_MASK)
        caches = {name: given[name] for name in _CACHES if given.get(name) is not None}
        cache = next(iter(caches.values()), None)
        past = self._past_of(cache)
        length = None
        if mask is not None:
            is_usable = self._is_plain(mask) and mask.dim() == 2
            is_usable = is_usable and mask.shape[0] == count
            is_usable = is_usable and 0 < columns <= mask.shape[1]
            length = mask.shape[1] if is_usable else None
            if past is None and length is not None:
                past = length - columns
            if length is not None and length - columns != past:
                length = None
        state = self._states.find(cache, past, count)
        begins = self._begins(cache, past, state)
        rows: list[Row | None] | None = None
        nexts: list[int] | None = None
        if mask is None:
            if state is None or state.is_padded is False:
                rows = [Row(0, columns, past)] * count
        elif length is not None:
            if self._continues(state, mask, columns, length):
                nexts = [each + 1 for each in state.nexts]  # type: ignore[union-attr]
                rows = [Row(0, 1, each - 1) for each in nexts]
            else:
                rows, nexts = self._rows_of(mask, columns)
        if state is None:
            state = SequenceState(count)
        end = None if past is None else past + columns
        state.advance(end, length, nexts, None if rows is None else mask is not None)
        self._states.keep(cache, state)
        divided = any(given.get(name) is not None for name in _DIVISIONS)
        # Caches in a graph have no attributes here.
        caches = {} if cache is _IN_GRAPH else caches
        return Batch(lengths, ids, rows, mask, state, begins, divided, past, caches)

    def _past_of(self, cache: Any) -> int | None:
        """Returns the length of a cache; None if it is unknown."""
        if cache is None:
            return 0 if self._has_cache else None
        try:
            return self._length_of(cache)
        except Exception:  # noqa: BLE001 - a cache may be of any class
            # Caches without attention have no length.
            return _length_without_attention(cache)

    def _length_of(self, cache: Any) -> int | None:
        if isinstance(cache, (tuple, list)):
            first = cache
            while isinstance(first, (tuple, list)):
                if not first:
                    return 0
                first = first[0]
            is_known = self._is_plain(first) and first.dim() == 4
            return int(first.shape[-2]) if is_known else None
        length = cache.get_seq_length()
        if type(length) is int:
            return length
        if not self._is_plain(length) or self._is_unreadable(length):
            return None
        with _Undisturbed(self._torch):
            return int(length)

    def _begins(
        self, cache: Any, past: int | None, state: SequenceState | None
    ) -> bool | None:
        if state is not None:
            return False
        if cache is None:
            return True if self._has_cache else None
        if past is None and (cache is _IN_GRAPH or isinstance(cache, (tuple, list))):
            return None
        return past == 0

    def _continues(
        self, state: SequenceState | None, mask: torch.Tensor, columns: int, length: int
    ) -> bool:
        """Returns whether a mask that lies on a device need not be read.

        A step that adds one token to each sequence adds no padding.
        """
        if state is None or state.nexts is None or columns != 1:
            return False
        return mask.device.type != "cpu" and state.mask_length == length - 1

    def _rows_of(
        self, mask: torch.Tensor, columns: int
    ) -> tuple[list[Row | None] | None, list[int] | None]:
        """Returns the elements of each row, and the positions that follow them."""
        if self._is_unreadable(mask):
            return None, None
        try:
            with _Undisturbed(self._torch):
                table = _table_of(self._torch, mask.detach(), columns)
        except Exception:  # noqa: BLE001 - such as in a transform of torch.func
            return None, None
        if not all(is_mask for *_, is_mask in table):
            return None, None
        # A mask of a model that is not of transformers may be that of causal
        # attention.
        if not self._is_pretrained and len(table) == columns == mask.shape[1] > 1:
            lasts = [last for _, _, last, _, _ in table]
            if lasts == list(range(columns)):
                return None, None
        rows: list[Row | None] = []
        for count, first, last, before, _ in table:
            if count == 0:
                rows.append(EMPTY)
            elif last - first + 1 == count:
                rows.append(Row(first, last + 1, before))
            else:
                rows.append(None)
        return rows, [before + count for count, _, _, before, _ in table]

    def _is_plain(self, value: Any) -> bool:
        """Returns whether a value is a tensor whose operators have no other meaning."""
        return type(value) is self._torch.Tensor and not value.is_meta

    def _is_unreadable(self, tensor: torch.Tensor) -> bool:
        kind = tensor.device.type
        return kind != "cpu" and is_captured(self._torch, kind)


class _Undisturbed:
    """Hides operators from the modes of the program, and from autograd.

    A generator would be a frame of its own, which Dynamo would compile.
    """

    def __init__(self, torch: Any) -> None:
        self._ends: list[Any] = [torch.no_grad(), torch._C.DisableTorchFunction()]
        if torch._C._len_torch_dispatch_stack() > 0:
            from torch.utils._python_dispatch import _disable_current_modes

            self._ends.append(_disable_current_modes())

    def __enter__(self) -> None:
        for end in self._ends:
            end.__enter__()

    def __exit__(self, *raised: object) -> None:
        for end in reversed(self._ends):
            end.__exit__(*raised)


def _names_of(forward: Any) -> list[str]:
    """Returns the names of the positional arguments of a forward, without self."""
    try:
        parameters = list(inspect.signature(forward).parameters.values())
    except (TypeError, ValueError):
        return [_IDS]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [each.name for each in parameters if each.kind in kinds][1:]


def _cache_in(result: Any) -> Any:
    """Returns the cache in the result of a forward; None if there is none."""
    for name in _CACHES:
        cache = getattr(result, name, None)
        if cache is not None:
            return cache
    if isinstance(result, tuple):
        for element in result:
            if hasattr(element, "get_seq_length"):
                return element
    return None


def caches_in(result: Any) -> dict[str, Any]:
    """Returns the caches in the result of a forward that have a name."""
    if isinstance(result, dict):
        # Old names of an entry are attributes, with a warning.
        found = {name: dict.get(result, name) for name in _CACHES}
    else:
        found = {name: getattr(result, name, None) for name in _CACHES}
    return {name: cache for name, cache in found.items() if cache is not None}


def _length_without_attention(cache: Any) -> int | None:
    """Returns 0 if a cache is empty, otherwise None."""
    try:
        return None if cache.has_previous_state() else 0
    except Exception:  # noqa: BLE001 - a cache may be of any class
        return None


def _table_of(torch: Any, mask: torch.Tensor, columns: int) -> list[list[int]]:
    """Returns, for each row of a mask: the number of ones in its last columns, the
    first and the last of them, the number of ones before these columns, and
    whether the row consists of ones and zeros.
    """
    is_real = mask != 0
    window = is_real[:, mask.shape[1] - columns :].to(torch.uint8)
    count = window.sum(1, dtype=torch.int64)
    first = window.argmax(1)
    last = columns - 1 - window.flip(1).argmax(1)
    before = is_real.sum(1, dtype=torch.int64) - count
    is_mask = ((mask == 1) | ~is_real).all(1).to(torch.int64)
    table: list[list[int]] = torch.stack(
        (count, first, last, before, is_mask), 1
    ).tolist()
    return table
