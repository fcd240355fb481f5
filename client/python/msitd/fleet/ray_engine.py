"""Workers as actors of Ray."""

from __future__ import annotations

import os
from typing import Any

from msitd.fleet.engine import Answered, Event, Lost
from msitd.fleet.orders import Answer, Failure, Order, Setup
from msitd.fleet.row_file import needs

_END_MAX_S = 30.0


class _Actor:
    """Creates its Worker with the first order, so that errors of its setup are
    reported.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._worker: Any = None

    def do(self, order: Order) -> Answer:
        from msitd.fleet.worker import Worker

        if self._worker is None:
            try:
                self._worker = Worker(self._setup)
            except (ImportError, OSError, RuntimeError, ValueError) as error:
                return Failure("FAILED_PRECONDITION", str(error))
        return self._worker.do(order)  # type: ignore[no-any-return]

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()


class RayEngine:
    """An Engine whose workers are actors.

    Connects to the Ray of the process, if it has one; otherwise to the Ray at
    `address`, or to that of RAY_ADDRESS. If there is none of these, it starts a
    Ray on this machine, which ends with the engine.

    Raises:
        ImportError: Ray is not installed.
        ConnectionError: Ray does not run at the address.
    """

    def __init__(self, address: str | None, workers: int | None) -> None:
        try:
            import ray
        except ImportError as error:
            raise needs("ray") from error
        self._ray = ray
        self._is_ours = not ray.is_initialized()
        address = address or os.environ.get("RAY_ADDRESS")
        if self._is_ours and address:
            ray.init(address=address, log_to_driver=False, logging_level="WARNING")
        elif self._is_ours:
            # Does not use a Ray that is running by chance, or whose address was
            # left in a file.
            ray.init(
                address="local",
                num_cpus=workers,
                include_dashboard=False,
                log_to_driver=False,
                logging_level="WARNING",
            )
        # The driver replaces an actor that died, because it has the actor's
        # order.
        self._class = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(_Actor)
        self._actors: dict[int, Any] = {}
        self._answers: dict[Any, int] = {}
        self._count = 0

    def processor_count(self) -> int:
        """Returns the number of processors of all nodes together."""
        return int(self._ray.cluster_resources().get("CPU", 1))

    def start(self, setup: Setup) -> int:
        """See Engine."""
        worker = self._count
        self._count += 1
        options = self._class.options(scheduling_strategy="SPREAD")
        self._actors[worker] = options.remote(setup)
        return worker

    def give(self, worker: int, order: Order) -> None:
        """See Engine."""
        self._answers[self._actors[worker].do.remote(order)] = worker

    def wait(self) -> Event:
        """See Engine."""
        ready, _ = self._ray.wait(list(self._answers), num_returns=1)
        worker = self._answers.pop(ready[0])
        try:
            return Answered(worker, self._ray.get(ready[0]))
        except self._ray.exceptions.RayTaskError as error:
            # An error in the worker's code.
            return Answered(worker, Failure("INTERNAL", str(error).strip()))
        except self._ray.exceptions.RayError as error:
            self._actors.pop(worker, None)
            return Lost(worker, _first_line(error))

    def close(self) -> None:
        """See Engine."""
        busy = set(self._answers.values())
        closed = [
            actor.close.remote()
            for worker, actor in self._actors.items()
            if worker not in busy
        ]
        if closed:
            self._ray.wait(closed, num_returns=len(closed), timeout=_END_MAX_S)
        # The daemon of an actor ends with it.
        for actor in self._actors.values():
            self._ray.kill(actor)
        self._actors.clear()
        self._answers.clear()
        if self._is_ours:
            self._ray.shutdown()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
