"""A device whose streams do not run until a test runs them."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class OnDevice(torch.Tensor):
    """A tensor in host memory that reports a device."""

    device = property(lambda self: torch.device("cuda:1"))


def on_device(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.as_subclass(OnDevice)


class Stream:
    """A stream that does its work when `FakeDevice.run` is called."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.work: list[Callable[[], None]] = []
        self.waited_for: list[Stream] = []

    def wait_stream(self, other: "Stream") -> None:
        self.waited_for.append(other)

    def synchronize(self) -> None:
        while self.work:
            self.work.pop(0)()


class Event:
    """An event that occurs when its stream reaches it."""

    def __init__(self, *, blocking: bool) -> None:
        assert blocking
        self._came = threading.Event()
        self.error: Exception | None = None

    def record(self, stream: Stream) -> None:
        stream.work.append(self._came.set)

    def synchronize(self) -> None:
        # With a timeout, because a failing test must end.
        self._came.wait(60)
        if self.error is not None:
            raise self.error


class _Later(TorchDispatchMode):
    """Defers copies to a stream."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self._stream = stream

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is torch.ops.aten.copy_.default:
            self._stream.work.append(lambda: func(*args, **(kwargs or {})))
            return args[0]
        return func(*args, **(kwargs or {}))


class FakeDevice:
    """Stands in for `torch.cuda`. Each test has its own."""

    __name__ = "torch.fake"

    def __init__(self) -> None:
        self.main = Stream(torch.device("cuda:1"))
        self.side: list[Stream] = []
        self.events: list[Event] = []
        self.pinned: dict[int, int] = {}
        self.pin_error = 0

    def is_available(self) -> bool:
        return True

    def is_current_stream_capturing(self) -> bool:
        return False

    def current_stream(self, device: torch.device) -> Stream:
        return self.main

    def current_device(self) -> int:
        return 1

    def Stream(self, device: torch.device) -> Stream:
        self.side.append(Stream(device))
        return self.side[-1]

    def Event(self, **options: bool) -> Event:
        self.events.append(Event(**options))
        return self.events[-1]

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        with _Later(stream):
            yield

    def cudart(self) -> "FakeDevice":
        return self

    def cudaHostRegister(self, address: int, size: int, flags: int) -> int:
        if not self.pin_error:
            self.pinned[address] = size
        return self.pin_error

    def cudaHostUnregister(self, address: int) -> int:
        del self.pinned[address]
        return 0

    def run(self, work_count: int | None = None) -> None:
        """Does the work of all side streams, or at most `work_count` pieces of it."""
        for stream in self.side:
            if work_count is None:
                stream.synchronize()
            else:
                for _ in range(work_count):
                    stream.work.pop(0)()
