"""Device operations for copies to the host in the background."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

# Flag of cudaHostRegister: the memory is pinned for every context of the
# process.
_PORTABLE = 1
# CU_STREAM_CAPTURE_MODE_RELAXED.
_RELAXED = 2


class Done(Protocol):
    """An event of a device."""

    def synchronize(self) -> None:
        """Waits for the event without the GIL. Raises if the device failed."""


class DeviceStreams(Protocol):
    """The devices of one type. Any thread may use it."""

    def snapshot(self, tensor: Any) -> Any:
        """Returns the bytes of a tensor, in device memory that nothing changes.

        These are the bytes at the current position of the stream: row-major and
        resolved, as a one-dimensional tensor of uint8.
        """

    def host_bytes(self, size: int) -> Any:
        """Returns host memory, pinned if possible, as a tensor of uint8."""

    def current_stream(self, device: Any) -> Any:
        """Returns the stream of `device` that the calling thread uses."""

    def copy(self, stream: Any, copies: Iterable[tuple[Any, Sequence[Any]]]) -> Done:
        """Starts to copy snapshots to the host. Does not wait for the device.

        Args:
            stream: The stream on which the snapshots were taken.
            copies: Snapshots, which must stay alive until the copy is done,
                each with tensors of uint8 in host memory that it fills one
                after the other.

        Returns:
            An event that occurs when all bytes have arrived.
        """

    def enter(self) -> None:
        """Must be called first in each thread of msitd.

        The thread may then wait while another one captures a graph of the
        device.
        """

    def settle(self, device: Any) -> None:
        """Waits until no copy from the device is under way."""

    def pin(self, address: int, size: int) -> None:
        """Pins host memory, so that copies to it are asynchronous.

        Raises:
            RuntimeError: The device does not pin the memory.
        """

    def unpin(self, address: int) -> None:
        """Undoes `pin`. Raises nothing."""


class _Thread(threading.local):
    has_entered = False


class Accelerator:
    """A type of device for which torch has streams and events."""

    def __init__(self, torch: Any, module: Any) -> None:
        self._torch = torch
        self._module = module
        self._lock = threading.Lock()
        self._thread = _Thread()
        # By device; separate from the streams of the model.
        self._side_streams: dict[Any, Any] = {}

    def snapshot(self, tensor: Any) -> Any:
        torch = self._torch
        whole = torch.empty_like(tensor, memory_format=torch.contiguous_format)
        whole.copy_(tensor)
        return whole.view(-1).view(torch.uint8)

    def host_bytes(self, size: int) -> Any:
        torch = self._torch
        try:
            return torch.empty(size, dtype=torch.uint8, pin_memory=True)
        except (RuntimeError, NotImplementedError):
            return torch.empty(size, dtype=torch.uint8)

    def current_stream(self, device: Any) -> Any:
        return self._module.current_stream(device)

    def copy(self, stream: Any, copies: Iterable[tuple[Any, Sequence[Any]]]) -> Done:
        side = self._side_stream(stream.device)
        side.wait_stream(stream)
        with self._module.stream(side):
            for snapshot, to in copies:
                begin = 0
                for piece in to:
                    end = begin + piece.numel()
                    piece.copy_(snapshot[begin:end], non_blocking=True)
                    begin = end
        done = self._new_event()
        done.record(side)
        return done

    def enter(self) -> None:
        if not self._thread.has_entered:
            self._thread.has_entered = True
            self._relax()

    def settle(self, device: Any) -> None:
        self._side_stream(device).synchronize()

    def pin(self, address: int, size: int) -> None:
        if not hasattr(self._module, "cudart"):
            raise RuntimeError(f"{self._module.__name__} has no means to")
        error = self._module.cudart().cudaHostRegister(address, size, _PORTABLE)
        if int(error) == 0:
            return
        # The runtime reports the error again at the next launch, which would be
        # one of the model.
        try:
            self._torch.zeros(1, device=self._module.current_device())
        except RuntimeError:
            pass
        raise RuntimeError(f"cudaHostRegister says {error}")

    def unpin(self, address: int) -> None:
        self._module.cudart().cudaHostUnregister(address)

    def _relax(self) -> None:
        """Lets this thread wait while another one captures a CUDA graph.

        Otherwise the wait would fail and end the capture, because CUDA cannot
        know that the two are unrelated.
        """
        if self._module is not getattr(self._torch, "cuda", None):
            return
        try:
            exchange = ctypes.CDLL("libcuda.so.1").cuThreadExchangeStreamCaptureMode
        except (OSError, AttributeError):
            return
        exchange(ctypes.byref(ctypes.c_int(_RELAXED)))

    def _side_stream(self, device: Any) -> Any:
        with self._lock:
            stream = self._side_streams.get(device)
            if stream is None:
                stream = self._side_streams[device] = self._module.Stream(device)
            return stream

    def _new_event(self) -> Any:
        try:
            # The thread that waits for it sleeps.
            return self._module.Event(blocking=True)
        except TypeError:
            return self._module.Event()


_by_type: dict[str, DeviceStreams | None] = {}


def streams_of(torch: Any, device_type: str) -> DeviceStreams | None:
    """Returns the devices of a type; None if torch has no streams for them."""
    if device_type not in _by_type:
        module = getattr(torch, device_type, None)
        names = ("Stream", "Event", "stream", "current_stream", "is_available")
        has_streams = all(hasattr(module, name) for name in names)
        _by_type[device_type] = (
            Accelerator(torch, module)
            if has_streams and module.is_available()
            else None
        )
    return _by_type[device_type]
