"""Comparisons with a mapping that is attached to one of the two runs."""

import json
from pathlib import Path

from chunk_bytes import INPUT, Chunk, Record, float32
from msitd import query
from wire import write

from daemon import Daemon

FAILED, USAGE = 1, 2
NOT_FOUND = 64 + 5
MEDIA_TYPE = "application/vnd.msitd.mapping+jsonl"


def reference(op: str, io: str = "output", index: object = 0) -> dict[str, object]:
    return {"op": op, "io": io, "index": index}


def pair(target: object, golden: object, reason: str = "") -> dict[str, object]:
    return {"target": target, "golden": golden, "reason": reason}


# A graph in which the activation is fused into the convolution.
FUSED = [
    pair(reference("Conv2D_3", "input"), reference("features.0", "input")),
    pair(reference("Conv2D_3"), reference("features.1"), "fused into Conv2D_3"),
    pair({"op": "MatMul_7"}, {"op": "classifier"}),
]


def lines(pairs: list[dict[str, object]]) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in pairs)


def record_run(daemon: Daemon, run: str, records: list[Record]) -> None:
    for sequence, record in enumerate(records):
        record.sequence = sequence
    write(daemon.channel(), run, [Chunk(run, records).pack()])


def record_both(daemon: Daemon, error: float = 0) -> None:
    """Records a model and its graph, whose ops have different names."""
    record_run(
        daemon,
        "model",
        [
            Record("features.0", float32(1, 2), [2], io=INPUT),
            Record("features.1", float32(3, 4), [2]),
            Record("classifier", float32(3, 4), [2], io=INPUT),
            Record("classifier", float32(5), [1]),
        ],
    )
    record_run(
        daemon,
        "graph",
        [
            Record("Conv2D_3", float32(1, 2), [2], io=INPUT),
            Record("Conv2D_3", float32(3, 4), [2]),
            Record("MatMul_7", float32(3, 4), [2], io=INPUT),
            Record("MatMul_7", float32(5 + error), [1]),
        ],
    )


RUN = ("compare", "run", "model", "graph")


def test_runs_with_other_names_are_compared_by_a_mapping(
    daemon: Daemon, tmp_path: Path
) -> None:
    record_both(daemon)
    file = tmp_path / "graph.jsonl"
    file.write_text(lines(FUSED))
    daemon.ctl(*RUN, expect=FAILED)
    daemon.ctl(*RUN, "--mapping-file", str(file))
    rows = daemon.ctl_json("compare", "rows", "c-000002")["rows"]
    assert [row["verdict"] for row in rows] == ["PASS"] * 4
    assert rows[1]["op"] == "features.1"
    assert "Conv2D_3" in rows[1]["target"]["name"]
    assert rows[1]["pairing"] == "fused into Conv2D_3"
    assert rows[3]["pairing"] == "by the mapping"

    # Equal bytes are attached once, and may be referred to by name.
    daemon.ctl(*RUN, "--mapping-file", str(file))
    (name,) = daemon.ctl("run", "attachments", "graph", "-o", "name").stdout.split()
    daemon.ctl(*RUN, "--mapping", name)
    daemon.ctl(*RUN, "--mapping", f"target:{name}")
    daemon.ctl(*RUN, "--mapping", f"golden:{name}", expect=NOT_FOUND)
    attached = daemon.ctl_json("run", "attachment", "graph", name)
    assert attached["media_type"] == MEDIA_TYPE
    stored = daemon.ctl_json("compare", "get", "c-000002")["matching"]["mapping"]
    assert stored["hash"] == attached["hash"]


def test_tampered_op_is_found_through_a_mapping(daemon: Daemon, tmp_path: Path) -> None:
    record_both(daemon, error=1)
    file = tmp_path / "graph.jsonl"
    file.write_text(lines(FUSED))
    daemon.ctl(*RUN, "--mapping-file", str(file), expect=FAILED)
    comparison = daemon.ctl_json("compare", "get", "c-000001")
    assert comparison["fail_count"] == "1" and comparison["pass_count"] == "3"
    first = comparison["first_divergence"]
    assert first["op"] == "classifier" and "MatMul_7" in first["target"]["name"]


def test_python_compares_by_a_mapping(daemon: Daemon) -> None:
    record_both(daemon)
    with query.connect(daemon.endpoint) as connection:
        connection.runs.attach(
            "model", "m", lines(FUSED[:2]).encode(), media_type=MEDIA_TYPE
        )
        mapping = query.TensorMapping("m", side="golden")
        comparison = connection.comparisons.run(
            "model", "graph", matching=query.Matching(mapping=mapping)
        )
        assert (comparison.pass_count, comparison.unmatched_count) == (2, 4)
        rows = list(connection.comparisons.rows(comparison.name))
    assert rows[1].pairing == "fused into Conv2D_3"
    assert all(
        "not in the mapping" in row.reason for row in rows if row.verdict == "unmatched"
    )


