"""Data that could not be checked never passes, whichever way it is compared."""

import os
import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

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
    """Reports the losses of a rank's client in its stream."""
    stream = IngestStream(daemon.channel(), run, rank=rank, world_size=world)
    stream.opened()
    coverage = ingest_service_pb2.CoverageReport(**counts)
    stream.send(ingest_service_pb2.WriteChunksRequest(coverage=coverage))
    stream.finish()


def cut_tensor() -> Record:
    """Returns a tensor of which only the first part arrives, which fills a chunk."""
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
    # Within the tolerance, so that the bytes must be read.
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
    # A failing row is proven.
    record_plain(daemon, "bad", {**target, "op.0": 7.0})
    header_of(daemon, GOLDEN, "bad", expect=FAILED)


def test_a_segment_that_is_lost_is_not_expired(daemon: Daemon, tmp_path: Path) -> None:
    golden = {f"op.{i}": 1000.0 + i for i in range(3)}
    # Pairs with equal hashes need no bytes.
    record_plain(daemon, GOLDEN, {"same": 7.0, **golden})
    target = {op: value * (1 + 1e-6) for op, value in golden.items()}
    record_plain(daemon, TARGET, {"same": 7.0, **target})
    header_of(daemon, GOLDEN, TARGET, expect=PASS)
    elsewhere = tmp_path / "elsewhere"
    segments = daemon.data_dir / "segments"
    daemon.stop()
    # As if their disk was not mounted.
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
    # Not for tensors that were not selected.
    header_of(daemon, GOLDEN, TARGET, "--ops", "whole", expect=PASS)


@pytest.mark.parametrize("run", [GOLDEN, TARGET])
def test_records_that_clients_lost_are_told(daemon: Daemon, run: str) -> None:
    for name in (GOLDEN, TARGET):
        for rank in range(2):
            chunk = Chunk(name, [Record("op", float32(rank), [1])], rank=rank).pack()
            write(daemon.channel(), name, [chunk], rank=rank, world_size=2)
            report(daemon, name, rank, 2, seen_count=1)
    header_of(daemon, GOLDEN, TARGET, expect=PASS)
    report(daemon, run, 1, 2, seen_count=1001, dropped_count=990, truncated_count=10)
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
    """The contents of a run: records by rank, and the losses of its clients."""

    records: dict[int, list[Record]] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)
    incomplete: set[int] = field(default_factory=set)
    # The node that has the records of a rank and token.
    places: dict[tuple[int, int], int] = field(default_factory=dict)

    def nodes_of(self, rank: int) -> set[int]:
        return {self.places[rank, r.token] for r in self.records.get(rank, [])}

    def on_node(self, node: int, rank: int) -> list[Record]:
        records = self.records.get(rank, [])
        return [r for r in records if self.places[rank, r.token] == node]


@dataclass
class Pair:
    """Two runs, and how they are compared."""

    golden: Share
    target: Share
    # The golden rank whose records a target rank has.
    rank_map: dict[int, int] | None = None
    is_sharded: bool = False
    spoiled: list[bytes] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        """Flags of msitctl."""
        if self.rank_map is None:
            return []
        pairs = (f"{golden}={rank}" for rank, golden in self.rank_map.items())
        return ["--rank-map", ",".join(pairs)]

    @property
    def matching(self) -> query.Matching | None:
        if self.rank_map is None:
            return None
        pairs = [query.RankPair(golden, rank) for rank, golden in self.rank_map.items()]
        return query.Matching(ranks=pairs)

    @property
    def is_aligned(self) -> bool:
        """Whether each node can compare its ranks by itself."""
        return (
            self.rank_map is None
            and not self.is_sharded
            and all(
                len(self.golden.nodes_of(rank) | self.target.nodes_of(rank)) <= 1
                for rank in range(WORLD)
            )
        )


