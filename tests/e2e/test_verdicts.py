"""What could not be checked is never PASS, by whatever route it is asked for."""

import os
import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from chunk_bytes import PART, Chunk, Record, float32
from msitd import fleet, query
from msitd.v1 import ingest_service_pb2
from wire import IngestStream, write

from daemon import BIN_DIR, Daemon, stopped

PASS, FAILED, PARTIAL = 0, 1, 4
WORLD = 3
TOKENS = 2
OPS = 3
GOLDEN, TARGET = "g", "t"


def header_of(daemon: Daemon, *run: str, expect: int) -> list[str]:
    """Compares, and returns the lines above the table."""
    table = daemon.ctl("compare", "run", *run, expect=expect).stdout
    return table.splitlines()


def verdict_of(lines: list[str]) -> str:
    return next(line.split()[1] for line in lines if line.startswith("verdict"))


def report(daemon: Daemon, run: str, rank: int, world: int, **counts: int) -> None:
    """Reports what the client of a rank has lost, in its stream."""
    stream = IngestStream(daemon.channel(), run, rank=rank, world_size=world)
    stream.opened()
    coverage = ingest_service_pb2.CoverageReport(**counts)
    stream.send(ingest_service_pb2.WriteChunksRequest(coverage=coverage))
    stream.finish()


