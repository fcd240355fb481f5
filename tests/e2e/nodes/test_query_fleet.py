"""msitd.query of several daemons equals msitctl, and names missing nodes."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import node_runs
import pytest
from chunk_bytes import Chunk, Record, float32
from msitd import query
from msitd.query.merging import common, key_of_tensor, minus, union
from msitd.query.nodes import expand_hosts, parse_nodes, read_nodes
from wire import write

from daemon import Daemon, stopped

WORLD = node_runs.WORLD


def socket_of(daemon: Daemon) -> str:
    return f"unix:{daemon.socket_dir}/msitd.sock"


def send(daemon: Daemon, name: str, run: node_runs.Run, ranks: list[int]) -> None:
    node_runs.send(daemon, name, {rank: run[rank] for rank in ranks})


@pytest.fixture
def whole(new_daemon: Callable[[], Daemon]) -> Daemon:
    """One daemon that holds all ranks."""
    daemon = new_daemon()
    daemon.start()
    golden = node_runs.golden(3)
    node_runs.send(daemon, "g", golden)
    node_runs.send(daemon, "t", node_runs.target(golden, 103))
    return daemon


@pytest.fixture
def nodes(new_daemon: Callable[[], Daemon]) -> list[Daemon]:
    """Daemons that may read from each other; `g` and `t` have ranks on each."""
    daemons = [new_daemon() for _ in range(WORLD)]
    golden = node_runs.golden(3)
    target = node_runs.target(golden, 103)
    peers = [f"--peers={socket_of(daemon)}" for daemon in daemons]
    for number, daemon in enumerate(daemons):
        daemon.start(*peers)
        send(daemon, "g", golden, [number])
        send(daemon, "t", target, [(number + 1) % WORLD])
    return daemons


def connect(nodes: list[Daemon], **options: Any) -> query.Fleet:
    return query.connect_fleet(map(socket_of, nodes), **options)


def in_order(tensors: Iterable[query.Tensor]) -> list[query.Tensor]:
    return sorted(tensors, key=key_of_tensor)


def comparable(stats: query.Stats) -> list[tuple[Any, ...]]:
    """Drops the last digits of sums that were added in another order."""
    out = []
    for group in stats.groups:
        values = dict(vars(group.summary))
        for name in ("sum", "mean", "l1_norm", "l2_norm"):
            values[name] = pytest.approx(values[name], rel=1e-12, nan_ok=True)
        out.append((group.key, group.tensor_count, group.size_bytes, values))
    return out


def test_answers_are_those_of_one_daemon(nodes: list[Daemon], whole: Daemon) -> None:
    with connect(nodes) as fleet, query.connect(socket_of(whole)) as one:
        assert fleet.nodes == tuple(map(socket_of, nodes))
        assert [run.name for run in fleet.runs.list()] == ["g", "t"]
        run, expected = fleet.runs.get("g"), one.runs.get("g")
        assert run.counters == expected.counters
        assert run.ranks_held == expected.ranks_held
        assert (run.partial, run.state) == (False, "sealed")
        assert set(fleet.runs.holders("g")) == set(fleet.nodes)
        # Ops are in the order in which a store first received them.
        tensors = list(fleet.tensors.list("t"))
        assert in_order(tensors) == in_order(one.tensors.list("t"))
        assert [tensor.rank for tensor in tensors] == sorted(t.rank for t in tensors)
        for limit in (0, 7, len(tensors) + 1):
            assert list(fleet.tensors.list("t", limit=limit)) == tensors[:limit]
        where = "abs_max > 3"
        found = list(fleet.tensors.find("t", where))
        assert in_order(found) == in_order(one.tensors.find("t", where))
        assert len(found) > 3
        assert fleet.tensors.list("t").ranks() == one.tensors.list("t").ranks()
        for by in (None, "rank", "token"):
            stats = fleet.tensors.stats("t", by=by)
            assert comparable(stats) == comparable(one.tensors.stats("t", by=by))
        by_rank = fleet.tensors.stats("t", by="rank")
        assert by_rank == one.tensors.stats("t", by="rank")
        assert [rank.stored_count for rank in fleet.captures.coverage("t").ranks] == [
            rank.stored_count for rank in one.captures.coverage("t").ranks
        ]
        last = [tensor for tensor in found if tensor.has_bytes][-1]
        assert fleet.tensors.read(last).tobytes() == one.tensors.read(last).tobytes()
        assert fleet.tensors.get(last.name) == last
        assert len(fleet.statuses()) == WORLD
        assert fleet.unreachable == {}


def test_one_node_compares_what_lies_apart(nodes: list[Daemon], whole: Daemon) -> None:
    with connect(nodes) as fleet, query.connect(socket_of(whole)) as one:
        at = fleet.nodes[1]
        done = fleet.compare("g", "t", at=at)
        expected = one.comparisons.run("g", "t")
        assert done.verdict == expected.verdict
        assert "local" in done.golden_source
        rows = list(fleet.at(at).comparisons.rows(done))
        assert rows == list(one.comparisons.rows(expected))
        with pytest.raises(ValueError, match="is none of"):
            fleet.compare("g", "t", at="unix:/none")


def test_golden_run_of_another_daemon(nodes: list[Daemon]) -> None:
    with connect(nodes) as fleet:
        near = fleet.at(fleet.nodes[0]).comparisons
        source = fleet.nodes[1]
        # Rank 1 of the golden run, and of the target.
        made = near.create("g", "t", golden_source=source)
        done = near.wait(made)
        assert (done.golden_source, done.target_source) == (source, "")
        assert done.pass_count + done.fail_count > 0
        both = near.run("g", "g", golden_source=source, target_source=source)
        # One of three ranks.
        assert (both.verdict, both.fail_count) == ("partial", 0)


@pytest.mark.parametrize("way", ["stopped", "dead"])
def test_a_node_that_is_lacking_is_named(nodes: list[Daemon], way: str) -> None:
    gone = socket_of(nodes[2])
    with connect(nodes, node_timeout=10) as strict:
        everything = list(strict.tensors.list("g"))
    with (
        connect(nodes, node_timeout=1) as strict,
        connect(nodes, node_timeout=1, allow_partial=True) as lax,
    ):
        if way == "dead":
            nodes[2].kill()
            check_partial(strict, lax, gone)
            return
        with stopped(nodes[2]):
            check_partial(strict, lax, gone)
        # The node is queried again, and answers, perhaps slowly on a busy
        # machine.
        deadline = time.monotonic() + 30
        while list(lax.tensors.list("g")) != everything:
            assert time.monotonic() < deadline, lax.unreachable
        assert lax.unreachable == {}
        assert strict.runs.get("g").partial is False


def check_partial(strict: query.Fleet, lax: query.Fleet, gone: str) -> None:
    calls: list[Callable[[query.Fleet], object]] = [
        lambda fleet: list(fleet.runs.list()),
        lambda fleet: fleet.runs.get("g"),
        lambda fleet: list(fleet.tensors.list("g")),
        lambda fleet: fleet.tensors.stats("g"),
        lambda fleet: fleet.captures.coverage("g"),
    ]
    for call in calls:
        begin = time.monotonic()
        with pytest.raises(query.PartialError, match=f"no answer from {gone}") as error:
            call(strict)
        assert list(error.value.unreachable) == [gone]
        call(lax)
        assert time.monotonic() - begin < 4
        assert list(lax.unreachable) == [gone]
    run = lax.runs.get("g")
    assert run.ranks_lacking == (query.RankRange(2, 2),)
    assert run.partial
    assert {tensor.rank for tensor in lax.tensors.list("g")} == {0, 1}
    # The available data is complete.
    first = next(iter(lax.tensors.list("g")))
    assert strict.tensors.get(first.name) == first


def test_what_is_wrong_with_the_request_is_the_answer(nodes: list[Daemon]) -> None:
    with connect(nodes) as fleet:
        for call, code in (
            (lambda: fleet.runs.get("none"), "NOT_FOUND"),
            (lambda: fleet.tensors.stats("none"), "NOT_FOUND"),
            (lambda: list(fleet.tensors.find("g", "max >")), "INVALID_ARGUMENT"),
        ):
            with pytest.raises(query.QueryError) as error:
                call()
            assert error.value.code == code
            assert not isinstance(error.value, query.PartialError)
    with pytest.raises(query.QueryError, match="closed"):
        fleet.runs.get("g")


def test_a_rank_on_two_nodes_is_named(nodes: list[Daemon]) -> None:
    for daemon in nodes[:2]:
        chunk = Chunk("twice", [Record("a", float32(1.0), [1])], rank=1).pack()
        write(daemon.channel(), "twice", [chunk], rank=1, world_size=2)
    with connect(nodes) as fleet:
        with pytest.warns(UserWarning, match="both have ranks 1 of run twice"):
            stats = fleet.tensors.stats("twice")
        assert stats.groups[0].tensor_count == 2
        assert stats.partial


def test_nodes_are_named_as_for_msitctl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endpoints(text: str) -> list[str]:
        return [node.endpoint for node in parse_nodes(text)]

    assert endpoints("a:1, b:2,a:1,") == ["a:1", "b:2"]
    assert endpoints("dns:///localhost:7")[-1].endswith(":7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "node[08-10,7]x[1,2],gpu")
    assert endpoints("slurm:")[:2] == ["node08x1:7741", "node08x2:7741"]
    assert endpoints("slurm:5,z:1")[-2:] == ["gpu:5", "z:1"]
    assert len(endpoints("slurm:")) == 9
    place = tmp_path / "nodes"
    place.write_text("# all\na:1  # first\n\nb:2,c:3\n")
    assert [node.endpoint for node in read_nodes(place)] == ["a:1", "b:2", "c:3"]
    assert expand_hosts("n[1-3]") == ["n1", "n2", "n3"]
    for wrong in ("", "a", "a:0", "a@b:1", "[a:1", "slurm:0", "slurm:x"):
        with pytest.raises(ValueError):
            parse_nodes(wrong)
    for wrong in ("n[", "n[3-1]", "n[]", "n[1-9999]", "n[a]", ""):
        with pytest.raises(ValueError):
            expand_hosts(wrong)
    with pytest.raises(ValueError, match="one of"):
        query.connect_fleet("a:1", endpoints_file=place)
    monkeypatch.setenv("MSITCTL_ENDPOINTS_FILE", str(place))
    with query.connect_fleet() as fleet:
        assert fleet.nodes == ("a:1", "b:2", "c:3")


def test_sets_of_ranks() -> None:
    def ranges(*pairs: tuple[int, int]) -> tuple[query.RankRange, ...]:
        return tuple(query.RankRange(*pair) for pair in pairs)

    assert union(ranges((4, 5), (0, 1), (2, 2), (9, 8))) == ranges((0, 2), (4, 5))
    assert minus(ranges((0, 9)), ranges((2, 3), (9, 12))) == ranges((0, 1), (4, 8))
    assert common(ranges((0, 4)), ranges((3, 9))) == ranges((3, 4))
