"""Comparisons of runs whose tools use different names for the same tensors."""

import json
from pathlib import Path

from chunk_bytes import INPUT, OUTPUT, Chunk, Record, float32
from wire import write

from daemon import Daemon

FAILED, USAGE = 1, 2

GRAPH = """
name: "graph_1"
op { name: "Mul_1" type: "Mul" input: "x:0" input: "y:0"
  output_desc {
    attr { key: "_fx_tensor_name" value { s: "mul-aten.mul.Tensor.OUTPUT.0" } }
  }
}
op { name: "Relu_2" type: "Relu" input: "Mul_1:0"
  output_desc {
    attr { key: "_fx_tensor_name" value { s: "relu-aten.relu.OUTPUT.0" } }
  }
}
op { name: "Sub" type: "Sub" input: "Relu_2:0" input: "x:0"
  output_desc {
    attr { key: "_fx_tensor_name" value { s: "sub-aten.sub.OUTPUT.0" } }
  }
}
"""


def record(
    daemon: Daemon, run: str, source: str, ops: dict[str, tuple[list[float], float]]
) -> None:
    """Records a run of ops, each with its inputs and its output."""
    labels = ("--label", f"source={source}") if source else ()
    daemon.ctl("run", "create", run, *labels)
    records = []
    for op, (inputs, output) in ops.items():
        for index, value in enumerate(inputs):
            records.append(
                Record(op, float32(value, value), [2], io=INPUT, index=str(index))
            )
        records.append(Record(op, float32(output, output), [2], io=OUTPUT, index="0"))
    for sequence, entry in enumerate(records):
        entry.sequence = sequence
    write(daemon.channel(), run, [Chunk(run, records).pack()])


def attach(daemon: Daemon, run: str, name: str, text: str, folder: Path) -> None:
    file = folder / "attached"
    file.write_text(text)
    daemon.ctl("run", "attach", run, str(file), "--name", name)


def record_graphs(daemon: Daemon, folder: Path, error: float = 0) -> None:
    record(
        daemon,
        "eager",
        "fx",
        {
            "mul-aten.mul.Tensor": ([2, 3], 6),
            "relu-aten.relu": ([6], 6),
            "sub-aten.sub": ([6, 2], 4),
        },
    )
    record(
        daemon,
        "graph",
        "ge",
        {
            "Mul_1Relu_2": ([2, 3], 6),
            "trans_TransData_7": ([6], 6),
            "Sub": ([6, 2], 4 + error),
        },
    )
    name = "dynamo_original_graph_1_rank_0_pid_1_ts_2.txt"
    attach(daemon, "graph", name, GRAPH, folder)


def test_graph_is_compared_with_what_it_was_made_of(
    daemon: Daemon, tmp_path: Path
) -> None:
    record_graphs(daemon, tmp_path)
    done = daemon.ctl("compare", "run", "eager", "graph")
    assert "sources fx and ge: 6 pairs of tensors by ge-fx" in done.stderr
    comparison = daemon.ctl_json("compare", "get", "c-000001")
    assert comparison["pass_count"] == "6"
    assert comparison["unmatched_count"] == "0"
    # The tensors inside the fused op, and those that GE inserted.
    assert comparison["allowed_unmatched_count"] == "4"
    rows = daemon.ctl_json("compare", "rows", "c-000001")["rows"]
    reasons = {row["pairing"] for row in rows if row["verdict"] == "PASS"}
    assert reasons == {
        "input of Mul_1 in it",
        "output of Relu_2, the last op in it",
        "stated in the graph",
    }
    skipped = [row["reason"] for row in rows if row["verdict"] == "SKIPPED"]
    assert any("inside a fused op: Mul_1Relu_2" in reason for reason in skipped)
    assert any("inserted by GE" in reason for reason in skipped)

    # No names are equal.
    daemon.ctl("compare", "run", "eager", "graph", "--match", "none", expect=FAILED)
    # In the reverse direction, the pairs are the same.
    daemon.ctl("compare", "run", "graph", "eager")


