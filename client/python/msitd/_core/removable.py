"""Handles that end by `remove`, or when the caller leaves them as a context manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self


class Removable:
    """A handle that a caller ends in one of the two ways."""

    def remove(self) -> None:
        """Ends the effect of the handle. Further calls have no effect."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()
