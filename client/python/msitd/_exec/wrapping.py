"""Wraps functions so that one of their arguments is replaced."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def with_mapped(
    function: Callable[..., Any], place: int, name: str, mapped: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Returns a function whose argument at `place`, or of that name, is mapped."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > place:
            args = (*args[:place], mapped(args[place]), *args[place + 1 :])
        if name in kwargs:
            kwargs[name] = mapped(kwargs[name])
        return function(*args, **kwargs)

    return call
