"""Comparisons of msprobe's runs with different names, by its mapping files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from chunk_bytes import INPUT, OUTPUT, Chunk, Record, float32
from wire import write

from daemon import Daemon

FAILED, USAGE = 1, 2


def record(
    daemon: Daemon, run: str, ops: dict[tuple[str, int], tuple[list[float], float]]
) -> None:
    """Records calls of ops, each with its inputs and its output."""
    records = []
    for (op, call), (inputs, output) in ops.items():
        values = [(INPUT, str(i), value) for i, value in enumerate(inputs)]
        for io, index, value in (*values, (OUTPUT, "0", output)):
            data = float32(value, value)
            records.append(Record(op, data, [2], io=io, index=index, call=call))
    for sequence, entry in enumerate(records):
        entry.sequence = sequence
    write(daemon.channel(), run, [Chunk(run, records).pack()])


def yaml(folder: Path, text: str) -> str:
    file = folder / f"{len(list(folder.iterdir()))}.yaml"
    file.write_text(text)
    return str(file)


def counts(daemon: Daemon, name: str = "c-000001") -> tuple[int, int, int]:
    got = daemon.ctl_json("compare", "get", name)
    words = ("pass_count", "unmatched_count", "allowed_unmatched_count")
    passed, unmatched, allowed = (int(got[word]) for word in words)
    return passed, unmatched, allowed


def test_cells_and_apis_are_mapped(daemon: Daemon, tmp_path: Path) -> None:
    torch = {
        ("Module.fc.Linear", 0): ([1], 2),
        ("Torch.add", 0): ([1, 2], 3),
        ("Torch.abs", 0): ([4, 5], 6),
    }
    mindspore = {
        ("Cell.fc.Dense", 0): ([1], 2),
        ("Mint.add", 0): ([1, 2], 3),
        ("Functional.absolute", 0): ([4, 9, 5], 6),
    }
    record(daemon, "g", torch)
    record(daemon, "t", mindspore)
    run = ("compare", "run", "g", "t")
    daemon.ctl(*run, expect=FAILED)
    cells = yaml(tmp_path, "fc.Dense: fc.Linear\nconv.Conv: conv.Conv2d\n")
    apis = yaml(
        tmp_path,
        "ms_api: Functional.absolute\npt_api: Torch.abs\n"
        "ms_args: [0, 2]\npt_args: [0, 1]\n",
    )
    flags = ("--cell-mapping", cells, "--api-mapping", apis)
    done = daemon.ctl(*run, *flags)
    assert "8 pairs of tensors by msprobe, 1 tensors need no counterpart" in done.stderr
    assert (
        "cell mapping: 1 of 2 lines name no tensor of the target run: conv.Conv"
        in done.stderr
    )
    assert counts(daemon, "c-000002") == (8, 0, 1)
    rows = daemon.ctl_json("compare", "rows", "c-000002")["rows"]
    reasons = {row.get("pairing") for row in rows if row["verdict"] == "PASS"}
    assert reasons == {
        "stated in the cell mapping",
        "stated in the API mapping",
        "its name in the other framework",
    }
    (left,) = (row for row in rows if row["verdict"] == "SKIPPED")
    assert "not in the API mapping" in left["reason"]
    # Either run may be the golden one.
    daemon.ctl("compare", "run", "t", "g", "--match", "msprobe", expect=FAILED)
    # The printed pairs can be edited and used.
    lines = tmp_path / "pairs.jsonl"
    daemon.ctl("run", "match", "g", "t", *flags, "--out", str(lines))
    daemon.ctl(*run, "--mapping-file", str(lines))


def test_leaves_are_mapped_call_by_call(daemon: Daemon, tmp_path: Path) -> None:
    record(
        daemon,
        "g",
        {
            ("NPU.fused", 0): ([1], 10),
            ("NPU.fused", 1): ([2], 20),
            ("Torch.add", 0): ([3], 30),
        },
    )
    record(
        daemon,
        "t",
        {
            ("Functional.flash", 0): ([2], 20),
            ("Functional.flash", 1): ([1], 10),
            ("Torch.add", 0): ([3], 30),
        },
    )
    lines = [
        f"Functional.flash.{call}.forward.{leaf}.0:"
        f" NPU.fused.{1 - call}.forward.{leaf}.0\n"
        for call in (0, 1)
        for leaf in ("input", "output")
    ]
    run = ("compare", "run", "g", "t", "--data-mapping")
    daemon.ctl(*run, yaml(tmp_path, "".join(lines)))
    assert counts(daemon) == (6, 0, 0)

    # An entry of the mapping that a run lacks is reported, and does not pass.
    wrong = lines[:3] + [
        "Functional.flash.1.forward.output.0: NPU.no.0.forward.output.0"
    ]
    done = daemon.ctl(*run, yaml(tmp_path, "".join(wrong)), expect=FAILED)
    assert (
        "data mapping: 1 of 4 lines name no tensor of the golden run: NPU.no"
        in done.stderr
    )
    passed, unmatched, _ = counts(daemon, "c-000002")
    assert passed == 5 and unmatched == 2


def dump(
    folder: Path,
    framework: str,
    calls: list[tuple[str, str | None]],
    rank_number: int = 0,
) -> Path:
    """Writes msprobe's dump of calls in modules, each with one output."""
    rank = folder / framework / "step0" / f"rank{rank_number}"
    files = rank / "dump_tensor_data"
    files.mkdir(parents=True)
    data: dict[str, Any] = {}
    for number, (entry, _) in enumerate(calls):
        name = f"{entry}.output.0"
        np.save(files / f"{name}.npy", np.full(2, number % 4, np.float32))
        is_torch = framework == "pytorch"
        data[entry] = {
            "input_args": [],
            "input_kwargs": {},
            "output": [
                {
                    "type": "torch.Tensor" if is_torch else "mindspore.Tensor",
                    "dtype": "torch.float32" if is_torch else "Float32",
                    "shape": [2],
                    "data_name": f"{name}.npy",
                }
            ],
        }
    whole = {"task": "tensor", "level": "mix", "framework": framework, "data": data}
    (rank / "dump.json").write_text(json.dumps(whole))
    (rank / "construct.json").write_text(json.dumps(dict(calls)))
    return folder / framework


