"""Runs whose ranks hold shards, through the command line."""

import numpy as np
from chunk_bytes import INPUT, Chunk, Record
from wire import write

from daemon import Daemon

FAILED, USAGE, INVALID = 1, 2, 64 + 3
RNG = np.random.default_rng(7)
# What a layer of a model on one rank computes.
X = RNG.standard_normal((4, 8), dtype=np.float32)
COLUMN = RNG.standard_normal((8, 12), dtype=np.float32)
ROW = RNG.standard_normal((12, 8), dtype=np.float32)
HIDDEN = X @ COLUMN
Y = HIDDEN @ ROW

LAYOUTS = (
    *("--target-layout", "l.up@output=concat(-1)"),
    *("--target-layout", "l.up@weight=concat(1)"),
    *("--target-layout", "l.down@weight=concat(0)"),
    *("--target-layout", "l.down.partial=sum"),
    *("--target-layout", "*=replicated"),
)


def record_run(
    daemon: Daemon,
    run: str,
    size: int,
    *,
    tamper: dict[tuple[int, str], np.ndarray] | None = None,
    without: set[tuple[int, str]] | None = None,
) -> None:
    """Records the layer as `size` ranks of tensor parallelism hold it."""
    columns = np.array_split(COLUMN, size, axis=1)
    rows = np.array_split(ROW, size, axis=0)
    for rank in range(size):
        hidden = X @ columns[rank]
        tensors = [
            ("l.up", INPUT, X),
            ("l.up", 3, columns[rank]),
            ("l.up", 2, hidden),
            ("l.down", 3, rows[rank]),
            ("l.down.partial", 2, hidden @ rows[rank]),
            ("l.down", 2, Y),
        ]
        records = []
        for sequence, (op, io, value) in enumerate(tensors):
            if io == 2:
                value = (tamper or {}).get((rank, op), value)
                if (rank, op) in (without or set()):
                    continue
            records.append(
                Record(
                    op,
                    np.ascontiguousarray(value).tobytes(),
                    value.shape,
                    io=io,
                    sequence=sequence,
                    device=f"cuda:{rank}",
                )
            )
        chunk = Chunk(run, records, rank=rank).pack()
        write(daemon.channel(), run, [chunk], rank=rank, world_size=size)


def rows_of(daemon: Daemon, number: int) -> dict[str, dict]:
    rows = daemon.ctl_json("compare", "rows", f"c-{number:06}")["rows"]
    return {f"{row['op']} {row['io']}": row for row in rows}


def test_one_rank_is_compared_with_two_four_and_eight(daemon: Daemon) -> None:
    record_run(daemon, "tp1", 1)
    for number, size in enumerate((2, 4, 8), 1):
        run = f"tp{size}"
        record_run(daemon, run, size)
        daemon.ctl("compare", "run", "tp1", run, *LAYOUTS)
        rows = rows_of(daemon, number)
        assert len(rows) == 6
        up = rows["l.up IO_OUTPUT"]
        assert up["target"]["ranks"] == list(range(size))
        assert up["target"]["layout"] == "concat(-1)"
        assert up["target"]["shape"] == ["4", "12"]
        assert rows["l.up IO_WEIGHT"]["verdict"] == "PASS"
        assert rows["l.down.partial IO_OUTPUT"]["target"]["layout"] == "sum"
    # Without the layouts the ranks stand for themselves.
    daemon.ctl("compare", "run", "tp1", "tp2", expect=FAILED)
    # What was asked for is kept with the result.
    stored = daemon.ctl_json("compare", "get", "c-000001")["matching"]
    assert [layout["kind"] for layout in stored["target_layouts"]] == [
        "CONCAT",
        "CONCAT",
        "CONCAT",
        "SUM",
        "REPLICATED",
    ]


def test_either_side_may_be_sharded(daemon: Daemon) -> None:
    for size in (1, 2, 3):
        record_run(daemon, f"tp{size}", size)
    golden = [flag.replace("--target", "--golden") for flag in LAYOUTS]
    daemon.ctl("compare", "run", "tp2", "tp1", *golden)
    daemon.ctl("compare", "run", "tp2", "tp3", *golden, *LAYOUTS)


def test_a_tampered_shard_is_found(daemon: Daemon) -> None:
    record_run(daemon, "tp1", 1)
    wrong = np.array_split(HIDDEN, 2, axis=1)[1].copy()
    wrong[2, 3] += 1
    copy = Y.copy()
    copy[0, 0] = 9
    record_run(daemon, "tp2", 2, tamper={(1, "l.up"): wrong, (1, "l.down"): copy})
    daemon.ctl("compare", "run", "tp1", "tp2", *LAYOUTS, expect=FAILED)
    rows = rows_of(daemon, 1)
    failed = {name for name, row in rows.items() if row["verdict"] == "FAIL"}
    assert failed == {"l.up IO_OUTPUT", "l.down IO_OUTPUT"}
    # Column 3 of the second shard is column 9 of the whole.
    assert "largest difference at [2,9]" in rows["l.up IO_OUTPUT"]["reason"]
    assert (
        "target replicated of ranks 0-1: rank 1 has other bytes than rank 0"
        in rows["l.down IO_OUTPUT"]["reason"]
    )


def test_a_missing_shard_is_named(daemon: Daemon) -> None:
    record_run(daemon, "tp1", 1)
    record_run(daemon, "tp4", 4, without={(1, "l.up"), (2, "l.up")})
    daemon.ctl("compare", "run", "tp1", "tp4", *LAYOUTS, expect=FAILED)
    rows = rows_of(daemon, 1)
    up = rows.pop("l.up IO_OUTPUT")
    assert up["verdict"] == "UNMATCHED"
    assert (
        up["reason"] == "target concat(-1) of ranks 0,3: ranks 1-2 have no such tensor"
    )
    assert {row["verdict"] for row in rows.values()} == {"PASS"}


def test_bad_layouts_are_refused_before_the_run(daemon: Daemon) -> None:
    record_run(daemon, "tp1", 1)
    run = ("compare", "run", "tp1", "tp1")
    result = daemon.ctl(*run, "--golden-layout", "a=join(0)", expect=USAGE)
    assert '--golden-layout: "a=join(0)" is not PATTERN' in result.stderr
    for layout, message in (
        ("a=concat(32)", "golden_layouts[0].dim: 32 is not from -32 to 31"),
        ("a=pick(2)/2", "golden_layouts[0].rank: 2 is not from 0 to 1"),
    ):
        result = daemon.ctl(*run, "--golden-layout", layout, expect=INVALID)
        assert message in result.stderr, layout
    flags = ("--golden-layout", "*=sum", "--golden-layout", "a=sum")
    result = daemon.ctl(*run, *flags, expect=INVALID)
    assert "golden_layouts[1]: never counts" in result.stderr
    assert "comparisons" not in daemon.ctl_json("compare", "list") or (
        daemon.ctl_json("compare", "list")["comparisons"] == []
    )
