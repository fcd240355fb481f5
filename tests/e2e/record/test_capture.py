"""The command line sets what ranks record, while they are running."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msitd
import numpy as np
import pytest
from names import tensor_name
from typing_extensions import Self

from daemon import Daemon

WAIT_S = 60
NOT_FOUND_EXIT = 64 + 5
EXPIRED_EXIT = 64 + 9
SEALED_EXIT = 64 + 9
DATA = np.arange(256, dtype=np.float32)
OPS = ("layers.0.attn", "layers.0.mlp", "layers.1.attn", "lm_head")


def capture(daemon: Daemon, verb: str, *args: str, expect: int = 0) -> Any:
    return daemon.ctl_json("capture", verb, "--run", "r", *args, expect=expect)


def record_token(client: msitd.Client, token: int) -> None:
    for op in OPS:
        for io in ("input", "output"):
            assert client.record(DATA, op=op, io=io, token=token)


def recorded(daemon: Daemon, *args: str) -> set[tuple[int, int, str, str]]:
    found = daemon.ctl_json("tensor", "list", "--run", "r", "--limit", "0", *args)
    return {
        (t.get("rank", 0), int(t.get("token", 0)), t["op"], t["io"])
        for t in found.get("tensors", [])
    }


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_a_policy_that_records_nothing_says_so(daemon: Daemon) -> None:
    daemon.ctl("run", "create", "r", "--world-size", "2")

    def note(*args: str) -> str:
        return daemon.ctl("capture", "set", "--run", "r", *args).stderr

    assert note("--ranks", "0-1") == ""
    assert "there is no rank 2, 99" in note("--ranks", "1,2,99")
    assert "nothing is recorded" in note("--tokens", "0-3", "--from-token", "500")
    assert note("--tokens", "0-500", "--from-token", "500") == ""
    assert "nothing is recorded from token 7 on" in note(
        "--level", "off", "--from-token", "7"
    )


def test_rules_are_taken_as_they_are_printed(daemon: Daemon, tmp_path: Path) -> None:
    rules = [
        {"filter": {"op_patterns": ["layers.0.*"]}, "level": "CAPTURE_LEVEL_FULL"},
        {"level": "CAPTURE_LEVEL_SUMMARY"},
    ]
    capture(daemon, "set", "--rules", json.dumps(rules), "--from-token", "0")
    with msitd.Client(run="r", endpoint=f"unix:{daemon.socket_dir}") as client:
        record_token(client, 0)
    kept = daemon.ctl_json("tensor", "list", "--run", "r", "--limit", "0")["tensors"]
    assert {t["op"] for t in kept if t.get("has_bytes")} == set(OPS[:2])
    assert {t["op"] for t in kept} == set(OPS)
    # The output is accepted as input again, also from a file.
    printed = capture(daemon, "get")
    assert [rule["level"] for rule in printed["rules"]] == [
        rule["level"] for rule in rules
    ]
    assert printed["rules"][0]["filter"]["op_patterns"] == ["layers.0.*"]
    file = tmp_path / "rules.json"
    file.write_text(json.dumps(printed))
    assert capture(daemon, "set", "--rules", str(file))["rules"] == printed["rules"]
    for bad in ('[{"lvl": 1}]', "[]", str(tmp_path / "none.json")):
        wrong = daemon.ctl("capture", "set", "--run", "r", "--rules", bad, expect=2)
        assert "--rules" in wrong.stderr
    for other in (("--ops", "a"), ("--level", "off")):
        words = ("capture", "set", "--run", "r", "--rules", "[]", *other)
        assert "--rules" in daemon.ctl(*words, expect=2).stderr


@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_all_ranks_change_at_the_stated_token(daemon: Daemon, transport: str) -> None:
    endpoint = str(daemon.socket_dir) if transport == "shm" else daemon.endpoint
    ranks = [
        msitd.Client("r", rank=rank, world_size=2, endpoint=endpoint)
        for rank in range(2)
    ]
    for token in range(3):
        for client in ranks:
            record_token(client, token)
    policy = capture(
        daemon, "set", "--ops", "layers.*.attn", "--io", "output", "--from-token", "5"
    )
    assert policy["revision"] == "1"
    for client in ranks:
        wait_until(lambda c=client: not c.selects("lm_head", token=5))
        assert client.selects("lm_head", token=4)
        assert client.selects("layers.1.attn", token=5)
        assert not client.selects("layers.1.attn", "input", token=5)
    for token in range(3, 8):
        for client in ranks:
            record_token(client, token)
    for client in ranks:
        client.flush()
        counters = client.counters()
        assert counters.recorded_count == 5 * 8 + 3 * 2
        assert counters.filtered_count == 3 * 6
        assert counters.dropped_count == 0
        client.close()
    everything = {
        (rank, token, op, io)
        for rank in range(2)
        for token in range(5)
        for op in OPS
        for io in ("IO_INPUT", "IO_OUTPUT")
    }
    selected = {
        (rank, token, op, "IO_OUTPUT")
        for rank in range(2)
        for token in range(5, 8)
        for op in OPS
        if op.endswith("attn")
    }
    assert recorded(daemon) == everything | selected


def test_policy_may_come_before_the_run_and_survives_the_daemon(
    daemon: Daemon,
) -> None:
    capture(daemon, "set", "--tokens", "0-1,10", "--ranks", "0")
    daemon.kill()
    daemon.start()
    assert capture(daemon, "get")["revision"] == "1"
    with msitd.Client("r", endpoint=str(daemon.socket_dir)) as client:
        for token in (0, 1, 2, 9, 10):
            record_token(client, token)
    assert {token for _, token, _, _ in recorded(daemon)} == {0, 1, 10}
    endpoint = str(daemon.socket_dir)
    with msitd.Client("r", endpoint=endpoint, if_exists="append") as client:
        # A client that reconnects receives the policy that was set in the
        # meantime.
        capture(daemon, "set", "--level", "off")
        wait_until(lambda: not client.selects("lm_head", token=11))


def test_rank_that_comes_late_knows_the_policies_before(daemon: Daemon) -> None:
    capture(daemon, "set", "--level", "off")
    capture(daemon, "set", "--ops", "lm_head", "--from-token", "500")
    with msitd.Client("r", endpoint=str(daemon.socket_dir)) as client:
        for token in (0, 499, 500):
            record_token(client, token)
    assert {(token, op) for _, token, op, _ in recorded(daemon)} == {(500, "lm_head")}


def test_summaries_are_kept_without_bytes(daemon: Daemon) -> None:
    capture(daemon, "set", "--level", "summary")
    with msitd.Client("r", endpoint=str(daemon.socket_dir)) as client:
        client.record(DATA, op="op")
        client.record(np.ones(3 << 20, dtype=np.float32), op="big")
    stats = daemon.ctl_json("tensor", "stats", "--run", "r")["groups"][0]
    assert stats["summary"]["max"] == 255
    run = daemon.ctl_json("run", "get", "r")["counters"]
    assert run["tensor_count"] == "2"
    assert int(run.get("size_bytes", 0)) == 0
    for op in ("op", "big"):
        args = ("tensor", "read", tensor_name("r", op), "--out", "-")
        daemon.ctl(*args, "--format", "raw", expect=EXPIRED_EXIT, binary=True)


def test_bad_policy_is_refused_and_the_old_one_kept(daemon: Daemon) -> None:
    capture(daemon, "set", "--ops", "a*")
    before = capture(daemon, "get")
    for args in (
        ("--from-token", str(1 << 40)),
        ("--devices", "x" * 33),
        ("--ops", "y" * 1025),
    ):
        daemon.ctl("capture", "set", "--run", "r", *args, expect=64 + 3)
    for args in (("--level", "some"), ("--tokens", "3-1"), ("--io", "sideways")):
        daemon.ctl("capture", "set", "--run", "r", *args, expect=2)
    assert capture(daemon, "get") == before
    daemon.ctl("run", "seal", "r")
    daemon.ctl("capture", "set", "--run", "r", expect=SEALED_EXIT)
    daemon.ctl("capture", "get", "--run", "nobody", expect=NOT_FOUND_EXIT)


class Ranks:
    """Two ranks, one of which is always some tokens behind, at 250 tokens per
    second.
    """

    LAG = 9

    def __init__(self, endpoint: str) -> None:
        self.clients = [
            msitd.Client("r", rank=rank, world_size=2, endpoint=endpoint)
            for rank in range(2)
        ]
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._generate)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stops.set()
        self._thread.join(WAIT_S)
        for client in self.clients:
            client.close()

    def _generate(self) -> None:
        token = 0
        while not self._stops.wait(0.004):
            for lag, client in zip((0, self.LAG), self.clients, strict=True):
                client.token = max(token - lag, 0)
                # Like hooks, which do not pass tensors that are off.
                if client.selects("op"):
                    client.record(DATA, op="op")
            token += 1


@pytest.mark.parametrize("transport", ["shm", "grpc"])
@pytest.mark.parametrize("before", ["off", "full"])
def test_fast_ranks_begin_together_by_default(
    daemon: Daemon, transport: str, before: str
) -> None:
    endpoint = str(daemon.socket_dir) if transport == "shm" else daemon.endpoint
    capture(daemon, "set", "--level", before)
    with Ranks(endpoint) as ranks:
        leader, follower = ranks.clients
        wait_until(lambda: leader.token > 250)
        others = ("--io", "output") if before == "off" else ("--level", "off")
        first = int(capture(daemon, "set", *others)["first_token"])
        assert first > leader.token
        wait_until(lambda: follower.token > first + 3)
    tokens: list[set[int]] = [set(), set()]
    for rank, token, _, _ in recorded(daemon):
        tokens[rank].add(token)
    if before == "off":
        assert {min(tokens[0]), min(tokens[1])} == {first}
    else:
        assert {max(tokens[0]), max(tokens[1])} == {first - 1}


def test_default_first_token_of_a_run_that_nobody_streams(daemon: Daemon) -> None:
    assert int(capture(daemon, "set").get("first_token", 0)) == 0
    with msitd.Client("r", endpoint=str(daemon.socket_dir)) as client:
        for token in range(3):
            record_token(client, token)
    assert int(capture(daemon, "set")["first_token"]) == 3


def coverage(daemon: Daemon, expect: int = 0) -> list[dict[str, int]]:
    answer = daemon.ctl_json(
        "capture", "coverage", "r", "--allow-partial", expect=expect
    )
    return [
        {
            name.removesuffix("_count"): int(value)
            for name, value in rank.items()
            if name == "rank" or name.endswith("_count")
        }
        for rank in answer["ranks"]
    ]


def row(rank: int, **counts: int) -> dict[str, int]:
    names = (
        *("stream", "seen", "filtered", "asked", "stored"),
        *("dropped", "truncated", "degraded"),
        *("repeated", "conflict", "pending", "lost", "dangling", "not_recorded"),
        *("claimed", "checked", "false"),
    )
    return {"rank": rank} | {name: counts.get(name, 0) for name in names}


def test_coverage_counts_each_tensor_once(daemon: Daemon) -> None:
    def connect(rank: int) -> msitd.Client:
        endpoint = str(daemon.socket_dir)
        return msitd.Client("r", rank, 3, endpoint, if_exists="append")

    capture(daemon, "set", "--ops", "*.attn,lm_head", "--from-token", "1")
    with connect(0) as client, connect(1):
        record_token(client, 0)
        client.flush()
        wait_until(lambda: sum(rank["stream"] for rank in coverage(daemon)) == 2)
        # The stream is opened again, and its totals are reported again.
        daemon.kill()
        daemon.start()
        client.flush(WAIT_S)
        wait_until(lambda: client.counters().reconnect_count > 0)
        record_token(client, 1)
    first = row(0, stream=1, seen=16, filtered=2, asked=14, stored=14)
    assert coverage(daemon) == [first, row(1, stream=1)]
    with connect(0) as client:
        # Token 1 is recorded once more, but stored once.
        record_token(client, 1)
        record_token(client, 2)
        big = np.zeros(5 << 20, dtype=np.float32)
        assert client.record(big, op="lm_head", io="state", token=2)
    daemon.ctl("run", "seal", "r")
    daemon.kill()
    daemon.start()
    second = row(0, stream=2, seen=33, filtered=6, asked=27, stored=21, repeated=6)
    assert coverage(daemon) == [second, row(1, stream=1)]
    table = daemon.ctl("capture", "coverage", "r", expect=4).stdout
    partial, header, *rows = table.splitlines()
    assert partial == "partial: 1 of 3 ranks; run r lacks ranks 1-2"
    assert header.split() == [
        *("rank", "streams", "seen", "filtered", "asked", "stored", "repeated"),
        *("conflicts", "dropped", "truncated", "pending", "lost", "degraded"),
        *("recording", "overhead", "stream"),
    ]
    assert [row.split()[:13] for row in rows] == [
        ["0", "2", "33", "6", "27", "21", "6", *["0"] * 6],
        ["1", "1", *["0"] * 11],
    ]
    all_of_it = ("capture", "coverage", "r", "--allow-partial")
    csv = daemon.ctl(*all_of_it, "-o", "csv").stdout
    # Times are the last column.
    assert [line.rsplit(",", 3)[0] for line in csv.splitlines()[1:]] == [
        "0,2,33,6,27,21,0,0,0,6,0,0,0,,,0,0,0,0,0,[]",
        "1,1,0,0,0,0,0,0,0,0,0,0,0,,,0,0,0,0,0,[]",
    ]


@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_coverage_adds_up_behind_a_seal(daemon: Daemon, transport: str) -> None:
    endpoint = str(daemon.socket_dir) if transport == "shm" else daemon.endpoint
    client = msitd.Client("r", endpoint=endpoint, linger=60)
    for token in range(4):
        record_token(client, token)
    client.flush()
    # Records that are still buffered when the run is sealed are lost.
    for token in range(4, 7):
        record_token(client, token)
    wait_until(lambda: coverage(daemon)[0]["seen"] == 56)
    pending = row(0, stream=1, seen=56, asked=56, stored=32, pending=24)
    assert coverage(daemon) == [pending]
    daemon.ctl("run", "seal", "r")
    lost = row(0, stream=1, seen=56, asked=56, stored=32, lost=24)
    assert coverage(daemon) == [lost]
    with pytest.raises(msitd.MsitError):
        client.close()
    assert coverage(daemon) == [lost]


def test_coverage_adds_up_behind_a_death(daemon: Daemon) -> None:
    program = (
        "import os, sys, msitd, numpy as np\n"
        "rank = int(sys.argv[1])\n"
        "client = msitd.Client('r', rank=rank, world_size=3)\n"
        "for i in range(100):\n"
        "    client.record(np.zeros(4), op=f'op.{i}')\n"
        "if rank == 0: client.close()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    environment = {**os.environ, "MSITD_ENDPOINT": str(daemon.socket_dir)}
    with msitd.Client("r", 2, 3, str(daemon.socket_dir)):
        for rank in "01":
            subprocess.run(
                [sys.executable, "-c", program, rank], env=environment, check=False
            )
        # It was killed before it reported anything; everything that it began
        # counts.
        wait_until(lambda: coverage(daemon)[1]["stored"] == 100)
        ranks = coverage(daemon)
        for rank in ranks[:2]:
            assert (rank["seen"], rank["asked"], rank["stored"]) == (100, 100, 100)
        found = daemon.ctl(
            "capture", "coverage", "r", "--allow-partial", "--silent-after", "1ms"
        )
        assert [line.split(" for ")[0] for line in found.stderr.splitlines()] == [
            "msitctl: note: rank 0 has had no stream",
            "msitctl: note: rank 1 has had no stream",
        ]
        assert "its client closed" in found.stderr.splitlines()[0]
        assert "was interrupted" in found.stderr.splitlines()[1]
        assert daemon.ctl("capture", "coverage", "r", "--allow-partial").stderr == ""
    # No rank is streaming any more; a rank that has finished is complete.
    found = daemon.ctl(
        "capture", "coverage", "r", "--allow-partial", "--silent-after", "1ms"
    )
    assert found.stderr.count("note:") == 1


@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_capture_that_matched_nothing_is_an_error(
    daemon: Daemon, transport: str
) -> None:
    endpoint = str(daemon.socket_dir) if transport == "shm" else daemon.endpoint
    daemon.ctl("capture", "coverage", "r", expect=NOT_FOUND_EXIT)
    capture(daemon, "set", "--ops", "layer.*")
    assert coverage(daemon, expect=1) == []
    with msitd.Client("r", endpoint=endpoint) as client:
        record_token(client, 0)
    assert coverage(daemon, expect=1) == [row(0, stream=1, seen=8, filtered=8)]
    table = daemon.ctl("capture", "coverage", "r", expect=1)
    assert "of 8 tensors, 8 were filtered" in table.stderr


def test_hooks_leave_alone_what_is_off(daemon: Daemon) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    capture(daemon, "set", "--ops", "root.1", "--io", "output")
    with (
        msitd.Client("r", endpoint=str(daemon.socket_dir)) as client,
        msitd.register_hook(model, client),
    ):
        model(torch.ones(2, 4))
        model(torch.ones(2, 4))
    assert recorded(daemon) == {
        (0, 0, "root.1", "IO_OUTPUT"),
        (0, 1, "root.1", "IO_OUTPUT"),
    }


def test_hooks_that_were_off_begin_at_the_stated_token(daemon: Daemon) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    capture(daemon, "set", "--ops", "root.0", "--io", "output")
    with (
        msitd.Client("r", endpoint=str(daemon.socket_dir)) as client,
        msitd.register_hook(model, client),
    ):
        for _ in range(3):
            model(torch.ones(2, 4))
        args = ("--ops", "root.1", "--io", "output", "--from-token", "5")
        capture(daemon, "set", *args)
        wait_until(lambda: not client.selects("root.0", token=5))
        for _ in range(5):
            model(torch.ones(2, 4))
    assert recorded(daemon) == {
        (0, token, "root.0" if token < 5 else "root.1", "IO_OUTPUT")
        for token in range(8)
    }


def test_a_policy_selects_the_tokens_of_a_request(daemon: Daemon) -> None:
    answer = capture(
        daemon, "set", "--request", "b", "--ops", "lm_head", "--from-token", "0"
    )
    assert answer["rules"][0]["filter"]["requests"] == ["b"]
    batches = (("a",), ("a", "b"), (), ("b", "c"), ("c",))
    with msitd.Client(run="r", endpoint=f"unix:{daemon.socket_dir}") as client:
        client.flush(WAIT_S)
        for token, requests in enumerate(batches):
            client.record_requests(requests, token=token)
            record_token(client, token)
            assert client.selects("lm_head", token=token) == ("b" in requests)
    assert recorded(daemon) == {
        (0, token, "lm_head", f"IO_{io}")
        for token in (1, 3)
        for io in ("INPUT", "OUTPUT")
    }
    # All requests are listed, also those of tokens that were not recorded.
    listed = daemon.ctl_json(
        "tensor", "list", "--run", "r", "--kind", "document", "--limit", "0"
    )["tensors"]
    assert sum(t["op"].startswith("request/") for t in listed) == 6


def test_a_request_is_selected_while_a_model_runs(daemon: Daemon) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    batches = [{"a": (0, 2)}, {"a": (0, 1), "b": (1, 2)}, {"a": (0, 2)}, {"b": (0, 2)}]
    given = iter(batches)
    with (
        msitd.Client(run="r", endpoint=f"unix:{daemon.socket_dir}") as client,
        msitd.register_hook(model, client, requests=lambda: next(given)),
        torch.no_grad(),
    ):
        model(torch.ones(2, 4))
        client.flush(WAIT_S)
        capture(daemon, "set", "--request", "b", "--from-token", "1")
        wait_until(lambda: not client.selects("root.0", token=1000))
        for _ in batches[1:]:
            model(torch.ones(2, 4))
    assert {token for _, token, _, _ in recorded(daemon)} == {0, 1, 3}
    assert {op for _, token, op, _ in recorded(daemon) if token == 3} == {
        "root",
        "root.0",
        "root.1",
    }


def test_hooks_follow_the_policy_if_the_requests_are_not_known(daemon: Daemon) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(4, 4)))

    def requests() -> dict[str, tuple[int, int]]:
        raise RuntimeError("the scheduler has ended")

    capture(daemon, "set", "--tokens", "2", "--from-token", "0")
    with (
        msitd.Client(run="r", endpoint=f"unix:{daemon.socket_dir}") as client,
        msitd.register_hook(model, client, requests=requests),
        torch.no_grad(),
    ):
        client.flush(WAIT_S)
        wait_until(lambda: not client.selects("root.0", token=0))
        for _ in range(4):
            model(torch.ones(2, 4))
    assert {op for _, token, op, _ in recorded(daemon) if token == 2} == {
        "root",
        "root.0",
        "root.0.0",
    }