def test_layers_are_mapped(daemon: Daemon, tmp_path: Path) -> None:
    cell = "Cell.network.layers.0.attention.Attention.forward.0"
    mindspore = [
        ("Mint.cos.0.forward", None),
        ("Functional.flash.0.forward", cell),
        ("Mint.cos.1.forward", cell),
        (cell, None),
    ]
    module = "Module.module.layers.0.self_attention.Attention.forward.0"
    core = "Module.module.layers.0.self_attention.core.Core.forward.0"
    torch = [
        ("Torch.cos.0.forward", None),
        ("NPU.fusion.0.forward", core),
        # A call that MindSpore does not have shifts the numbers of the others.
        ("Torch.cos.1.forward", module),
        (module, None),
        ("Torch.cos.2.forward", core),
    ]
    daemon.ctl("run", "import", str(dump(tmp_path, "pytorch", torch)), "--run", "g")
    tree = dump(tmp_path, "mindspore", mindspore)
    daemon.ctl("run", "import", str(tree), "--run", "t")
    layers = yaml(
        tmp_path,
        "TopLayer: {network: module}\nAttention: {flash: core.fusion}\n"
        "layers: {0.attention: 0.self_attention}\n",
    )
    run = ("compare", "run", "g", "t", "--layer-mapping", layers)
    done = daemon.ctl(*run, expect=FAILED)
    assert "3 pairs of tensors by msprobe" in done.stderr
    assert "0 calls of the target run and 1 of the golden run have no" in done.stderr
    assert counts(daemon) == (4, 1, 0)
    flags = ("--allow-unmatched", "Torch.cos@output")
    daemon.ctl(*run, *flags)


def test_layers_of_ranks_must_go_together(daemon: Daemon, tmp_path: Path) -> None:
    call = "Torch.cos.0.forward"
    modules = {"g": "Module.a.A.forward.0", "t": "Module.b.B.forward.0"}
    for name, other in modules.items():
        tree = tmp_path / name
        for rank, module in enumerate((modules["g"], other)):
            dump(tree, "pytorch", [(call, module)], rank)
        daemon.ctl("run", "import", str(tree / "pytorch"), "--run", name)
    layers = ("--layer-mapping", yaml(tmp_path, "{}"))
    daemon.ctl("compare", "run", "g", "g", *layers)
    done = daemon.ctl("compare", "run", "g", "t", *layers, expect=USAGE)
    assert (
        "run t: construct.json of rank 0, token 0 and of rank 1, token 0 have "
        f'"{call}" at different positions' in done.stderr
    )
    # Without layers, the places of calls do not matter.
    daemon.ctl("compare", "run", "g", "t", "--match", "msprobe")


def test_receive_buffers_are_ignored(daemon: Daemon, tmp_path: Path) -> None:
    op, output = ("Distributed.irecv", 0), ("Torch.add", 0)
    record(daemon, "g", {op: ([7, 1], 0), output: ([], 3)})
    record(daemon, "t", {op: ([8, 1], 0), output: ([], 3)})
    run = ("compare", "run", "g", "t")
    daemon.ctl(*run, expect=FAILED)
    done = daemon.ctl(*run, "--match", "msprobe")
    assert "2 tensors are ignored" in done.stderr
    assert counts(daemon, "c-000002") == (3, 0, 2)
    rows = daemon.ctl_json("compare", "rows", "c-000002", "--verdict", "skipped")
    for row in rows["rows"]:
        assert "ignored: a receive buffer or scratch" in row["reason"]
    # The user's table replaces the built-in one.
    table = yaml(tmp_path, "Torch: {add: {output: [0]}}\n")
    done = daemon.ctl(*run, "--ignore-table", table, expect=FAILED)
    assert counts(daemon, "c-000003") == (2, 0, 2)


def test_mappings_are_bounded_and_have_one_matcher(
    daemon: Daemon, tmp_path: Path
) -> None:
    record(daemon, "g", {("Torch.add", 0): ([1], 2)})
    run = ("compare", "run", "g", "g")
    for flag, text, message in (
        ("--data-mapping", "a: b\n", 'line 1: "a" is not a name of a tensor'),
        ("--cell-mapping", "a: b\na: c\n", 'line 2: "a" appears twice'),
        ("--api-mapping", "{ms_api: a}\n", "there is no pt_api"),
        ("--layer-mapping", "A: &a {x: y}\nB: *a\n", "aliases are not supported"),
        ("--layer-mapping", "[" * 100 + "]" * 100, "too deep"),
    ):
        done = daemon.ctl(*run, flag, yaml(tmp_path, text), expect=USAGE)
        assert message in done.stderr, text
    good = yaml(tmp_path, "a: b\n")
    daemon.ctl(*run, "--cell-mapping", str(tmp_path / "absent"), expect=3)
    for more in (
        ("--match", "none"),
        ("--match", "ge-fx"),
        ("--fuzzy",),
        ("--layer-mapping", yaml(tmp_path, "{}")),
    ):
        daemon.ctl(*run, "--cell-mapping", good, *more, expect=USAGE)
