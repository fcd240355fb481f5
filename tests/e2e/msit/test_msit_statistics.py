"""`msit llm compare --stats`: dumps that contain statistics instead of tensors."""

import csv
import json
from pathlib import Path

import numpy as np
import torch
from msit_command import log_of, msit, only_file

LAYERS = 11
EPS = np.float32(2.0**-23)
STATISTICS = ("max", "min", "mean", "l2norm")
HEADINGS = [
    *("token_id", "data_id", "golden_data_path", "golden_op_type"),
    *("my_data_path", "my_op_type"),
    *(
        f"{name}_stat_{of}_error"
        for name in STATISTICS
        for of in ("absolute", "relative")
    ),
]

Numbers = tuple[float, float, float, float]


def golden_numbers(layer: int) -> Numbers:
    return (1.5 + layer, -2.0, 0.1, 3.3)


def my_numbers(layer: int) -> Numbers:
    return (1.50001 + layer, -2.0, 0.0, 3.4)


def errors_of(golden: Numbers, my: Numbers) -> list[str]:
    """Returns the cells of both errors of each, formatted as float32 like the
    original.
    """
    cells = []
    for g, m in zip(np.float32(golden), np.float32(my), strict=True):
        error = np.abs(m - g)
        cells += [str(error), str(error / np.maximum(np.abs(g), EPS))]
    return cells


def module(name: str, kind: str, *children: dict[str, object]) -> dict[str, object]:
    return {"name": name, "type": kind, "children": list(children)}


def write_torch(process: Path, rows: dict[str, list[tuple[str, int, Numbers]]]) -> Path:
    """Writes statistics of token 0: rows (Input or Output, index, numbers) by module."""
    title = "NodeName,NodeType,InputOutput,Index,DataType,Shape,Max,Min,Mean,L2Norm"
    process.mkdir(parents=True)
    for name, numbers in rows.items():
        folder = process / "0" / name
        folder.mkdir(parents=True)
        lines = [
            f'{name},Linear,{io},{index},torch.float32,"(2, 3)",'
            + ",".join(str(number) for number in of)
            for io, index, of in numbers
        ]
        (folder / "statistics.csv").write_text("\r\n".join([title, *lines, ""]))
    layers = [
        module(f"root.layers.{i}", "Layer", module(f"root.layers.{i}.fc", "Linear"))
        for i in range(LAYERS)
    ]
    tree = module("root", "Model", module("root.layers", "ModuleList", *layers))
    (process / "model_tree.json").write_text(json.dumps(tree))
    return process


def write_library(dump: Path) -> Path:
    """Writes the library's statistics of a linear operation in each layer."""
    nodes = []
    ends: dict[str, object] = {"param": {}, "inTensors": [], "outTensors": []}
    for i in range(LAYERS):
        linear = "LinearOperation"
        child = {"opName": f"{linear}_{i}_0", "opType": linear, **ends}
        nodes.append(
            {"opName": f"Layer_{i}", "opType": "Layer", **ends, "nodes": [child]}
        )
        folder = (
            dump / "tensors" / "0_4242" / "0" / f"{i}_Layer" / f"0_{linear}" / "after"
        )
        folder.mkdir(parents=True)
        named = zip(STATISTICS, my_numbers(i), strict=True)
        head = "".join(f"{name}={number}\n" for name, number in named)
        # Some probes omit lines.
        kind = "" if i % 2 else "format=2\ndtype=0\n"
        text = f"{kind}dims=2,3\n{head}$End=1\n"
        (folder / "outtensor0.bin").write_text(text)
    (dump / "model" / "4242").mkdir(parents=True)
    topology = {"modelName": "M", "inTensors": [], "outTensors": [], "nodes": nodes}
    (dump / "model" / "4242" / "M.json").write_text(json.dumps(topology))
    return dump


def compare(
    folder: Path, golden: Path, my: Path, *words: str
) -> tuple[list[tuple[str, str, str]], list[dict[str, str]]]:
    done = msit(
        folder,
        *("llm", "compare", "-gp", str(golden), "-mp", str(my)),
        *("--stats", "-o", "out", *words),
    )
    report = only_file(folder / "out")
    assert report.name.startswith("statstics_cmp_report_20")
    assert report.suffix == ".csv"
    reader = csv.DictReader(report.read_text().splitlines())
    rows = list(reader)
    assert reader.fieldnames == HEADINGS
    report.unlink()
    return log_of(done.stderr), rows