def cut_tensor() -> Record:
    """A tensor of which only the first part comes, which fills a chunk."""
    record = Record("cut", b"\x01" * PART, [PART // 4 + 1], sequence=99)
    record.tensor_bytes = PART + 4
    return record


def record_plain(daemon: Daemon, run: str, values: dict[str, float]) -> None:
    records = [
        Record(op, float32(value), [1], sequence=i)
        for i, (op, value) in enumerate(values.items())
    ]
    write(daemon.channel(), run, [Chunk(run, records).pack()])


def test_bytes_that_cannot_be_read_are_no_pass(daemon: Daemon) -> None:
    golden = {f"op.{i}": 1000.0 + i for i in range(5)}
    record_plain(daemon, GOLDEN, golden)
    # Within the tolerance, so that the bytes have to be read.
    target = {op: value * (1 + 1e-6) for op, value in golden.items()}
    record_plain(daemon, TARGET, target)
    header_of(daemon, GOLDEN, TARGET, expect=PASS)
    with stopped(daemon):
        daemon.spoil(float32(target["op.3"]))
    lines = header_of(daemon, GOLDEN, TARGET, expect=PARTIAL)
    assert verdict_of(lines) == "PARTIAL"
    assert lines[0].startswith("partial: 1 of 5 rows could not be compared; the first")
    answer = daemon.ctl_json("compare", "get", "c-000002", expect=PARTIAL)
    assert answer["not_compared_count"] == "1"
    assert answer["first_not_compared"]["op"] == "op.3"
    with query.connect(daemon.endpoint) as asked:
        comparison = asked.comparisons.get("c-000002")
        assert comparison.verdict == "partial"
        (row,) = (row for row in asked.comparisons.rows("c-000002") if row.not_compared)
        assert row.op == "op.3"
    page = daemon.ctl(
        "compare", "report", "c-000002", "--format", "html", expect=PARTIAL
    ).stdout
    assert "could not be compared" in page
    # A row that fails is proven.
    record_plain(daemon, "bad", {**target, "op.0": 7.0})
    header_of(daemon, GOLDEN, "bad", expect=FAILED)


def test_a_segment_that_is_lost_is_not_expired(daemon: Daemon, tmp_path: Path) -> None:
    golden = {f"op.{i}": 1000.0 + i for i in range(3)}
    # Equal hashes need no bytes.
    record_plain(daemon, GOLDEN, {"same": 7.0, **golden})
    target = {op: value * (1 + 1e-6) for op, value in golden.items()}
    record_plain(daemon, TARGET, {"same": 7.0, **target})
    header_of(daemon, GOLDEN, TARGET, expect=PASS)
    elsewhere = tmp_path / "elsewhere"
    segments = daemon.data_dir / "segments"
    daemon.stop()
    # As if the disk with them was not mounted.
    segments.rename(elsewhere)
    segments.mkdir()
    daemon.start()
    lines = header_of(daemon, GOLDEN, TARGET, expect=PARTIAL)
    assert lines[0].startswith("partial: 3 of 4 rows could not be compared; the first")
    status = daemon.ctl_json("node", "status")
    assert status["missing_segment_count"] == "1", status
    daemon.stop()
    for path in elsewhere.iterdir():
        path.rename(segments / path.name)
    daemon.start()
    header_of(daemon, GOLDEN, TARGET, expect=PASS)
    status = daemon.ctl_json("node", "status")
    assert status["missing_segment_count"] == "0", status


def test_skips_that_were_asked_for_stay(daemon: Daemon) -> None:
    record_plain(daemon, GOLDEN, {"a": 1, "b": 2})
    record_plain(daemon, TARGET, {"a": 1})
    lines = header_of(daemon, GOLDEN, TARGET, "--allow-unmatched", "b", expect=PASS)
    assert "partial" not in "".join(lines)


def test_tensor_that_both_runs_have_in_part_is_told(daemon: Daemon) -> None:
    for run in (GOLDEN, TARGET):
        whole = Chunk(run, [Record("whole", float32(1), [1])]).pack()
        cut = Chunk(run, [cut_tensor()], sequence=1).pack()
        write(daemon.channel(), run, [whole, cut])
    lines = header_of(daemon, GOLDEN, TARGET, expect=PARTIAL)
    assert f"partial: run {GOLDEN} lacks 1 incomplete record" in lines
    assert f"partial: run {TARGET} lacks 1 incomplete record" in lines
    # Not of what was not asked for.
    header_of(daemon, GOLDEN, TARGET, "--ops", "whole", expect=PASS)


@pytest.mark.parametrize("run", [GOLDEN, TARGET])
def test_records_that_clients_lost_are_told(daemon: Daemon, run: str) -> None:
    for name in (GOLDEN, TARGET):
        for rank in range(2):
            chunk = Chunk(name, [Record("op", float32(rank), [1])], rank=rank).pack()
            write(daemon.channel(), name, [chunk], rank=rank, world_size=2)
            report(daemon, name, rank, 2, seen_count=2000)
    header_of(daemon, GOLDEN, TARGET, expect=PASS)
    report(daemon, run, 1, 2, seen_count=2000, dropped_count=990, truncated_count=10)
    lines = header_of(daemon, GOLDEN, TARGET, expect=PARTIAL)
    assert lines[0] == f"partial: run {run} lacks 990 dropped, 10 truncated records"
    # Rank 0 has lost nothing.
    header_of(daemon, GOLDEN, TARGET, "--ranks", "0", expect=PASS)
    with query.connect(daemon.endpoint) as asked:
        comparison = asked.comparisons.get("c-000002")
        losses = comparison.golden_losses or comparison.target_losses
        assert losses is not None and losses.dropped_count == 990


@dataclass
class Share:
    """What a node holds of a run: records by rank, and what its clients lost."""

    records: dict[int, list[Record]] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    incomplete: set[int] = field(default_factory=set)


def whole_run(seed: int, factor: float) -> dict[int, list[Record]]:
    run = {}
    for rank in range(WORLD):
        run[rank] = [
            Record(
                f"op.{i}",
                float32(factor * (1 + 1000 * seed + 100 * rank + 10 * token + i), 2),
                [2],
                token=token,
                sequence=OPS * token + i,
            )
            for token in range(TOKENS)
            for i in range(OPS)
        ]
    return run


LOSSES = ("none", "rank", "node", "token", "tensor", "dropped", "incomplete", "bytes")


def with_loss(seed: int) -> tuple[dict[str, Share], list[bytes]]:
    """Returns both runs of a random pair, and bytes that are to be spoiled."""
    rng = random.Random(seed)
    spoiled: list[bytes] = []
    runs = {
        GOLDEN: Share(whole_run(seed, 1)),
        # Within the tolerance, so that the bytes have to be read.
        TARGET: Share(whole_run(seed, 1 + 1e-6)),
    }
    for _ in range(rng.choice((1, 1, 2))):
        share = runs[rng.choice((GOLDEN, TARGET))]
        rank = rng.randrange(WORLD)
        records = share.records.get(rank, [])
        loss = rng.choice(LOSSES)
        if loss in ("rank", "node"):
            share.records.pop(rank, None)
        elif loss == "token":
            share.records[rank] = [r for r in records if r.token != 1]
        elif loss == "tensor" and records:
            records.pop(rng.randrange(len(records)))
        elif loss == "dropped" and records:
            share.dropped.add(rank)
        elif loss == "incomplete" and records:
            for each in runs.values():
                each.incomplete.add(rank)
        elif loss == "bytes" and records:
            spoiled.append(rng.choice(records).data)
    return runs, spoiled


def send(daemon: Daemon, run: str, share: Share, ranks: list[int]) -> None:
    for rank in ranks:
        if not share.records.get(rank):
            continue
        chunks = [Chunk(run, share.records[rank], rank=rank).pack()]
        if rank in share.incomplete:
            chunks.append(Chunk(run, [cut_tensor()], rank=rank, sequence=1).pack())
        write(daemon.channel(), run, chunks, rank=rank, world_size=WORLD)
        if rank in share.dropped:
            report(daemon, run, rank, WORLD, seen_count=9, dropped_count=3)
    # Only sealed runs are read from other daemons.
    if any(share.records.get(rank) for rank in ranks):
        daemon.ctl("run", "seal", run)


def word(code: int) -> str:
    return {PASS: "pass", FAILED: "fail", PARTIAL: "partial"}[code]


def socket_of(daemon: Daemon) -> str:
    return f"unix:{daemon.socket_dir}/msitd.sock"


def over(nodes: list[Daemon], *words: str) -> str:
    """Compares over all nodes with msitctl, and returns the verdict."""
    endpoints = ",".join(socket_of(node) for node in nodes)
    result = subprocess.run(
        [BIN_DIR / "msitctl", "--endpoints", endpoints, "compare", "run", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode in (PASS, FAILED, PARTIAL), result.stderr
    return word(result.returncode)


def in_parts(nodes: dict[str, str], runs: list[str], folder: Path) -> str:
    done = fleet.compare(
        golden=runs[0],
        target=runs[1],
        golden_source=nodes[runs[0]],
        target_source=nodes[runs[1]],
        engine="processes",
        workers=1,
        out=str(folder),
    )
    return str(done.comparison.verdict)


def start_all(daemons: list[Daemon], archives: Path) -> None:
    peers = [word for each in daemons for word in ("--peers", socket_of(each))]
    for daemon in daemons:
        daemon.start(*peers, "--archives", f"file://{archives}")


def archived(daemon: Daemon, run: str, place: Path) -> str:
    daemon.ctl("run", "archive", run, f"file://{place}")
    return f"file://{place}/{run}"


@pytest.mark.parametrize("first_seed", [0, 8])
def test_every_route_gives_the_verdict_of_one_daemon(
    new_daemon: Callable[[], Daemon],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first_seed: int,
) -> None:
    """Random runs with random losses, on three nodes and on one that holds the same."""
    # Workers of a comparison in parts start a daemon of their own.
    monkeypatch.setenv("PATH", f"{BIN_DIR}:{os.environ['PATH']}")
    place = tmp_path / "archives"
    place.mkdir()
    nodes = [new_daemon() for _ in range(WORLD)]
    whole = new_daemon()
    start_all([*nodes, whole], place)
    pairs: dict[int, list[str]] = {}
    spoiled: list[bytes] = []
    sound = set()
    for seed in range(first_seed, first_seed + 8):
        runs, to_spoil = with_loss(seed)
        spoiled += to_spoil
        if not to_spoil:
            sound.add(seed)
        pairs[seed] = [f"{GOLDEN}{seed}", f"{TARGET}{seed}"]
        for name, share in zip(pairs[seed], runs.values(), strict=True):
            send(whole, name, share, list(range(WORLD)))
            for rank, node in enumerate(nodes):
                send(node, name, share, [rank])
    for daemon in (*nodes, whole):
        daemon.stop()
        for data in spoiled:
            # A rank lies on one of the nodes.
            try:
                daemon.spoil(data)
            except AssertionError:
                continue
    start_all([*nodes, whole], place)
    found: dict[int, dict[str, Any]] = {}
    expected = {}
    for seed, names in pairs.items():
        expected[seed] = word(
            whole.ctl("compare", "run", *names, expect=None).returncode
        )
        routes = found[seed] = {"fan-out": over(nodes, *names)}
        routes["at"] = over(nodes, *names, "--at", socket_of(nodes[0]))
        with query.connect_fleet([socket_of(node) for node in nodes]) as asked:
            holders = {name: ",".join(asked.runs.holders(name)) for name in names}
            done = asked.compare(*names, at=socket_of(nodes[1]))
            routes["python"] = done.verdict
        if seed % 4 == 0:
            routes["parts"] = in_parts(holders, names, tmp_path / f"parts{seed}")
        if seed % 2 == 1 and seed in sound:
            urls = [archived(whole, name, place) for name in names]
            code = whole.ctl("compare", "run", *urls, expect=None).returncode
            routes["archives"] = word(code)
    assert found == {
        seed: dict.fromkeys(routes, expected[seed]) for seed, routes in found.items()
    }
    assert len(set(expected.values())) > 1


def test_nodes_that_are_down_are_lost_ranks(new_daemon: Callable[[], Daemon]) -> None:
    """The verdict is that of one daemon that never had the ranks of that node."""
    nodes = [new_daemon() for _ in range(WORLD)]
    rest = new_daemon()
    for daemon in (*nodes, rest):
        daemon.start()
    pairs = []
    for seed in range(20, 28):
        runs, _ = with_loss(seed)
        # Every other pair differs in a rank that is still there.
        if seed % 2 == 0 and (records := runs[TARGET].records.get(0)):
            records[0].data = float32(7.0, 2)
        pairs.append([f"{GOLDEN}{seed}", f"{TARGET}{seed}"])
        for name, share in zip(pairs[-1], runs.values(), strict=True):
            send(rest, name, share, list(range(WORLD - 1)))
            for rank, node in enumerate(nodes):
                send(node, name, share, [rank])
    nodes[-1].stop()
    expected = {}
    found = {}
    for golden, target in pairs:
        whole = rest.ctl("compare", "run", golden, target, expect=None)
        expected[golden] = word(whole.returncode)
        found[golden] = over(nodes, golden, target)
    assert found == expected
    assert set(expected.values()) == {"fail", "partial"}


def test_half_a_run_does_not_pass_over_nodes(
    new_daemon: Callable[[], Daemon],
) -> None:
    """The rank that only one node holds is in nobody's request."""
    nodes = [new_daemon() for _ in range(WORLD)]
    for rank, node in enumerate(nodes):
        node.start()
        for run in (GOLDEN, TARGET):
            if run == TARGET and rank == WORLD - 1:
                continue
            chunk = Chunk(run, [Record("op", float32(rank), [1])], rank=rank).pack()
            # No node but the last one has heard of its rank.
            write(node.channel(), run, [chunk], rank=rank, world_size=rank + 1)
    assert over(nodes, GOLDEN, TARGET) == "partial"
    assert over(nodes, TARGET, GOLDEN) == "partial"
    # Each part says so as well, whoever reads it.
    nodes[0].ctl("compare", "get", "c-000001", expect=PARTIAL)
    # Ranks that were not asked for are not lacking.
    assert over(nodes, GOLDEN, TARGET, "--ranks", "0,1") == "pass"