def whole_run(seed: int, factor: float, is_sharded: bool) -> dict[int, list[Record]]:
    run = {}
    for rank in range(WORLD):
        run[rank] = [
            Record(
                f"op.{i}",
                float32(factor * (1 + 1000 * seed + 100 * rank + 10 * token + i), 2),
                [2],
                token=token,
                sequence=OPS * token + i,
                # Two ranks hold the halves of one tensor.
                placement="0+2/1:S(0)" if is_sharded and i == 0 and rank < 2 else "",
            )
            for token in range(TOKENS)
            for i in range(OPS)
        ]
    return run


PLACEMENTS = ("aligned", "aligned", "apart", "ranks", "tokens")


def place(rng: random.Random, golden: Share, target: Share) -> None:
    """Distributes the ranks and tokens of both runs over nodes."""
    how = rng.choice(PLACEMENTS)
    for share in (golden, target):
        for rank in range(WORLD):
            home = rng.randrange(WORLD) if how == "ranks" else rank
            if how == "apart" and share is target and rank == 0:
                home = 1
            for token in range(TOKENS):
                is_random = how == "tokens" and rng.random() < 0.5
                node = rng.randrange(WORLD) if is_random else home
                share.places[rank, token] = node


LOSSES = (
    "none",
    "rank",
    "node",
    "token",
    "tensor",
    "dropped",
    "incomplete",
    "bytes",
    "value",
)


def with_loss(seed: int) -> Pair:
    """Returns a random pair with random losses."""
    rng = random.Random(seed)
    is_sharded = rng.random() < 0.3
    pair = Pair(
        Share(whole_run(seed, 1, is_sharded)),
        # Within the tolerance, so that the bytes must be read.
        Share(whole_run(seed, 1 + 1e-6, is_sharded)),
        is_sharded=is_sharded,
    )
    place(rng, pair.golden, pair.target)
    if not is_sharded and rng.random() < 0.3:
        ranks = list(range(WORLD))
        rng.shuffle(ranks)
        pair.rank_map = dict(enumerate(ranks))
        records = pair.target.records
        pair.target.records = {rank: records[ranks[rank]] for rank in range(WORLD)}
    for _ in range(rng.choice((1, 1, 2))):
        lose(rng, pair)
    return pair


def lose(rng: random.Random, pair: Pair) -> None:
    share = rng.choice((pair.golden, pair.target))
    rank = rng.randrange(WORLD)
    records = share.records.get(rank, [])
    loss = rng.choice(LOSSES)
    if loss == "rank":
        share.records.pop(rank, None)
    elif loss == "node":
        node = rng.randrange(WORLD)
        kept = {
            each: [
                r for r in share.records[each] if share.places[each, r.token] != node
            ]
            for each in share.records
        }
        if any(kept.values()):
            share.records = kept
    elif loss == "token":
        share.records[rank] = [r for r in records if r.token != 1]
    elif loss == "tensor" and records:
        records.pop(rng.randrange(len(records)))
    elif loss == "dropped" and records:
        share.dropped.add(rank)
    elif loss == "incomplete" and records:
        for each in (pair.golden, pair.target):
            each.incomplete.add(rank)
    elif loss == "bytes" and records:
        pair.spoiled.append(rng.choice(records).data)
    elif loss == "value" and records:
        rng.choice(records).data = float32(7.0, 2)


def send(
    daemon: Daemon,
    run: str,
    share: Share,
    ranks: list[int],
    node: int | None = None,
) -> None:
    """Records the contents of a run, or the part of a node."""
    has_any = False
    for rank in ranks:
        records = share.records.get(rank, [])
        if node is not None:
            records = share.on_node(node, rank)
        if not records:
            continue
        has_any = True
        chunks = [Chunk(run, records, rank=rank).pack()]
        # Losses of a client are reported where its last records are.
        last = share.records[rank][-1]
        is_last = node is None or share.places[rank, last.token] == node
        if rank in share.incomplete and is_last:
            chunks.append(Chunk(run, [cut_tensor()], rank=rank, sequence=1).pack())
        write(daemon.channel(), run, chunks, rank=rank, world_size=WORLD)
        if rank in share.dropped and is_last:
            report(daemon, run, rank, WORLD, seen_count=9, dropped_count=3)
    # Only sealed runs are read from other daemons.
    if has_any:
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


