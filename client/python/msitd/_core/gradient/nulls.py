"""Finds the gradients of a call that a backward does not compute."""

from __future__ import annotations

from collections.abc import Callable, Iterable


class Nulls:
    """The gradients of one call that have not arrived in its first backward.

    Args:
        expected: The io and index of each gradient.
        record: Records that a gradient is missing, by its io and index.
        guarded: Returns a hook that raises nothing.
    """

    def __init__(
        self,
        expected: list[tuple[str, str]],
        record: Callable[[str, str], None],
        guarded: Callable[[Callable[[], None]], Callable[[], None]],
    ) -> None:
        self._left = dict.fromkeys(expected)
        self._record = record
        self._guarded = guarded
        self._task = -1

    def arrive(self, task: int, io: str, indexes: Iterable[str]) -> None:
        """Handles gradients that have arrived in the backward `task`."""
        if not self._left:
            return
        if self._task == -1:
            import torch

            self._task = task
            engine = torch.autograd.Variable._execution_engine
            guarded = self._guarded
            engine.queue_callback(guarded(self._end))
        for index in indexes:
            self._left.pop((io, index), None)

    def _end(self) -> None:
        left, self._left = self._left, {}
        for io, index in left:
            self._record(io, index)
