"""The number of round trips that msitctl waits for when its daemon is far away."""

import asyncio
import statistics
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import Bench, Result, at_most, new_daemon, record_mebibytes, seconds_of

from daemon import Daemon

ROUND_TRIP_S = 0.04
ROWS = 32
ROUNDS = 7


class DelayedPort:
    """A port of this machine that passes each byte to another one after a delay.

    A connection is accepted after a round trip.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0)
        )
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def close(self) -> None:
        """Ends all connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await asyncio.sleep(ROUND_TRIP_S)
        there = await asyncio.open_connection("127.0.0.1", self._target)
        await asyncio.gather(self._pass(reader, there[1]), self._pass(there[0], writer))

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(1 << 16):
            self._loop.call_later(ROUND_TRIP_S / 2, writer.write, data)
        self._loop.call_later(ROUND_TRIP_S / 2, writer.close)


@contextmanager
def compared(bench: Bench) -> Iterator[Daemon]:
    """A daemon with a comparison of two runs, c-1, in which each row fails."""
    with new_daemon(bench) as daemon:
        record_mebibytes(daemon, "r", ROWS, 1)
        record_mebibytes(daemon, "s", ROWS, 1000)
        daemon.ctl("compare", "run", "r", "s", "--rows", "none", expect=1)
        yield daemon


def round_trips(bench: Bench, daemon: Daemon, *words: str) -> tuple[float, float]:
    """Returns how many round trips a command waits for, and its time without any."""
    port = int(daemon.endpoint.rsplit(":", 1)[1])
    far = DelayedPort(port)

    def run(port: int) -> float:
        command = [bench.binaries / "msitctl", "--endpoint", f"127.0.0.1:{port}"]
        return seconds_of(
            lambda: subprocess.run(
                [*command, *words], stdout=subprocess.DEVNULL, check=False
            )
        )

    try:
        near_s, far_s = (
            statistics.median(run(one) for _ in range(ROUNDS))
            for one in (port, far.port)
        )
    finally:
        far.close()
    return (far_s - near_s) / ROUND_TRIP_S, near_s


def _measured(bench: Bench, target: float, *words: str) -> Result:
    with compared(bench) as daemon:
        trips, near_s = round_trips(bench, daemon, *words)
    baseline = f"time without a delay, s; a round trip takes {ROUND_TRIP_S} s"
    return at_most(target, trips, "round trips", baseline, near_s)


def compare(bench: Bench) -> Result:
    """A comparison and its first rows, from the start of msitctl."""
    return _measured(bench, 6.0, "compare", "run", "r", "s")


def report(bench: Bench) -> Result:
    """An HTML report with the histograms of 32 rows."""
    with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
        out = str(Path(folder) / "report.html")
        return _measured(bench, 30.0, "compare", "report", "c-1", "--out", out)


BENCHMARKS: dict[str, Callable[[Bench], Result]] = {
    "far.compare_trips": compare,
    "far.report_trips": report,
}
