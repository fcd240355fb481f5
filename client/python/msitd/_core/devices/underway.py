"""Work that devices still have to do for one client."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

# Maximum number of tensors that one client has under way, and of the bytes in
# device memory that are kept for them.
PENDING_MAX = 1024
PENDING_BYTES_MAX = 256 << 20

# An open batch is launched at most this many seconds after its first tensor.
LINGER = 0.002


class Batch(Protocol):
    """Tensors of one device stream that are copied to the host together."""

    # Number of tensors, and the bytes in device memory that are kept for them.
    count: int
    device_bytes: int

    def launch(self, is_own_thread: bool) -> None:
        """Starts the work of the device. Does not wait.

        Raises no Exception; `finish` reports the error.

        Args:
            is_own_thread: Whether the calling thread belongs to msitd.
        """

    def finish(self) -> None:
        """Waits until the device is done, and records. Raises nothing."""


class Underway:
    """The batches of one client, in the order of their start. Any thread may use it.

    One batch is open: tensors are added to it until it is launched. A thread
    launches batches that have been open for too long, and finishes the oldest
    batch first. The thread lives as long as the client.

    Args:
        max_block: Maximum time in seconds that `begin` waits for memory.
        at_end: Called by the thread before it ends.
    """

    def __init__(self, max_block: float, at_end: Callable[[], None]) -> None:
        self._process = os.getpid()
        self._max_block = max_block
        self._at_end = at_end
        # Reentrant, because signal handlers may record, too.
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._open: Batch | None = None
        self._open_since = 0.0
        self._launched: deque[Batch] = deque()
        # Tensors that have begun and are not finished.
        self._count = 0
        self._bytes = 0
        # Those of them that hooks are about to add to a batch.
        self._begun_count = 0
        self.collector: threading.Thread | None = None
        self._is_over = False

    def begin(self, size: int) -> None:
        """Waits for memory for one more tensor. `add` or `give_up` must follow.

        Args:
            size: Device memory in bytes that is kept for the tensor.

        Raises:
            RuntimeError: The device did not finish earlier work in time.
        """
        with self._changed:
            if not self._has_room(size):
                self._launch()
            if not self._changed.wait_for(
                functools.partial(self._has_room, size), self._max_block
            ):
                raise RuntimeError(
                    f"{self._count} copies from the device are under way, and none is "
                    "done within max_block"
                )
            if self.collector is None:
                collector = threading.Thread(
                    target=self._collect, name="msitd-copies", daemon=True
                )
                collector.start()
                self.collector = collector
            self._count += 1
            self._bytes += size
            self._begun_count += 1

    def give_up(self, size: int) -> None:
        """Undoes `begin`."""
        with self._changed:
            self._begun_count -= 1
            self._end(1, size)

    def add(self, batch: Batch, is_full: bool) -> None:
        """Called under `lock` after the tensor of `begin` was added to `batch`.

        The batch becomes the open batch, or is launched if `is_full`.
        """
        self._begun_count -= 1
        if batch is not self._open:
            self._launch()
            self._open = batch
            self._open_since = time.monotonic()
            # Wakes the thread, which launches the batch in time.
            self._changed.notify_all()
        if is_full:
            self._launch()

    def open_batch(self) -> Batch | None:
        """Returns the batch that accepts more tensors. The caller holds `lock`."""
        return self._open

    def launch(self) -> None:
        """Launches the open batch, if any. Nothing is open in a forked child."""
        if os.getpid() != self._process:
            return
        with self._changed:
            self._launch()

    def wait(self, timeout: float) -> bool:
        """Waits for everything that has begun. Returns whether it is finished.

        A forked child does not wait for work of its parent.
        """
        if os.getpid() != self._process:
            return True
        with self._changed:
            self._launch()
            return self._changed.wait_for(self._is_idle, timeout)

    def stop(self) -> None:
        """Ends the thread as soon as nothing is under way. Does not wait."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _launch(self, is_own_thread: bool = False) -> None:
        batch, self._open = self._open, None
        if batch is None:
            return
        try:
            batch.launch(is_own_thread)
        finally:
            self._launched.append(batch)
            self._changed.notify_all()

    def _has_room(self, size: int) -> bool:
        return self._count == 0 or (
            self._count < PENDING_MAX and self._bytes + size <= PENDING_BYTES_MAX
        )

    def _is_idle(self) -> bool:
        return self._count == 0

    def _end(self, count: int, size: int) -> None:
        self._count -= count
        self._bytes -= size
        self._changed.notify_all()

    def _next(self) -> Batch | None:
        """Waits for the oldest launched batch; returns None at the end."""
        while True:
            if self._launched:
                return self._launched[0]
            if self._open is not None:
                left = self._open_since + LINGER - time.monotonic()
                if left <= 0:
                    self._launch(is_own_thread=True)
                else:
                    self._changed.wait(left)
            elif self._is_over and not self._begun_count:
                return None
            else:
                self._changed.wait()

    def _collect(self) -> None:
        while True:
            with self._changed:
                batch = self._next()
                if batch is None:
                    self._at_end()
                    self.collector = None
                    return
            batch.finish()
            with self._changed:
                self._launched.popleft()
                self._end(batch.count, batch.device_bytes)
            # The batch's device memory must be freed before the wait for the
            # next one.
            del batch
