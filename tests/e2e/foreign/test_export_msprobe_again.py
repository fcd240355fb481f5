"""Exports of runs that were imported from folders of msprobe."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import chunk_bytes as cb
import numpy as np
import pytest
import torch
from chunk_bytes import Record
from exports import export, send

from daemon import Daemon


def saved(folder: Path, name: str, array: np.ndarray) -> dict[str, Any]:
    """Writes a file of a tensor; returns msprobe's entry for it."""
    path = folder / "dump_tensor_data" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, array)
    else:
        torch.save(torch.from_numpy(array), path)
    return {
        "type": "torch.Tensor",
        "dtype": f"torch.{array.dtype}",
        "shape": list(array.shape),
        "Max": float(array.max()),
        "Min": float(array.min()),
        "Mean": float(array.mean()),
        "Norm": float(np.linalg.norm(array)),
        "requires_grad": False,
        "data_name": name,
    }


def msprobe_tree(folder: Path, suffix: str, gradient: str = "") -> dict[str, Any]:
    """Writes a rank with tensors, a value and documents; returns its data."""
    rng = np.random.default_rng(5)

    def leaf(name: str) -> dict[str, Any]:
        array = rng.standard_normal((2, 3)).astype(np.float32)
        return saved(folder, name + suffix, array)

    fc = "Module.fc.Linear"
    half = {"type": "float", "value": 0.5}
    data = {
        f"{fc}.forward.0": {
            "input_args": [leaf(f"{fc}.forward.0.input.0"), half],
            "input_kwargs": {"scale": leaf(f"{fc}.forward.0.kwargs.scale")},
            "output": [leaf(f"{fc}.forward.0.output.0")],
            "parameters": {"weight": leaf(f"{fc}.forward.0.parameters.weight")},
        },
        "Primitive.add.0.forward": {
            "input_args": [leaf("Primitive.add.0.forward.input.0"), None],
            "input_kwargs": {},
            "output": [leaf("Primitive.add.0.forward.output.0")],
        },
    }
    if gradient:
        file = f"{gradient}.weight"
        data[gradient] = {"weight": [leaf(file)]}
    write_dump(folder, data)
    (folder / "stack.json").write_text(json.dumps({}))
    return data


def write_dump(folder: Path, data: dict[str, Any]) -> None:
    whole = {"task": "tensor", "level": "mix", "framework": "pytorch", "data": data}
    (folder / "dump.json").write_text(json.dumps(whole, indent=2))


def import_again(daemon: Daemon, out: Path) -> dict[str, Any]:
    """Exports `r`, imports that as `again`, and returns the new dump.json.

    Each name in it is a file, each file has a name, and the runs are equal.
    """
    export(daemon, out, "--format", "msprobe")
    (folder,) = out.glob("step*/rank0")
    text = (folder / "dump.json").read_text()
    files = [path.name for path in (folder / "dump_tensor_data").iterdir()]
    assert sorted(re.findall(r'"data_name": "([^"]*)"', text)) == sorted(files)
    assert not list(out.rglob(".*"))
    counts = daemon.ctl_json("run", "import", str(out), "--run", "again")
    assert counts["problem_count"] == "0"
    daemon.ctl("compare", "run", "r", "again")
    keys = [
        [
            tensor["name"].split("/", 2)[2]
            for tensor in daemon.ctl_json("tensor", "list", "--run", run)["tensors"]
        ]
        for run in ("r", "again")
    ]
    assert sorted(keys[0]) == sorted(keys[1])
    assert len(keys[0]) == len(files)
    return json.loads(text)


@pytest.mark.parametrize(
    ("suffix", "gradient", "stays"),
    [
        (".pt", "Module.fc.Linear.parameters_grad.0", True),
        (".pt", "Module.fc.Linear.parameters_grad", True),
        (".npy", "", False),
    ],
)
def test_files_of_msprobe_have_the_names_in_its_dump(
    daemon: Daemon, tmp_path: Path, suffix: str, gradient: str, stays: bool
) -> None:
    folder = tmp_path / "in/step2/rank0"
    data = msprobe_tree(folder, suffix, gradient)
    daemon.ctl("run", "import", str(tmp_path / "in"), "--run", "r")
    dump = import_again(daemon, tmp_path / "out")
    given = (tmp_path / "out/step2/rank0/dump.json").read_bytes()
    assert (given == (folder / "dump.json").read_bytes()) == stays
    (fc, api) = list(data)[:2]
    for made in (dump["data"][fc]["input_args"][1], data[fc]["input_args"][1]):
        assert made == {"type": "float", "value": 0.5}
    assert dump["data"][api]["input_args"][1] is None
    again = ("run", "export", "r", "--format", "msprobe", "--overwrite")
    told = daemon.ctl(*again, "--out", str(tmp_path / "out")).stderr
    note = "note: 1 dump.json built from the records"
    assert (note in told) == (not stays)
    assert json.loads(given) == json.loads(
        (tmp_path / "out/step2/rank0/dump.json").read_bytes()
    )


