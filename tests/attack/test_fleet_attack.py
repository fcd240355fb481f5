"""Nodes that claim ranks of others, have another version, or are listed twice."""

import json
import subprocess
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from chunk_bytes import Chunk, Record, float32
from msitd.v1 import run_service_pb2 as run_pb
from wire import write

from daemon import BIN_DIR, Daemon

USAGE, PARTIAL, UNIMPLEMENTED = 2, 4, 64 + 12
WORLD = 4


def socket_of(daemon: Daemon) -> str:
    return f"unix:{daemon.socket_dir}/msitd.sock"


def record(daemon: Daemon, run: str, ranks: list[int]) -> None:
    for rank in ranks:
        chunk = Chunk(run, [Record("a", float32(rank + 1.0), [1])], rank=rank).pack()
        write(daemon.channel(), run, [chunk], rank=rank, world_size=WORLD)
    daemon.ctl("run", "seal", run)


def ask(endpoints: list[str], *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [BIN_DIR / "msitctl", "--endpoints", ",".join(endpoints), *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def two(new_daemon: Callable[[], Daemon]) -> list[Daemon]:
    """Two daemons that may read from each other, by either of their addresses."""
    daemons = [new_daemon(), new_daemon()]
    peers = [f"--peers={socket_of(daemon)}" for daemon in daemons]
    for daemon in daemons:
        daemon.start(*peers)
    return daemons


def test_a_rank_that_two_nodes_claim_is_compared_nowhere(two: list[Daemon]) -> None:
    places = [socket_of(daemon) for daemon in two]
    record(two[0], "g", [0, 1, 2])
    record(two[1], "g", [2, 3])
    record(two[0], "t", [0, 1])
    record(two[1], "t", [2, 3])
    words = ("compare", "run", "g", "t", "--at", places[0], "--rows", "none")
    done = ask(places, *words)
    assert done.returncode > 64, (done.stdout, done.stderr)
    assert "rank 2" in done.stderr
    assert "local" in done.stderr or places[0] in done.stderr
    assert places[1] in done.stderr
    # Commands that only list and add show both nodes, and name them.
    stats = ask(places, "tensor", "stats", "--run", "g", "--by", "rank", "-o", "csv")
    assert "both have rank 2 of run g: their common records count twice" in stats.stderr
    assert stats.stdout.splitlines()[3].startswith("2,2,")


def test_a_daemon_that_is_named_by_many_addresses_counts_once(
    two: list[Daemon],
) -> None:
    record(two[0], "g", [0, 1])
    record(two[1], "g", [2, 3])
    aliases = []
    for number in range(31):
        for daemon in two:
            # The same socket file under another path.
            folder = Path(daemon.socket_dir) / f"{number}"
            folder.symlink_to(daemon.socket_dir)
            aliases.append(f"unix:{folder}/msitd.sock")
    places = [socket_of(daemon) for daemon in two] + aliases
    assert len(places) == 64
    # A node that is listed twice with the same spelling counts once.
    done = ask([places[0], places[1], places[0]], "tensor", "stats", "--run", "g")
    assert (done.returncode, "note" in done.stderr) == (0, False)
    done = ask(places, "run", "get", "g", "-o", "json")
    assert done.returncode == 0, done.stderr
    alone = ask(places[:2], "run", "get", "g", "-o", "json")
    assert json.loads(done.stdout)["counters"] == json.loads(alone.stdout)["counters"]
    for number, alias in enumerate(aliases):
        note = f"note: {alias} and {places[number % 2]} are the same daemon, which counts once\n"
        assert note in done.stderr
    assert "both have" not in done.stderr


@contextmanager
def older(place: str) -> Iterator[None]:
    """A server that only implements the ranks of a run."""

    class Handler(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            if not details.method.endswith("RunService/GetRun"):
                return None
            run = run_pb.Run(name="g", world_size=WORLD)
            run.ranks_held.add(first=2, last=3)
            return grpc.unary_unary_rpc_method_handler(
                lambda request, context: run.SerializeToString()
            )

    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((Handler(),))
    server.add_insecure_port(place)
    server.start()
    yield
    server.stop(None).wait()


def test_a_node_of_an_older_version_is_named(two: list[Daemon], tmp_path: Path) -> None:
    place = f"unix:{two[0].socket_dir}/old.sock"
    record(two[0], "g", [0, 1])
    record(two[0], "t", [0, 1, 2, 3])
    places = [socket_of(two[0]), place]
    with older(place):
        for words in (
            ("tensor", "stats", "--run", "g"),
            ("tensor", "list", "--run", "g"),
            ("capture", "coverage", "g"),
            ("node", "status"),
        ):
            done = ask(places, *words)
            assert done.returncode == PARTIAL, (words, done.stderr)
            assert f"no answer from {place}: UNIMPLEMENTED" in done.stderr, words
        top = ask(places, "node", "top", "--once", "--interval", "100ms")
        assert f"no answer from {place}: UNIMPLEMENTED" in top.stdout
        # The older node must be read as a peer, but offers nothing.
        two[0].stop()
        two[0].start("--peers", place, "--peer-timeout-ms", "2000")
        words = ("compare", "run", "g", "t", "--at", places[0])
        done = ask(places, *words)
        assert done.returncode == UNIMPLEMENTED, (done.stdout, done.stderr)
        assert f"peer {place}: it is of a version that lends no runs" in done.stderr
