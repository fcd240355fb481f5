"""Writes TorchAir's dump of a small graph: Add, MatMul, Mul and Relu, Sub."""

from collections.abc import Iterable
from pathlib import Path

import ge_dump
import numpy as np

START = 1756699200000000
FLOAT32 = 1
INT8 = 3
BFLOAT16 = 27

_OPS = (
    ("Add", "Add", ("arg0:0", "arg1:0"), "add-aten.add.Tensor"),
    ("MatMul", "MatMulV2", ("Add:0", "arg1:0"), "mm-aten.mm.default"),
    ("Mul_1", "Mul", ("MatMul:0", "Add:0"), "mul-aten.mul.Tensor"),
    ("Relu_2", "Relu", ("Mul_1:0",), "relu-aten.relu.default"),
    ("Shape_3", "Shape", ("Relu_2:0",), None),
    ("Sub", "Sub", ("Relu_2:0", "arg0:0"), "sub-aten.sub.Tensor"),
)


def _op_text(name: str, kind: str, inputs: Iterable[str], node: str | None) -> str:
    lines = [f'  name: "{name}"', f'  type: "{kind}"']
    lines += [f'  input: "{edge}"' for edge in inputs]
    lines.append('  output_desc {\n    name: "y"')
    if node is not None:
        value = f'value {{ s: "{node}.OUTPUT.0" }}'
        lines.append(f'    attr {{ key: "_fx_tensor_name" {value} }}')
    lines.append("  }")
    return "op {\n" + "\n".join(lines) + "\n}\n"


def write_graph(folder: Path, number: int = 1, rank: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"dynamo_original_graph_{number}_rank_{rank}_pid_42_ts_20250901120000000001"
    path = folder / f"{name}.txt"
    ops = "".join(_op_text(*op) for op in _OPS)
    path.write_text(f'name: "graph_{number}"\n{ops}')
    return path


def tensors(token: int = 0) -> dict[str, np.ndarray]:
    """Returns the values of the graph in float32."""
    generator = np.random.default_rng(token)
    a, b = generator.standard_normal((2, 4, 4), dtype=np.float32)
    add = a + b
    mm = add @ b
    mul = mm * add
    relu = np.maximum(mul, 0)
    return {"a": a, "b": b, "add": add, "mm": mm, "mul": mul, "relu": relu}


def dumped(array: np.ndarray, kind: int = FLOAT32) -> ge_dump.Dumped:
    return ge_dump.Dumped(kind, ge_dump.ND, array.shape, array.shape, array.tobytes())


def write_ge(
    folder: Path, token: int = 0, *, is_fused: bool = True, error: float = 0
) -> None:
    """Writes the ops of one token into its folder. `error` is in the output of Add."""
    folder.mkdir(parents=True, exist_ok=True)
    values = {name: dumped(array) for name, array in tensors(token).items()}
    wrong = tensors(token)["add"].copy()
    wrong.flat[-1] += error
    sub = dumped(tensors(token)["relu"] - tensors(token)["a"])
    a, b, add, mm = (values[name] for name in ("a", "b", "add", "mm"))
    mul, relu = values["mul"], values["relu"]
    ops = [
        ("Add", "Add", [a, b], [dumped(wrong)]),
        ("MatMulV2", "MatMul", [add, b], [mm]),
        ("TransData", "trans_TransData_7", [relu], [relu]),
        ("Sub", "Sub", [relu, a], [sub]),
    ]
    if is_fused:
        ops.insert(2, ("AutomaticBufferFusionOp", "Mul_1Relu_2", [mm, add], [relu]))
    else:
        ops[2:2] = [
            ("Mul", "Mul_1", [mm, add], [mul]),
            ("Relu", "Relu_2", [mul], [relu]),
        ]
    for i, (kind, name, inputs, outputs) in enumerate(ops):
        time = START + 1000 * token + i
        ge_dump.write(
            folder / f"{kind}.{name}.{11 + i}.6.{time}", inputs, outputs, name
        )


def write_fx(folder: Path, token: int = 0) -> None:
    """Writes the nodes of one step into its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    v = tensors(token)
    nodes = {
        "add-aten.add.Tensor": ([v["a"], v["b"]], v["add"]),
        "mm-aten.mm.default": ([v["add"], v["b"]], v["mm"]),
        "mul-aten.mul.Tensor": ([v["mm"], v["add"]], v["mul"]),
        "relu-aten.relu.default": ([v["mul"]], v["relu"]),
        "sub-aten.sub.Tensor": ([v["relu"], v["a"]], v["relu"] - v["a"]),
    }
    for i, (node, (inputs, output)) in enumerate(nodes.items()):
        time = f"202509011200100{i:05}"
        for j, array in enumerate(inputs):
            np.save(folder / f"{node}.INPUT.{j}.{time}.npy", array)
        np.save(folder / f"{node}.OUTPUT.0.{time}.npy", output)


def rank_folder(dump: Path, rank: int, world_size: int = 2) -> Path:
    return dump / f"worldsize{world_size}_global_rank{rank}"


def ge_tokens(dump: Path, graph: int = 1, model: int | None = None) -> Path:
    """Returns the folder of a graph's tokens, below that of a rank or a dump."""
    name = str(graph if model is None else model)
    return dump / "20250901120005" / "0" / f"graph_{graph}" / name


def write_new_layout(folder: Path, tokens: range = range(2), error: float = 0) -> None:
    """Writes the dumps `my` of GE and `golden` of FX."""
    my = folder / "my"
    write_graph(my)
    for token in tokens:
        write_ge(ge_tokens(rank_folder(my, 0)) / str(token), token, error=error)
        fx = rank_folder(folder / "golden", 0) / "graph_1" / str(token)
        write_fx(fx, token)
