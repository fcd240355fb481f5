"""Exports of runs as folders of msit and msprobe."""

import csv
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import chunk_bytes as cb
import numpy as np
import pytest
import torch
from chunk_bytes import Record
from exports import EVIL_OPS, export, send

from daemon import Daemon

PARTIAL = 4

TREE = {
    "version": 1,
    "modules": [
        {"op": "root", "class": "net.Net", "parent": None, "parameters": {}},
        {"op": "root.fc", "class": "torch.nn.Sequential", "parent": "root"},
        {"op": "root.fc.0", "class": "torch.nn.modules.Linear", "parent": "root.fc"},
    ],
}


def document(name: str, data: bytes, token: int = 0) -> Record:
    """A record of a document."""
    return Record(
        name,
        data,
        [len(data)],
        token=token,
        dtype=cb.UINT8,
        io=cb.STATE,
        index="",
        kind=cb.DOCUMENT,
    )


def value(op: str, index: str, kind: int, text: str, **more: Any) -> Record:
    """Returns a record of a value that is an input."""
    return Record(
        op,
        more.pop("data", b""),
        more.pop("shape", [0]),
        dtype=more.pop("dtype", cb.UINT8),
        io=cb.INPUT,
        index=index,
        kind=kind,
        value=text,
        **more,
    )


def module_records() -> list[Record]:
    """Returns the records of hooks for a token of a model: forward and backward."""
    rng = np.random.default_rng(2)
    made = {}

    def tensor(op: str, io: int, index: str = "0", **more: Any) -> Record:
        array = rng.standard_normal((2, 3)).astype(np.float32)
        made[op, io, index] = array
        return Record(op, array.tobytes(), [2, 3], io=io, index=index, **more)

    bad = np.asarray([1, np.nan, np.inf], np.float32)
    halves = torch.randn(50, generator=torch.Generator().manual_seed(3)).half()
    return [
        document("module_tree.json", json.dumps(TREE).encode()),
        tensor("root.fc.0", cb.INPUT, requires_grad=True, stack="a.py:1 f\nb.py:2 g"),
        tensor("root.fc.0", cb.OUTPUT),
        tensor("root.fc.0", cb.WEIGHT, "weight", requires_grad=True),
        tensor("root.fc.0", cb.OUTPUT, call=1),
        tensor("root.fc", cb.OUTPUT, "0"),
        tensor("root.fc", cb.OUTPUT, "1.0"),
        Record("Functional.dropout", bad.tobytes(), [3], io=cb.INPUT, call=2),
        Record(
            "Functional.dropout",
            halves.numpy().tobytes(),
            [50],
            dtype=10,
            io=cb.OUTPUT,
            call=2,
        ),
        Record(
            "Functional.dropout",
            np.int64([2**53 - 1, -5]).tobytes(),
            [2],
            dtype=cb.INT64,
            io=cb.INPUT,
            index="3.1",
            call=2,
        ),
        value(
            "Functional.dropout",
            "p",
            cb.NUMBER,
            "0.5",
            data=np.float64(0.5).tobytes(),
            shape=[],
            dtype=cb.FLOAT64,
            call=2,
        ),
        value("Functional.dropout", "1", cb.NONE, "None", call=2),
        value("Functional.dropout", "dtype", cb.DTYPE, "torch.float32", call=2),
        value("Functional.dropout", "mode", cb.TEXT, "näme", call=2),
        tensor("root.fc.0", 5),
        tensor("root.fc.0", 4),
        tensor("root.fc.0", 6, "weight"),
    ]


def leaf_of(record: Record, file: str) -> dict[str, Any]:
    """Returns msprobe's entry for a float32 tensor."""
    tensor = torch.frombuffer(bytearray(record.data), dtype=torch.float32)
    return {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": list(record.shape),
        "Max": tensor.max().item(),
        "Min": tensor.min().item(),
        "Mean": pytest.approx(tensor.mean().item(), rel=1e-5, nan_ok=True),
        "Norm": pytest.approx(tensor.norm().item(), rel=1e-6, nan_ok=True),
        "requires_grad": bool(record.requires_grad),
        "data_name": file,
    }


