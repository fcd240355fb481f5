"""Reads the records of a run, as the calls that made them.

A call of an op is known by its rank, token, op and number. Its records are spread over
the token, because the parts of a module are recorded between its inputs and its
outputs, and gradients follow much later. All records of a rank and token are therefore
held in memory, without their bytes: about 1 KiB each.
"""

from __future__ import annotations

import collections
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from msitd import query
from msitd.query import select
from msitd.query.arrays import to_torch
from msitd.query.errors import QueryError
from msitd.verify.arguments import Leaf, dtype_of, has_dtype
from msitd.verify.unchecked import Unchecked

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from msitd.query import Connection, RecordKind, Tensor

# Maximum number of records of one rank and token. Further ones are not checked.
RECORDS_MAX = 1 << 20
# Maximum size of the tensors that are kept because later calls may have the same.
_CACHE_BYTES_MAX = 256 << 20
# Maximum number of these tensors. Small ones need more memory than their bytes.
_CACHE_TENSORS_MAX = 16 << 10
# Tensors that are read together: their sizes, names and number are limited. All of
# them fit into the memory of kept tensors.
_SMALL_BYTES_MAX = 1 << 20
_TOGETHER_BYTES_MAX = 16 << 20
_TOGETHER_NAME_BYTES_MAX = 48 << 10
_TOGETHER_MAX = 1000
# Size of the header of a name in a message.
_NAME_EXTRA_BYTES = 4

_VALUES: tuple[RecordKind, ...] = ("number", "text", "none", "dtype", "other")
# The kinds of arguments and results.
CALL_KINDS: tuple[RecordKind, ...] = ("tensor", *_VALUES)
INPUTS = ("input", "grad_output", "weight")
RESULTS = ("output", "grad_input", "grad_weight")
IOS = (*INPUTS, *RESULTS)

TOO_MANY = "its token has too many records"


class CallKey(NamedTuple):
    """A call within its rank and token."""

    op: str
    call: int


@dataclass
class Call:
    """The records of a call, by io and index. Values are leaves without a record."""

    key: CallKey
    leaves: dict[str, dict[str, Leaf]] = field(
        default_factory=lambda: collections.defaultdict(dict)
    )

    def tensors(self, io: str) -> dict[str, Tensor]:
        """Returns the tensors of a side by index."""
        found = self.leaves.get(io, {})
        return {i: leaf.record for i, leaf in found.items() if leaf.kind == "tensor"}


@dataclass
class Group:
    """The records of a rank and token."""

    rank: int
    token: int
    # Tensors of ops, in the order of execution.
    tensors: list[Tensor]
    calls: dict[CallKey, Call]
    # Whether there are more records than RECORDS_MAX.
    is_cut: bool


class Selection(NamedTuple):
    """The calls to check; None selects everything."""

    ops: tuple[str, ...] | None = None
    ranks: tuple[int, ...] | None = None
    tokens: tuple[tuple[int, int], ...] | None = None

    def filter(self, **more: Any) -> Any:
        """Returns the filter of a query."""
        tokens = None
        if self.tokens is not None:
            tokens = [query.TokenRange(first, last) for first, last in self.tokens]
        asked = {"ops": self.ops, "ranks": self.ranks, "tokens": tokens, **more}
        return select(**asked)

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return self == Selection()


def tokens_of(daemon: Connection, run: str, chosen: Selection) -> dict[int, list[int]]:
    """Returns the tokens that have tensors, ascending, by rank."""
    out = {}
    by_rank = daemon.tensors.stats(run, chosen.filter(), by="rank")
    for rank in sorted(int(each.key) for each in by_rank.groups):
        wanted = chosen._replace(ranks=(rank,))
        by_token = daemon.tensors.stats(run, wanted.filter(), by="token")
        out[rank] = sorted(int(each.key) for each in by_token.groups)
    return out


def read_group(
    daemon: Connection, run: str, rank: int, token: int, chosen: Selection
) -> Group:
    """Returns the records of a rank and token that are to be checked."""
    wanted = chosen._replace(ranks=(rank,), tokens=((token, token),))
    listing = daemon.tensors.list(run, wanted.filter(kinds=CALL_KINDS))
    calls: dict[CallKey, Call] = {}
    tensors = []
    count = 0
    for record in islice(listing, RECORDS_MAX + 1):
        count += 1
        if count > RECORDS_MAX:
            break
        key = CallKey(record.op, record.call)
        call = calls.get(key)
        if call is None:
            call = calls[key] = Call(key)
        sides = call.leaves[record.io]
        if record.kind == "tensor":
            tensors.append(record)
            sides[record.index] = Leaf(record.index, "tensor", "", record)
        else:
            sides.setdefault(
                record.index, Leaf(record.index, record.kind, record.value)
            )
    tensors.sort(key=lambda each: (each.sequence, each.name))
    return Group(rank, token, tensors, calls, count > RECORDS_MAX)


