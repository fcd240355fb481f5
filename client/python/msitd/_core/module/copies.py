"""Keeps hooks out of copies of a model."""

from __future__ import annotations

import contextlib
import functools
from typing import Any


class UncopiedHook(functools.partial):  # type: ignore[type-arg]
    """A hook of a module that copies and pickles of the module do not contain.

    They contain a function of the standard library in its place, which accepts
    any arguments and does nothing. A pickle can therefore be loaded without
    this package.
    """

    # Derived from partial, which adds no frame to a call.
    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (contextlib.nullcontext(), "__exit__")
