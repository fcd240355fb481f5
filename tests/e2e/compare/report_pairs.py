"""Pairs of dumps for `msprobe compare` and the report of msitd.

A case has a mode, and the data of dump.json of both runs. Tensor files are made from
the leaves that name one.
"""

from __future__ import annotations

import csv
import io
import json
import struct
import zlib
from pathlib import Path
from typing import Any

Data = dict[str, Any]

MODES = ("all", "summary", "md5")

CASES: dict[str, tuple[str, Data, Data]] = {}


def case(name: str, mode: str, golden: Data, target: Data) -> None:
    """Registers a case for the mode all, summary or md5."""
    CASES[f"{name}.{mode}"] = (mode, golden, target)


def tensor(
    high: float = 2.0,
    grad: bool | None = False,
    dtype: str = "torch.float32",
    shape: tuple[int, ...] = (4,),
    **more: Any,
) -> Data:
    """Returns the leaf of a tensor with statistics."""
    has_mean = dtype == "torch.float32"
    leaf = {
        "type": "torch.Tensor",
        "dtype": dtype,
        "shape": list(shape),
        "Max": high,
        "Min": 1.0 if has_mean else 1,
        "Mean": 1.5 if has_mean else None,
        "Norm": 3.5 if has_mean else None,
        "requires_grad": grad,
    }
    if grad is None:
        del leaf["requires_grad"]
    return leaf | more


def value(kind: str, content: Any) -> Data:
    """Returns the leaf of a value that is not a tensor."""
    return {"type": kind, "value": content}


SIZE = value("torch.Size", [2, 3])
SLICE = value("slice", [0, None, 2])
GROUP = {
    "type": "torch.ProcessGroup",
    "group_ranks": [0, 1],
    "group_id": "67e9e248",
}
FORMAT = {"type": "torch.memory_format", "format": "contiguous_format"}


def arguments(*args: Any, output: Any = None, **kwargs: Any) -> Data:
    """Returns a forward record."""
    return {
        "input_args": list(args),
        "input_kwargs": kwargs,
        "output": [tensor() if output is None else output],
    }


# Each of these is an argument of a function of its own.
EQUAL_VALUES: list[Any] = [
    value("int", 3),
    value("int", 2**60 + 1),
    value("int", 10**30),
    value("int", -7),
    value("float", 1e-05),
    value("float", 2.0),
    value("float", 1e30),
    value("float", float("nan")),
    value("float", float("inf")),
    value("float", float("-inf")),
    value("bool", True),
    value("bool", False),
    value("str", "none"),
    value("str", ""),
    value("str", "cpu"),
    value("str", 'quoted, "text"'),
    value("str", "naïve 字"),
    value("str", "3"),
    value("str", "nan"),
    None,
    SIZE,
    value("torch.Size", []),
    SLICE,
    value("ellipsis", "..."),
    value("torch.dtype", "torch.float32"),
    value("torch.device", "cpu"),
    value("torch.device", "cuda:0"),
    FORMAT,
    GROUP,
    value("torch.distributed.ReduceOp", "RedOpType.SUM"),
    value("int32", 5),
    value("float32", 0.5),
    value("str_", "numpy"),
]