def compare_in_parts(
    nodes: dict[str, str],
    runs: list[str],
    folder: Path,
    matching: query.Matching | None = None,
) -> query.Comparison:
    return fleet.compare(
        golden=runs[0],
        target=runs[1],
        golden_source=nodes[runs[0]],
        target_source=nodes[runs[1]],
        matching=matching,
        engine="processes",
        workers=1,
        out=str(folder),
    ).comparison


def start_all(daemons: list[Daemon], archives: Path) -> None:
    peers = [word for each in daemons for word in ("--peers", socket_of(each))]
    for daemon in daemons:
        daemon.start(*peers, "--archives", f"file://{archives}")


def archived(daemon: Daemon, run: str, place: Path) -> str:
    daemon.ctl("run", "archive", run, f"file://{place}")
    return f"file://{place}/{run}"


# Allowed verdicts of a fan-out. It may have less information than one daemon
# that holds everything, but never contradicts that daemon.
MAY_SAY = {
    "pass": {"pass", "partial"},
    "fail": {"fail", "partial"},
    "partial": {"partial"},
}


@pytest.mark.parametrize("first_seed", [0, 10, 20, 30])
def test_every_route_gives_the_verdict_of_one_daemon(
    new_daemon: Callable[[], Daemon],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first_seed: int,
) -> None:
    """Random runs with random losses, on three nodes and on one with the same data."""
    # Workers of a comparison in parts start their own daemons.
    monkeypatch.setenv("PATH", f"{BIN_DIR}:{os.environ['PATH']}")
    archives = tmp_path / "archives"
    archives.mkdir()
    nodes = [new_daemon() for _ in range(WORLD)]
    whole = new_daemon()
    start_all([*nodes, whole], archives)
    pairs: dict[int, Pair] = {}
    for seed in range(first_seed, first_seed + 10):
        pair = pairs[seed] = with_loss(seed)
        for name, share in ((GOLDEN, pair.golden), (TARGET, pair.target)):
            send(whole, f"{name}{seed}", share, list(range(WORLD)))
            for number, node in enumerate(nodes):
                send(node, f"{name}{seed}", share, list(range(WORLD)), number)
    for daemon in (*nodes, whole):
        daemon.stop()
        for data in (data for pair in pairs.values() for data in pair.spoiled):
            # Each record is on one of the nodes.
            try:
                daemon.spoil(data)
            except AssertionError:
                continue
    start_all([*nodes, whole], archives)
    said = set()
    for seed, pair in pairs.items():
        names = [f"{GOLDEN}{seed}", f"{TARGET}{seed}"]
        expected = word(
            whole.ctl("compare", "run", *names, *pair.words, expect=None).returncode
        )
        said.add(expected)
        fan_out = over(nodes, *names, *pair.words)
        assert fan_out in MAY_SAY[expected], (seed, pair)
        if pair.is_aligned:
            assert fan_out == expected, (seed, pair)
        at = socket_of(nodes[0])
        routes = {"at": over(nodes, *names, *pair.words, "--at", at)}
        with query.connect_fleet([socket_of(node) for node in nodes]) as asked:
            holders = {name: ",".join(asked.runs.holders(name)) for name in names}
            done = asked.compare(*names, at=socket_of(nodes[1]), matching=pair.matching)
            routes["python"] = done.verdict
        if seed % 4 == 0:
            folder = tmp_path / f"parts{seed}"
            routes["parts"] = compare_in_parts(
                holders, names, folder, pair.matching
            ).verdict
        if seed % 2 == 1 and not pair.spoiled:
            urls = [archived(whole, name, archives) for name in names]
            code = whole.ctl("compare", "run", *urls, *pair.words, expect=None)
            routes["archives"] = word(code.returncode)
        assert routes == dict.fromkeys(routes, expected), (seed, pair)
    assert len(said) > 1


