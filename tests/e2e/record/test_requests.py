"""Requests of tokens, from the client to the command line."""

from pathlib import Path

import msitd
import numpy as np
import pytest
from msitd import query

from daemon import Daemon


def record(
    daemon: Daemon, rank: int, batches: list[dict[str, tuple[int, int]]]
) -> None:
    endpoint = str(daemon.socket_dir)
    with msitd.Client("r", rank=rank, world_size=2, endpoint=endpoint) as client:
        for batch in batches:
            client.record_requests(batch)
            client.record(np.arange(8, dtype=np.float32).reshape(4, 2), op="layer")
            client.next_token()


BATCHES = [{"a": (0, 3), "b": (3, 4)}, {"b": (0, 4)}, {}, {"a": (0, 4)}]


@pytest.fixture
def recorded(daemon: Daemon) -> Daemon:
    record(daemon, 0, BATCHES)
    record(daemon, 1, [{"c": (0, 4)}, {"a": (1, 2)}])
    return daemon


def lines(daemon: Daemon, *flags: str) -> list[list[str]]:
    columns = ("--columns", "rank,token,requests")
    text = daemon.ctl("tensor", "list", "r", *columns, "-o", "csv", *flags).stdout
    return [line.split(",") for line in text.splitlines()[1:]]


def test_tensors_are_selected_by_requests(recorded: Daemon) -> None:
    expected = [["0", "0", "a: 0:3"], ["0", "3", "a: 0:4"], ["1", "1", "a: 1:2"]]
    assert lines(recorded, "--request", "a") == expected
    both = [[*expected[0][:2], "a: 0:3; b: 3:4"], ["0", "1", "b: 0:4"], *expected[1:]]
    assert lines(recorded, "--request", "a", "--request", "b") == both
    recorded.stop()
    recorded.start()
    assert lines(recorded, "--request", "a") == expected
    assert lines(recorded, "--request", "a", "--tokens", "1-9") == expected[1:]
    nothing = recorded.ctl("tensor", "list", "r", "--request", "x")
    assert "0 of 6 tensors of run r match --request 'x'" in nothing.stderr


def test_reductions_select_by_requests(recorded: Daemon) -> None:
    stats = recorded.ctl_json("tensor", "stats", "r", "--request", "a", "--by", "rank")
    counts = {group["key"]: group["tensor_count"] for group in stats["groups"]}
    assert {key: int(count) for key, count in counts.items()} == {"0": 2, "1": 1}


def test_one_tensor_has_all_requests_of_its_token(recorded: Daemon) -> None:
    with query.connect(recorded.endpoint) as asked:
        [first, *_] = asked.tensors.list("r", query.select(requests="a"))
        assert {r.id: r.rows for r in first.requests} == {"a": "0:3"}
        rows = asked.tensors.read(first)[first.requests[0].row_slice]
        assert rows.tolist() == [[0, 1], [2, 3], [4, 5]]
        whole = asked.tensors.get(first.name)
        assert {r.id: r.rows for r in whole.requests} == {"a": "0:3", "b": "3:4"}
        [plain, *_] = asked.tensors.list("r")
        assert plain.requests == ()
    shown = recorded.ctl("tensor", "get", first.name).stdout
    assert "a: 0:3; b: 3:4" in shown


def test_comparisons_of_tokens_do_not_select_by_them(recorded: Daemon) -> None:
    with (
        query.connect(recorded.endpoint) as asked,
        pytest.raises(query.QueryError, match="rows are not compared by request"),
    ):
        asked.comparisons.run("r", "r", query.select(requests="a"))
    answer = recorded.ctl("compare", "run", "r", "r", "--request", "a", expect=2)
    assert "--request" in answer.stderr


def test_a_policy_keeps_the_requests_that_it_names(recorded: Daemon) -> None:
    with query.connect(recorded.endpoint) as asked:
        policy = asked.captures.set("r", query.select(requests=["a", "b"]))
        assert policy.rules[0].filter == query.select(requests=["a", "b"])
        assert asked.captures.get("r") == policy
        with pytest.raises(query.QueryError) as error:
            asked.captures.set("r", query.select(requests="a" * 129))
        assert error.value.code == "INVALID_ARGUMENT"


def test_requests_are_taken_whatever_the_policy_says(daemon: Daemon) -> None:
    daemon.ctl("capture", "set", "r", "--ops", "layer", "--level", "summary")
    record(daemon, 0, BATCHES[:1])
    flags = ("--request", "b", "--allow-partial")
    assert lines(daemon, *flags) == [["0", "0", "b: 3:4"]]


def test_ten_thousand_tokens_of_many_requests(daemon: Daemon, tmp_path: Path) -> None:
    endpoint = str(daemon.socket_dir)
    with msitd.Client("r", endpoint=endpoint, buffer_bytes=256 << 20) as client:
        value = np.zeros(1, dtype=np.float32)
        for step in range(10_000):
            client.record_requests(
                {f"q{step // 100 + i}": (i, i + 1) for i in range(4)}
            )
            client.record(value, op="layer")
            client.next_token()
    found = lines(daemon, "--request", "q50", "--limit", "1000")
    assert [int(token) for _, token, _ in found] == list(range(4700, 5100))
