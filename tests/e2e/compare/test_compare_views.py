"""Runs that store the same values in different shapes, through the command line."""

import json
from pathlib import Path

import numpy as np
from chunk_bytes import INPUT, Chunk, Record
from wire import write

from daemon import Daemon

FAILED, USAGE = 1, 2
OUTPUT, WEIGHT = 2, 3
RNG = np.random.default_rng(11)
Tensors = list[tuple[str, int, np.ndarray]]


def record(daemon: Daemon, run: str, tensors: Tensors, *, level: int = 0) -> None:
    counts: dict[tuple[str, int], int] = {}
    records = []
    for sequence, (op, io, value) in enumerate(tensors):
        index = counts[op, io] = counts.get((op, io), -1) + 1
        records.append(
            Record(
                op,
                np.ascontiguousarray(value).tobytes(),
                value.shape,
                io=io,
                index=str(index),
                sequence=sequence,
            )
        )
    chunk = Chunk(run, records, flags=level).pack()
    write(daemon.channel(), run, [chunk])


def compare(daemon: Daemon, golden: str, target: str, *flags: str, expect: int = 0):
    result = daemon.ctl("compare", "run", golden, target, *flags, expect=expect)
    rows = daemon.ctl_json("compare", "rows", "latest")["rows"]
    return result, rows


def row_of(rows: list[dict], op: str) -> dict:
    (row,) = [row for row in rows if row["op"] == op]
    return row


def layers(x: np.ndarray, *, wrong: int | None = None) -> Tensors:
    """Returns the tensors of three layers of a model that works on the last dimension."""
    rng = np.random.default_rng(5)
    out: Tensors = []
    for number in range(3):
        weight = rng.standard_normal((8, 8), dtype=np.float32)
        out.append((f"l.{number}.fc", WEIGHT, weight))
        if number == wrong:
            weight = weight.copy()
            weight[3] *= 1.5
        out.append((f"l.{number}.fc", INPUT, x))
        x = x + np.maximum(x @ weight, 0)
        out.append((f"l.{number}.fc", OUTPUT, x))
    return out


VIEWS = (
    *("--target-view", "*@input=permute(1,0,2)"),
    *("--target-view", "*@output=permute(1,0,2)"),
)


def test_a_sequence_first_model_is_compared_with_a_batch_first_one(
    daemon: Daemon,
) -> None:
    for batch, length in ((2, 6), (4, 4)):
        x = RNG.standard_normal((batch, length, 8), dtype=np.float32)
        flipped = x.transpose(1, 0, 2)
        record(daemon, f"bsh{batch}", layers(x))
        record(daemon, f"good{batch}", layers(flipped))
        record(daemon, f"bad{batch}", layers(flipped, wrong=1))
        compare(daemon, f"bsh{batch}", f"good{batch}", expect=FAILED)
        result, rows = compare(daemon, f"bsh{batch}", f"good{batch}", *VIEWS)
        assert "PASS" in result.stdout
        shown = next(row for row in rows if row["io"] == "IO_OUTPUT")
        assert shown["target"]["view"] == "permute(1,0,2)"
        assert shown["target"]["shape"] == [str(batch), str(length), "8"]
        assert "target view permute(1,0,2)" in shown["reason"]
        result, rows = compare(
            daemon, f"bsh{batch}", f"bad{batch}", *VIEWS, expect=FAILED
        )
        failed = [row["op"] for row in rows if row["verdict"] == "FAIL"]
        assert failed[0] == "l.1.fc"
        assert "l.1.fc" in result.stdout


def projections(x: np.ndarray, *, fused: bool, wrong: bool = False) -> Tensors:
    rng = np.random.default_rng(6)
    out: Tensors = []
    for number in range(2):
        q, k, v = (rng.standard_normal((8, n), dtype=np.float32) for n in (8, 4, 4))
        if wrong and number == 1:
            k = k[:, [2, 3, 0, 1]]
        if fused:
            out.append((f"l.{number}.qkv_proj", OUTPUT, x @ np.hstack([q, k, v])))
        else:
            for name, weight in (("q", q), ("k", k), ("v", v)):
                out.append((f"l.{number}.{name}_proj", OUTPUT, x @ weight))
    return out


def record_projections(daemon: Daemon) -> None:
    x = RNG.standard_normal((2, 5, 8), dtype=np.float32)
    record(daemon, "split", projections(x, fused=False))
    record(daemon, "fused", projections(x, fused=True))
    record(daemon, "wrong", projections(x, fused=True, wrong=True))


