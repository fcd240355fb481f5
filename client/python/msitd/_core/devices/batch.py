"""Tensors of one device stream that are copied to the host together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from msitd._core.devices.streams import DeviceStreams, Done

# Limits of a batch, after which it takes no more tensors. Each batch waits for
# the model, switches streams and records an event only once.
COUNT_MAX = 32
BYTES_MAX = 8 << 20


class Item(NamedTuple):
    """One tensor of a batch."""

    # Bytes in device memory, which are kept alive until they are on the host.
    source: Any
    # Destination in host memory, one piece after the other.
    to: Sequence[Any]
    # Device memory in bytes that is kept for the tensor.
    device_bytes: int
    # Called when the bytes have arrived, or with the error. Raises nothing.
    end: Callable[[Exception | None], None]


class CopyBatch:
    """See underway.Batch. The owner serializes access.

    Args:
        streams: The streams of the device.
        stream: The stream that computes the sources.
    """

    def __init__(self, streams: DeviceStreams, stream: Any) -> None:
        self._streams = streams
        self._stream = stream
        self._items: list[Item] = []
        self.count = 0
        self.device_bytes = 0
        self._done: Done | None = None
        self._error: Exception | None = None

    def takes(self, streams: DeviceStreams, stream: Any) -> bool:
        """Returns whether tensors of a stream can be added."""
        return self._streams is streams and bool(self._stream == stream)

    def add(self, item: Item) -> None:
        self._items.append(item)
        self.count += 1
        self.device_bytes += item.device_bytes

    @property
    def is_full(self) -> bool:
        return self.count >= COUNT_MAX or self.device_bytes >= BYTES_MAX

    def launch(self, is_own_thread: bool) -> None:
        try:
            if is_own_thread:
                self._streams.enter()
            copies = [(item.source, item.to) for item in self._items]
            self._done = self._streams.copy(self._stream, copies)
        except BaseException as error:
            # Nothing may write to the memory after it was returned.
            self._streams.settle(self._stream.device)
            self._error = RuntimeError(str(error) or type(error).__name__)
            if not isinstance(error, Exception):
                raise

    def finish(self) -> None:
        if self._done is not None:
            try:
                self._streams.enter()
                self._done.synchronize()
            except Exception as error:  # noqa: BLE001 - reported later
                self._error = error
        for item in self._items:
            item.end(self._error)
        self._items.clear()