def test_what_differs_is_found_through_the_graph(
    daemon: Daemon, tmp_path: Path
) -> None:
    record_graphs(daemon, tmp_path, error=1)
    daemon.ctl("compare", "run", "eager", "graph", expect=FAILED)
    first = daemon.ctl_json("compare", "get", "c-000001")["first_divergence"]
    assert first["op"] == "sub-aten.sub" and "Sub" in first["target"]["name"]


def test_conversions_are_compared_within_their_run(
    daemon: Daemon, tmp_path: Path
) -> None:
    record_graphs(daemon, tmp_path)
    done = daemon.ctl("compare", "run", "graph", "graph")
    assert "1 pairs of tensors by ge-self" in done.stderr
    comparison = daemon.ctl_json("compare", "get", "c-000001")
    assert (comparison["pass_count"], comparison["unmatched_count"]) == ("1", "0")


def test_op_that_the_target_lacks_fails(daemon: Daemon, tmp_path: Path) -> None:
    record_graphs(daemon, tmp_path)
    record(daemon, "less", "ge", {"Mul_1Relu_2": ([2, 3], 6)})
    name = "dynamo_original_graph_1_rank_0_pid_1_ts_2.txt"
    attach(daemon, "less", name, GRAPH, tmp_path)
    for golden, target in (("eager", "less"), ("less", "eager")):
        done = daemon.ctl("compare", "run", golden, target, expect=FAILED)
        assert "3 pairs of tensors by ge-fx" in done.stderr
        assert "2 tensors need no counterpart, 3 unmatched" in done.stderr
    for comparison in ("c-000001", "c-000002"):
        rows = daemon.ctl_json("compare", "rows", comparison)["rows"]
        verdicts = [row["verdict"] for row in rows]
        assert (verdicts.count("PASS"), verdicts.count("SKIPPED")) == (3, 2)
        unmatched = [row for row in rows if row["verdict"] == "UNMATCHED"]
        assert len(unmatched) == 3
        assert {row["op"] for row in unmatched} == {"sub-aten.sub"}


def test_op_that_one_run_without_fusion_lacks_fails(daemon: Daemon) -> None:
    ops = {"Mul_1": ([2, 3], 6), "Relu_2": ([6], 6), "Sub": ([6, 2], 4)}
    record(daemon, "all", "ge", ops)
    record(daemon, "less", "ge", {"Mul_1": ([2, 3], 6)})
    done = daemon.ctl("compare", "run", "all", "less", expect=FAILED)
    assert "0 tensors need no counterpart, 5 unmatched" in done.stderr
    comparison = daemon.ctl_json("compare", "get", "c-000001")
    assert (comparison["pass_count"], comparison["unmatched_count"]) == ("3", "5")
    shown = daemon.ctl("run", "match", "all", "less").stderr
    assert "unmatched: the target run has no such op (Relu_2, Sub" in shown


def test_run_without_tensors_lacks_all(daemon: Daemon) -> None:
    record(daemon, "all", "ge", {"Mul_1": ([2, 3], 6)})
    daemon.ctl("run", "create", "none", "--label", "source=ge")
    for golden, target in (("none", "all"), ("all", "none")):
        daemon.ctl("run", "match", golden, target)
        done = daemon.ctl("compare", "run", golden, target, expect=FAILED)
        assert "0 pairs of tensors by ge-ge" in done.stderr
        assert "3 unmatched" in done.stderr


def test_match_shows_the_pairs(daemon: Daemon, tmp_path: Path) -> None:
    record_graphs(daemon, tmp_path)
    out = tmp_path / "pairs.jsonl"
    shown = daemon.ctl("run", "match", "eager", "graph", "--out", str(out))
    assert "inserted by GE; only comparable with the same run" in shown.stderr
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert {"op": "Sub"} in [line.get("target") for line in lines]
    assert any("target" not in line for line in lines)
    daemon.ctl("compare", "run", "eager", "graph", "--mapping-file", str(out))
    table = daemon.ctl("run", "match", "eager", "graph").stdout
    assert "Mul_1Relu_2 output/0" in table and "relu-aten.relu output/0" in table
    text = daemon.ctl("run", "match", "eager", "graph", "-o", "json").stdout
    assert text == out.read_text()
    csv = daemon.ctl("run", "match", "eager", "graph", "-o", "csv").stdout
    assert csv.splitlines()[0] == "target,golden,reason"


