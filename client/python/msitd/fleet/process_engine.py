"""Workers as processes of this machine."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from typing import IO, Any

from msitd.fleet.engine import Answered, Event, Lost
from msitd.fleet.orders import Order, Setup

_SIZE = struct.Struct("<Q")
_END_MAX_S = 30.0


def send(pipe: IO[bytes], value: Any) -> None:
    """Writes one value to a pipe."""
    data = pickle.dumps(value)
    pipe.write(_SIZE.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """Reads one value from a pipe.

    Raises:
        EOFError: The other side has closed the pipe.
    """
    head = pipe.read(_SIZE.size)
    if len(head) < _SIZE.size:
        raise EOFError
    (size,) = _SIZE.unpack(head)
    data = pipe.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)


class ProcessEngine:
    """An Engine whose workers are children of this process."""

    def __init__(self) -> None:
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._count = 0

    def start(self, setup: Setup) -> int:
        """See Engine."""
        worker = self._count
        self._count += 1
        process = subprocess.Popen(
            [sys.executable, "-m", "msitd.fleet.worker_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C is for this process, which ends its children.
            start_new_session=True,
        )
        self._processes[worker] = process
        with contextlib.suppress(BrokenPipeError):
            self._send(process, setup)
        threading.Thread(
            target=self._listen, args=(worker, process), daemon=True
        ).start()
        return worker

    def give(self, worker: int, order: Order) -> None:
        """See Engine."""
        # The listener reports a worker that is gone.
        with contextlib.suppress(BrokenPipeError):
            self._send(self._processes[worker], order)

    def wait(self) -> Event:
        """See Engine."""
        event = self._events.get()
        if isinstance(event, Lost):
            self._processes.pop(event.worker, None)
        return event

    def close(self) -> None:
        """See Engine."""
        processes = list(self._processes.values())
        self._processes.clear()
        for process in processes:
            assert process.stdin is not None
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.terminate()
        for process in processes:
            try:
                process.wait(_END_MAX_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def pids(self) -> list[int]:
        """Returns the process ids of the workers."""
        return [process.pid for process in self._processes.values()]

    def _send(self, process: subprocess.Popen[bytes], value: Any) -> None:
        assert process.stdin is not None
        send(process.stdin, value)

    def _listen(self, worker: int, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        while True:
            try:
                answer = receive(process.stdout)
            except (EOFError, OSError, pickle.UnpicklingError):
                break
            self._events.put(Answered(worker, answer))
        code = process.wait()
        why = f"signal {-code}" if code < 0 else f"exit code {code}"
        self._events.put(Lost(worker, f"its process {process.pid} ended: {why}"))


def serve() -> None:
    """Runs a worker: reads a Setup and then orders from stdin, and answers each."""
    import signal

    from msitd.fleet.orders import Failure
    from msitd.fleet.worker import Worker

    # Only answers are written there, and not the output of libraries.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    orders = sys.stdin.buffer
    # Exits in order, so that the worker's daemon ends with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    worker: Worker | None = None
    try:
        setup = receive(orders)
        while True:
            order = receive(orders)
            try:
                worker = worker or Worker(setup)
            except (ImportError, OSError, RuntimeError, ValueError) as error:
                send(answers, Failure("FAILED_PRECONDITION", str(error)))
                continue
            send(answers, worker.do(order))
    except (EOFError, BrokenPipeError):
        return
    finally:
        if worker is not None:
            worker.close()