def test_msprobe_is_made_of_records(daemon: Daemon, tmp_path: Path) -> None:
    records = module_records()
    send(daemon, "r", records)
    out = tmp_path / "out"
    counts = export(daemon, out, "--format", "msprobe")
    assert counts["problem_count"] == 0
    folder = out / "step0/rank0"
    text = (folder / "dump.json").read_text()
    dump = json.loads(text)
    assert text == json.dumps(dump, indent=1)
    assert list(dump) == ["task", "level", "framework", "dump_data_dir", "data"]
    assert dump["task"] == "tensor"
    assert dump["level"] == "mix"
    assert dump["dump_data_dir"] == str(folder.resolve() / "dump_tensor_data")
    name = "Module.fc.0.Linear"
    assert list(dump["data"]) == [
        f"{name}.forward.0",
        f"{name}.forward.1",
        "Module.fc.Sequential.forward.0",
        "Functional.dropout.2.forward",
        f"{name}.backward.0",
        f"{name}.parameters_grad.0",
    ]
    linear = dump["data"][f"{name}.forward.0"]
    assert list(linear) == ["input_args", "input_kwargs", "output", "parameters"]
    file = f"{name}.forward.0.input.0.pt"
    assert linear["input_args"] == [leaf_of(records[1], file)]
    assert list(linear["input_args"][0]) == list(leaf_of(records[1], file))
    assert linear["input_kwargs"] == {}
    file = f"{name}.forward.0.parameters.weight.pt"
    assert linear["parameters"] == {"weight": leaf_of(records[3], file)}
    backward = dump["data"][f"{name}.backward.0"]
    assert list(backward) == ["input", "output"]
    file = f"{name}.backward.0.input.0.pt"
    assert backward["input"] == [leaf_of(records[14], file)]
    gradients = dump["data"][f"{name}.parameters_grad.0"]
    file = f"{name}.parameters_grad.0.weight.pt"
    assert gradients == {"weight": [leaf_of(records[16], file)]}
    outputs = dump["data"]["Module.fc.Sequential.forward.0"]["output"]
    assert outputs[1] == [
        leaf_of(records[6], "Module.fc.Sequential.forward.0.output.1.0.pt")
    ]
    dropout = dump["data"]["Functional.dropout.2.forward"]
    assert "parameters" not in dropout
    first, second, third, fourth = dropout["input_args"]
    assert '"Max": NaN' in text
    assert np.isnan(first["Norm"])
    assert second is None
    assert third is None
    assert fourth[0] is None
    assert fourth[1]["Max"] == 2**53 - 1
    assert isinstance(fourth[1]["Min"], int)
    assert fourth[1]["Mean"] is None
    assert dropout["input_kwargs"] == {
        "dtype": {"type": "torch.dtype", "value": "torch.float32"},
        "mode": {"type": "str", "value": "näme"},
        "p": {"type": "float", "value": 0.5},
    }
    halves = torch.frombuffer(bytearray(records[8].data), dtype=torch.float16)
    assert dropout["output"][0]["Norm"] == halves.norm().item()
    assert json.loads((folder / "stack.json").read_text()) == {
        "0": [
            [f"{name}.forward.0"],
            ["File a.py, line 1, in f, \n ", "File b.py, line 2, in g, \n "],
        ]
    }
    assert json.loads((folder / "construct.json").read_text()) == {
        f"{name}.forward.0": "Module.fc.Sequential.forward.0",
        f"{name}.forward.1": None,
        "Module.fc.Sequential.forward.0": None,
        f"{name}.backward.0": None,
    }
    data = folder / "dump_tensor_data"
    files = sorted(path.name for path in data.iterdir())
    assert files == sorted(set(re.findall(r'"data_name": "([^"]*)"', text)))
    for record, file in ((records[1], f"{name}.forward.0.input.0.pt"),):
        tensor = torch.load(data / file, weights_only=True)
        assert not tensor.requires_grad
        assert tensor.numpy().tobytes() == record.data


