"""What it costs to ask many daemons at once, and one that does not answer."""

import json
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import msitd
import numpy as np
from measure import Bench, Result, at_most, new_daemon, ratio

from daemon import Daemon

OPS = 100
NODE_TIMEOUT_S = 2.0


@contextmanager
def fleet(bench: Bench) -> Iterator[list[Daemon]]:
    """Daemons that hold a rank each of one run."""
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
    """How long `tensor stats` takes; checks that it takes all tensors."""
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
    """`tensor stats` over all daemons / over the slowest one of them alone."""
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
    """`tensor stats` while one of the daemons is stopped, deadline 2 s."""
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


BENCHMARKS = {
    "fleet.fanout_overhead": fanout_overhead,
    "fleet.dead_node": dead_node,
}
