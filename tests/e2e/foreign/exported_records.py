"""Records of modules, as msprobe dumps them, for exports."""

import json
from typing import Any

import chunk_bytes as cb
import numpy as np
import torch
from chunk_bytes import Record

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