def test_msprobe_gives_documents_back(daemon: Daemon, tmp_path: Path) -> None:
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2]}
    leaf |= {"Max": float("nan"), "data_name": "Tensor.add.0.forward.input.0.pt"}
    data = {"Tensor.add.0.forward": {"input_args": [leaf]}}
    dump = json.dumps({"task": "tensor", "data": data}, indent=3).encode()
    documents = [
        document(name, text, token=3)
        for name, text in (
            ("dump.json", dump),
            ("stack.json", b"stack"),
            ("construct.json", b"construct"),
            ("notes.txt", b"notes"),
        )
    ]
    tensor = Record("Tensor.add", cb.float32(1, 2), [2], token=3, io=cb.INPUT)
    send(daemon, "r", [tensor, *documents])
    counts = export(daemon, tmp_path / "all", "--format", "msprobe")
    assert (counts["document_count"], counts["tensor_count"]) == (3, 1)
    folder = tmp_path / "all/step3/rank0"
    assert sorted(path.name for path in folder.iterdir()) == [
        "construct.json",
        "dump.json",
        "dump_tensor_data",
        "stack.json",
    ]
    for record in documents[:3]:
        assert (folder / str(record.op)).read_bytes() == record.data
    file = folder / "dump_tensor_data/Tensor.add.0.forward.input.0.pt"
    assert torch.equal(torch.load(file), torch.tensor([1.0, 2.0]))
    # Documents describe the whole token, not a part of it.
    export(daemon, tmp_path / "some", "--format", "msprobe", "--ops", "Tensor.*")
    made = json.loads((tmp_path / "some/step3/rank0/dump.json").read_text())
    assert list(made["data"]) == ["Tensor.add.0.forward"]


def strict(text: str) -> Any:
    """Reads JSON as strictly as readers other than Python's."""

    def refuse(word: str) -> float:
        raise ValueError(word)

    return json.loads(text, parse_constant=refuse)


def test_json_of_msprobe_is_legal_on_request(daemon: Daemon, tmp_path: Path) -> None:
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2]}
    leaf |= {"Max": float("nan"), "Min": float("-inf"), "Mean": 1.5, "Norm": None}
    scale = {"type": "float", "value": float("inf")}
    others = {"input_kwargs": {}, "output": []}
    entry = {"input_args": [leaf, scale], **others, "is_nan": [float("nan"), "NaN"]}
    folder = tmp_path / "dump/step0/rank0"
    folder.mkdir(parents=True)
    data = {"Tensor.add.0.forward": entry, "Tensor.mul.0.forward": {"input_args": []}}
    head = {"task": "statistics", "level": "L1", "dump_data_dir": None}
    (folder / "dump.json").write_text(json.dumps({**head, "data": data}))
    (folder / "stack.json").write_text("{}")
    (folder / "construct.json").write_text("{}")
    daemon.ctl("run", "import", str(tmp_path / "dump"), "--run", "r")
    export(daemon, tmp_path / "as-is", "--format", "msprobe")
    as_is = (tmp_path / "as-is/step0/rank0/dump.json").read_bytes()
    assert as_is == (folder / "dump.json").read_bytes()
    export(daemon, tmp_path / "legal", "--format", "msprobe", "--legal-json")
    text = (tmp_path / "legal/step0/rank0/dump.json").read_text()
    made = strict(text)["data"]["Tensor.add.0.forward"]
    assert made == {
        "input_args": [
            leaf | {"Max": "NaN", "Min": "-Infinity"},
            scale | {"value": "Infinity"},
        ],
        **others,
        "is_nan": ["NaN", "NaN"],
    }
    # The imported dump is unchanged.
    daemon.ctl("run", "import", str(tmp_path / "legal"), "--run", "again")
    values = [
        [one["value"] for one in daemon.ctl_json(*words)["tensors"]]
        for words in (
            ("tensor", "list", "--run", run, "--kind", "statistics", "--kind", "number")
            for run in ("r", "again")
        )
    ]
    assert (
        values[0] == values[1] == ['{"max": "nan", "min": "-inf", "mean": 1.5}', "inf"]
    )
    # A valid document is unchanged, and others cannot be repaired without
    # records.
    words = ("--format", "msprobe", "--kind", "document", "--legal-json")
    counts = export(daemon, tmp_path / "documents", *words, expect=PARTIAL)
    assert (counts["document_count"], counts["problem_count"]) == (2, 1)
    other = ("run", "export", "r", "--format", "pt", "--out", str(tmp_path / "pt"))
    for flags in (("--legal-json",), ("--checksum", "md5"), ("--no-tensors",)):
        assert "msprobe" in daemon.ctl(*other, *flags, expect=2).stderr


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
    note = "note: 1 dump.json made of the records"
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
    daemon.ctl("run", "import", str(tmp_path / "in"), "--run", "r", expect=4)
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
    daemon.ctl("run", "import", str(tmp_path / "in"), "--run", "r", expect=4)
    dump = import_again(daemon, tmp_path / "out")
    assert set(dump["data"]) == set(data)


