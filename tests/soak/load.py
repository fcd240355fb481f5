"""Queries a daemon continuously, and changes what it keeps."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msitd
import numpy as np
from gauges import Series
from msitd import query

PROBED_BYTES = 64 << 10
# A query may hit a daemon that was killed; it is repeated for this many
# seconds.
PATIENCE_S = 60
COMPARED_TOKENS = 4
LEVELS = ("full", "summary", "sample", "off")


class Load:
    """Threads that send queries. Latencies are added to a series, in milliseconds."""

    def __init__(
        self, socket_dir: Path, address: str, series: Series, seed: int
    ) -> None:
        self._endpoint = str(socket_dir)
        self._address = address
        self._series = series
        self._rng = random.Random(seed)
        self._is_over = threading.Event()
        self._threads: list[threading.Thread] = []
        self.failures: list[str] = []
        self.counts: Counter[str] = Counter()

    def start(self) -> None:
        self._record_pair()
        for name, pause, ask in (
            ("ack", 0.1, self._record),
            ("list", 0.3, self._list),
            ("read", 0.5, self._read),
            ("stats", 0.7, self._reduce),
            ("compare", 3, self._compare),
            ("policy", 1, self._change_policy),
        ):
            thread = threading.Thread(target=self._work, args=(name, pause, ask))
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _work(
        self, name: str, pause: float, ask: Callable[[], Callable[[], None]]
    ) -> None:
        while not self._is_over.is_set():
            try:
                done = ask()
            except Exception as error:  # noqa: BLE001 - it is counted
                self._fail(name, error)
                self._is_over.wait(1)
                continue
            while not self._is_over.wait(pause):
                if not self._ask(name, done):
                    break

    def _ask(self, name: str, done: Callable[[], None]) -> bool:
        """Returns False if the query must be made again with a new connection."""
        begin = time.monotonic()
        while True:
            try:
                done()
            except Exception as error:  # noqa: BLE001 - it is counted
                # Only queries to a daemon that is away are repeated.
                is_away = isinstance(
                    error, (OSError, RuntimeError, query.QueryError, msitd.MsitError)
                )
                if not is_away or time.monotonic() - begin > PATIENCE_S:
                    self._fail(name, error)
                    return False
                if self._is_over.wait(0.05):
                    return False
                continue
            self._series.add(f"{name}_ms", 1000 * (time.monotonic() - begin))
            self.counts[name] += 1
            return True

    def _fail(self, name: str, error: Exception) -> None:
        self.failures.append(f"{name}: {type(error).__name__}: {error}")

    def _record_pair(self) -> None:
        """Records two runs that differ in one tensor."""
        rng = np.random.default_rng(0)
        for run in ("golden", "target"):
            with msitd.Client(run, 0, 1, self._endpoint) as client:
                for token in range(COMPARED_TOKENS):
                    for op in range(50):
                        same = np.random.default_rng(100 * token + op)
                        data = same.standard_normal(1000, dtype=np.float32)
                        if (run, token, op) == ("target", 2, 20):
                            data += rng.standard_normal(1000, dtype=np.float32)
                        client.record(data, op=f"op{op:02}", token=token)

    def _record(self) -> Callable[[], None]:
        client = msitd.Client(
            "probe", 0, 1, self._endpoint, if_exists="append", open_timeout=PATIENCE_S
        )
        data = np.arange(PROBED_BYTES // 4, dtype=np.float32)

        def record() -> None:
            client.record(data, op="timed")
            client.record(data, op="changing")
            client.flush(PATIENCE_S)
            client.next_token()
            if client.counters().dropped_count:
                raise RuntimeError(f"dropped: {client.stream_error()}")

        return record

    def _connect(self) -> query.Connection:
        return query.connect(self._address)

    def _list(self) -> Callable[[], None]:
        daemon = self._connect()

        def ask() -> None:
            list(daemon.tensors.list("run0", limit=100))

        return ask

    def _read(self) -> Callable[[], None]:
        daemon = self._connect()

        def ask() -> None:
            for tensor in daemon.tensors.list("golden", limit=3):
                daemon.tensors.read(tensor)

        return ask

    def _reduce(self) -> Callable[[], None]:
        daemon = self._connect()

        def ask() -> None:
            daemon.tensors.stats("golden")

        return ask

    def _compare(self) -> Callable[[], None]:
        daemon = self._connect()

        def ask() -> None:
            done = daemon.comparisons.run("golden", "target")
            rows = list(daemon.comparisons.rows(done, verdicts="fail"))
            daemon.comparisons.delete(done)
            if [(row.token, row.op) for row in rows] != [(2, "op20")]:
                self.failures.append(f"compare: {rows}")

        return ask

    def _change_policy(self) -> Callable[[], None]:
        daemon = self._connect()

        def ask() -> None:
            level = self._rng.choice(LEVELS)
            daemon.captures.set(
                "probe",
                rules=[
                    query.CaptureRule(query.select(ops="changing"), level),
                    query.CaptureRule(query.select(ops="timed")),
                ],
            )

        return ask
