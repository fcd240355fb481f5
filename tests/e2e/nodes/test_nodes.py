"""Several daemons that are queried as if they were one."""

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
from node_answers import (  # noqa: F401
    NOT_FOUND,
    PARTIAL,
    USAGE,
    WORLD,
    ask,
    ask_json,
    daemon_of_all_ranks,
    endpoints_of_two,
    record,
    socket_of,
    two_daemons,
)
from wire import write

from daemon import BIN_DIR, Daemon, stopped


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


def what_counts(answer: dict[str, Any]) -> dict[str, Any]:
    """Drops fields that only one of the two has; a norm is rounded once more."""
    for member in ("nodes", "held_by", "next_page_token"):
        answer.pop(member, None)
    for group in answer.get("groups", []):
        group["summary"]["l2_norm"] = pytest.approx(
            group["summary"]["l2_norm"], rel=1e-15
        )
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
    # The numbers are integers, so that sums are exact in any order.
    answer = what_counts(ask_json(endpoints, *verb))
    expected = whole.ctl_json(*verb)
    expected.pop("next_page_token", None)
    assert answer == expected
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
                Record("op", float32(1.0), [1], token=token) for token in range(900)
            ]
            chunk = Chunk("long", records, rank=rank).pack()
            write(daemon.channel(), "long", [chunk], rank=rank, world_size=WORLD)
    answer = ask_json(
        [socket_of(daemon) for daemon in daemons], "tensor", "list", "--run", "long"
    )
    places = [(row["rank"], int(row["token"])) for row in answer["tensors"]]
    assert places == [(rank, token) for rank in range(4) for token in range(900)]


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
    assert "both have rank 1 of run twice" in result.stderr
    assert all(endpoint in result.stderr for endpoint in endpoints)
    assert len(result.stdout.splitlines()) == 5 * 4


def test_one_tensor_is_found_on_its_node(endpoints: list[str], whole: Daemon) -> None:
    names = ask(endpoints, "tensor", "list", "--run", "t", "-o", "name").stdout.split()
    for name in (names[0], names[-1]):
        answer = ask_json(endpoints, "tensor", "get", name)
        assert answer.pop("nodes") == endpoints
        assert answer == whole.ctl_json("tensor", "get", name)
    gone = ask(endpoints, "tensor", "get", names[0] + "1", expect=NOT_FOUND)
    assert "TENSOR_NOT_FOUND" in gone.stderr


def test_what_no_node_has_is_not_found(endpoints: list[str]) -> None:
    result = ask(endpoints, "tensor", "list", "--run", "none", expect=NOT_FOUND)
    assert "RUN_NOT_FOUND" in result.stderr
    wrong = ("tensor", "find", "--run", "t", "--where", "max >")
    assert "partial" not in ask(endpoints, *wrong, expect=USAGE).stderr


@contextmanager
def babbler() -> Iterator[str]:
    """A server that answers everything with random bytes."""
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
    """Checks that one node is named, all others answer, and no call waits long."""
    start = time.monotonic()
    nodes = [*endpoints, failed]
    options = ("--node-timeout", "2s")
    result = ask(nodes, *options, "run", "list", expect=PARTIAL)
    assert time.monotonic() - start < 4
    assert f"partial: no answer from {failed}: " in result.stderr
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
    assert "msitctl run import supports a single daemon only" in result.stderr
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


def test_changes_reach_all_nodes(
    endpoints: list[str], two: tuple[Daemon, Daemon]
) -> None:
    assert ask_json(endpoints, "run", "seal", "g")["state"] == "SEALED"
    for daemon in two:
        assert daemon.ctl_json("run", "get", "g")["state"] == "SEALED"
    ask(endpoints, "run", "delete", "t", "--yes")
    for daemon in two:
        assert [run["name"] for run in daemon.ctl_json("run", "list")["runs"]] == ["g"]
    with stopped(two[1]):
        result = ask(
            endpoints,
            "--node-timeout",
            "1s",
            "run",
            "delete",
            "g",
            "--yes",
            expect=PARTIAL,
        )
    assert f"no answer from {endpoints[1]}" in result.stderr