DIFFERENT_VALUES: list[tuple[Any, Any]] = [
    (value("int", 2), value("int", 3)),
    (value("int", 0), value("int", 3)),
    (value("int", 2**60 + 1), value("int", 2**60)),
    (value("float", 1e-05), value("float", 1e-06)),
    (value("float", 1.0), value("float", 1.0000000000000002)),
    (value("float", 0.0), value("float", -0.0)),
    (value("float", 1.0), value("float", float("nan"))),
    (value("float", 1.0), value("float", float("inf"))),
    (value("float", float("-inf")), value("float", float("inf"))),
    (value("float", float("nan")), value("float", 2.0)),
    (value("bool", True), value("bool", False)),
    (value("str", "none"), value("str", "tanh")),
    (value("str", "1"), value("str", "2")),
    (value("str", "cpu"), value("str", "cuda")),
    (value("str", "cpu"), value("str", "other")),
    (value("int", 2), value("float", 2.0)),
    (value("int", 2), value("float", 2.5)),
    (value("int", 1), value("bool", True)),
    (value("int", 2), value("str", "2")),
    (value("int", 2), None),
    (None, value("int", 2)),
    (SIZE, value("torch.Size", [3, 2])),
    (SLICE, value("slice", [1, None, 2])),
    (SLICE, value("slice", [0, 4])),
    (value("torch.dtype", "torch.float32"), value("torch.dtype", "torch.float16")),
    (value("torch.device", "cpu"), value("torch.device", "npu:0")),
    (value("torch.device", "cuda:0"), value("torch.device", "npu:0")),
    (FORMAT, FORMAT | {"format": "channels_last"}),
    (GROUP, GROUP | {"group_ranks": [0, 2], "group_id": "11111111"}),
    (tensor(), value("float", 2.0)),
    (value("float", 2.0), tensor()),
    (value("int32", 5), value("int32", 6)),
    (value("int", 5), value("int32", 5)),
]


def with_md5(leaf: Any, *, seed: str = "") -> Any:
    """Returns the leaf of a tensor with a checksum, and any other as it is."""
    if not isinstance(leaf, dict) or "shape" not in leaf:
        return leaf
    text = f"{leaf['shape']} {leaf['Max']}{seed}"
    return leaf | {"md5": f"{zlib.crc32(text.encode()):08x}"}


def values_of(mode: str, pairs: list[tuple[Any, Any]]) -> tuple[Data, Data]:
    """Returns dumps in which each pair is an argument of a function."""
    fill = with_md5 if mode == "md5" else lambda leaf: leaf
    out: tuple[Data, Data] = ({}, {})
    for i, pair in enumerate(pairs):
        for side in (0, 1):
            leaf = fill(pair[side])
            out[side][f"Torch.f{i}.0.forward"] = arguments(
                fill(tensor()), leaf, key=leaf, output=fill(tensor())
            )
    return out


for _mode in ("summary", "md5"):
    case("equal_values", _mode, *values_of(_mode, [(v, v) for v in EQUAL_VALUES]))
    case("different_values", _mode, *values_of(_mode, DIFFERENT_VALUES))

GRADS = [(a, b) for a in (False, True, None) for b in (False, True, None)]


def grads_of(mode: str, name: str = "f") -> tuple[Data, Data]:
    """Returns dumps with all pairs of requires_grad, in inputs and outputs."""
    fill = with_md5 if mode == "md5" else lambda leaf: leaf
    out: tuple[Data, Data] = ({}, {})
    for i, pair in enumerate(GRADS):
        for side in (0, 1):
            leaf = fill(tensor(grad=pair[side]))
            out[side][f"Torch.{name}.{i}.forward"] = arguments(
                leaf, value("int", 1), output=leaf
            )
    return out


for _mode in ("summary", "md5"):
    case("requires_grad", _mode, *grads_of(_mode))
    case("requires_grad_ignored", _mode, *grads_of(_mode, "empty_like"))
    case("requires_grad_inputs", _mode, *grads_of(_mode, "all_to_all_single"))