@pytest.mark.parametrize(
    "name", ["../../../../secret.pt", "/etc/secret.pt", "lost.pt", "a\nb.pt"]
)
def test_a_name_of_no_file_is_not_passed_on(
    daemon: Daemon, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "in/step0/rank0"
    data = msprobe_tree(folder, ".pt")
    leaf = dict(data["Primitive.add.0.forward"]["output"][0])
    data["Torch.exp.0.forward"] = {"output": [leaf | {"data_name": name}]}
    write_dump(folder, data)
    seal = ("--run", "r", "--seal")
    daemon.ctl("run", "import", str(tmp_path / "in"), *seal, expect=4)
    dump = import_again(daemon, tmp_path / "out")
    (exp,) = dump["data"]["Torch.exp.0.forward"]["output"]
    del leaf["data_name"]
    assert exp == leaf


def test_a_dump_that_grew_is_given_whole(daemon: Daemon, tmp_path: Path) -> None:
    folder = tmp_path / "in/step0/rank0"
    data = msprobe_tree(folder, ".pt")
    take = ("run", "import", str(tmp_path / "in"), "--run", "r", "--keep-open")
    daemon.ctl(*take)
    leaf = saved(folder, "Torch.exp.0.forward.output.0.pt", np.ones(3, np.float32))
    data["Torch.exp.0.forward"] = {"input_args": [], "output": [leaf]}
    write_dump(folder, data)
    daemon.ctl(*take, expect=4)
    dump = import_again(daemon, tmp_path / "out")
    assert set(dump["data"]) == set(data)


def test_a_dump_of_statistics_that_grew_is_given_whole(
    daemon: Daemon, tmp_path: Path
) -> None:
    folder = tmp_path / "in/step0/rank0"
    data = msprobe_tree(folder, ".pt")
    for path in (folder / "dump_tensor_data").iterdir():
        path.unlink()
    text = re.sub(r',\s*"data_name": "[^"]*"', "", json.dumps(data))
    data = json.loads(text)
    write_dump(folder, data)
    take = ("run", "import", str(tmp_path / "in"), "--run", "r", "--keep-open")
    daemon.ctl(*take)
    export(daemon, tmp_path / "first", "--format", "msprobe")
    first = (tmp_path / "first/step0/rank0/dump.json").read_bytes()
    assert first == (folder / "dump.json").read_bytes()
    data["Torch.exp.0.forward"] = {"output": data["Primitive.add.0.forward"]["output"]}
    write_dump(folder, data)
    daemon.ctl(*take, expect=4)
    export(daemon, tmp_path / "second", "--format", "msprobe")
    second = json.loads((tmp_path / "second/step0/rank0/dump.json").read_text())
    assert set(second["data"]) == set(data)


def test_a_dump_that_cannot_be_read_is_made_anew(
    daemon: Daemon, tmp_path: Path
) -> None:
    folder = tmp_path / "in/step0/rank0"
    data = msprobe_tree(folder, ".pt")
    text = (folder / "dump.json").read_text()
    (folder / "dump.json").write_text(text[: len(text) - 3])
    seal = ("--run", "r", "--seal")
    daemon.ctl("run", "import", str(tmp_path / "in"), *seal, expect=4)
    dump = import_again(daemon, tmp_path / "out")
    assert set(dump["data"]) == set(data)


GROUP = {"type": "torch.ProcessGroup", "group_ranks": [0], "group_id": "553403f9"}

VALUES = [
    {"type": "slice", "value": [1, None, 2]},
    {"type": "torch.Size", "value": [2, 3]},
    {"type": "torch.device", "value": "cuda:0"},
    {"type": "torch.memory_format", "format": "contiguous_format"},
    {"type": "torch.distributed.ReduceOp", "value": "RedOpType.SUM"},
    {"type": "int32", "value": 7},
    {"type": "ellipsis", "value": "..."},
    GROUP,
    {},
    None,
]


def distributed_tree(folder: Path) -> dict[str, Any]:
    """Writes a rank whose entries have everything that records lack."""
    statistics = {"Max": 2.5, "Min": -1.0, "Mean": 0.5, "Norm": 3.0}
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2]}
    mesh = {"device_mesh": [0, 1], "placements": [{"Shard": {"dim": 0}}]}
    shard = leaf | {"type": "DTensor"} | statistics | {"requires_grad": True} | mesh
    seed = {"Max_except_inf_nan": 2.5, "Min_except_inf_nan": -1.0}
    peer = {"class_type": "torch.distributed.P2POp", "tensor": shard, "op": "isend"}
    peer |= {"peer": 1, "tag": 0, "group_id": "553403f9"}
    secret = {"data_name": "../../../../secret.pt"}
    text = {"type": "numpy.ndarray", "dtype": "<U3", "shape": [1]}
    xor = leaf | {"md5": "0x00000000000000ff", "requires_grad": False}
    module = "Module.fc.Linear.forward.0"
    data = {
        "__main__.mine.0.forward": {
            "input_args": VALUES,
            "input_kwargs": {"group": GROUP, "ops": [peer]},
            "output": [
                leaf | statistics | {"requires_grad": False} | seed,
                xor,
                text | secret,
                {"type": "what", "value": {"in": secret}},
            ],
            "is_nan": 0,
        },
        module: {
            "input_args": [leaf | statistics | {"requires_grad": False}],
            "input_kwargs": {},
            "output": [],
            "parameters": {},
        },
        "Functional.relu.0.forward": {"input_args": [], "input_kwargs": {}},
    }
    folder.mkdir(parents=True)
    whole = {"task": "statistics", "level": "mix", "framework": "pytorch"}
    whole |= {"dump_data_dir": None, "data": data}
    (folder / "dump.json").write_text(json.dumps(whole))
    frames = ["File a.py, line 3, in f, \n y = mine(x)"]
    stacks = {"0": [list(data), frames]}
    (folder / "stack.json").write_text(json.dumps(stacks))
    tree = {
        "__main__.mine.0.forward": [module, 1],
        module: ["Module.Net.forward.0", 1],
        "Module.Net.forward.0": [None, 1],
        "Functional.relu.0.forward": [None, 0],
        "megatron_micro_step_number": 2,
    }
    (folder / "construct.json").write_text(json.dumps(tree))
    return data


