"""Streams of bytes that resume where they broke."""

from __future__ import annotations

import time
from collections.abc import Callable

from msitd.query.errors import QueryError

# Number of consecutive streams without a byte after which reading is given up.
# With the delays this takes about 6 seconds, in which a daemon restarts.
_FRUITLESS_STREAMS_MAX = 6
_FIRST_DELAY_S = 0.1


def read_to_the_end(data: bytearray, read: Callable[[], None]) -> None:
    """Calls `read`, which appends the following bytes to `data`, until it returns.

    Raises:
        QueryError: `read` raised an error other than a temporary `UNAVAILABLE`.
    """
    fruitless_count = 0
    while True:
        before = len(data)
        try:
            return read()
        except QueryError as error:
            fruitless_count = 0 if len(data) > before else fruitless_count + 1
            if error.code != "UNAVAILABLE" or fruitless_count == _FRUITLESS_STREAMS_MAX:
                raise
        time.sleep(_FIRST_DELAY_S * (1 << fruitless_count))


def take(data: bytearray, offset: int, piece: bytes, size: int) -> None:
    """Appends a piece whose offset within the `size` bytes is `offset`.

    Raises:
        QueryError: The piece does not follow the bytes in `data`.
    """
    if offset != len(data) or len(piece) > size - len(data):
        raise QueryError(
            "INTERNAL",
            "",
            f"the daemon sent {len(piece)} bytes at {offset}; "
            f"{len(data)} of {size} were read",
        )
    data += piece


def check_whole(data: bytearray, size: int) -> None:
    """Raises QueryError `UNAVAILABLE` unless all bytes have arrived."""
    if len(data) != size:
        raise QueryError(
            "UNAVAILABLE",
            "",
            f"the daemon ended the stream after {len(data)} of {size} bytes",
        )