def test_status_of_all_nodes(endpoints: list[str]) -> None:
    answer = ask_json(endpoints, "node", "status")
    assert [entry["node"] for entry in answer["statuses"]] == endpoints
    assert all(entry["status"]["run_count"] == "2" for entry in answer["statuses"])
    table = ask(endpoints, "node", "status").stdout
    assert all(f"{endpoint}\n" in table for endpoint in endpoints)
    ask([*endpoints, "127.0.0.1:1"], "node", "status", expect=PARTIAL)


def test_an_interrupt_does_not_wait_for_a_node(
    endpoints: list[str], two: tuple[Daemon, Daemon]
) -> None:
    with stopped(two[1]):
        words = ["--endpoints", ",".join(endpoints), "tensor", "stats", "--run", "g"]
        process = subprocess.Popen([BIN_DIR / "msitctl", *words])
        time.sleep(1)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert time.monotonic() - start < 2


def test_a_policy_is_set_on_all_nodes(
    endpoints: list[str], two: tuple[Daemon, Daemon]
) -> None:
    words = ("capture", "set", "--run", "t", "--ops", "a", "--from-token", "7")
    policy = ask_json(endpoints, *words)
    assert policy["first_token"] == "7"
    for daemon in two:
        assert daemon.ctl_json("capture", "get", "--run", "t")["first_token"] == "7"
    two[1].ctl("capture", "set", "--run", "t", "--ops", "b", "--from-token", "9")
    apart = ask(endpoints, "capture", "get", "--run", "t")
    assert "the nodes have different capture policies" in apart.stderr
    assert f"the policy of {endpoints[1]} begins with token 9" in apart.stderr


def test_coverage_of_all_nodes_is_one_table(
    endpoints: list[str], whole: Daemon
) -> None:
    answer = ask_json(endpoints, "capture", "coverage", "t")
    expected = whole.ctl_json("capture", "coverage", "t")
    assert [rank["stored_count"] for rank in answer["ranks"]] == [
        rank["stored_count"] for rank in expected["ranks"]
    ]
    assert answer["ranks_held"] == expected["ranks_held"]


def test_top_has_a_line_for_each_node(
    endpoints: list[str], two: tuple[Daemon, Daemon]
) -> None:
    words = ("node", "top", "--once", "--interval", "200ms")
    lines = ask(endpoints, *words).stdout.splitlines()
    assert lines[0].split()[:4] == ["node", "storage", "up", "runs"]
    assert [line.split()[0] for line in lines[1:]] == endpoints
    assert all(line.split()[1] == "OK" and " 2 " in line for line in lines[1:])
    ask(endpoints, *words, "-o", "json", expect=USAGE)
    with stopped(two[1]):
        begin = time.monotonic()
        result = ask(endpoints, *words, expect=PARTIAL)
        assert time.monotonic() - begin < 4
    lines = result.stdout.splitlines()
    assert lines[1].split()[:2] == [endpoints[0], "OK"]
    assert lines[2].startswith(f"{endpoints[1]}  no answer  ")
    assert lines[3].startswith(f"no answer from {endpoints[1]}: ")


def test_top_asks_a_node_again_that_did_not_answer(
    endpoints: list[str], two: tuple[Daemon, Daemon]
) -> None:
    words = ("--endpoints", ",".join(endpoints), "node", "top", "--interval", "200ms")
    with stopped(two[1]):
        process = subprocess.Popen(
            [BIN_DIR / "msitctl", *words], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
    try:
        assert lines[2].startswith(f"{endpoints[1]}  no answer")
        while not (line := process.stdout.readline()).startswith(f"{endpoints[1]}  OK"):
            assert line
    finally:
        process.kill()
        process.wait()
