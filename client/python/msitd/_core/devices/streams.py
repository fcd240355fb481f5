"""What a device does so that its tensors come to the host in the background."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

# Of cudaHostRegister: every context of the process sees the memory as pinned.
_PORTABLE = 1


class Done(Protocol):
    """An event of a device."""

    def synchronize(self) -> None:
        """Waits until it has come, without the GIL. Raises if the device failed."""


class DeviceStreams(Protocol):
    """The devices of one type. Any thread may use it."""

    def snapshot(self, tensor: Any) -> Any:
        """Returns the bytes of a tensor, in memory of its device that nobody changes.

        They are those that the tensor has when the current stream gets there:
        row-major and resolved, as a tensor of one dimension of uint8.
        """

    def copy(self, snapshot: Any, to: Sequence[Any]) -> Done:
        """Begins to copy a snapshot to the host. Does not wait for the device.

        Args:
            snapshot: Must live until the copy is done.
            to: Tensors of uint8 in host memory, which take one piece of the
                snapshot behind the other.

        Returns:
            What comes when all bytes are there.
        """

    def settle(self, tensor: Any) -> None:
        """Waits until no copy from the device of `tensor` is under way."""

    def pin(self, address: int, size: int) -> None:
        """Pins host memory, so that copies to it do not make anybody wait.

        Raises:
            RuntimeError: The device does not pin it.
        """

    def unpin(self, address: int) -> None:
        """Ends what `pin` did. Raises nothing."""


class Accelerator:
    """A type of device for which torch has streams and events."""

    def __init__(self, torch: Any, module: Any) -> None:
        self._torch = torch
        self._module = module
        self._lock = threading.Lock()
        # By device: apart from the streams of the model.
        self._side_streams: dict[Any, Any] = {}

    def snapshot(self, tensor: Any) -> Any:
        torch = self._torch
        whole = torch.empty_like(tensor, memory_format=torch.contiguous_format)
        whole.copy_(tensor)
        return whole.view(-1).view(torch.uint8)

    def copy(self, snapshot: Any, to: Sequence[Any]) -> Done:
        module = self._module
        side = self._side_stream(snapshot.device)
        side.wait_stream(module.current_stream(snapshot.device))
        with module.stream(side):
            begin = 0
            for piece in to:
                end = begin + piece.numel()
                piece.copy_(snapshot[begin:end], non_blocking=True)
                begin = end
        done = self._new_event()
        done.record(side)
        return done

    def settle(self, tensor: Any) -> None:
        self._side_stream(tensor.device).synchronize()

    def pin(self, address: int, size: int) -> None:
        if not hasattr(self._module, "cudart"):
            raise RuntimeError(f"{self._module.__name__} has no means to")
        error = self._module.cudart().cudaHostRegister(address, size, _PORTABLE)
        if int(error) == 0:
            return
        # The runtime keeps the error for the next launch, where the model would
        # get it.
        try:
            self._torch.zeros(1, device=self._module.current_device())
        except RuntimeError:
            pass
        raise RuntimeError(f"cudaHostRegister says {error}")

    def unpin(self, address: int) -> None:
        self._module.cudart().cudaHostUnregister(address)

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
