"""Functions of a program that are recorded like those of torch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msitd._core.api.handle import ApiHandle


class CustomFunctions:
    """Places itself between registered functions and their callers."""

    def __init__(self) -> None:
        self._api: ApiHandle | None = None
        self._originals: dict[tuple[int, str], tuple[Any, Callable[..., Any]]] = {}

    def use(self, api: ApiHandle) -> None:
        """Records with `api` from now on."""
        self._api = api

    def register(self, owner: Any, name: str, prefix: str | None) -> None:
        """Registers a function whose calls are recorded.

        Raises:
            ValueError: The function does not exist.
        """
        original = getattr(owner, name, None)
        if not callable(original):
            raise ValueError(f"{owner!r} has no function {name!r}")  # noqa: TRY004 - as msprobe
        key = (id(owner), name)
        if key in self._originals:
            return
        op = f"{prefix or getattr(owner, '__name__', type(owner).__name__)}.{name}"

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._api is None:
                return original(*args, **kwargs)
            return self._api.call(original, op, args, kwargs)

        self._originals[key] = (owner, original)
        setattr(owner, name, call)

    def restore(self, owner: Any, name: str) -> None:
        """Restores a function, if it was registered."""
        known = self._originals.pop((id(owner), name), None)
        if known is not None:
            setattr(owner, name, known[1])

    def restore_all(self) -> None:
        """Restores all functions."""
        for owner, name in [(o, n) for (_, n), (o, _) in self._originals.items()]:
            self.restore(owner, name)
        self._api = None
