"""Notifies a debugger when a data loader of torch returns a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from msitd._core.guard import Failures

_failures = Failures("a batch of a loader is not followed")

_watchers: list[Callable[[], None]] = []
_original: Callable[..., Any] | None = None


def watch(watcher: Callable[[], None]) -> None:
    """Calls `watcher` before each batch of any DataLoader."""
    global _original
    # Only configuration files of programs with torch have the key that leads
    # here.
    from torch.utils.data import dataloader

    _watchers.append(watcher)
    if _original is not None:
        return
    original: Callable[..., Any] = dataloader._BaseDataLoaderIter.__next__
    _original = original

    tell = _failures.guarded(_tell)

    @functools.wraps(original)
    def next_batch(self: Any) -> Any:
        batch = original(self)
        tell()
        return batch

    dataloader._BaseDataLoaderIter.__next__ = next_batch  # type: ignore[method-assign]


def _tell() -> None:
    for each in tuple(_watchers):
        each()


def unwatch(watcher: Callable[[], None]) -> None:
    """Ends `watch`."""
    global _original
    if watcher in _watchers:
        _watchers.remove(watcher)
    if not _watchers and _original is not None:
        from torch.utils.data import dataloader

        dataloader._BaseDataLoaderIter.__next__ = _original  # type: ignore[method-assign]
        _original = None
