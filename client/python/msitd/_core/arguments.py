"""Converts arguments for the native client, and names the first invalid one."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from msitd._core.vocabulary import CALL_AUTO, IO_NUMBERS, TOKEN_CURRENT

if TYPE_CHECKING:
    from collections.abc import Collection

_INT32 = range(-(1 << 31), 1 << 31)
_INT64 = range(-(1 << 63), 1 << 63)
# The argument whose range differs from that of the others.
_RANGES = {
    "rank": _INT32,
    "world_size": _INT32,
    "call": _INT32,
    "identity": range(1 << 64),
}

_NEVER_NONE = ("run", "op", "index", "name", "text", "identity")


def check_word(name: str, word: str, words: Collection[str]) -> None:
    """Raises ValueError if an argument is not one of its words."""
    if word not in words:
        raise ValueError(f"{name} {word!r} is none of {list(words)}")


def microseconds(seconds: float) -> int:
    """Returns a time in the unit of the native client."""
    return int(seconds * 1_000_000)


def io_number(io: str) -> int:
    """Returns the number of an io name. Raises ValueError for unknown names."""
    try:
        return IO_NUMBERS[io]
    except KeyError:
        raise ValueError(f"io {io!r} is none of {list(IO_NUMBERS)}") from None


def place_of(
    op: str,
    io: str,
    index: str,
    token: int | None,
    call: int | None,
    device: str | None,
    placement: str | None = None,
) -> tuple[str | None, int, str, int, int, str, str | None]:
    """Returns the location of a record in the form that the native client takes."""
    token = TOKEN_CURRENT if token is None else token
    call = CALL_AUTO if call is None else call
    return (device, token, op, call, io_number(io), index, placement)


def _text_problem(name: str, value: Any) -> Exception | None:
    if not isinstance(value, str):
        return TypeError(f"{name} is of type {type(value).__name__}, not str")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        return ValueError(
            f"{name} has a lone surrogate at {error.start}, which UTF-8 has not"
        )
    return None


def _number_problem(name: str, value: Any) -> Exception | None:
    try:
        number = operator.index(value)
    except TypeError:
        return TypeError(f"{name} is of type {type(value).__name__}, not int")
    bounds = _RANGES.get(name, _INT64)
    if number not in bounds:
        bits = bounds.stop.bit_length() - (bounds.start == 0)
        return ValueError(f"{name} does not fit into {bits} bits")
    return None


def problem_of(
    error: TypeError, texts: dict[str, Any], numbers: dict[str, Any]
) -> Exception:
    """Returns an exception for the first invalid argument, to replace `error`.

    Optional arguments may be None.
    """
    for arguments, problem in ((texts, _text_problem), (numbers, _number_problem)):
        for name, value in arguments.items():
            if value is None and name not in _NEVER_NONE:
                continue
            found = problem(name, value)
            if found is not None:
                return found
    return error