def test_nodes_that_are_down_are_lost_ranks(new_daemon: Callable[[], Daemon]) -> None:
    """The verdict is that of one daemon without the ranks of that node."""
    nodes = [new_daemon() for _ in range(WORLD)]
    rest = new_daemon()
    for daemon in (*nodes, rest):
        daemon.start()
    names = []
    for seed in range(100, 200):
        pair = with_loss(seed)
        shares = (pair.golden, pair.target)
        if pair.rank_map is not None or pair.is_sharded or len(names) == 8:
            continue
        if not all(any(s.records.get(r) for r in range(WORLD - 1)) for s in shares):
            continue
        # Every other pair differs in a rank that still exists.
        if len(names) % 2 == 0 and (records := pair.target.records.get(0)):
            records[0].data = float32(7.0, 2)
        names.append([f"{GOLDEN}{seed}", f"{TARGET}{seed}"])
        for name, share in zip(names[-1], shares, strict=True):
            send(rest, name, share, list(range(WORLD - 1)))
            for rank, node in enumerate(nodes):
                send(node, name, share, [rank])
    nodes[-1].stop()
    expected = {}
    found = {}
    for golden, target in names:
        whole = rest.ctl("compare", "run", golden, target, expect=None)
        expected[golden] = word(whole.returncode)
        found[golden] = over(nodes, golden, target)
    assert found == expected
    assert set(expected.values()) == {"fail", "partial"}


@pytest.mark.parametrize("loss", ["none", "dropped", "bytes", "later bytes"])
def test_every_route_says_whether_a_loss_may_precede_the_first_divergence(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss: str
) -> None:
    monkeypatch.setenv("PATH", f"{BIN_DIR}:{os.environ['PATH']}")
    for run, factor in ((GOLDEN, 1.0), (TARGET, 1 + 1e-6)):
        values = [11.0, 12.0 if run == GOLDEN else 99.0, 13.0]
        records = [
            Record("op", float32(factor * value), [1], token=token, sequence=token)
            for token, value in enumerate(values)
        ]
        chunk = Chunk(run, records).pack()
        write(daemon.channel(), run, [chunk], world_size=1)
        if loss == "dropped":
            report(daemon, run, 0, 1, seen_count=9, dropped_count=3)
        daemon.ctl("run", "seal", run)
    if "bytes" in loss:
        with stopped(daemon):
            value = 11.0 if loss == "bytes" else 13.0
            daemon.spoil(float32(value * (1 + 1e-6)))
    lines = header_of(daemon, GOLDEN, TARGET, expect=FAILED)
    (first,) = (line for line in lines if line.startswith("first divergence"))
    may_precede = loss in ("dropped", "bytes")
    assert ("at or before" in first) is may_precede
    done = compare_in_parts(
        dict.fromkeys((GOLDEN, TARGET), daemon.endpoint),
        [GOLDEN, TARGET],
        tmp_path / "parts",
    )
    assert done.first_divergence is not None
    assert done.may_diverge_before is may_precede


def test_half_a_run_does_not_pass_over_nodes(
    new_daemon: Callable[[], Daemon],
) -> None:
    """No request names the rank that only one node holds."""
    nodes = [new_daemon() for _ in range(WORLD)]
    for rank, node in enumerate(nodes):
        node.start()
        for run in (GOLDEN, TARGET):
            if run == TARGET and rank == WORLD - 1:
                continue
            chunk = Chunk(run, [Record("op", float32(rank), [1])], rank=rank).pack()
            # Only the last node has information about its rank.
            write(node.channel(), run, [chunk], rank=rank, world_size=rank + 1)
    assert over(nodes, GOLDEN, TARGET) == "partial"
    assert over(nodes, TARGET, GOLDEN) == "partial"
    # Each part reports this, too, whichever client reads it.
    nodes[0].ctl("compare", "get", "c-000001", expect=PARTIAL)
    # Ranks that were not selected are not missing.
    assert over(nodes, GOLDEN, TARGET, "--ranks", "0,1") == "pass"
