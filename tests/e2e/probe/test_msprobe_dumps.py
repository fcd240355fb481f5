"""msprobe's dumps of statistics: their pairs, and the report."""

import csv
import io
import json
from pathlib import Path
from typing import Any

from daemon import Daemon

LINEAR = "Functional.linear.0.forward"


def leaf(low: float, high: float, mean: float, norm: float) -> dict[str, Any]:
    return {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": [4],
        "Max": high,
        "Min": low,
        "Mean": mean,
        "Norm": norm,
        "requires_grad": False,
    }


def dump(folder: Path, data: dict[str, Any]) -> None:
    rank = folder / "step0" / "rank0"
    rank.mkdir(parents=True)
    whole = {"task": "statistics", "level": "L1", "framework": "pytorch"}
    text = json.dumps(whole | {"dump_data_dir": None, "data": data})
    (rank / "dump.json").write_text(text)


def import_both(daemon: Daemon, folder: Path) -> None:
    for run in ("g", "t"):
        daemon.ctl("run", "import", str(folder / run), "--run", run)


def rows_of(daemon: Daemon, *flags: str) -> dict[str, dict[str, str]]:
    report = ("compare", "report", "c-000001", "--format", "msprobe")
    out = daemon.ctl(*report, *flags).stdout
    return {row["NPU Name"]: row for row in csv.DictReader(io.StringIO(out))}


def test_statistics_have_differences_and_are_judged(
    daemon: Daemon, tmp_path: Path
) -> None:
    small = leaf(0.0, 1.0, 0.5, 1.0)
    higher = leaf(0.0, 1.5, 0.5, 1.0)

    def data(output: dict[str, Any], exp: dict[str, Any]) -> dict[str, Any]:
        return {
            LINEAR: {"input_args": [small], "output": [output]},
            "Torch.exp.0.forward": {"output": [exp]},
        }

    dump(tmp_path / "g", data(leaf(-1.0, 2.0, 0.25, 3.0), small))
    target = data(leaf(-1.0, 8.0, float("nan"), 12.0), higher)
    dump(tmp_path / "t", target | {"Torch.new.0.forward": {"output": [small]}})
    import_both(daemon, tmp_path)
    daemon.ctl("compare", "run", "g", "t", expect=1)
    rows = rows_of(daemon, "--mode", "summary")
    same, off = (rows[f"{LINEAR}.{side}.0"] for side in ("input", "output"))
    assert (same["Max diff"], same["Result"]) == ("0", "pass")
    assert (off["NPU max"], off["Bench max"]) == ("8.0", "2.0")
    assert (off["Max diff"], off["MaxRelativeErr"]) == ("6.0", "300.0%")
    assert (off["Mean diff"], off["NPU mean"]) == ("Nan", "Nan")
    assert (off["L2norm diff"], off["NormRelativeErr"]) == ("9.0", "300.0%")
    assert off["Result"] == "error"
    # msprobe's rules use only norms, and pass rows without a counterpart.
    unseen, new = (rows[f"Torch.{op}.0.forward.output.0"] for op in ("exp", "new"))
    assert (unseen["Max diff"], unseen["Result"]) == ("0.5", "warning")
    assert "The comparison fails: statistics differ: max" in unseen["Err_message"]
    assert (new["Bench max"], new["Result"]) == ("N/A", "warning")
    as_msprobe = rows_of(daemon, "--mode", "summary", "--compat")
    results = [row["Result"] for row in as_msprobe.values()]
    assert results == ["pass", "error", "pass", "pass"]
    # There are no elements from which metrics could be computed.
    assert rows_of(daemon)[f"{LINEAR}.output.0"]["Cosine"] == "unsupported"


def test_backward_calls_belong_together_by_their_order(
    daemon: Daemon, tmp_path: Path
) -> None:
    """A model of two layers, and the same model with recomputed activations."""

    def forward(call: int, value: float) -> tuple[str, dict[str, Any]]:
        name = f"Functional.linear.{call}.forward"
        return name, {"output": [leaf(0.0, value, value, value)]}

    def backward(call: int, value: float) -> tuple[str, dict[str, Any]]:
        name = f"Functional.linear.{call}.backward"
        some = leaf(0.0, value, value, value)
        return name, {"input": [some], "output": [some, None]}

    dump(
        tmp_path / "g",
        dict([forward(0, 1.0), forward(1, 2.0), backward(1, 20.0), backward(0, 10.0)]),
    )
    again = [forward(2, 2.0), backward(2, 20.0), forward(3, 1.0), backward(3, 10.0)]
    dump(tmp_path / "t", dict([forward(0, 1.0), forward(1, 2.0), *again]))
    import_both(daemon, tmp_path)
    allowed = ("--allow-unmatched", "*@output")
    daemon.ctl("compare", "run", "g", "t", *allowed)
    rows = daemon.ctl_json("compare", "rows", "c-000001")["rows"]
    pairs = {
        (row["io"], row["call"]): (row["target"]["name"], row["pairing"])
        for row in rows
        if row["io"].startswith("IO_GRAD") and row["verdict"] == "PASS"
    }
    assert {key: name.split("/")[-3] for key, (name, _) in pairs.items()} == {
        (io_, golden): target
        for io_ in ("IO_GRAD_INPUT", "IO_GRAD_OUTPUT")
        for golden, target in ((1, "2"), (0, "3"))
    }
    why = "the same place among the backward calls of its op"
    assert {pairing for _, pairing in pairs.values()} == {why}
    # Both are kept: the number is that of the call, and calls are in order.
    gradients = ("--run", "t", "--io", "grad_output", "--kind", "statistics")
    listed = daemon.ctl_json("tensor", "list", *gradients)
    order = sorted(listed["tensors"], key=lambda tensor: int(tensor["sequence"]))
    assert [tensor["call"] for tensor in order] == [2, 3]
    # msprobe does not do so for fuzzy pairs.
    daemon.ctl("compare", "run", "g", "t", "--fuzzy", *allowed)
    fuzzy = daemon.ctl_json("compare", "rows", "c-000002")["rows"]
    assert not [row for row in fuzzy if row["pairing"] == why]
    # msitd does not either if names and numbers are requested.
    daemon.ctl("compare", "run", "g", "t", "--match", "none", *allowed, expect=1)
    plain = daemon.ctl_json("compare", "rows", "c-000003")["rows"]
    alone = [row for row in plain if row["io"].startswith("IO_GRAD")]
    assert {row["verdict"] for row in alone} == {"UNMATCHED"}
    assert sorted({row["call"] for row in alone}) == [0, 1, 2, 3]
