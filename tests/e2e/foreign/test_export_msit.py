"""Exports of runs as folders of msit."""

import csv
import json
import os
import re
from pathlib import Path

import chunk_bytes as cb
import numpy as np
import pytest
import torch
from chunk_bytes import Record
from exported_records import TREE, document, module_records
from exports import EVIL_OPS, export, send

from daemon import Daemon


def module_export(daemon: Daemon, out: Path) -> tuple[Path, list[Record]]:
    """Exports a run with modules. Returns the folder of its device, and the records."""
    records = [r for r in module_records() if r.kind in (cb.TENSOR, cb.DOCUMENT)]
    send(daemon, "r", records)
    old = os.umask(0o022)
    try:
        counts = export(daemon, out, "--format", "msit", "--statistics")
    finally:
        os.umask(old)
    assert counts["tensor_count"] == len(records) - 1
    (top,) = out.iterdir()
    assert re.fullmatch(r"msit_dump_\d{8}_\d{6}", top.name)
    return top / "torch_tensors/cpu_0", records


def test_later_call_does_not_have_the_folder_of_a_part(
    daemon: Daemon, tmp_path: Path
) -> None:
    modules = [
        *TREE["modules"],
        {"op": "root.fc.1", "class": "torch.nn.ReLU", "parent": "root.fc"},
    ]
    tree = json.dumps({"version": 1, "modules": modules}).encode()
    calls = [("root.fc", 0), ("root.fc", 1), ("root.fc", 2), ("root.fc.1", 0)]
    records = [document("module_tree.json", tree)]
    records += [
        Record(
            op, np.float32([number]).tobytes(), [1], io=cb.OUTPUT, index="0", call=call
        )
        for number, (op, call) in enumerate(calls)
    ]
    send(daemon, "r", records)
    export(daemon, tmp_path / "out", "--format", "msit")
    (token,) = tmp_path.glob("out/*/torch_tensors/cpu_0/0")
    found = {
        path.parent.name: torch.load(path, weights_only=True).item()
        for path in token.rglob("*.pth")
    }
    assert found == {
        "root.fc": 0.0,
        "root.fc.call1": 1.0,
        "root.fc.2": 2.0,
        "root.fc.1": 3.0,
    }


def test_msit_folders(daemon: Daemon, tmp_path: Path) -> None:
    device, records = module_export(daemon, tmp_path / "out")
    assert json.loads((device / "model_tree.json").read_text()) == {
        "name": "root",
        "type": "Net",
        "children": [
            {
                "name": "root.fc",
                "type": "Sequential",
                "children": [{"name": "root.fc.0", "type": "Linear", "children": []}],
            }
        ],
    }
    files = sorted(str(p.relative_to(device)) for p in device.rglob("*.pth"))
    assert files == sorted(
        [
            "0/Functional.dropout.2/input_0.pth",
            "0/Functional.dropout.2/input_3_1.pth",
            "0/Functional.dropout.2/output.pth",
            "0/root.fc.0.1/output.pth",
            "0/root.fc.0/grad_input_0.pth",
            "0/root.fc.0/grad_output_0.pth",
            "0/root.fc.0/grad_weight_weight.pth",
            "0/root.fc.0/input_0.pth",
            "0/root.fc.0/output.pth",
            "0/root.fc/output_0.pth",
            "0/root.fc/output_1_0.pth",
            "weights/root.fc.0.weight.pth",
        ]
    )
    tensor = torch.load(device / "0/root.fc.0/input_0.pth", weights_only=True)
    assert tensor.requires_grad
    assert tensor.detach().numpy().tobytes() == records[1].data
    modes = {
        device.parents[1]: 0o755,
        device: 0o750,
        device / "0/root.fc.0": 0o750,
        device / "0/Functional.dropout.2": 0o755,
        device / "0/root.fc.0/output.pth": 0o644,
        device / "model_tree.json": 0o640,
        device / "0/root.fc/statistics.csv": 0o640,
    }
    assert {path: path.stat().st_mode & 0o777 for path in modes} == modes


def test_msit_statistics(daemon: Daemon, tmp_path: Path) -> None:
    device, records = module_export(daemon, tmp_path / "out")
    raw = (device / "0/root.fc/statistics.csv").read_bytes()
    assert raw.count(b"\r\n") == raw.count(b"\n") == 3
    rows = list(csv.reader(raw.decode().splitlines()))
    assert rows[0] == [
        "NodeName",
        "NodeType",
        "InputOutput",
        "Index",
        "DataType",
        "Shape",
        "Max",
        "Min",
        "Mean",
        "L2Norm",
    ]
    array = np.frombuffer(records[5].data, np.float32)
    assert rows[1][:7] == [
        "root.fc",
        "Sequential",
        "Output",
        "0",
        "torch.float32",
        "(2, 3)",
        repr(float(array.max())),
    ]
    assert float(rows[1][9]) == pytest.approx(float(np.linalg.norm(array)), rel=1e-6)


def test_statistics_are_only_for_msit(daemon: Daemon, tmp_path: Path) -> None:
    send(daemon, "r", module_records())
    daemon.ctl(
        "run",
        "export",
        "r",
        "--format",
        "pt",
        "--statistics",
        "--out",
        str(tmp_path / "x"),
        expect=2,
    )


@pytest.mark.parametrize("flags", [[], ["--overwrite"]])
def test_one_place_is_not_taken_twice(
    daemon: Daemon, tmp_path: Path, flags: list[str]
) -> None:
    data = cb.float32(1)
    records = [
        Record("a", data, [1], io=cb.INPUT, index="1.0"),
        Record("a", data, [1], io=cb.INPUT, index="1_0"),
    ]
    send(daemon, "r", records)
    counts = export(daemon, tmp_path / "x", "--format", "msit", *flags, expect=4)
    assert (counts["tensor_count"], counts["problem_count"]) == (1, 1)
    # Files of an earlier export are replaced, once.
    again = ["--format", "msit", "--overwrite"]
    assert export(daemon, tmp_path / "x", *again, expect=4) == counts


@pytest.mark.parametrize("form", ["msit", "msprobe"])
def test_folders_of_tools_hold_what_is_odd(
    daemon: Daemon, tmp_path: Path, form: str
) -> None:
    records = [
        Record(op, cb.float32(i), [1], io=cb.INPUT) for i, op in enumerate(EVIL_OPS)
    ]
    send(daemon, "r", records)
    out = tmp_path / "deep/out"
    out.parent.mkdir()
    counts = export(daemon, out, "--format", form)
    assert counts["tensor_count"] == len(records)
    files = [p for p in tmp_path.rglob("*.pt*") if "daemon" not in str(p)]
    assert len(files) == len(records)
    assert all(out in p.parents for p in files)
    values = {float(torch.load(file, weights_only=True)[0]) for file in files}
    assert values == set(range(len(records)))
    if form == "msprobe":
        dump = json.loads((out / "step0/rank0/dump.json").read_text())
        names = {r["input_args"][0]["data_name"] for r in dump["data"].values()}
        assert names == {file.name for file in files}
