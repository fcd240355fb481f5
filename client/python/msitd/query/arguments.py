"""Checks of arguments, so that a wrong one is named where it is passed.

An empty selection is refused: on the wire it would stand for everything, and a list
that turned out empty is more often a mistake than a wish for all.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, SupportsIndex, TypeVar

_T = TypeVar("_T")


def number(name: str, value: SupportsIndex) -> int:
    """Returns an integer of any type, such as that of numpy.

    Raises:
        TypeError: It is not an integer; a bool counts as none.
    """
    if not isinstance(value, (bool, str)):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{name}: expected an int, got {named(value)}")


def numbers(
    name: str, values: SupportsIndex | Iterable[SupportsIndex] | None
) -> tuple[int, ...]:
    """Returns one integer or several as a tuple; None makes an empty one.

    Raises:
        TypeError: One of them is not an integer.
        ValueError: There are none.
    """
    return tuple(number(name, value) for value in several(name, values, "ints"))


def texts(name: str, values: str | Iterable[str] | None) -> tuple[str, ...]:
    """Returns one text or several as a tuple; None makes an empty one.

    Raises:
        TypeError: One of them is not a str.
        ValueError: There are none, or one of them is empty.
    """
    out = (values,) if isinstance(values, str) else several(name, values, "strs")
    for value in out:
        if not isinstance(value, str):
            raise TypeError(f"{name}: expected a str, got {named(value)}")
        if not value:
            raise ValueError(f"{name}: a text is empty; leave {name} out to take all")
    return out


def several(name: str, values: Any, what: str) -> tuple[Any, ...]:
    """Returns one value or several as a tuple; None makes an empty one.

    Raises:
        TypeError: `values` is a text, of which each character would be a value.
        ValueError: There are none.
    """
    if values is None:
        return ()
    if isinstance(values, (str, bytes, bytearray)):
        raise TypeError(f"{name}: expected {what}, got {named(values)}")
    # Arrays of no dimension have __iter__ and cannot be iterated.
    if not isinstance(values, Iterable) or getattr(values, "shape", None) == ():
        return (values,)
    out = tuple(values)
    if not out:
        raise ValueError(f"{name}: nothing is selected; leave {name} out to take all")
    return out


def instance(name: str, value: _T, kind: type[Any], how: str = "") -> _T:
    """Returns `value`, which is None or of that class; `how` says how to make one.

    Raises:
        TypeError: It is of another class.
    """
    if value is None or isinstance(value, kind):
        return value
    wanted = kind.__name__ + (f", as {how} makes it" if how else "")
    raise TypeError(f"{name}: expected a {wanted}, got {named(value)}")


def text(name: str, value: str) -> str:
    """Returns a text that says something.

    Raises:
        TypeError: It is not a str.
        ValueError: It is empty.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a str, got {named(value)}")
    if not value.strip():
        raise ValueError(f"{name}: it is empty")
    return value


def named(value: object) -> str:
    """Returns the class of a value and the value itself, shortened."""
    shown = repr(value)
    if len(shown) > 60:
        shown = shown[:57] + "..."
    return f"{type(value).__name__} {shown}"