def test_lines_that_pair_nothing_are_told(daemon: Daemon, tmp_path: Path) -> None:
    record_both(daemon)
    file = tmp_path / "graph.jsonl"
    file.write_text(lines([*FUSED, pair({"op": "gone"}, {"op": "lost"})]))
    told = daemon.ctl(*RUN, "--mapping-file", str(file)).stderr
    assert told == "msitctl: note: --mapping: 1 of 4 pairs, line 4 matched no tensors\n"


def test_bad_mappings_are_refused_before_anything_runs(
    daemon: Daemon, tmp_path: Path
) -> None:
    record_both(daemon)
    file = tmp_path / "graph.jsonl"
    file.write_text(lines([FUSED[0], FUSED[1], FUSED[0]]))
    told = daemon.ctl(*RUN, "--mapping-file", str(file), expect=USAGE).stderr
    assert "--mapping-file" in told
    assert "line 3: line 1 has the same target" in told
    daemon.ctl("run", "attach", "graph", str(file), "--name", "text")
    told = daemon.ctl(*RUN, "--mapping", "text", expect=USAGE).stderr
    assert "--mapping 'text'" in told and "media type" in told
    daemon.ctl(*RUN, "--mapping", "absent", expect=NOT_FOUND)
    daemon.ctl(*RUN, "--pair-others", expect=USAGE)
    daemon.ctl(*RUN, "--mapping", "a", "--mapping-file", str(file), expect=USAGE)
    daemon.ctl(*RUN, "--mapping-file", str(tmp_path / "absent"), expect=3)
    assert daemon.ctl("compare", "list", "-o", "name").stdout == ""
    # The attachment of a refused comparison is removed again.
    for bad in ("", "\n\n", "{\n", "\x00\x01\n", '{"target":{"op":"\udcff"}}\n'):
        file.write_bytes(bad.encode(errors="surrogateescape"))
        daemon.ctl(*RUN, "--mapping-file", str(file), expect=USAGE)
    file.write_text(lines(FUSED))
    bad_rule = ("--rule", "head: nl3 <= 1")
    daemon.ctl(*RUN, "--mapping-file", str(file), *bad_rule, expect=USAGE)
    listed = daemon.ctl("run", "attachments", "graph", "-o", "name").stdout
    assert listed == "text\n"
    # An earlier attachment stays.
    daemon.ctl(*RUN, "--mapping-file", str(file))
    daemon.ctl(*RUN, "--mapping-file", str(file), *bad_rule, expect=USAGE)
    daemon.ctl(*RUN, "--mapping-file", str(file))


def test_what_neither_side_has_is_counted_and_said(
    daemon: Daemon, tmp_path: Path
) -> None:
    record_both(daemon)
    file = tmp_path / "graph.jsonl"
    file.write_text(
        lines(
            [
                pair(reference("Conv2D_3"), reference("lost")),
                pair(reference("gone"), reference("features.1")),
                pair({"op": "MatMul_7"}, {"op": "classifier"}),
            ]
        )
    )
    told = daemon.ctl(*RUN, "--mapping-file", str(file), expect=FAILED).stderr
    assert "--mapping: 2 of 3 pairs, lines 1, 2" in told
    rows = daemon.ctl_json("compare", "rows", "c-000001")["rows"]
    reasons = {
        (row["op"], row["io"]): row["reason"]
        for row in rows
        if row["verdict"] == "UNMATCHED"
    }
    absent = "what the mapping pairs it with is not there"
    assert reasons == {
        ("features.0", "IO_INPUT"): "in run model: not in the mapping",
        ("features.1", "IO_OUTPUT"): f"in run model: {absent}",
        ("Conv2D_3", "IO_INPUT"): "in run graph: not in the mapping",
        ("Conv2D_3", "IO_OUTPUT"): f"in run graph: {absent}",
    }


def test_mapping_is_followed(daemon: Daemon, tmp_path: Path) -> None:
    """Tokens of the graph arrive during the comparison."""
    file = tmp_path / "graph.jsonl"
    file.write_text(lines([pair(reference("A"), reference("a"), "same")]))
    tokens = range(3)
    record_run(daemon, "model", [Record("a", float32(1), [1], token=t) for t in tokens])
    daemon.ctl("run", "seal", "model")
    record_run(daemon, "graph", [Record("A", float32(1), [1], token=0)])
    detached = daemon.ctl(
        *(*RUN, "--mapping-file", str(file)), *("--follow", "--detach", "-o", "name")
    )
    for token in tokens[1:]:
        record = Record("A", float32(1), [1], token=token, sequence=token)
        chunk = Chunk("graph", [record], sequence=token)
        write(daemon.channel(), "graph", [chunk.pack()])
    daemon.ctl("run", "seal", "graph")
    with query.connect(daemon.endpoint) as connection:
        comparison = connection.comparisons.wait(detached.stdout.strip())
        assert (comparison.pass_count, comparison.unmatched_count) == (3, 0)
        rows = list(connection.comparisons.rows(comparison.name))
        assert [row.pairing for row in rows] == ["same"] * 3


def test_mapping_of_a_run_that_is_gone_is_said(daemon: Daemon) -> None:
    record_both(daemon)
    daemon.ctl("run", "delete", "graph", "--yes")
    daemon.ctl(*RUN, "--mapping", "target:m", expect=NOT_FOUND)