# Scalars among outputs, parameters and gradients, and of APIs that are ignored.
case(
    "places",
    "summary",
    {
        "Torch.max.0.forward": arguments(tensor(), output=value("int", 2)),
        "Tensor.to.0.forward": arguments(tensor(), value("int", 2)),
        "Distributed.all_to_all_single.0.forward": arguments(
            tensor(), value("int", 2), output=tensor()
        ),
        "Torch.nested.0.forward": arguments(
            [tensor(), value("int", 2), [value("int", 4)]],
            {"a": value("float", 1.0), "b": None},
            scale=[value("float", 1.0), tensor()],
        ),
        "Distributed.broadcast.0.forward": arguments(
            tensor(), src=value("int", 0), dst=value("int", 1), group=GROUP
        ),
        "Module.fc.Linear.forward.0": arguments(tensor(), value("int", 2))
        | {"parameters": {"weight": tensor(grad=True), "bias": None}},
        "Module.fc.Linear.backward.0": {
            "input": [tensor(), None],
            "output": [tensor(), None],
        },
        "Module.fc.Linear.parameters_grad.0": {"weight": [tensor()], "bias": [None]},
    },
    {
        "Torch.max.0.forward": arguments(tensor(), output=value("int", 3)),
        "Tensor.to.0.forward": arguments(tensor(), value("int", 3)),
        "Distributed.all_to_all_single.0.forward": arguments(
            tensor(), value("int", 3), output=tensor()
        ),
        "Torch.nested.0.forward": arguments(
            [tensor(), value("int", 3), [value("int", 4)]],
            {"a": value("float", 2.0), "b": None},
            scale=[value("float", 3.0), tensor()],
        ),
        "Distributed.broadcast.0.forward": arguments(
            tensor(), src=value("int", 0), dst=value("int", 2), group=GROUP
        ),
        "Module.fc.Linear.forward.0": arguments(tensor(), value("int", 3))
        | {"parameters": {"weight": tensor(grad=False), "bias": None}},
        "Module.fc.Linear.backward.0": {
            "input": [tensor(), None],
            "output": [tensor(high=9.0), None],
        },
        "Module.fc.Linear.parameters_grad.0": {"weight": [tensor()], "bias": [None]},
    },
)

# Leaves that only one of the dumps has.
for _mode in ("summary", "md5"):
    _fill = with_md5 if _mode == "md5" else lambda leaf: leaf
    case(
        "missing",
        _mode,
        {
            "Torch.f.0.forward": arguments(
                _fill(tensor()), value("int", 1), output=_fill(tensor())
            ),
            "Torch.golden.0.forward": arguments(_fill(tensor())),
        },
        {
            "Torch.f.0.forward": arguments(
                _fill(tensor()),
                value("int", 1),
                value("int", 2),
                _fill(tensor(grad=True)),
                None,
                flag=value("bool", True),
                output=_fill(tensor()),
            ),
            "Torch.target.0.forward": arguments(
                _fill(tensor()), value("str", "a"), output=_fill(tensor())
            ),
        },
    )


def md5(text: str | None, **more: Any) -> Data:
    """Returns the leaf of a tensor with a checksum."""
    return tensor(**more) if text is None else tensor(**more) | {"md5": text}


CHECKSUMS = [
    ("0badcafe", "0badcafe"),
    ("0badcafe", "0badcaff"),
    (None, "0badcafe"),
    ("0badcafe", None),
    (None, None),
]
case(
    "checksums",
    "md5",
    {
        f"Torch.f{i}.0.forward": arguments(md5(a), output=md5(a))
        for i, (a, _) in enumerate(CHECKSUMS)
    },
    {
        f"Torch.f{i}.0.forward": arguments(md5(b), output=md5(b))
        for i, (_, b) in enumerate(CHECKSUMS)
    },
)


def xor(text: Any, **more: Any) -> Data:
    """Returns the leaf of a tensor in the mode xor, which has no statistics."""
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4]}
    return leaf | {"md5": text, "requires_grad": False} | more


case(
    "xor",
    "md5",
    {
        "Torch.f.0.forward": arguments(
            xor("0x00000000000000ff"), output=xor("0x00000000000000fe")
        ),
        "Torch.g.0.forward": arguments(xor(2.5, shape=[]), output=xor(2.5, shape=[])),
    },
    {
        "Torch.f.0.forward": arguments(
            xor("0x00000000000000ff"), output=xor("0x00000000000000ff")
        ),
        "Torch.g.0.forward": arguments(xor(2.5, shape=[]), output=xor(3.5, shape=[])),
    },
)


def float32(number: float) -> float:
    """Returns the number as msprobe records it."""
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


