"""Runs whose ranks hold shards, through the command line."""

import shlex

import numpy as np
import pytest
from chunk_bytes import INPUT, Chunk, Record
from wire import write

from daemon import Daemon

FAILED, USAGE = 1, 2
RNG = np.random.default_rng(7)
# The output of a layer of a model on one rank.
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
    # Without layouts, ranks are compared separately.
    daemon.ctl("compare", "run", "tp1", "tp2", expect=FAILED)
    # The request is stored with the result.
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
    # Column 3 of the second shard is column 9 of the whole tensor.
    assert "largest difference at [2,9]" in rows["l.up IO_OUTPUT"]["reason"]
    # Rows and channels also refer to the whole tensor.
    metrics = rows["l.up IO_OUTPUT"]["metrics"]
    got = {m["metric"]: float(m["value"]) for m in metrics}
    row, channel = np.linalg.norm(HIDDEN[2]), np.linalg.norm(HIDDEN[:, 9])
    assert got["row_nl2_max"] == pytest.approx(1 / row, rel=1e-5)
    assert got["channel_nl2_max"] == pytest.approx(1 / channel, rel=1e-5)
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
        ("a=concat(32)", "32 is not from -32 to 31"),
        ("a=pick(2)/2", "2 is not from 0 to 1"),
    ):
        result = daemon.ctl(*run, "--golden-layout", layout, expect=USAGE)
        assert f"--golden-layout '{layout}': {message}" in result.stderr
    flags = ("--golden-layout", "*=sum", "--golden-layout", "a=sum")
    result = daemon.ctl(*run, *flags, expect=USAGE)
    assert "--golden-layout 'a=sum': never counts" in result.stderr
    assert "comparisons" not in daemon.ctl_json("compare", "list") or (
        daemon.ctl_json("compare", "list")["comparisons"] == []
    )


def record_op(
    daemon: Daemon, run: str, shards: dict[str, list[np.ndarray]], placement: str = ""
) -> None:
    """Records outputs of ops: one shard for each rank."""
    size = max(len(of_ranks) for of_ranks in shards.values())
    for rank in range(size):
        records = [
            Record(
                op,
                np.ascontiguousarray(of_ranks[rank]).tobytes(),
                of_ranks[rank].shape,
                sequence=sequence,
                placement=placement if op.endswith("placed") else "",
            )
            for sequence, (op, of_ranks) in enumerate(shards.items())
        ]
        chunk = Chunk(run, records, rank=rank).pack()
        write(daemon.channel(), run, [chunk], rank=rank, world_size=size)


def test_fused_projections_and_zigzag_sequences(daemon: Daemon) -> None:
    qkv = RNG.standard_normal((4, 12), dtype=np.float32)
    query, key, value = qkv[:, :8], qkv[:, 8:10], qkv[:, 10:]
    halves = [np.split(part, 2, axis=1) for part in (query, key, value)]
    pieces = np.split(X, 4, axis=0)
    record_op(daemon, "one", {"qkv": [qkv], "seq": [X]})
    record_op(
        daemon,
        "two",
        {
            "qkv": [np.concatenate([part[r] for part in halves], 1) for r in (0, 1)],
            "seq": [np.concatenate([pieces[r], pieces[3 - r]]) for r in (0, 1)],
        },
    )
    right = ("--target-layout", "qkv=concat(-1,4:1:1)")
    zigzag = ("--target-layout", "seq=zigzag(0)")
    daemon.ctl("compare", "run", "one", "two", *right, *zigzag)
    assert rows_of(daemon, 1)["qkv IO_OUTPUT"]["target"]["layout"] == "concat(-1,4:1:1)"
    wrong = ("--target-layout", "qkv=concat(-1)")
    daemon.ctl("compare", "run", "one", "two", *wrong, *zigzag, expect=FAILED)


def test_pieces_without_a_layout_suggest_one(daemon: Daemon) -> None:
    shards = {}
    whole = {}
    for layer in range(3):
        whole[f"l.{layer}.up"] = [HIDDEN]
        shards[f"l.{layer}.up"] = np.split(HIDDEN, 4, axis=1)
        whole[f"l.{layer}.norm"] = [Y]
        shards[f"l.{layer}.norm"] = [Y] * 4
    record_op(daemon, "tp1", whole)
    record_op(daemon, "tp4", shards)
    outcome = daemon.ctl("compare", "run", "tp1", "tp4", expect=FAILED)
    lines = outcome.stderr.splitlines()
    begin = next(i for i, line in enumerate(lines) if "of a whole tensor" in line)
    note = lines[begin:]
    assert "3 rows have the shapes of a whole tensor and of its pieces" in note[0]
    assert note[1:] == [
        "  --target-layout 'l.*.up@output/0=concat(-1)'",
        "  --target-layout '*=replicated unless placed'",
        (
            "  concat compares the joined pieces with the whole; replicated checks "
            "that all ranks have equal tensors"
        ),
    ]
    # The printed flags are accepted.
    flags = shlex.split(" ".join(note[1:3]))
    outcome = daemon.ctl("compare", "run", "tp1", "tp4", *flags)
    assert outcome.stderr == ""
    assert {row["verdict"] for row in rows_of(daemon, 2).values()} == {"PASS"}


def test_plain_tensors_beside_placed_ones_need_no_flag(daemon: Daemon) -> None:
    record_op(daemon, "tp1", {"up.placed": [HIDDEN], "norm": [Y]})
    record_op(
        daemon,
        "tp2",
        {"up.placed": np.split(HIDDEN, 2, axis=1), "norm": [Y, Y]},
        placement="0+2/1:S(1)",
    )
    daemon.ctl("compare", "run", "tp1", "tp2")
    rows = rows_of(daemon, 1)
    assert len(rows) == 2
    assert rows["norm IO_OUTPUT"]["target"]["ranks"] == [0, 1]
    # An equivalent flag; DTensors keep their own placement.
    flag = ("--target-layout", "*=replicated unless placed")
    daemon.ctl("compare", "run", "tp1", "tp2", *flag)
    daemon.ctl("compare", "run", "tp1", "tp2", flag[0], "*=replicated", expect=FAILED)
