"""`msit llm compare`: rope operations use one row of the table that torch has."""

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from msit_command import log_of, msit

LAYERS = 11
LENGTH = 16
HALF = 4
# The length of the sequence in each token.
TOKENS = {0: 5, 1: LENGTH}


def module(name: str, kind: str, *children: object) -> dict[str, object]:
    return {"name": name, "type": kind, "children": list(children)}


def table(layer: int, part: int) -> np.ndarray:
    angles = np.arange(LENGTH * HALF, dtype=np.float32).reshape(LENGTH, HALF) + layer
    return (np.cos if part == 0 else np.sin)(angles)


def write_torch(dump: Path, *, in_one: bool = False) -> Path:
    process = dump / "torch_tensors" / "cpu_99"
    layers = []
    for i in range(LAYERS):
        name = f"root.layers.{i}"
        rotary = module(f"{name}.attn.rotary_emb", "Rotary")
        layers.append(module(name, "Layer", module(f"{name}.attn", "Attn", rotary)))
        for token in TOKENS:
            (process / str(token) / name).mkdir(parents=True)
            torch.save(torch.full((3,), i), process / str(token) / name / "output.pth")
            folder = process / str(token) / f"{name}.attn.rotary_emb"
            folder.mkdir(parents=True)
            cos, sin = (torch.from_numpy(table(i, part)) for part in (0, 1))
            if in_one:
                torch.save(torch.stack([cos, sin], -1), folder / "output.pth")
            else:
                torch.save(cos[None, None], folder / "output_0.pth")
                torch.save(sin[None, None], folder / "output_1.pth")
    tree = module("root", "Model", module("root.layers", "ModuleList", *layers))
    (process / "model_tree.json").write_text(json.dumps(tree))
    return process


def save(path: Path, array: np.ndarray, kind: int = 0) -> None:
    dims = ",".join(str(dim) for dim in array.shape)
    head = f"format=2\ndtype={kind}\ndims={dims}\n$End=1\n".encode()
    path.write_bytes(head + np.ascontiguousarray(array).tobytes())


def write_library(dump: Path, *, repeats: int = 1, error: float = 0) -> Path:
    nodes = []
    for i in range(LAYERS):
        rope = {"opName": f"RopeOperation_{i}_0_0", "opType": "RopeOperation"}
        attention = {"opName": f"Attn_{i}_0", "opType": "Attn", "nodes": [rope]}
        nodes.append({"opName": f"Layer_{i}", "opType": "Layer", "nodes": [attention]})
        for token, length in TOKENS.items():
            layer = dump / "tensors" / "0_4242" / str(token) / f"{i}_Layer"
            (layer / "after").mkdir(parents=True)
            save(layer / "after/outtensor0.bin", np.full((3,), i, np.int64), kind=9)
            folder = layer / "0_Attn/0_RopeOperation/before"
            folder.mkdir(parents=True)
            for number in (0, 1):
                save(folder / f"intensor{number}.bin", np.zeros((1, 6), np.float32))
            for part in (0, 1):
                row = np.repeat(table(i, part)[length - 1], repeats)[None].copy()
                row[0, 0] += error
                save(folder / f"intensor{2 + part}.bin", row)
            save(folder / "intensor4.bin", np.array([length], np.int32), kind=3)
    (dump / "model" / "4242").mkdir(parents=True)
    topology = json.dumps({"modelName": "M", "nodes": nodes})
    (dump / "model" / "4242" / "M.json").write_text(topology)
    return dump


def compare(folder: Path, golden: Path, my: Path) -> tuple[list[dict[str, str]], str]:
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    done = msit(
        folder,
        *("llm", "compare", "-gp", str(golden), "-mp", str(my), "-cl", "api"),
        *("-o", "out"),
        environment={"TMPDIR": str(temporary)},
    )
    assert not os.listdir(temporary)
    (report,) = (folder / "out").glob("*.csv")
    rows = list(csv.DictReader(report.read_text().splitlines()))
    report.unlink()
    assert [r["data_id"] for r in rows] == [str(i) for i in range(len(rows))]
    rows = [r for r in rows if "rotary" in r["golden_data_path"] + r["my_data_path"]]
    return rows, "\n".join(text for _, _, text in log_of(done.stderr))


@pytest.mark.parametrize("in_one", [False, True])
def test_a_row_of_the_table_is_compared(tmp_path: Path, *, in_one: bool) -> None:
    golden = write_torch(tmp_path / "msit_dump_1", in_one=in_one)
    my = write_library(tmp_path / "msit_dump_2")
    rows, log = compare(tmp_path, golden, my)
    assert len(rows) == 2 * LAYERS * len(TOKENS), log
    assert {(r["max_absolute_error"], r["cmp_fail_reason"]) for r in rows} == {
        ("0.0", "")
    }
    assert {Path(r["my_data_path"]).name for r in rows} == {
        "intensor2.bin",
        "intensor3.bin",
    }
    count = len(rows) + LAYERS * len(TOKENS)
    assert f"api: {count} pairs compared" in log
    # In the reverse direction.
    rows, _ = compare(tmp_path, my, golden)
    assert len(rows) == 2 * LAYERS * len(TOKENS)
    assert {r["max_absolute_error"] for r in rows} == {"0.0"}


def test_columns_that_come_twice_are_compared_once(tmp_path: Path) -> None:
    golden = write_torch(tmp_path / "msit_dump_1")
    my = write_library(tmp_path / "msit_dump_2", repeats=2)
    rows, _ = compare(tmp_path, golden, my)
    assert len(rows) == 2 * LAYERS * len(TOKENS)
    assert {(r["max_absolute_error"], r["my_shape"]) for r in rows} == {
        ("0.0", f"[1, {HALF}]")
    }


def test_an_error_in_a_rope_is_found(tmp_path: Path) -> None:
    golden = write_torch(tmp_path / "msit_dump_1")
    my = write_library(tmp_path / "msit_dump_2", error=0.5)
    rows, _ = compare(tmp_path, golden, my)
    assert len(rows) == 2 * LAYERS * len(TOKENS)
    assert all(abs(float(r["max_absolute_error"]) - 0.5) < 1e-6 for r in rows)


def test_a_length_that_is_none_leaves_the_tables(tmp_path: Path) -> None:
    golden = write_torch(tmp_path / "msit_dump_1")
    my = write_library(tmp_path / "msit_dump_2")
    for path in my.rglob("intensor4.bin"):
        save(path, np.array([10**6], np.int32), kind=3)
    rows, log = compare(tmp_path, golden, my)
    assert not rows
    assert "tensors unmatched" in log
