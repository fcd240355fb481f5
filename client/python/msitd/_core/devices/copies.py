"""Copies tensors of devices, or statistics of them, to the host."""

from __future__ import annotations

import ctypes
import logging
import time
from typing import TYPE_CHECKING, Any

from msitd import _msit
from msitd._core.devices import reductions
from msitd._core.devices.batch import CopyBatch, Item
from msitd._core.devices.pins import Pins
from msitd._core.devices.streams import streams_of
from msitd._core.devices.underway import Underway
from msitd._core.leaf import statistics_text
from msitd._core.not_recorded import reason_of
from msitd._core.vocabulary import LEVEL_SUMMARY, TOKEN_CURRENT

if TYPE_CHECKING:
    from msitd._core.devices.streams import DeviceStreams
    from msitd._core.not_recorded import NotRecorded

_logger = logging.getLogger("msitd")


class DeviceCopies:
    """The device copies of one client. Any thread may use it.

    A hook takes a snapshot of the tensor on the device, adds it to the open
    batch, and continues. Batches are copied into memory that the client has
    reserved. A thread waits for the oldest batch and publishes it, so nothing
    is sent before it has arrived.

    Args:
        reduces: Whether the device itself reduces tensors of which only the
            summary is selected. They are recorded as statistics once the result
            is on the host.
    """

    def __init__(
        self,
        native: _msit.Client,
        not_recorded: NotRecorded,
        max_block: float,
        reduces: bool,
    ) -> None:
        self._native = native
        self._not_recorded = not_recorded
        self._reduces = reduces
        self._pins = Pins(native)
        self.underway = Underway(max_block, self._pins.remove)
        self._has_warned = False

    def record(
        self,
        torch: Any,
        tensor: Any,
        dtype: int,
        place: _msit.Place,
        facts: _msit.Facts,
    ) -> int | None:
        """Records a tensor of a device without waiting for the device.

        Returns:
            A code of msit.h. None if the device has no streams, the tensor has
            no memory of its own, or the client has not enough memory for it. In
            these cases nothing was done.

        Raises:
            RuntimeError: The device failed, or did not finish earlier copies in
                time. The record counts as dropped.
        """
        streams = streams_of(torch, tensor.device.type)
        if streams is None or not _has_memory(tensor):
            return None
        if (
            self._reduces
            and self._is_summary(place)
            and reductions.is_reducible(torch, tensor)
        ):
            self._reduce(torch, streams, tensor, dtype, place, facts)
            return _msit.OK
        code, reservation = self._native.reserve(dtype, tensor.shape, place, facts)
        if reservation is None:
            return None if code == _msit.TOO_LARGE else code
        try:
            self._copy(torch, streams, tensor, reservation, place)
        except BaseException:
            reservation.publish(False)
            raise
        return code

    def wait(self, timeout: float) -> float:
        """Waits until everything that has begun is recorded.

        Copies have reservations in the client, which waits for them itself.

        Returns:
            The remaining time, which is negative if not everything is recorded.
        """
        if not self._reduces:
            self.underway.launch()
            return timeout
        begin = time.monotonic()
        if not self.underway.wait(max(timeout, 0)):
            return -1
        return max(timeout - (time.monotonic() - begin), min(timeout, 0))

    def stop(self) -> None:
        """Ends the thread as soon as nothing is under way. Does not wait."""
        self.underway.stop()

    def _is_summary(self, place: _msit.Place) -> bool:
        """Returns whether only the summary is selected."""
        device, token, op, _, io, _, _ = place
        return self._native.level_of(device, token, op, io) == LEVEL_SUMMARY

    def _copy(
        self,
        torch: Any,
        streams: DeviceStreams,
        tensor: Any,
        reservation: _msit.Reservation,
        place: _msit.Place,
    ) -> None:
        """Starts a copy."""

        def end(error: Exception | None) -> None:
            if error is not None:
                self._tell(place, "copy from", error)
            reservation.publish(error is None)

        spans = reservation.spans()
        for address, _ in spans:
            self._pins.cover(streams, address)
        to = [_host_bytes(torch, *span) for span in spans]
        size = tensor.nbytes
        self.underway.begin(size)
        try:
            stream = streams.current_stream(tensor.device)
            item = Item(streams.snapshot(tensor), to, size, end)
        except BaseException:
            self.underway.give_up(size)
            raise
        self._add(streams, stream, item)

    def _add(self, streams: DeviceStreams, stream: Any, item: Item) -> None:
        """Adds a tensor to the open batch, or to a new one."""
        with self.underway.lock:
            batch = self.underway.open_batch()
            if not isinstance(batch, CopyBatch) or not batch.takes(streams, stream):
                batch = CopyBatch(streams, stream)
            batch.add(item)
            self.underway.add(batch, batch.is_full)

    def _reduce(
        self,
        torch: Any,
        streams: DeviceStreams,
        tensor: Any,
        dtype: int,
        place: _msit.Place,
        facts: _msit.Facts,
    ) -> None:
        """Starts a reduction."""
        requires_grad, stack, _ = facts
        facts = (requires_grad, stack, 0)
        if place[1] == TOKEN_CURRENT:
            place = (place[0], self._native.token(), *place[2:])
        shape = tensor.shape
        try:
            self.underway.begin(0)
            try:
                stream = streams.current_stream(tensor.device)
                reduced, told = reductions.reduce(torch, tensor)
                host = streams.host_bytes(reduced.numel())
            except BaseException:
                self.underway.give_up(0)
                raise
        except BaseException:
            self._drop(dtype, place, facts)
            raise

        def end(error: Exception | None) -> None:
            try:
                if error is None:
                    statistics = told.statistics(host)
                    self._record_statistics(statistics, dtype, shape, place, facts)
            except Exception as problem:  # noqa: BLE001 - reported later
                error = problem
            if error is not None:
                self._drop(dtype, place, facts)
                self._tell(place, "reduction on", error)

        self._add(streams, stream, Item(reduced, [host], 0, end))

    def _record_statistics(
        self,
        statistics: Any,
        dtype: int,
        shape: Any,
        place: _msit.Place,
        facts: _msit.Facts,
    ) -> None:
        text = statistics_text.text_of(statistics)
        code = self._native.record_statistics(dtype, shape, text, place, facts)
        # The client has already counted a dropped record.
        if code not in (_msit.OK, _msit.DROPPED, _msit.CLOSED, _msit.FORKED):
            raise RuntimeError(_msit.last_error())

    def _drop(self, dtype: int, place: _msit.Place, facts: _msit.Facts) -> None:
        """Counts a record as dropped."""
        _, reservation = self._native.reserve(dtype, (1,), place, facts)
        if reservation is not None:
            reservation.publish(False)

    def _tell(self, place: _msit.Place, what: str, error: Exception) -> None:
        op, index = place[2], place[5]
        reason = reason_of(f"the {what} the device failed: {error}")
        self._not_recorded.count(op, index, reason)
        if not self._has_warned:
            self._has_warned = True
            _logger.warning(
                "%s %s is not recorded: %s (said once; see Client.counters)",
                op,
                index,
                reason,
            )


def _has_memory(tensor: Any) -> bool:
    """Returns False for wrappers without memory, such as those of functorch."""
    try:
        return tensor.data_ptr() != 0 or tensor.numel() == 0
    except RuntimeError:
        return False


def _host_bytes(torch: Any, address: int, size: int) -> Any:
    """Returns a tensor over the memory, which it does not own."""
    memory = (ctypes.c_ubyte * size).from_address(address)
    return torch.frombuffer(memory, dtype=torch.uint8)
