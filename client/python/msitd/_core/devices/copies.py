"""Copies of tensors of devices that are under way to the host."""

from __future__ import annotations

import ctypes
import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from msitd import _msit
from msitd._core.devices.pins import Pins
from msitd._core.devices.streams import streams_of
from msitd._core.not_recorded import reason_of

if TYPE_CHECKING:
    from msitd._core.devices.streams import DeviceStreams, Done
    from msitd._core.not_recorded import NotRecorded

_logger = logging.getLogger("msitd")

# What one client has under way at a time. The bytes are those of snapshots, in memory
# of the device.
PENDING_MAX = 1024
PENDING_BYTES_MAX = 256 << 20


class _Copy(NamedTuple):
    reservation: _msit.Reservation
    # Lives until the copy is done.
    snapshot: Any
    done: Done
    op: str
    index: str


class DeviceCopies:
    """The copies of one client. Any thread may use it.

    A hook takes a snapshot of the tensor on the device, has it copied into memory that
    the client reserved, and goes on. A thread waits for the oldest copy and
    publishes it, so nothing that is not there yet is sent.
    """

    def __init__(
        self, native: _msit.Client, not_recorded: NotRecorded, max_block: float
    ) -> None:
        self._native = native
        self._not_recorded = not_recorded
        self._max_block = max_block
        self._pins = Pins(native)
        # Signal handlers may record, too.
        self._changed = threading.Condition(threading.RLock())
        self._pending: deque[_Copy] = deque()
        self._pending_bytes = 0
        # Copies that hooks are about to add to them.
        self._begun_count = 0
        self._collector: threading.Thread | None = None
        self._is_over = False
        self._has_warned = False

    def record(
        self,
        torch: Any,
        tensor: Any,
        dtype: int,
        place: _msit.Place,
        facts: _msit.Facts,
    ) -> int | None:
        """Records a tensor of a device without waiting for it.

        Returns:
            A code of msit.h. None if its device has no streams, the tensor no
            memory of its own, or the client not enough for it: then nothing was
            done.

        Raises:
            RuntimeError: The device failed, or has not done earlier copies in
                time. The record counts as dropped.
        """
        streams = streams_of(torch, tensor.device.type)
        if streams is None or not _has_memory(tensor):
            return None
        code, reservation = self._native.reserve(dtype, tensor.shape, place, facts)
        if reservation is None:
            return None if code == _msit.TOO_LARGE else code
        try:
            self._begin(tensor.nbytes)
            try:
                self._copy(torch, streams, tensor, reservation, place)
            finally:
                self._end_begun()
        except BaseException:
            reservation.publish(False)
            raise
        return code

    def stop(self) -> None:
        """Ends the thread as soon as no copy is under way. Does not wait."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _begin(self, size: int) -> None:
        """Waits until there is room for one more copy, and somebody to collect it."""

        def has_turn() -> bool:
            return not self._pending or (
                len(self._pending) < PENDING_MAX
                and self._pending_bytes + size <= PENDING_BYTES_MAX
            )

        with self._changed:
            if not self._changed.wait_for(has_turn, self._max_block):
                raise RuntimeError(
                    f"{len(self._pending)} copies from the device are under way, and "
                    "none is done within max_block"
                )
            if self._collector is None:
                collector = threading.Thread(
                    target=self._collect, name="msitd-copies", daemon=True
                )
                collector.start()
                self._collector = collector
            self._begun_count += 1

    def _end_begun(self) -> None:
        with self._changed:
            self._begun_count -= 1
            self._changed.notify_all()

    def _copy(
        self,
        torch: Any,
        streams: DeviceStreams,
        tensor: Any,
        reservation: _msit.Reservation,
        place: _msit.Place,
    ) -> None:
        """Begins a copy and adds it to those that are pending."""
        spans = reservation.spans()
        for address, _ in spans:
            self._pins.cover(streams, address)
        to = [_host_bytes(torch, *span) for span in spans]
        snapshot = streams.snapshot(tensor)
        try:
            done = streams.copy(snapshot, to)
            copy = _Copy(reservation, snapshot, done, place[2], place[5])
            with self._changed:
                self._pending.append(copy)
                self._pending_bytes += snapshot.numel()
        except BaseException:
            # Nobody may write to the memory once it is given back.
            streams.settle(tensor)
            raise

    def _collect(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._pending or (self._is_over and not self._begun_count)
                )
                if not self._pending:
                    self._pins.remove()
                    self._collector = None
                    return
                copy = self._pending[0]
            self._finish(copy)
            with self._changed:
                self._pending.popleft()
                self._pending_bytes -= copy.snapshot.numel()
                self._changed.notify_all()
            # Its memory on the device must not wait for the next copy.
            del copy

    def _finish(self, copy: _Copy) -> None:
        is_filled = False
        try:
            copy.done.synchronize()
            is_filled = True
        except Exception as error:  # noqa: BLE001 - the host goes on
            self._tell(copy, error)
        finally:
            copy.reservation.publish(is_filled)

    def _tell(self, copy: _Copy, error: Exception) -> None:
        reason = reason_of(f"the copy from the device failed: {error}")
        self._not_recorded.count(copy.op, copy.index, reason)
        if not self._has_warned:
            self._has_warned = True
            _logger.warning(
                "%s %s is not recorded: %s (said once; see Client.counters)",
                copy.op,
                copy.index,
                reason,
            )


def _has_memory(tensor: Any) -> bool:
    """Returns False for wrappers of functorch and the like."""
    try:
        return tensor.data_ptr() != 0 or tensor.numel() == 0
    except RuntimeError:
        return False


def _host_bytes(torch: Any, address: int, size: int) -> Any:
    """Returns memory as a tensor, which does not own it."""
    memory = (ctypes.c_ubyte * size).from_address(address)
    return torch.frombuffer(memory, dtype=torch.uint8)
