"""Checks arguments, so that an error is raised where a wrong one is passed.

Empty selections are refused. On the wire an empty list selects everything, and
a list that turned out empty is more often a mistake than a request for
everything.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, SupportsIndex, TypeVar

_T = TypeVar("_T")


def number(name: str, value: SupportsIndex) -> int:
    """Returns an integer of any integer type, such as those of numpy, as an int.

    Raises:
        TypeError: The value is not an integer, or is a bool.
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
    """Returns one or several integers as a tuple; None becomes an empty tuple.

    Raises:
        TypeError: A value is not an integer.
        ValueError: `values` is empty.
    """
    return tuple(number(name, value) for value in several(name, values, "ints"))


def texts(name: str, values: str | Iterable[str] | None) -> tuple[str, ...]:
    """Returns one or several strings as a tuple; None becomes an empty tuple.

    Raises:
        TypeError: A value is not a str.
        ValueError: `values` is empty, or one of its strings is.
    """
    out = (values,) if isinstance(values, str) else several(name, values, "strs")
    for value in out:
        if not isinstance(value, str):
            raise TypeError(f"{name}: expected a str, got {named(value)}")
        if not value:
            raise ValueError(f"{name}: a text is empty; leave {name} out to take all")
    return out


def several(name: str, values: Any, what: str) -> tuple[Any, ...]:
    """Returns one or several values as a tuple; None becomes an empty tuple.

    Raises:
        TypeError: `values` is a string, whose characters would become the
            values.
        ValueError: `values` is empty.
    """
    if values is None:
        return ()
    if isinstance(values, (str, bytes, bytearray)):
        raise TypeError(f"{name}: expected {what}, got {named(values)}")
    # Arrays without dimensions have __iter__ but cannot be iterated.
    if not isinstance(values, Iterable) or getattr(values, "shape", None) == ():
        return (values,)
    out = tuple(values)
    if not out:
        raise ValueError(f"{name}: nothing is selected; leave {name} out to take all")
    return out


def instance(name: str, value: _T, kind: type[Any], how: str = "") -> _T:
    """Returns `value` if it is None or an instance of `kind`.

    `how` describes in the error how to create an instance.

    Raises:
        TypeError: `value` is an instance of another class.
    """
    if value is None or isinstance(value, kind):
        return value
    wanted = kind.__name__ + (f", as {how} makes it" if how else "")
    raise TypeError(f"{name}: expected a {wanted}, got {named(value)}")


def text(name: str, value: str) -> str:
    """Returns a string that is not empty.

    Raises:
        TypeError: The value is not a str.
        ValueError: The string is empty.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a str, got {named(value)}")
    if not value.strip():
        raise ValueError(f"{name}: it is empty")
    return value


def named(value: object) -> str:
    """Returns the name of a value's class and the shortened value, for errors."""
    shown = repr(value)
    if len(shown) > 60:
        shown = shown[:57] + "..."
    return f"{type(value).__name__} {shown}"
