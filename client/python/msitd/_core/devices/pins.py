"""Pins the host memory that tensors of devices are copied to."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from msitd import _msit
    from msitd._core.devices.streams import DeviceStreams

_logger = logging.getLogger("msitd")


class _Pin(NamedTuple):
    address: int
    end: int
    # None if pinning was refused.
    streams: DeviceStreams | None


class Pins:
    """The pinned memory of one client. Any thread may use it.

    Memory is pinned before the first copy to it. If that is refused, copies
    still work, but they make the model wait; this is logged once.
    """

    def __init__(self, native: _msit.Client) -> None:
        self._native = native
        self._lock = threading.Lock()
        # Read without the lock. One entry for each piece of `native.memory()`.
        self._pins: tuple[_Pin, ...] = ()
        self._has_warned = False

    def cover(self, streams: DeviceStreams, address: int) -> None:
        """Pins the memory around an address, unless that was tried before."""
        if any(pin.address <= address < pin.end for pin in self._pins):
            return
        with self._lock:
            if any(pin.address <= address < pin.end for pin in self._pins):
                return
            for begin, size in self._native.memory():
                if begin <= address < begin + size:
                    self._pin(streams, begin, size)
                    return
        self._warn("it is not shared with a daemon")

    def remove(self) -> None:
        """Unpins all memory. No copy may be under way."""
        with self._lock:
            for pin in self._pins:
                if pin.streams is not None:
                    pin.streams.unpin(pin.address)
            self._pins = ()

    def _pin(self, streams: DeviceStreams, begin: int, size: int) -> None:
        taken: DeviceStreams | None = streams
        try:
            streams.pin(begin, size)
        except RuntimeError as error:
            taken = None
            self._warn(str(error))
        self._pins = (*self._pins, _Pin(begin, begin + size, taken))

    def _warn(self, reason: str) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        _logger.warning(
            "memory for copies from devices is not pinned, so they may make the "
            "model wait: %s (said once)",
            reason,
        )
