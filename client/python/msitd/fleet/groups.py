"""The groups in a part of a comparison, with their numbers of rows.

A group is a rank and a token. Its rows are consecutive, and a part has only
whole groups. A group and the position of a row in it therefore identify a row,
whichever worker produced it.
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
# Bytes read at a time; a multiple of the size of a group.
_PIECE_BYTES = 512 * _GROUP_BYTES


class GroupKeys:
    """Determines the group of a row.

    A tensor that exists only in the target has its own rank and token, which
    the matching maps to those of the golden run.
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
        """Returns all groups as bytes, a few bytes per group."""
        return zlib.compress(self._numbers.tobytes(), 1)


def unpack(packed: bytes) -> Iterator[Group]:
    """Yields the groups of `GroupTable.pack`, with a few in memory at a time."""
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
    """Maps the row numbers of one part to places."""

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
    """Merges the groups of many parts in order; yields each with the index of
    its part.
    """
    return heapq.merge(*(_with_part(groups, i) for i, groups in enumerate(packed)))


def _with_part(packed: bytes, part: int) -> Iterator[tuple[Group, int]]:
    for group in unpack(packed):
        yield group, part


class Numbers:
    """Maps places to row numbers of the whole comparison."""

    def __init__(self, first_rows: Mapping[tuple[int, int], int]) -> None:
        self._first_rows = first_rows

    def of(self, place: Place) -> int:
        """Returns the number of the row at `place`, whose group must have been
        requested.
        """
        token, rank, row = place
        return self._first_rows[token, rank] + row