class TensorReader:
    """Reads the bytes of tensors, and keeps those that were read last.

    A small tensor is read together with those that are expected after it.
    """

    def __init__(self, daemon: Connection, size_max: int) -> None:
        self._daemon = daemon
        self._size_max = size_max
        self._known: collections.OrderedDict[Any, torch.Tensor] = (
            collections.OrderedDict()
        )
        self._known_bytes = 0
        self._expected: Sequence[Tensor] = ()
        # Positions of the expected tensors, by name.
        self._positions: dict[str, int] = {}
        # Position of the first one that was not considered yet.
        self._looked_to = 0

    def expect(self, records: Sequence[Tensor]) -> None:
        """States which tensors are likely to be read next, in this order."""
        self._expected = records
        self._positions = {each.name: at for at, each in enumerate(records)}
        self._looked_to = 0

    def read(self, record: Tensor) -> torch.Tensor:
        """Returns a tensor, which the caller must not change.

        Raises:
            Unchecked: Its bytes are not kept, or it cannot be computed with.
            QueryError: The daemon does not answer.
        """
        if not record.has_bytes:
            raise Unchecked("the bytes of a tensor are not kept")
        if record.placement:
            raise Unchecked("a tensor is the shard of a rank")
        if record.size_bytes > self._size_max:
            raise Unchecked("a tensor is larger than --size-max")
        key = _key_of(record)
        if key not in self._known:
            self._read_together(record)
        found = self._known.get(key)
        if found is not None:
            self._known.move_to_end(key)
            return found
        dtype_of(record.dtype)
        try:
            data = self._daemon.tensors._read_bytes(record, False)
        except QueryError as error:
            if error.code in ("NOT_FOUND", "FAILED_PRECONDITION", "DATA_LOSS"):
                raise Unchecked("the bytes of a tensor cannot be read") from error
            raise
        tensor = to_torch(data, record.dtype, record.shape)
        self._keep(key, tensor)
        return tensor

    def _read_together(self, record: Tensor) -> None:
        """Reads an expected tensor and some that follow it, as far as that works."""
        wanted = self._following(record)
        if len(wanted) < 2:
            return
        try:
            for each, data in self._daemon.tensors._read_small(wanted):
                if len(data) == each.size_bytes:
                    tensor = to_torch(bytearray(data), each.dtype, each.shape)
                    self._keep(_key_of(each), tensor)
        except QueryError:
            # The tensor is then read on its own, which reports the error.
            return

    def _following(self, record: Tensor) -> list[Tensor]:
        """Returns the tensor and those after it that can be read in one call.

        Looks at each expected tensor only once. An earlier call left out some of
        those that are not known.
        """
        at = self._positions.get(record.name, -1)
        if at < self._looked_to or not self._is_small(record):
            return []
        out: dict[Any, Tensor] = {}
        size = name_size = 0
        while at < len(self._expected):
            each = self._expected[at]
            key = _key_of(each)
            if key not in self._known and key not in out and self._is_small(each):
                size += each.size_bytes
                name_size += len(each.name.encode()) + _NAME_EXTRA_BYTES
                is_full = size > _TOGETHER_BYTES_MAX or len(out) == _TOGETHER_MAX
                if is_full or name_size > _TOGETHER_NAME_BYTES_MAX:
                    break
                out[key] = each
            at += 1
        self._looked_to = at
        return list(out.values())

    def _is_small(self, record: Tensor) -> bool:
        """Returns whether a tensor may be read together with others."""
        return (
            record.has_bytes
            and not record.placement
            and record.size_bytes <= min(_SMALL_BYTES_MAX, self._size_max)
            and has_dtype(record.dtype)
        )

    def _keep(self, key: Any, tensor: torch.Tensor) -> None:
        self._known[key] = tensor
        self._known_bytes += tensor.nbytes
        while len(self._known) > _CACHE_TENSORS_MAX or (
            self._known_bytes > _CACHE_BYTES_MAX and len(self._known) > 1
        ):
            _, oldest = self._known.popitem(last=False)
            self._known_bytes -= oldest.nbytes


def _key_of(record: Tensor) -> tuple[str, str, tuple[int, ...]]:
    """Returns what equal tensors have in common."""
    return record.hash, record.dtype, record.shape
