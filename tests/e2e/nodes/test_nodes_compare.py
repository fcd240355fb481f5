"""Comparisons of runs whose ranks are on several daemons."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chunk_bytes import Chunk, Record, float32
from node_answers import (  # noqa: F401
    FAILED,
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

from daemon import Daemon, stopped


def test_comparison_of_aligned_runs_is_that_of_one_daemon(
    endpoints: list[str], whole: Daemon
) -> None:
    run = ("compare", "run", "g", "t", "--rows", "all")
    answer = ask_json(endpoints, *run, expect=FAILED)
    expected = whole.ctl_json(*run, expect=FAILED)
    for count in ("pass_count", "fail_count", "unmatched_count", "skipped_count"):
        assert answer["comparison"].get(count) == expected["comparison"].get(count)
    assert answer["comparison"].get("partial", False) is False
    for member in ("golden_ranks", "target_ranks"):
        assert answer["comparison"][member] == expected["comparison"][member]

    def places(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return [(r["token"], r["rank"], r["op"], r["verdict"]) for r in rows]

    assert places(answer["rows"]) == places(expected["rows"])
    first, wanted = (a["comparison"]["first_divergence"] for a in (answer, expected))
    assert places([first]) == places([wanted])
    assert answer["verdict"] == expected["verdict"] == "FAIL"
    table = ask(endpoints, "compare", "run", "g", "t", expect=FAILED).stdout
    assert "first divergence  a output/0, rank 3, token 0" in table


def test_comparison_is_found_again_by_its_name(
    endpoints: list[str], two: tuple[Daemon, Daemon]
) -> None:
    # Makes their comparison numbers differ.
    two[1].ctl("compare", "run", "g", "g", "--ranks", "2")
    name = ask_json(endpoints, "compare", "run", "g", "t", expect=FAILED)["comparison"][
        "name"
    ]
    assert name == f"c-000001@{endpoints[0]},c-000002@{endpoints[1]}"
    assert ask_json(endpoints, "compare", "get", name)["fail_count"] == "4"
    rows = ask_json(endpoints, "compare", "rows", name, "--verdict", "fail")["rows"]
    assert {row["rank"] for row in rows} == {3}
    listed = ask_json(endpoints, "compare", "list")["comparisons"]
    assert len(listed) == 3
    wrong = ask(endpoints, "compare", "get", "c-000001", expect=USAGE)
    assert "to list them: msitctl compare list" in wrong.stderr


def test_failing_rank_on_another_node_is_not_lost(
    new_daemon: Callable[[], Daemon],
) -> None:
    first, second = new_daemon(), new_daemon()
    for daemon in (first, second):
        daemon.start()
    record(first, "g", [0, 1, 2, 3])
    record(first, "t", [0, 1])
    record(second, "t", [2, 3], {2: 9.0})
    places = [socket_of(first), socket_of(second)]
    result = ask(places, "compare", "run", "g", "t", expect=PARTIAL)
    assert "ranks 2-3 of run t on " + places[1] in result.stderr
    assert "partial: 2 of 4 ranks; run t lacks ranks 2-3" in result.stdout
    assert "PARTIAL" in result.stdout
    ask(places, "compare", "run", "g", "t", "--allow-partial")


def test_no_run_lacks_ranks_that_other_nodes_hold(empty: list[Daemon]) -> None:
    """Each node has one rank of both runs, but not the same one."""
    for node, (golden, target) in zip(empty, ((0, 1), (1, 0)), strict=True):
        for run, rank in (("g", golden), ("t", target)):
            chunk = Chunk(run, [Record("a", float32(1.0), [1])], rank=rank).pack()
            write(node.channel(), run, [chunk], rank=rank, world_size=2)
    places = [socket_of(daemon) for daemon in empty]
    result = ask(places, "compare", "run", "g", "t", expect=PARTIAL)
    assert f"rank 0 of run g on {places[0]}, apart from run t" in result.stderr
    assert "rows that need ranks of several nodes were not compared" in result.stderr
    assert "partial:" not in result.stdout
    answer = ask_json(places, "compare", "run", "g", "t", "--rows", "all", expect=4)
    comparison = answer["comparison"]
    assert comparison["for_want_of_ranks_count"] == "4"
    for run in ("golden_ranks", "target_ranks"):
        assert comparison[run]["ranks_held"] == [{"first": 0, "last": 1}]
        assert comparison[run]["ranks_lacking"] == []
    lacks = {row["reason"].partition("; ")[2] for row in answer["rows"]}
    assert lacks == {
        f"run {run} lacks rank {rank} on this node" for run in "gt" for rank in (0, 1)
    }


def test_runs_on_different_nodes_compare_nothing(
    new_daemon: Callable[[], Daemon],
) -> None:
    first, second = new_daemon(), new_daemon()
    for daemon in (first, second):
        daemon.start()
    record(first, "g", [0, 1, 2, 3])
    record(second, "t", [0, 1, 2, 3])
    places = [socket_of(first), socket_of(second)]
    result = ask(places, "compare", "run", "g", "t", expect=PARTIAL)
    assert "nothing was compared" in result.stderr


def test_golden_run_on_every_node_is_counted_once(
    new_daemon: Callable[[], Daemon], whole: Daemon
) -> None:
    daemons = [new_daemon(), new_daemon()]
    for daemon, ranks in zip(daemons, ([0, 1], [2, 3]), strict=True):
        daemon.start()
        record(daemon, "g", [0, 1, 2, 3])
        record(daemon, "t", ranks, {3: 9.0})
    places = [socket_of(daemon) for daemon in daemons]
    answer = ask_json(places, "compare", "run", "g", "t", expect=FAILED)["comparison"]
    assert answer["pass_count"] == "12"
    assert answer["fail_count"] == "4"
    assert answer.get("unmatched_count", "0") == "0"
    assert answer.get("partial", False) is False


def record_tokens(daemon: Daemon, run: str, tokens: list[int]) -> None:
    """Records a few tokens of the only rank of a run."""
    records = [
        Record("a", float32(float(token + 1)), [1], token=token, sequence=token)
        for token in tokens
    ]
    write(daemon.channel(), run, [Chunk(run, records).pack()], world_size=1)


@pytest.fixture
def empty(new_daemon: Callable[[], Daemon]) -> list[Daemon]:
    daemons = [new_daemon(), new_daemon()]
    for daemon in daemons:
        daemon.start()
    return daemons


def test_a_run_that_is_copied_to_every_node_is_compared_once(
    empty: list[Daemon],
) -> None:
    for daemon in empty:
        record_tokens(daemon, "g", [0, 1])
        record_tokens(daemon, "t", [0, 1])
    places = [socket_of(daemon) for daemon in empty]
    answer = ask_json(places, "compare", "run", "g", "t")["comparison"]
    assert answer["pass_count"] == "2"
    assert "twice" not in ask(places, "compare", "run", "g", "t").stderr


def test_shards_of_several_nodes_that_nobody_compared_are_no_pass(
    empty: list[Daemon],
) -> None:
    for rank, daemon in enumerate(empty):
        for run, value in (("g", 3.0), ("t", 3.0 + 10 * rank)):
            records = [
                Record("whole", float32(7.0), [1]),
                Record(
                    "shard", float32(value), [1], sequence=1, placement="0+2/1:S(0)"
                ),
            ]
            chunk = Chunk(run, records, rank=rank).pack()
            write(daemon.channel(), run, [chunk], rank=rank, world_size=2)
    places = [socket_of(daemon) for daemon in empty]
    result = ask(places, "compare", "run", "g", "t", expect=PARTIAL)
    assert "PARTIAL" in result.stdout
    assert (
        "to compare all rows, select a node that reads from the others: --at NODE"
        in result.stderr
    )
    name = ask_json(places, "compare", "list")["comparisons"][0]["name"]
    ask(places, "compare", "get", name, expect=PARTIAL)


@pytest.mark.parametrize("target", [[[0, 1], []], [[0, 1], [2, 3]], [[2, 3], [0, 1]]])
def test_a_rank_whose_records_lie_on_two_nodes_is_not_compared(
    empty: list[Daemon], target: list[list[int]]
) -> None:
    for daemon, golden_tokens, target_tokens in zip(
        empty, ([0, 1], [2, 3]), target, strict=True
    ):
        record_tokens(daemon, "g", golden_tokens)
        if target_tokens:
            record_tokens(daemon, "t", target_tokens)
    places = [socket_of(daemon) for daemon in empty]
    result = ask(places, "compare", "run", "g", "t", expect=PARTIAL)
    assert "nothing was compared" in result.stderr
    assert "hold different records of rank 0 of run g" in result.stderr
    assert "to compare such a rank, use --at NODE" in result.stderr
    assert "twice" not in result.stderr


def test_other_ranks_than_that_on_two_nodes_are_compared(
    empty: list[Daemon],
) -> None:
    for run in ("g", "t"):
        record(empty[0], run, [0, 1])
        record(empty[1], run, [2, 3])
    # Rank 0 also has a token on the other node.
    late = Record("a", float32(1.0), [1], token=7, sequence=99)
    chunk = Chunk("g", [late]).pack()
    write(empty[1].channel(), "g", [chunk], rank=0, world_size=WORLD)
    places = [socket_of(daemon) for daemon in empty]
    said = ask(places, "compare", "run", "g", "t", expect=PARTIAL).stderr
    assert "hold different records of rank 0 of run g: not compared" in said
    assert "to leave it out, use --ranks" in said
    result = ask_json(places, "compare", "run", "g", "t", expect=PARTIAL)
    comparison = result["comparison"]
    assert comparison["pass_count"] == "12"
    assert comparison["golden_ranks"]["ranks_lacking"] == [{"first": 0, "last": 0}]
    # Each part reports it, whichever daemon reads it.
    for daemon in empty:
        daemon.ctl("compare", "get", "c-000002", expect=PARTIAL)
    ask(places, "compare", "run", "g", "t", "--ranks", "1-3")


def test_ranks_that_no_node_has_are_named(
    endpoints: list[str], two: tuple[Daemon, Daemon], whole: Daemon
) -> None:
    # The nodes then hold different ranks of the two runs.
    record(two[0], "g", [2])
    run = ("compare", "run", "g", "t", "--ranks", "7")
    expected = whole.ctl(*run, expect=None)
    result = ask(endpoints, *run, expect=expected.returncode)
    assert "no node has rank 7 of run g or t" in result.stderr


def test_comparison_with_a_node_that_is_gone_is_partial(
    endpoints: list[str], two: tuple[Daemon, Daemon]
) -> None:
    with stopped(two[1]):
        result = ask(
            endpoints,
            "--node-timeout",
            "1s",
            "compare",
            "run",
            "g",
            "t",
            expect=PARTIAL,
        )
    assert f"partial: no answer from {endpoints[1]}" in result.stderr
    assert "PARTIAL" in result.stdout


def test_a_detached_comparison_is_joined_from_all_nodes(endpoints: list[str]) -> None:
    name = ask(endpoints, "compare", "run", "g", "t", "--detach", "-o", "name").stdout
    result = ask(endpoints, "compare", "get", name.strip(), "--wait", expect=FAILED)
    assert "12 pass, 4 fail" in result.stdout
    cancelled = ask_json(endpoints, "compare", "cancel", name.strip())
    assert cancelled["state"] == "DONE"


def test_a_comparison_is_deleted_on_all_nodes(
    endpoints: list[str], two: tuple[Daemon, Daemon]
) -> None:
    made = ask_json(endpoints, "compare", "run", "g", "g")["comparison"]["name"]
    ask(endpoints, "compare", "delete", made, "--yes")
    for daemon in two:
        assert daemon.ctl_json("compare", "list").get("comparisons", []) == []


@pytest.fixture
def peers(new_daemon: Callable[[], Daemon]) -> list[str]:
    """Two daemons that may read from each other; `g` and `t` have ranks on both."""
    daemons = new_daemon(), new_daemon()
    places = [socket_of(daemon) for daemon in daemons]
    held = {"g": ([0, 1, 2], [3]), "t": ([3], [0, 1, 2])}
    for i, daemon in enumerate(daemons):
        daemon.start("--peers", places[1 - i])
        for run, ranks in held.items():
            record(daemon, run, ranks[i], {3: 9.0} if run == "t" else None)
            daemon.ctl("run", "seal", run)
    return places


@pytest.mark.parametrize("read", ["bytes", "unproven", "samples"])
def test_one_node_compares_what_lies_apart(
    peers: list[str], whole: Daemon, read: str
) -> None:
    words = ("compare", "run", "g", "t", "--rows", "all", "--read", read)
    answer = ask_json(peers, *words, "--at", peers[0], expect=FAILED)
    expected = whole.ctl_json(*words, expect=FAILED)
    assert answer["rows"] == expected["rows"]
    first = answer["comparison"]["first_divergence"]
    assert first == expected["comparison"]["first_divergence"]
    ask(peers, *words, "--at", "unix:/none", expect=USAGE)


def test_one_node_reduces_to_the_bits_of_one_store(
    peers: list[str], whole: Daemon
) -> None:
    for by in ((), ("--by", "op"), ("--by", "token")):
        words = ("tensor", "stats", "--run", "t", *by)
        answer = ask_json(peers, *words, "--at", peers[1])
        assert answer["groups"] == whole.ctl_json(*words)["groups"]


def test_a_report_is_of_the_node_that_has_the_comparison(
    peers: list[str], tmp_path: Path
) -> None:
    words = ("compare", "run", "g", "t", "--rows", "none", "--at", peers[1])
    name = ask_json(peers, *words, expect=FAILED)["comparison"]["name"]
    assert name == f"c-000001@{peers[1]}"
    reports = []
    for i, who in enumerate(([name], ["c-000001"], ["c-000001", "--at", peers[1]])):
        out = tmp_path / f"{i}.csv"
        ask(peers, "compare", "report", *who, "--out", str(out))
        reports.append(out.read_text())
    assert reports[0].count("\n") == 1 + 16
    assert reports == [reports[0]] * 3
    out = tmp_path / "page.html"
    ask(peers, "compare", "report", name, "--out", str(out))
    assert f"at local,{peers[0]}" in out.read_text() or peers[0] in out.read_text()
    gone = ask(peers, "compare", "report", "c-000009", "--out", "-", expect=NOT_FOUND)
    assert "c-000009" in gone.stderr
    lost = ("compare", "report", name, "--at", peers[0], "--out", "-")
    assert f"is not on {peers[0]}" in ask(peers, *lost, expect=USAGE).stderr

    # Now both have a comparison with that name.
    ask(peers, *words[:-1], peers[0], expect=FAILED)
    both = ask(peers, "compare", "report", "c-000001", "--out", "-", expect=USAGE)
    assert all(f"c-000001@{place}" in both.stderr for place in peers)
    joined = f"c-000001@{peers[0]},{peers[1]}"
    ask(peers, "compare", "report", joined, "--out", "-", expect=USAGE)
    ask(peers, "compare", "report", joined, "--at", peers[1], "--out", "-")
    ask(peers, "compare", "report", "c-000001", "--at", "unix:/none", expect=USAGE)
