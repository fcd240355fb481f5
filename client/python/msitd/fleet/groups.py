"""Which groups a part of a comparison has, and how many rows each.

A group is a rank and a token. Its rows follow each other, and parts have whole groups,
so a group and a row in it name a row whoever made it.
"""

from __future__ import annotations

import heapq
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msitd.fleet.orders import Place

Group = tuple[int, int, int]
"""Token, rank, rows."""

_GROUP_BYTES = 3 * array("q").itemsize
# Read at a time; a multiple of the bytes of a group.
_PIECE_BYTES = 512 * _GROUP_BYTES


class GroupKeys:
    """Tells of a row which group it is in.

    A tensor that only the target has comes with its own rank and token, which the
    matching puts beside others.
    """

    def __init__(self, matching: Any) -> None:
        self._offset = matching.token_offset
        self._golden_ranks = {
            pair.target_rank: pair.golden_rank for pair in matching.ranks
        }

    def of(self, row: Any) -> tuple[int, int]:
        """Returns token and rank of the golden run."""
        if row.HasField("golden") or not row.HasField("target"):
            return row.token, row.rank
        rank = self._golden_ranks.get(row.rank, row.rank)
        return row.token - self._offset, rank


class GroupTable:
    """The groups of one part, in the order of their rows."""

    def __init__(self) -> None:
        self._numbers = array("q")
        self._last: tuple[int, int] | None = None

    def add(self, key: tuple[int, int]) -> int:
        """Counts one more row; returns its number in its group."""
        if key == self._last:
            self._numbers[-1] += 1
            return self._numbers[-1] - 1
        if self._last is not None and key < self._last:
            raise ValueError(f"rows of {key} came behind those of {self._last}")
        self._last = key
        self._numbers.extend((*key, 1))
        return 0

    def pack(self) -> bytes:
        """Returns all as bytes, a few for each group."""
        return zlib.compress(self._numbers.tobytes(), 1)


def unpack(packed: bytes) -> Iterator[Group]:
    """Yields the groups of `GroupTable.pack`, a few in memory at a time."""
    stream = zlib.decompressobj()
    left = packed
    rest = b""
    while left and not stream.eof:
        data = rest + stream.decompress(left, _PIECE_BYTES)
        left = stream.unconsumed_tail
        whole = len(data) - len(data) % _GROUP_BYTES
        rest = data[whole:]
        numbers = array("q")
        numbers.frombytes(data[:whole])
        for at in range(0, len(numbers), 3):
            yield numbers[at], numbers[at + 1], numbers[at + 2]


class Places:
    """Places of the rows of one part by their numbers in it."""

    def __init__(self, packed: bytes) -> None:
        self._keys: list[tuple[int, int]] = []
        self._first_rows: list[int] = []
        count = 0
        for token, rank, rows in unpack(packed):
            self._keys.append((token, rank))
            self._first_rows.append(count)
            count += rows
        self.row_count = count

    def of(self, row: int) -> Place:
        """Returns the place of a row of the part."""
        if not 0 <= row < self.row_count:
            raise ValueError(f"a part of {self.row_count} rows has no row {row}")
        at = bisect_right(self._first_rows, row) - 1
        token, rank = self._keys[at]
        return token, rank, row - self._first_rows[at]


def merged(packed: Sequence[bytes]) -> Iterator[tuple[Group, int]]:
    """Yields all groups of many parts in order, each with the index of its part."""
    return heapq.merge(*(_with_part(groups, i) for i, groups in enumerate(packed)))


def _with_part(packed: bytes, part: int) -> Iterator[tuple[Group, int]]:
    for group in unpack(packed):
        yield group, part


class Numbers:
    """Numbers of rows of the whole comparison, by their places."""

    def __init__(self, first_rows: Mapping[tuple[int, int], int]) -> None:
        self._first_rows = first_rows

    def of(self, place: Place) -> int:
        """Returns the number of the row at `place`, whose group was asked for."""
        token, rank, row = place
        return self._first_rows[token, rank] + row
