"""The cost of querying many daemons at once, of one that does not answer, and
of comparing with a run of another daemon.
"""

import json
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msitd
import numpy as np
from measure import (
    Bench,
    Result,
    at_least,
    at_most,
    google,
    medians,
    new_client,
    new_daemon,
    ratio,
)

from daemon import Daemon

OPS = 100
NODE_TIMEOUT_S = 2.0
FLEET_OPS = 2048  # Per token in msitd_fleet_bench.


@contextmanager
def fleet(bench: Bench) -> Iterator[list[Daemon]]:
    """Daemons that each hold one rank of a run."""
    tensor = np.arange(16, dtype=np.float32)
    with ExitStack() as stack:
        daemons = []
        for rank in range(bench.scale.nodes):
            daemons.append(stack.enter_context(new_daemon(bench)))
            with msitd.Client(
                "r",
                endpoint=f"unix:{daemons[-1].socket_dir}",
                rank=rank,
                world_size=bench.scale.nodes,
                max_block=60,
            ) as client:
                for i in range(bench.scale.node_tensors):
                    token, op = divmod(i, OPS)
                    client.record(tensor, op=f"op.{op}", token=token, call=0)
                client.flush(600)
        yield daemons


def seconds_of_stats(bench: Bench, daemons: list[Daemon], expect: int = 0) -> float:
    """Returns the time of `tensor stats`; checks that it covers all tensors."""
    places = ",".join(f"unix:{daemon.socket_dir}" for daemon in daemons)
    words = ["--endpoints", places, "--node-timeout", f"{NODE_TIMEOUT_S}s"]
    words += ["-o", "json", "tensor", "stats", "--run", "r"]
    if len(daemons) < bench.scale.nodes:
        words += ["--allow-partial"]
    start = time.perf_counter()
    done = subprocess.run(
        [bench.binaries / "msitctl", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    seconds = time.perf_counter() - start
    assert done.returncode == expect, done.stderr
    answer = json.loads(done.stdout)
    failed = len(answer.get("nodes_failed", []))
    assert failed == (1 if expect else 0), answer
    count = (len(daemons) - failed) * bench.scale.node_tensors
    assert int(answer["groups"][0]["tensor_count"]) == count, answer
    return seconds


def fanout_overhead(bench: Bench) -> Result:
    """`tensor stats` over all daemons / over only the slowest of them."""
    rounds = max(3, bench.scale.repetitions)
    with fleet(bench) as daemons:
        alone = [
            statistics.median(seconds_of_stats(bench, [daemon]) for _ in range(rounds))
            for daemon in daemons
        ]
        together = statistics.median(
            seconds_of_stats(bench, daemons) for _ in range(rounds)
        )
    return ratio("lower", 1.5, together, "the slowest single one", max(alone))


def dead_node(bench: Bench) -> Result:
    """`tensor stats` while one of the daemons is stopped, with a deadline of 2 s."""
    with fleet(bench) as daemons:
        whole = seconds_of_stats(bench, daemons)
        process = daemons[-1].process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        try:
            seconds = seconds_of_stats(bench, daemons, expect=4)
        finally:
            process.send_signal(signal.SIGCONT)
    return at_most(3.0, seconds, "s", "all of them answer", whole)


def index_rate(bench: Bench) -> Result:
    """Index entries per second that a peer receives over a Unix socket."""
    tokens = max(1, bench.scale.equal_tensors // (2 * FLEET_OPS))
    remote, index = medians(
        google(
            bench,
            "msitd_fleet_bench",
            ("Remote", "Index"),
            5,
            MSITD_BENCH_FLEET_TOKENS=tokens,
        )
    )
    count = tokens * 2 * FLEET_OPS
    return at_least(1e6, count / remote, "1/s", "a scan of that index", count / index)


class Counter:
    """Forwards the connections to a Unix socket, and counts their bytes."""

    def __init__(self, path: str, to: str) -> None:
        self.count = 0
        self._to = to
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._to)
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=ends, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self.count += len(data)
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listener.close()


def record_nearly_equal(daemon: Daemon, run: str, count: int, changed: bool) -> None:
    """Records tensors of 16 KiB, of which one in 100 of each token is changed;
    seals the run.
    """
    tensor = np.random.default_rng(0).standard_normal(4096, dtype=np.float32)
    with new_client(daemon, run) as client:
        for i in range(count):
            token, op = divmod(i, OPS)
            own = tensor + np.float32(i)
            if changed and op == token % OPS:
                own[7] += 1
            client.record(own, op=f"op.{op}", token=token, call=0)
    daemon.ctl("run", "seal", run)


def equal_bytes_ratio(bench: Bench) -> Result:
    """Bytes between two daemons whose runs differ in one tensor per token / payload."""
    count = max(OPS, bench.scale.mid_tensors // OPS * OPS)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        far = stack.enter_context(new_daemon(bench))
        counter = Counter(str(folder / "far"), f"{far.socket_dir}/msitd.sock")
        stack.callback(counter.close)
        near = stack.enter_context(new_daemon(bench, "--peers", f"unix:{folder}/far"))
        record_nearly_equal(far, "g", count, changed=False)
        record_nearly_equal(near, "t", count, changed=True)
        words = ("compare", "run", "g", "t", "--golden-endpoint", f"unix:{folder}/far")
        answer = near.ctl_json(*words, "--tol", "nl2 <= 1", "--rows", "none")
        assert int(answer["comparison"]["pass_count"]) == count, answer
        wire = counter.count
    return ratio(
        "lower", 0.05, float(wire), "bytes of the run", float(count * 4 * 4096)
    )


BENCHMARKS = {
    "fleet.fanout_overhead": fanout_overhead,
    "fleet.dead_node": dead_node,
    "fleet.index_rate": index_rate,
    "fleet.equal_bytes_ratio": equal_bytes_ratio,
}