def file(entry: str, part: str, numbers: list[float], **more: Any) -> Data:
    """Returns the leaf of a tensor with a file. `numbers` are its elements."""
    leaf = tensor(high=max(numbers), shape=(len(numbers),), **more)
    count = len(numbers)
    leaf["Min"] = min(numbers)
    leaf["Mean"] = float32(sum(numbers) / count)
    leaf["Norm"] = float32(sum(n * n for n in numbers) ** 0.5)
    return leaf | {"data_name": f"{entry}.{part}.pt", "numbers": numbers}


def entry_of(name: str, scale: float, count: Any, *, grad: bool) -> Data:
    """Returns a forward record with files and values."""
    entry = f"{name}.0.forward"
    return {
        entry: {
            "input_args": [
                file(entry, "input.0", [1.0, 2.0, 2.0, 4.0], grad=grad),
                value("int", count),
                value("float", 0.5 * count),
                None,
                value("bool", count == 2),
                value("str", f"mode{count}"),
            ],
            "input_kwargs": {
                "mask": file(entry, "kwargs.mask", [1.0, 1.0, 2.0], grad=False),
                "key": value("int", count),
            },
            "output": [
                file(entry, "output.0", [1.0 * scale, 2.0, 3.0], grad=grad),
                value("int", count),
            ],
        }
    }


case(
    "files",
    "all",
    entry_of("Torch.same", 1.0, 2, grad=True)
    | entry_of("Torch.f", 1.0, 2, grad=True)
    | entry_of("Torch.g", 1.0, 2, grad=True)
    | entry_of("Tensor.to", 1.0, 2, grad=True)
    | {"Torch.h.0.forward": arguments(value("int", 1))},
    entry_of("Torch.same", 1.0, 2, grad=True)
    | entry_of("Torch.f", 1.0, 3, grad=False)
    | entry_of("Torch.g", 4.0, 2, grad=True)
    | entry_of("Tensor.to", 4.0, 3, grad=False)
    | {"Torch.h.0.forward": arguments(value("int", 1), value("int", 2), tensor())},
)


def write_dump(folder: Path, mode: str, data: Data) -> None:
    """Writes a dump of one step and rank."""
    rank = folder / "step0" / "rank0"
    tensors = rank / "dump_tensor_data"
    rank.mkdir(parents=True)

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(each) for each in value]
        if not isinstance(value, dict):
            return value
        if "numbers" in value:
            import torch

            tensors.mkdir(exist_ok=True)
            torch.save(torch.tensor(value["numbers"]), tensors / value["data_name"])
        return {k: plain(each) for k, each in value.items() if k != "numbers"}

    whole = {
        "task": "tensor" if mode == "all" else "statistics",
        "level": "mix",
        "framework": "pytorch",
        "data": plain(data),
    }
    whole["dump_data_dir"] = str(tensors) if tensors.exists() else None
    (rank / "dump.json").write_text(json.dumps(whole))


def rows_of(text: str) -> dict[str, dict[str, str]]:
    """Returns the rows of a report by the name of the target."""
    return {row["NPU Name"]: row for row in csv.DictReader(io.StringIO(text))}


def is_same(column: str, ours: str, theirs: str) -> bool:
    """Returns whether two cells are equal, except for documented differences."""
    if column == "Err_message":
        # The texts differ, but each stands for the same rule.
        return len(json.loads(ours)) == len(json.loads(theirs))
    if column == "Data_name" or ours == theirs:
        return True
    try:
        # msprobe writes a column of numbers as floats if one of them is.
        return abs(float(ours) - float(theirs)) <= 1e-12 * abs(float(theirs))
    except ValueError:
        return False


def differences(ours: str, theirs: str) -> list[str]:
    """Returns a line for each row or cell in which two reports differ."""
    mine, other = rows_of(ours), rows_of(theirs)
    found = [f"{name}: only msitd" for name in mine if name not in other]
    if not found and list(mine) != list(other):
        found.append("the rows have another order or are missing")
    for name, row in other.items():
        if name not in mine:
            found.append(f"{name}: only msprobe")
            continue
        for column, cell in row.items():
            own = mine[name].get(column, "no such column")
            if not is_same(column, own, cell):
                found.append(f"{name}, {column}: {own} != {cell}")
    return found