def test_what_matchers_lack_is_said(daemon: Daemon, tmp_path: Path) -> None:
    record(daemon, "eager", "fx", {"add-a": ([1], 1)})
    record(daemon, "graph", "ge", {"Add": ([1], 1)})
    done = daemon.ctl("compare", "run", "eager", "graph", expect=USAGE)
    assert "dynamo_original_graph_*.txt" in done.stderr
    both = ("eager", "graph", "--match", "ge-fx", "--fuzzy")
    assert (
        "--match cannot be combined with --fuzzy: "
        in daemon.ctl("compare", "run", *both, expect=USAGE).stderr
    )
    # Runs that need no matcher cause no note.
    record(daemon, "torch", "", {"root.a": ([1], 1)})
    assert "pairs" not in daemon.ctl("compare", "run", "torch", "torch").stderr
    assert "by names" in daemon.ctl("run", "match", "torch", "torch", expect=2).stderr


def test_fused_run_is_compared_with_one_without_fusion(
    daemon: Daemon, tmp_path: Path
) -> None:
    record_graphs(daemon, tmp_path)
    record(
        daemon,
        "unfused",
        "ge",
        {"Mul_1": ([2, 3], 6), "Relu_2": ([6], 6), "Sub": ([6, 2], 4)},
    )
    done = daemon.ctl("compare", "run", "unfused", "graph")
    assert "6 pairs of tensors by ge-ge" in done.stderr
    # A missing part is reported.
    record(daemon, "less", "ge", {"Mul_1": ([2, 3], 6), "Sub": ([6, 2], 4)})
    done = daemon.ctl("compare", "run", "less", "graph", expect=FAILED)
    assert "1 unmatched" in done.stderr


def test_mindie_is_compared_with_torch(daemon: Daemon, tmp_path: Path) -> None:
    record(daemon, "torch", "msit", {"root.a.relu": ([1], 2), "root": ([1], 2)})
    record(daemon, "engine", "mindie", {"Conv_1Relu_2": ([1], 2)})
    rt = [
        {"id": 1, "rt_layer": "A", "ge_op": "Conv_1", "fusion_op": "Conv_1Relu_2"},
        {"id": 2, "rt_layer": "B", "ge_op": "Conv_1", "fusion_op": "Conv_1Relu_2"},
    ]
    node = "%o = aten::relu(%i), scope: __module.a.relu # f.py:1:0"
    torch = [{"jit_node": node, "rt_layer": "B"}]
    attach(daemon, "engine", "mindie_rt_op_mapping.json", json.dumps(rt), tmp_path)
    name = "mindie_torch_op_mapping.json"
    attach(daemon, "engine", name, json.dumps(torch), tmp_path)
    done = daemon.ctl("compare", "run", "torch", "engine")
    assert "1 pairs of tensors by mindie" in done.stderr


def test_library_is_compared_with_torch(daemon: Daemon, tmp_path: Path) -> None:
    record(daemon, "torch", "msit", {"root.lm_head": ([1], 2)})
    record(daemon, "library", "atb", {"0_LmHead": ([1], 2)})
    nodes = [{"opName": "LmHead_0", "opType": "LmHead"}]
    topology = json.dumps({"modelName": "M", "nodes": nodes})
    attach(daemon, "library", "model/M.json", topology, tmp_path)
    attach(daemon, "library", "model/config.json", '{"hidden_size": 8}', tmp_path)
    done = daemon.ctl("compare", "run", "torch", "library", "--level", "layer")
    assert "1 pairs of tensors by torch-atb" in done.stderr
