"""Keeps hooks out of the copies of a model."""

from __future__ import annotations

import contextlib
import functools
from typing import Any


class UncopiedHook(functools.partial):  # type: ignore[type-arg]
    """A hook of a module which copies and pickles of the module do not have.

    In its place they have a function that takes anything and does nothing, of the
    standard library: who loads a pickle need not have this package.
    """

    # Of partial, since that adds no frame to a call.
    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (contextlib.nullcontext(), "__exit__")