def test_texts_of_numbers_stay_in_their_place(daemon: Daemon, tmp_path: Path) -> None:
    texts = ["7", "-3", "1e-05", "nan", "", '1, "x": 2', "0x10", "1_0", "01", "5."]
    records = [
        value(
            "Torch.add",
            str(i),
            cb.NUMBER,
            text,
            data=bytes(8),
            shape=[],
            dtype=cb.FLOAT64,
        )
        for i, text in enumerate(texts)
    ]
    send(daemon, "r", records)
    export(daemon, tmp_path / "out", "--format", "msprobe")
    dump = json.loads((tmp_path / "out/step0/rank0/dump.json").read_text())
    leaves = dump["data"]["Torch.add.0.forward"]["input_args"]
    read = [leaf["value"] for leaf in leaves]
    assert read[:3] == [7, -3, 1e-05]
    assert np.isnan(read[3])
    assert read[4:] == texts[4:]


def test_custom_ops_keep_their_names(daemon: Daemon, tmp_path: Path) -> None:
    mine = Record("__main__.mine", cb.float32(1, 2), [2], io=cb.INPUT)
    send(daemon, "r", [*module_records(), mine])
    export(daemon, tmp_path / "out", "--format", "msprobe")
    dump = json.loads((tmp_path / "out/step0/rank0/dump.json").read_text())
    assert "__main__.mine.0.forward" in dump["data"]
    assert "Module.fc.0.Linear.forward.0" in dump["data"]


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
    daemon.ctl("run", "import", str(tmp_path / "in"), "--run", "r", expect=4)
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


def test_msit_folders(daemon: Daemon, tmp_path: Path) -> None:
    records = [r for r in module_records() if r.kind in (cb.TENSOR, cb.DOCUMENT)]
    send(daemon, "r", records)
    old = os.umask(0o022)
    try:
        counts = export(daemon, tmp_path / "out", "--format", "msit", "--statistics")
    finally:
        os.umask(old)
    assert counts["tensor_count"] == len(records) - 1
    (top,) = (tmp_path / "out").iterdir()
    assert re.fullmatch(r"msit_dump_\d{8}_\d{6}", top.name)
    device = top / "torch_tensors/cpu_0"
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
        top: 0o755,
        device: 0o750,
        device / "0/root.fc.0": 0o750,
        device / "0/Functional.dropout.2": 0o755,
        device / "0/root.fc.0/output.pth": 0o644,
        device / "model_tree.json": 0o640,
        device / "0/root.fc/statistics.csv": 0o640,
    }
    assert {path: path.stat().st_mode & 0o777 for path in modes} == modes
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
