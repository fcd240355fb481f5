"""Ranks whose process was restarted on another node, in the middle of a run."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msitd
import pytest
import torch
from chunk_bytes import Chunk, Record, float32
from wire import write

from daemon import BIN_DIR, Daemon

FAILED, PARTIAL, FAILED_PRECONDITION = 1, 4, 73
WORLD = 2
MOVED_AT = 3
CHUNK_RECORDS = 1000


def socket_of(daemon: Daemon) -> str:
    return f"unix:{daemon.socket_dir}/msitd.sock"


def ask(nodes: list[Daemon], *words: str, expect: int = 0) -> str:
    """Runs msitctl over all nodes. Returns stdout and stderr."""
    endpoints = ",".join(socket_of(node) for node in nodes)
    result = subprocess.run(
        [BIN_DIR / "msitctl", "--endpoints", endpoints, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == expect, (words, result.stdout, result.stderr)
    return result.stdout + result.stderr


def ask_json(nodes: list[Daemon], *words: str, expect: int = 0) -> dict[str, Any]:
    return json.loads(ask(nodes, *words, "-o", "json", expect=expect))


@pytest.fixture
def nodes(new_daemon: Callable[[], Daemon]) -> list[Daemon]:
    """Two daemons that may read from each other."""
    daemons = [new_daemon(), new_daemon()]
    for i, daemon in enumerate(daemons):
        daemon.start("--peers", socket_of(daemons[1 - i]))
    return daemons


@pytest.fixture
def whole(new_daemon: Callable[[], Daemon]) -> Daemon:
    """One daemon for the records of both nodes."""
    daemon = new_daemon()
    daemon.start()
    return daemon


def train(daemon: Daemon, run: str, rank: int, first: int, end: int, scale: float):
    """Runs a hooked model, as a process that continues from a checkpoint."""
    torch.manual_seed(rank)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    with msitd.Client(
        run, rank, WORLD, str(daemon.socket_dir), if_exists="append"
    ) as client:
        client.token = first
        with torch.no_grad(), msitd.register_hook(model, client):
            for step in range(first, end):
                model(torch.full((1, 4), scale * (step + 1)))
                client.next_token()


def test_hooked_rank_that_has_moved_is_compared(
    nodes: list[Daemon], whole: Daemon
) -> None:
    """Each process records the module tree of its rank at token 0."""
    scales = {"g": 1.0, "same": 1.0, "bad": 1.01}
    for run, scale in scales.items():
        for rank, home in enumerate(nodes):
            place = home if run == "g" or rank == 1 else nodes[1]
            train(home, run, rank, 0, MOVED_AT, 1.0)
            train(place, run, rank, MOVED_AT, 6, scale)
            train(whole, run, rank, 0, MOVED_AT, 1.0)
            train(whole, run, rank, MOVED_AT, 6, scale)
        for daemon in (*nodes, whole):
            daemon.ctl("run", "seal", run)
    # Each node by itself has only some tokens of rank 0.
    said = ask(nodes, "compare", "run", "g", "same", expect=PARTIAL)
    assert "hold different records of rank 0 of run same" in said
    assert "to compare such a rank, use --at NODE, if each of its tokens" in said
    for node in nodes:
        at = ("--at", socket_of(node))
        ask(nodes, "compare", "run", "g", "same", *at)
        bad = ("compare", "run", "g", "bad", "--rows", "all")
        answer = ask_json(nodes, *bad, *at, expect=FAILED)
        expected = whole.ctl_json(*bad, expect=FAILED)
        # A process that starts again counts its records from 0.
        for row in answer["rows"] + expected["rows"]:
            row.pop("sequence", None)
        assert answer["rows"] == expected["rows"]
        first = answer["comparison"]["first_divergence"]
        assert (first["token"], first["rank"]) == (str(MOVED_AT), 0)
        stats = ("tensor", "stats", "--run", "bad", "--by", "token")
        assert (
            ask_json(nodes, *stats, *at)["groups"] == whole.ctl_json(*stats)["groups"]
        )


def record(daemon: Daemon, run: str, tokens: range, value: float = 1.0) -> None:
    records = [
        Record("op", float32(value + token), [1], token=token, sequence=token)
        for token in tokens
    ]
    chunks = [
        Chunk(run, records[first : first + CHUNK_RECORDS], sequence=i).pack()
        for i, first in enumerate(range(0, len(records), CHUNK_RECORDS))
    ]
    write(daemon.channel(), run, chunks, world_size=1)


def test_token_on_both_nodes_is_refused(nodes: list[Daemon]) -> None:
    for run in ("g", "t"):
        record(nodes[0], run, range(4))
    record(nodes[1], "t", range(3, 6))
    for node in nodes:
        node.ctl("run", "seal", "t")
    nodes[0].ctl("run", "seal", "g")
    said = ask(
        nodes,
        *("compare", "run", "g", "t", "--at", socket_of(nodes[0])),
        expect=FAILED_PRECONDITION,
    )
    assert (
        f"rank 0 of run t has records of token 3 in both local and "
        f"{socket_of(nodes[1])}" in said
    )


def test_archives_of_both_nodes_are_one_run(
    new_daemon: Callable[[], Daemon], tmp_path: Path
) -> None:
    daemons = [new_daemon(), new_daemon()]
    folders = [f"file://{tmp_path}/node{i}" for i in range(2)]
    for i, daemon in enumerate(daemons):
        daemon.start("--archives", f"file://{tmp_path}")
        record(daemon, "t", range(2 * i, 2 * i + 2))
        daemon.ctl("run", "seal", "t")
        daemon.ctl("run", "archive", "t", folders[i])
    record(daemons[0], "g", range(4))
    archived = f"{folders[0]},{folders[1]}/t"
    compared = daemons[0].ctl_json("compare", "run", "g", archived)
    assert compared["comparison"]["pass_count"] == "4"


def test_node_that_restarts_does_not_end_the_comparison(nodes: list[Daemon]) -> None:
    """Tokens alternate between both nodes."""
    count = 4000
    for run, factor in (("g", 1.0), ("t", 1.0 + 1e-6)):
        for i, node in enumerate(nodes):
            record(node, run, range(i, count, 2), 1000 * factor)
            node.ctl("run", "seal", run)
    words = ("compare", "run", "g", "t", "--at", socket_of(nodes[0]))
    name = ask(nodes, *words, "--detach", "-o", "name").split("@")[0].strip()
    peers = ("--peers", socket_of(nodes[0]))

    def await_that(is_it: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + 120
        while True:
            comparison = nodes[0].ctl_json("compare", "get", name, expect=None)
            if is_it(comparison):
                return comparison
            assert time.monotonic() < deadline
            time.sleep(0.05)

    # A node that is away from the beginning is an error.
    await_that(lambda comparison: int(comparison["pass_count"]) > 0)
    nodes[1].kill()
    nodes[1].start(*peers)
    done = await_that(lambda one: one["state"] not in ("PENDING", "RUNNING"))
    assert (done["state"], done["pass_count"]) == ("DONE", str(count)), done["error"]
