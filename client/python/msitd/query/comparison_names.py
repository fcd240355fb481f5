"""The names of comparisons as users write them; see comparison_name.h of msitctl."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import SupportsIndex

from msitd.query import arguments
from msitd.query.comparison_types import Comparison
from msitd.query.errors import QueryError

# The digits to which a daemon pads the number in a name.
_DIGITS = 6
# How far back a name such as `-2` may reach.
_BACK_MAX = 1000

_NUMBERED = re.compile(r"c-([0-9]+)")
_FROM_NEWEST = re.compile(r"-0*([1-9][0-9]*)")


def full_name(
    comparison: Comparison | str | SupportsIndex,
    list_all: Callable[[], Iterable[Comparison]],
) -> str:
    """Returns the name that the daemon assigned to a comparison.

    Args:
        comparison: The comparison, or one of its names, such as `c-000009` or
            `c-9`. `latest` and -1 stand for the newest comparison, and -2 for the
            one before it.
        list_all: Lists all comparisons, oldest first. Called only for names
            that count from the newest.

    Raises:
        TypeError: `comparison` has another type, or is a number that is not
            negative.
        ValueError: A number is too far back.
        QueryError: `NOT_FOUND` if there are not so many comparisons.
    """
    if isinstance(comparison, Comparison):
        return comparison.name
    if isinstance(comparison, str):
        text = arguments.text("comparison", comparison)
    else:
        text = str(arguments.number("comparison", comparison))
        if not text.startswith("-"):
            raise TypeError(f"comparison: {text} is not a name; use 'c-{text}'")
    numbered = _NUMBERED.fullmatch(text)
    if numbered is not None:
        return f"c-{int(numbered[1]):0{_DIGITS}}" if len(text) < _DIGITS + 2 else text
    counted = _FROM_NEWEST.fullmatch("-1" if text == "latest" else text)
    return text if counted is None else _newest(text, int(counted[1]), list_all)


def _newest(text: str, back: int, list_all: Callable[[], Iterable[Comparison]]) -> str:
    if back > _BACK_MAX:
        raise ValueError(f"comparison: {text} is more than {_BACK_MAX} back")
    names = deque((each.name for each in list_all()), maxlen=back)
    if len(names) < back:
        message = f'"{text}": there are only {len(names)} comparisons'
        if not names:
            message = "there is no comparison yet"
        raise QueryError("NOT_FOUND", "COMPARISON_NOT_FOUND", message)
    return names[0]
