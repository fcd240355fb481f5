"""Several daemons that are asked as if they were one."""

import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from chunk_bytes import Chunk, Record, float32
from wire import write

from daemon import BIN_DIR, Daemon

FAILED, USAGE, PARTIAL, NOT_FOUND = 1, 2, 4, 69
WORLD = 4


def record(
    daemon: Daemon,
    run: str,
    ranks: list[int],
    values: dict[int, float] | None = None,
) -> None:
    """Records two ops of two tokens in some ranks of a world of four."""
    for rank in ranks:
        value = (values or {}).get(rank, float(rank + 1))
        records = [
            Record(op, float32(value), [1], token=token, sequence=2 * token + i)
            for token in range(2)
            for i, op in enumerate(("a", "b"))
        ]
        chunk = Chunk(run, records, rank=rank).pack()
        write(daemon.channel(), run, [chunk], rank=rank, world_size=WORLD)


def socket_of(daemon: Daemon) -> str:
    return f"unix:{daemon.socket_dir}/msitd.sock"


def ask(
    endpoints: list[str], *words: str, expect: int = 0
) -> "subprocess.CompletedProcess[str]":
    """Runs msitctl over all endpoints."""
    result = subprocess.run(
        [BIN_DIR / "msitctl", "--endpoints", ",".join(endpoints), *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == expect, (words, result.stdout, result.stderr)
    return result


def ask_json(endpoints: list[str], *words: str, expect: int = 0) -> dict[str, Any]:
    answer = json.loads(ask(endpoints, *words, "-o", "json", expect=expect).stdout)
    assert isinstance(answer, dict)
    return answer


@pytest.fixture
def two(new_daemon: Callable[[], Daemon]) -> tuple[Daemon, Daemon]:
    """Two daemons that hold two ranks each of `g` and `t`; one op of `t` differs."""
    daemons = new_daemon(), new_daemon()
    for daemon, ranks in zip(daemons, ([0, 1], [2, 3]), strict=True):
        daemon.start()
        record(daemon, "g", ranks)
        record(daemon, "t", ranks, {3: 9.0})
    return daemons


@pytest.fixture
def endpoints(two: tuple[Daemon, Daemon]) -> list[str]:
    return [socket_of(daemon) for daemon in two]


@pytest.fixture
def whole(new_daemon: Callable[[], Daemon]) -> Daemon:
    """One daemon that holds all of it."""
    daemon = new_daemon()
    daemon.start()
    record(daemon, "g", list(range(WORLD)))
    record(daemon, "t", list(range(WORLD)), {3: 9.0})
    return daemon


def test_a_run_on_two_nodes_is_one_row(endpoints: list[str], two: Any) -> None:
    record(two[1], "only", [0])
    answer = ask_json(endpoints, "run", "list")
    assert [run["name"] for run in answer["runs"]] == ["g", "only", "t"]
    run = answer["runs"][0]
    assert run["ranks_held"] == [{"first": 0, "last": 3}]
    assert run["counters"]["tensor_count"] == "16"
    assert "partial" not in run or run["partial"] is False
    assert answer["nodes"] == endpoints
    assert answer["held_by"]["g"] == {endpoints[0]: "0-1", endpoints[1]: "2-3"}
    rows = ask(endpoints, "run", "list", "-o", "csv", "--columns", "name,nodes")
    assert rows.stdout.splitlines()[2] == f"only,{endpoints[1]}"
    one = ask_json(endpoints, "run", "get", "g")
    assert one["ranks_held"] == run["ranks_held"]
    assert one["counters"]["tensor_count"] == "16"


def without_times(answer: dict[str, Any]) -> dict[str, Any]:
    for member in ("nodes", "held_by"):
        answer.pop(member, None)
    return answer


@pytest.mark.parametrize(
    "verb",
    [
        ("tensor", "list", "--run", "t"),
        ("tensor", "list", "--run", "t", "--tokens", "1", "--limit", "5"),
        ("tensor", "find", "--run", "t", "--where", "max > 2"),
        ("tensor", "stats", "--run", "t"),
        ("tensor", "stats", "--run", "t", "--by", "rank"),
        ("tensor", "stats", "--run", "t", "--by", "op"),
        ("tensor", "stats", "--run", "t", "--by", "token"),
    ],
)
def test_answers_are_those_of_one_daemon(
    endpoints: list[str], whole: Daemon, verb: tuple[str, ...]
) -> None:
    # The numbers are whole, so that sums are exact in any order.
    assert without_times(ask_json(endpoints, *verb)) == whole.ctl_json(*verb)
    table = ask(endpoints, *verb, "-o", "csv").stdout.splitlines()
    assert len(table) == len(whole.ctl(*verb, "-o", "csv").stdout.splitlines())


def test_pages_of_all_nodes_are_in_order(
    new_daemon: Callable[[], Daemon],
) -> None:
    daemons = [new_daemon() for _ in range(2)]
    for i, daemon in enumerate(daemons):
        daemon.start()
        for rank in (i, i + 2):
            records = [
                Record("op", float32(1.0), [1], token=token) for token in range(1500)
            ]
            chunk = Chunk("long", records, rank=rank).pack()
            write(daemon.channel(), "long", [chunk], rank=rank, world_size=WORLD)
    answer = ask_json(
        [socket_of(daemon) for daemon in daemons], "tensor", "list", "--run", "long"
    )
    places = [(row["rank"], int(row["token"])) for row in answer["tensors"]]
    assert places == [(rank, token) for rank in range(4) for token in range(1500)]


def test_ranks_that_no_node_holds_make_it_partial(
    endpoints: list[str], two: tuple[Daemon, Daemon]
) -> None:
    record(two[0], "half", [0])
    record(two[1], "half", [2])
    result = ask(endpoints, "tensor", "stats", "--run", "half", expect=PARTIAL)
    assert result.stdout.startswith("partial: 2 of 4 ranks; run half lacks ranks 1,3\n")
    ask(endpoints, "tensor", "stats", "--run", "half", "--allow-partial")


def test_a_rank_on_two_nodes_is_named_and_both_are_shown(
    endpoints: list[str], two: tuple[Daemon, Daemon]
) -> None:
    record(two[0], "twice", [0, 1])
    record(two[1], "twice", [1, 2, 3])
    result = ask(endpoints, "tensor", "list", "--run", "twice", "-o", "name")
    assert "both hold rank 1 of run twice" in result.stderr
    assert all(endpoint in result.stderr for endpoint in endpoints)
    assert len(result.stdout.splitlines()) == 5 * 4


def test_what_no_node_has_is_not_found(endpoints: list[str]) -> None:
    result = ask(endpoints, "tensor", "list", "--run", "none", expect=NOT_FOUND)
    assert "RUN_NOT_FOUND" in result.stderr
    wrong = ("tensor", "find", "--run", "t", "--where", "max >")
    assert "partial" not in ask(endpoints, *wrong, expect=67).stderr


@contextmanager
def stopped(daemon: Daemon) -> Iterator[None]:
    """Stops the process of a daemon for a while."""
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        daemon.process.send_signal(signal.SIGCONT)


@contextmanager
def babbler() -> Iterator[str]:
    """A server that answers whatever comes with noise."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    peer, _ = server.accept()
                    with peer, suppress(OSError):
                        peer.recv(1)
                        peer.sendall(b"\x00\xffnoise" * 1000)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def check_partial(endpoints: list[str], failed: str) -> None:
    """Checks that one node is named, all others answer, and none waits long."""
    start = time.monotonic()
    nodes = [*endpoints, failed]
    options = ("--node-timeout", "2s")
    result = ask(nodes, *options, "run", "list", expect=PARTIAL)
    assert time.monotonic() - start < 4
    assert f"partial: no answer of {failed}: " in result.stderr
    assert len(result.stdout.splitlines()) == 3
    answer = ask_json(nodes, *options, "tensor", "stats", "--run", "g", expect=PARTIAL)
    assert [node["node"] for node in answer["nodes_failed"]] == [failed]
    assert answer["nodes_failed"][0]["error"]
    assert answer["nodes"] == endpoints
    assert answer["groups"][0]["tensor_count"] == "16"
    ask(nodes, *options, "run", "get", "g", "--allow-partial")


def test_a_stopped_node(endpoints: list[str], new_daemon: Callable[[], Daemon]) -> None:
    daemon = new_daemon()
    daemon.start()
    with stopped(daemon):
        check_partial(endpoints, socket_of(daemon))
        check_partial(endpoints, daemon.endpoint)


def test_a_dead_node(endpoints: list[str], new_daemon: Callable[[], Daemon]) -> None:
    daemon = new_daemon()
    daemon.start()
    place = socket_of(daemon)
    daemon.kill()
    check_partial(endpoints, place)


def test_a_node_that_speaks_garbage(endpoints: list[str]) -> None:
    with babbler() as place:
        check_partial(endpoints, place)


def test_no_node_answers(tmp_path: Path) -> None:
    gone = [f"unix:{tmp_path}/{i}" for i in range(2)]
    result = ask(gone, "run", "list", expect=78)
    assert all(place in result.stderr for place in gone)


def test_verbs_of_one_daemon_are_refused_by_name(endpoints: list[str]) -> None:
    result = ask(endpoints, "run", "import", "x", "--run", "y", expect=USAGE)
    assert "msitctl run import works with one daemon" in result.stderr
    ask(endpoints, "watch", "x", "--run", "y", expect=USAGE)


def test_files_and_jobs_name_nodes(
    endpoints: list[str], two: tuple[Daemon, Daemon], tmp_path: Path
) -> None:
    place = tmp_path / "nodes"
    place.write_text(f"# both\n{endpoints[0]}  # first\n\n{endpoints[1]}\n")

    def run(flags: list[str], **variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [BIN_DIR / "msitctl", *flags, "run", "list", "-o", "name"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=variables,
        )

    by_file = run(["--endpoints-file", str(place)])
    assert (by_file.returncode, by_file.stdout) == (0, "g\nt\n")
    by_variable = run([], MSITCTL_ENDPOINTS=",".join(endpoints))
    assert by_variable.stdout == "g\nt\n"
    # A flag overrides the variable.
    single = run(["--endpoint", endpoints[0]], MSITCTL_ENDPOINTS="nowhere:1")
    assert single.stdout == "g\nt\n"
    port = two[0].endpoint.rpartition(":")[2]
    job = run(["--endpoints", f"slurm:{port}"], SLURM_JOB_NODELIST="127.0.0.[1-1]")
    assert (job.returncode, job.stdout) == (0, "g\nt\n")
    name = run(["--endpoints", f"dns:///localhost:{port}", "--node-timeout", "2s"])
    assert name.stdout == "g\nt\n"
    assert run(["--endpoints", "slurm:"]).returncode == USAGE
    both = run(["--endpoint", endpoints[0], "--endpoints", endpoints[1]])
    assert both.returncode == USAGE