def test_a_part_of_a_dump_says_what_the_whole_says(
    daemon: Daemon, tmp_path: Path
) -> None:
    data = distributed_tree(tmp_path / "in/step0/rank0")
    seal = ("--run", "r", "--seal")
    daemon.ctl("run", "import", str(tmp_path / "in"), *seal, expect=4)
    out = tmp_path / "out/step0/rank0"
    part = ("--format", "msprobe", "--ops", "__main__.*")
    export(daemon, tmp_path / "out", *part)
    mine = "__main__.mine.0.forward"
    dump = json.loads((out / "dump.json").read_text())
    # Names of missing files are removed.
    for leaf in (data[mine]["output"][2], data[mine]["output"][3]["value"]["in"]):
        del leaf["data_name"]
    assert dump["data"] == {mine: data[mine]}
    assert (dump["task"], dump["level"]) == ("statistics", "mix")
    assert list(dump["data"][mine]["output"][1]) == list(data[mine]["output"][1])
    frames = ["File a.py, line 3, in f, \n y = mine(x)"]
    assert json.loads((out / "stack.json").read_text()) == {"0": [[mine], frames]}
    assert json.loads((out / "construct.json").read_text()) == {
        mine: ["Module.fc.Linear.forward.0", 1],
        "Module.fc.Linear.forward.0": ["Module.Net.forward.0", 1],
        "Module.Net.forward.0": [None, 1],
        "megatron_micro_step_number": 2,
    }


TAKEN = '{"max": 1.5, "min": "-inf", "mean": "nan", "l2_norm": 2, "crc32": "0badcafe"}'


def test_statistics_that_others_took_stay_as_they_are(
    daemon: Daemon, tmp_path: Path
) -> None:
    record = Record("Torch.add", b"", [4], io=cb.INPUT, kind=cb.STATISTICS, value=TAKEN)
    send(daemon, "r", [replace(record, tensor_bytes=0)])
    counts = export(daemon, tmp_path / "msprobe", "--format", "msprobe")
    assert (counts["statistics_count"], counts["tensor_count"]) == (1, 0)
    text = (tmp_path / "msprobe/step0/rank0/dump.json").read_text()
    dump = json.loads(text)
    assert dump["task"] == "statistics"
    assert dump["dump_data_dir"] is None
    (leaf,) = dump["data"]["Torch.add.0.forward"]["input_args"]
    assert '"Mean": NaN' in text
    assert leaf["Min"] == -np.inf
    assert (leaf["Max"], leaf["Norm"], leaf["md5"]) == (1.5, 2, "0badcafe")
    export(daemon, tmp_path / "msit", "--format", "msit")
    (file,) = (tmp_path / "msit").rglob("statistics.csv")
    rows = list(csv.reader(file.read_text().splitlines()))
    assert rows[1][4:] == ["torch.float32", "(4,)", "1.5", "-inf", "nan", "2"]
    counts = export(daemon, tmp_path / "npy", "--format", "npy", "--kind", "all")
    assert counts["file_count"] == 1
    assert json.loads((tmp_path / "npy/tensors.jsonl").read_text())["value"] == TAKEN