def linear_rows(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [
        row
        for row in rows
        if (row["golden_op_type"], row["my_op_type"]) == ("Linear", "LinearOperation")
    ]


def test_statistics_of_torch_are_compared_with_the_library(tmp_path: Path) -> None:
    rows = {
        f"root.layers.{i}.fc": [("Output", 0, golden_numbers(i))] for i in range(LAYERS)
    }
    golden = write_torch(tmp_path / "msit_dump_1" / "torch_tensors" / "cpu_9", rows)
    my = write_library(tmp_path / "msit_dump_2")
    _, found = compare(tmp_path, golden, my)
    linear = linear_rows(found)
    assert len(linear) == LAYERS
    for i, row in enumerate(linear):
        path = f"{golden.resolve()}/0/root.layers.{i}.fc/statistics.csv"
        assert row["golden_data_path"] == f"{path},outputs,0"
        assert row["my_data_path"].endswith(
            f"/0/{i}_Layer/0_LinearOperation/after/outtensor0.bin"
        )
        assert row["token_id"] == "0"
        assert [row[name] for name in HEADINGS[6:]] == errors_of(
            golden_numbers(i), my_numbers(i)
        )
    assert [row["data_id"] for row in found] == [str(i) for i in range(len(found))]
    _, found = compare(tmp_path, golden, my, "--compat")
    path = linear_rows(found)[-1]["golden_data_path"]
    assert path == f"{golden.resolve()}/0/root.layers.10.fc/statistics.csv"


def test_original_looks_at_the_last_row_alone(tmp_path: Path) -> None:
    other = (9.0, 9.0, 9.0, 9.0)
    rows = {
        f"root.layers.{i}.fc": [
            ("Input", 0, other),
            ("Output", 0, golden_numbers(i)),
            ("Output", 1, other),
        ]
        for i in range(LAYERS)
    }
    golden = write_torch(tmp_path / "msit_dump_1" / "torch_tensors" / "cpu_9", rows)
    my = write_library(tmp_path / "msit_dump_2")
    _, found = compare(tmp_path, golden, my)
    first = linear_rows(found)[0]
    assert [first[name] for name in HEADINGS[6:]] == errors_of(
        golden_numbers(0), my_numbers(0)
    )
    _, found = compare(tmp_path, golden, my, "--compat")
    first = linear_rows(found)[0]
    assert [first[name] for name in HEADINGS[6:]] == errors_of(other, my_numbers(0))


def test_statistics_of_two_torch_models_are_compared(tmp_path: Path) -> None:
    numbers = (1.0, -1.0, float("nan"), 1e-9)
    of = {"golden": numbers, "my": (2.0, -1.0, 0.5, 2e-9)}
    sides = [
        write_torch(
            tmp_path / f"msit_dump_{side}" / "torch_tensors" / "cpu_9",
            {
                "root.layers.0": [("Output", 0, of[side]), ("Output", 0, numbers)],
                "root.layers.0.fc": [("Input", 0, numbers), ("Output", 0, of[side])],
            },
        )
        for side in ("golden", "my")
    ]
    log, rows = compare(tmp_path, *sides, "-cl", "layer")
    warning = "--cmp-level has no effect with --stats and is ignored"
    assert ("msit_llm_logger", "WARNING", warning) in log
    assert len(rows) == 4
    wrong = [row for row in rows if row["max_stat_absolute_error"] != "0.0"]
    assert [Path(row["my_data_path"]).parent.name for row in wrong] == [
        "root.layers.0",
        "root.layers.0.fc",
    ]
    for row in wrong:
        small = str(np.float32(2e-9) - np.float32(1e-9))
        assert [row[name] for name in HEADINGS[6:]] == [
            *("1.0", "1.0", "0.0", "0.0", "", "", small),
            str((np.float32(2e-9) - np.float32(1e-9)) / EPS),
        ]
    _, rows = compare(tmp_path, *sides, "--compat")
    assert not rows


def test_tensors_beside_statistics_have_theirs(tmp_path: Path) -> None:
    golden = write_torch(
        tmp_path / "msit_dump_1" / "torch_tensors" / "cpu_9",
        {"root.layers.0.fc": [("Output", 0, (3.0, 1.0, 2.0, 4.0))]},
    )
    my = write_torch(tmp_path / "msit_dump_2" / "torch_tensors" / "cpu_9", {})
    folder = my / "0" / "root.layers.0.fc"
    folder.mkdir(parents=True)
    torch.save(torch.tensor([1.0, 2.0, 3.0]), folder / "output.pth")
    _, (row,) = compare(tmp_path, golden, my)
    assert row["my_data_path"] == f"{folder.resolve()}/output.pth"
    norm = (3.0, 1.0, 2.0, float(np.sqrt(np.float32(14))))
    assert [row[name] for name in HEADINGS[6:]] == errors_of((3.0, 1.0, 2.0, 4.0), norm)