def test_parts_of_a_fused_projection_are_compared_under_their_names(
    daemon: Daemon,
) -> None:
    record_projections(daemon)
    views = []
    for part, name in enumerate("qkv"):
        views += [
            "--target-view",
            f"*.qkv_proj@output/0=split(-1,2:1:1,{part}) as *.{name}_proj",
        ]
    compare(daemon, "split", "fused", *views)
    result, rows = compare(daemon, "split", "wrong", *views, expect=FAILED)
    failed = [row["op"] for row in rows if row["verdict"] == "FAIL"]
    assert failed == ["l.1.k_proj"]
    assert "l.1.k_proj" in result.stdout
    row = row_of(rows, "l.1.k_proj")
    assert "qkv_proj" in row["target"]["name"]
    assert row_of(rows, "l.1.qkv_proj")["verdict"] == "SKIPPED"
    # The other way round, the parts are put together.
    concat = "*.q_proj=concat(-1,*.k_proj,*.v_proj) as *.qkv_proj"
    compare(daemon, "split", "fused", "--golden-view", concat)
    _, rows = compare(daemon, "split", "wrong", "--golden-view", concat, expect=FAILED)
    assert [row["op"] for row in rows if row["verdict"] == "FAIL"] == ["l.1.qkv_proj"]


def test_lines_of_a_mapping_have_views(daemon: Daemon, tmp_path: Path) -> None:
    record_projections(daemon)
    lines = []
    for number in range(2):
        for part, name in enumerate("qkv"):
            lines.append(
                {
                    "target": {
                        "op": f"l.{number}.qkv_proj",
                        "io": "output",
                        "index": 0,
                    },
                    "golden": {
                        "op": f"l.{number}.{name}_proj",
                        "io": "output",
                        "index": 0,
                    },
                    "target_view": f"split(-1,2:1:1,{part})",
                }
            )
    mapping = tmp_path / "mapping.jsonl"
    mapping.write_text("\n".join(map(json.dumps, lines)))
    compare(daemon, "split", "fused", "--mapping-file", str(mapping))
    _, rows = compare(
        daemon, "split", "wrong", "--mapping-file", str(mapping), expect=FAILED
    )
    assert len(rows) == 6
    assert [row["op"] for row in rows if row["verdict"] == "FAIL"] == ["l.1.k_proj"]


def test_what_does_not_fit_is_reported_and_never_passes(daemon: Daemon) -> None:
    value = RNG.standard_normal((2, 3), dtype=np.float32)
    record(daemon, "a", [("op", OUTPUT, value)])
    record(daemon, "b", [("op", OUTPUT, value)])
    result, rows = compare(
        daemon, "a", "b", "--golden-view", "*=permute(1,0,2)", expect=FAILED
    )
    assert rows[0]["verdict"] == "SKIPPED"
    assert "does not fit [2,3]" in rows[0]["reason"]
    result, _ = compare(daemon, "a", "b", "--golden-view", "no@output=flatten")
    assert (
        "--golden-view 'no@output=flatten' matched no tensors, or only" in result.stderr
    )


def test_flags_that_are_not_views_are_refused(daemon: Daemon) -> None:
    record(daemon, "a", [("op", OUTPUT, np.zeros(2, np.float32))])
    run = ("compare", "run", "a", "a")
    result = daemon.ctl(*run, "--golden-view", "flatten", expect=USAGE)
    assert '--golden-view: "flatten" is not PATTERN' in result.stderr
    result = daemon.ctl(*run, "--target-view", "*=twist(1)", expect=USAGE)
    assert "--target-view '*=twist(1)'" in result.stderr
    assert "at 1 of" in result.stderr


def test_views_are_in_all_forms_of_rows(daemon: Daemon, tmp_path: Path) -> None:
    value = RNG.standard_normal((2, 3), dtype=np.float32)
    record(daemon, "a", [("op", OUTPUT, value)])
    record(daemon, "b", [("op", OUTPUT, value.T)])
    compare(daemon, "a", "b", "--target-view", "op=permute(1,0)")
    table = daemon.ctl("compare", "rows", "latest").stdout
    assert "target view permute(1,0)" in table
    for form in ("csv", "html"):
        path = tmp_path / f"report.{form}"
        daemon.ctl("compare", "report", "latest", "--format", form, "--out", str(path))
        assert "permute(1,0)" in path.read_text()
