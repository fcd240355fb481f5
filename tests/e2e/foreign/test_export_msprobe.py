"""Exports of runs as folders of msprobe."""

import json
import re
from pathlib import Path
from typing import Any

import chunk_bytes as cb
import numpy as np
import pytest
import torch
from chunk_bytes import Record
from exported_records import document, module_records, value
from exports import export, send

from daemon import Daemon

PARTIAL = 4


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


NAME = "Module.fc.0.Linear"


def module_export(daemon: Daemon, out: Path) -> tuple[Path, list[Record]]:
    """Exports a run with modules. Returns the folder of its rank, and the records."""
    records = module_records()
    send(daemon, "r", records)
    counts = export(daemon, out, "--format", "msprobe")
    assert counts["problem_count"] == 0
    return out / "step0/rank0", records


def test_msprobe_is_made_of_records(daemon: Daemon, tmp_path: Path) -> None:
    folder, records = module_export(daemon, tmp_path / "out")
    text = (folder / "dump.json").read_text()
    dump = json.loads(text)
    assert text == json.dumps(dump, indent=1)
    assert list(dump) == ["task", "level", "framework", "dump_data_dir", "data"]
    assert dump["task"] == "tensor"
    assert dump["level"] == "mix"
    assert dump["dump_data_dir"] == str(folder.resolve() / "dump_tensor_data")
    name = NAME
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


def test_msprobe_values_are_those_of_the_records(
    daemon: Daemon, tmp_path: Path
) -> None:
    folder, records = module_export(daemon, tmp_path / "out")
    text = (folder / "dump.json").read_text()
    dump = json.loads(text)
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


def test_msprobe_has_its_other_files(daemon: Daemon, tmp_path: Path) -> None:
    folder, records = module_export(daemon, tmp_path / "out")
    text = (folder / "dump.json").read_text()
    name = NAME
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
