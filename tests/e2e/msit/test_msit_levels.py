"""`msit llm compare` of torch models and the acceleration library, and of MindIE."""

import csv
import json
import os
import shutil
from pathlib import Path

import ge_dump
import numpy as np
import openpyxl
import pytest
import torch
import torchair_dump
from msit_command import log_of, msit

from daemon import Daemon

LAYERS = 11


def run(
    folder: Path, *words: str, expect: int = 0
) -> tuple[list[tuple[str, str, str]], list[Path]]:
    """Runs a command with `-o out`. Returns its log, and the reports."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    done = msit(
        folder,
        *words,
        *("-o", "out"),
        expect=expect,
        environment={"TMPDIR": str(temporary)},
    )
    assert not os.listdir(temporary)
    if expect != 0:
        return [("", "", done.stderr)], []
    return log_of(done.stderr), sorted((folder / "out").glob("*"))


def messages(log: list[tuple[str, str, str]], level: str) -> list[str]:
    return [message for _, found, message in log if found == level]


def module(name: str, kind: str, *children: dict[str, object]) -> dict[str, object]:
    return {"name": name, "type": kind, "children": list(children)}


def write_torch(
    dump: Path, tokens: range, error: float = 0, count: int = LAYERS
) -> Path:
    """Writes a model of layers with one MLP each. Returns the folder of its process."""
    process = dump / "torch_tensors" / "cpu_99"
    layers = []
    for token in tokens:
        torch.manual_seed(token)
        for i in range(count):
            name = f"root.layers.{i}"
            for part in (name, f"{name}.mlp", f"{name}.mlp.fc"):
                folder = process / str(token) / part
                folder.mkdir(parents=True)
                value = torch.randn(2, 3)
                torch.save(value, folder / "input_0.pth")
                if i == count - 1 and part == name:
                    value = value + error
                torch.save(value, folder / "output.pth")
    for i in range(count):
        name = f"root.layers.{i}"
        fc = module(f"{name}.mlp.fc", "Linear")
        layers.append(module(name, "Layer", module(f"{name}.mlp", "MLP", fc)))
    tree = module("root", "Model", module("root.layers", "ModuleList", *layers))
    (process / "model_tree.json").write_text(json.dumps(tree))
    return process


def write_library(dump: Path, golden: Path, token: int = 0) -> None:
    """Writes the acceleration library's dump of the same layers."""
    nodes = []
    for i in range(LAYERS):
        node = {"opName": f"Layer_{i}", "opType": "Layer", "param": {}}
        nodes.append({**node, "inTensors": [], "outTensors": []})
        folder = dump / "tensors" / "0_4242" / str(token) / f"{i}_Layer" / "after"
        folder.mkdir(parents=True)
        output = golden / str(token) / f"root.layers.{i}" / "output.pth"
        value = torch.load(output).numpy()
        head = b"format=2\ndtype=0\ndims=2,3\n$End=1\n"
        (folder / "outtensor0.bin").write_bytes(head + value.tobytes())
    topology = {"modelName": "M", "inTensors": [], "outTensors": [], "nodes": nodes}
    (dump / "model" / "4242").mkdir(parents=True)
    (dump / "model" / "4242" / "M.json").write_text(json.dumps(topology))
    # Another program of the user left it there.
    (dump / "model" / "4242" / "config.json").write_text('{"hidden_size": 8}')


def test_torch_models_are_compared_on_three_levels(tmp_path: Path) -> None:
    golden = write_torch(tmp_path / "msit_dump_1", range(2))
    my = write_torch(tmp_path / "msit_dump_2", range(1, 3), error=1)
    log, (report,) = run(tmp_path, "llm", "compare", "-gp", str(golden), "-mp", str(my))
    assert report.name.startswith("msit_cmp_report_") and report.suffix == ".xlsx"
    book = openpyxl.load_workbook(report)
    sheets = {sheet.title: list(sheet.values) for sheet in book}
    assert list(sheets) == ["layer", "module", "api"]
    layers = [
        dict(zip(sheets["layer"][0], row, strict=True)) for row in sheets["layer"][1:]
    ]
    assert [r["my_data_path"] for r in layers] == [
        f"{os.path.realpath(my)}/1/root.layers.{i}/output.pth" for i in range(LAYERS)
    ]
    assert {(r["token_id"], r["golden_op_type"]) for r in layers} == {("1", "Layer")}
    assert [r["max_absolute_error"] == 0 for r in layers] == [True] * 10 + [False]
    ids = [row[1] for rows in sheets.values() for row in rows[1:]]
    assert ids == list(range(len(ids)))
    assert len(sheets["module"]) == 1 + LAYERS
    assert len(sheets["api"]) == 1 + 6 * LAYERS
    assert f"Saved comparing results: {os.path.realpath(report)}" in messages(
        log, "INFO"
    )


def test_models_with_few_layers_have_levels(tmp_path: Path) -> None:
    golden = write_torch(tmp_path / "msit_dump_1", range(1), count=3)
    my = write_torch(tmp_path / "msit_dump_2", range(1), count=3)
    sides = ("llm", "compare", "-gp", str(golden), "-mp", str(my))
    log, (report,) = run(tmp_path, *sides)
    book = openpyxl.load_workbook(report)
    assert [sheet.max_row for sheet in book] == [1 + 3, 1 + 3, 1 + 18]
    assert not messages(log, "WARNING")
    report.unlink()
    # The original finds none.
    log, (report,) = run(tmp_path, *sides, "--compat")
    book = openpyxl.load_workbook(report)
    assert [sheet.max_row for sheet in book][:2] == [1, 1]
    rule = [text for text in messages(log, "WARNING") if "-cl api" in text]
    assert [text.split(":")[0] for text in rule] == ["layer", "module"]


def test_one_level_is_a_csv(tmp_path: Path) -> None:
    golden = write_torch(tmp_path / "msit_dump_1", range(1))
    my = tmp_path / "msit_dump_2"
    write_library(my, golden)
    words = ("llm", "compare", "-gp", str(golden), "-mp", str(my), "-cl", "layer")
    _, (report,) = run(tmp_path, *words)
    rows = list(csv.DictReader(report.read_text().splitlines()))
    assert report.suffix == ".csv" and len(rows) == LAYERS
    assert {r["cosine_similarity"] for r in rows} == {"1.0"}
    assert {(r["golden_op_type"], r["my_op_type"]) for r in rows} == {
        ("Layer", "Layer")
    }
    pairs = {
        (Path(r["golden_data_path"]).parts[-2], Path(r["my_data_path"]).parts[-3])
        for r in rows
    }
    assert pairs == {(f"root.layers.{i}", f"{i}_Layer") for i in range(LAYERS)}


def names_of(report: Path) -> list[str]:
    """Returns the module of each row, with its tensor."""
    rows = csv.DictReader(report.read_text().splitlines())
    return ["/".join(Path(r["my_data_path"]).parts[-2:]) for r in rows]


def test_modules_of_torch_come_as_msit_has_them(tmp_path: Path) -> None:
    parts = ("self_attn", "mlp", "input_layernorm")
    sides = []
    for number in (1, 2):
        process = tmp_path / f"msit_dump_{number}" / "torch_tensors" / "cpu_99"
        layers = []
        ops = ["root", "root.lm_head"]
        for i in range(LAYERS):
            at = f"root.layers.{i}"
            kinds = [module(f"{at}.{part}", part) for part in parts]
            layers.append(module(at, "Layer", *kinds))
            ops += [at, f"{at}.mlp.softmax", *(f"{at}.{part}" for part in parts)]
        # The last one first: the order differs from that of the times.
        for op in reversed(ops):
            folder = process / "0" / op
            folder.mkdir(parents=True)
            for name in ("input_0", "output_0", "output_1"):
                torch.save(torch.ones(2), folder / f"{name}.pth")
        head = module("root.lm_head", "Linear")
        layer_list = module("root.layers", "ModuleList", *layers)
        tree = module("root", "Model", layer_list, head)
        (process / "model_tree.json").write_text(json.dumps(tree))
        sides.append(str(process))
    words = ("llm", "compare", "-gp", sides[0], "-mp", sides[1])

    def rows_of(*more: str) -> list[str]:
        _, (report,) = run(tmp_path, *words, *more)
        names = names_of(report)
        if "api" in more:
            text = report.read_text()
            (root,) = (r for r in text.splitlines() if "/root/output_0.pth" in r)
            assert root.split(",")[3::7][:2] == ["Model", "Model"]
        report.unlink()
        return names

    outputs = ("output_0.pth", "output_1.pth")
    assert rows_of("-cl", "layer") == [
        f"root.layers.{i}/{name}" for i in range(LAYERS) for name in outputs
    ]
    assert rows_of("-cl", "module") == [
        f"root.layers.{i}.{part}/{name}"
        for i in range(LAYERS)
        for part in ("mlp", "self_attn")
        for name in outputs
    ]
    api = rows_of("-cl", "api")
    assert len(api) == 3 * (2 + 5 * LAYERS)
    assert [name for name in api if name.endswith("output_0.pth")][:7] == [
        f"root{name}/output_0.pth"
        for name in ("", ".layers.0", *(f".layers.0.{part}" for part in parts[:2]))
    ] + [
        f"root.layers.{name}/output_0.pth"
        for name in ("0.mlp.softmax", "0.input_layernorm", "1")
    ]
    compat = rows_of("-cl", "api", "--compat")
    assert compat == [
        name for name in api if "/output" in name and "softmax" not in name
    ]


def test_what_a_level_lacks_is_told(tmp_path: Path) -> None:
    golden = write_torch(tmp_path / "msit_dump_1", range(1))
    my = write_torch(tmp_path / "msit_dump_2", range(1))
    for part in ("root.layers.4", "root.layers.4.mlp"):
        shutil.rmtree(my / "0" / part)
    tree = json.loads((my / "model_tree.json").read_text())
    del tree["children"][0]["children"][4]
    (my / "model_tree.json").write_text(json.dumps(tree))
    (golden / "0" / "root.layers.7.mlp" / "output.pth").unlink()
    sides = ("llm", "compare", "-gp", str(golden), "-mp", str(my))
    log, _ = run(tmp_path, *sides)
    assert messages(log, "WARNING") == [
        "layer: 1 golden tensors are not compared: only in run golden (root.layers.4)",
        "module: 1 golden tensors are not compared: only in run golden (root.layers.4.mlp)",
        "module: 1 my tensors are not compared: only in run my (root.layers.7.mlp)",
        "api: 4 golden tensors are not compared: only in run golden (root.layers.4.mlp, root.layers.4, ...)",
        "api: 1 my tensors are not compared: only in run my (root.layers.7.mlp)",
        "layer: 10 pairs compared, 1 tensors unmatched, 0 need no counterpart",
        "module: 9 pairs compared, 2 tensors unmatched, 0 need no counterpart",
        "api: 61 pairs compared, 5 tensors unmatched, 0 need no counterpart",
    ]
    log, _ = run(tmp_path, *sides, "-cl", "layer")
    assert messages(log, "WARNING")[-1].startswith("layer: 10 pairs compared, 1 tens")


def rename_layers(process: Path) -> None:
    """Renames the layers of a dump, as in a model of another class."""
    tree = process / "model_tree.json"
    tree.write_text(tree.read_text().replace("root.layers", "root.model.h"))
    for folder in process.glob("*/root.layers*"):
        name = folder.name.replace("root.layers", "root.model.h")
        folder.rename(folder.with_name(name))


def test_torch_models_with_other_names_are_compared_by_place(tmp_path: Path) -> None:
    golden = write_torch(tmp_path / "msit_dump_1", range(1))
    my = write_torch(tmp_path / "msit_dump_2", range(1), error=1)
    rename_layers(my)
    sides = ("llm", "compare", "-gp", str(golden), "-mp", str(my))
    log, (report,) = run(tmp_path, *sides)
    book = openpyxl.load_workbook(report)
    assert [sheet.max_row for sheet in book] == [1 + LAYERS, 1 + LAYERS, 1 + 6 * LAYERS]
    header, *rows = list(book["layer"].values)
    layers = [dict(zip(header, row, strict=True)) for row in rows]
    assert [r["max_absolute_error"] == 0 for r in layers] == [True] * 10 + [False]
    for number, row in enumerate(layers):
        assert row["golden_data_path"].endswith(f"root.layers.{number}/output.pth")
        assert row["my_data_path"].endswith(f"root.model.h.{number}/output.pth")
    assert not messages(log, "WARNING")


def test_imported_torch_models_are_compared_by_place(
    daemon: Daemon, tmp_path: Path
) -> None:
    golden = write_torch(tmp_path / "msit_dump_1", range(1))
    my = write_torch(tmp_path / "msit_dump_2", range(1))
    rename_layers(my)
    (my / "0" / "root.extra").mkdir()
    torch.save(torch.ones(1), my / "0" / "root.extra" / "output.pth")
    for name, tree in (("golden", golden), ("my", my)):
        daemon.ctl("run", "import", str(tree), "--run", name)
    done = daemon.ctl("compare", "run", "golden", "my", "--rows", "all", expect=1)
    assert f"{6 * LAYERS} pairs of tensors by torch" in done.stderr
    assert (
        "modules of the same position"
        in daemon.ctl("compare", "rows", "c-000001", "-o", "json").stdout
    )
    unmatched = daemon.ctl_json(
        *("compare", "rows", "c-000001", "--verdict", "unmatched")
    )["rows"]
    assert [row["op"] for row in unmatched] == ["root.extra"]
    daemon.ctl("compare", "run", "golden", "my", "--match", "none", expect=1)


@pytest.mark.parametrize("text", ["{", ""])
def test_model_tree_that_is_none_is_a_warning(tmp_path: Path, text: str) -> None:
    golden = write_torch(tmp_path / "msit_dump_1", range(1))
    my = write_torch(tmp_path / "msit_dump_2", range(1))
    (my / "model_tree.json").write_text(text)
    sides = ("llm", "compare", "-gp", str(golden), "-mp", str(my))
    log, (report,) = run(tmp_path, *sides)
    (warning,) = messages(log, "WARNING")
    assert f"{os.path.realpath(my)}/model_tree.json: " in warning
    # The other tree determines the level of each module.
    book = openpyxl.load_workbook(report)
    assert [sheet.max_row for sheet in book] == [1 + LAYERS, 1 + LAYERS, 1 + 6 * LAYERS]
    report.unlink()
    (golden / "model_tree.json").write_text("[")
    log, (report,) = run(tmp_path, *sides)
    book = openpyxl.load_workbook(report)
    assert [sheet.max_row for sheet in book] == [1, 1, 1 + 6 * LAYERS]
    warnings = messages(log, "WARNING")
    assert "layer: no tensors correspond to each other" in warnings


def write_graphs(dump: Path, golden: Path, executions: dict[int, list[int]]) -> None:
    """Writes the library's dump of prefill and decode: an embedding, the layers
    and a norm each.

    `executions`: the tokens of each.
    """
    size = LAYERS + 2
    for graph, first in (("B", 0), ("A", size)):
        kinds = ["WordEmbedding", *["Layer"] * LAYERS, "RmsNormOperation"]
        nodes = [
            {"opName": f"{kind}_{first + i}", "opType": kind, "param": {}}
            for i, kind in enumerate(kinds)
        ]
        folder = dump / "model" / "4242"
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"modelName": "M", "nodes": nodes})
        (folder / f"{graph}.json").write_text(text)
        (folder / "0.json").write_text('{"hidden_size": 8}')
        for number, tokens in executions.items():
            token = tokens[0 if first == 0 else -1]
            for i, kind in enumerate(kinds):
                op = {0: "embed_tokens", LAYERS + 1: "norm"}.get(i, f"layers.{i - 1}")
                value = torch.load(
                    golden / str(token) / f"root.model.{op}" / "output.pth"
                )
                after = (
                    dump / "tensors" / "0_4242" / str(number) / f"{first + i}_{kind}"
                ) / "after"
                after.mkdir(parents=True)
                dims = ",".join(str(dim) for dim in value.shape)
                head = f"format=2\ndtype=0\ndims={dims}\n$End=1\n".encode()
                (after / "outtensor0.bin").write_bytes(head + value.numpy().tobytes())


def write_model(dump: Path, tokens: range) -> Path:
    """Writes a model with an embedding and a norm, whose prompt has 5 tokens."""
    process = dump / "torch_tensors" / "cpu_99"
    ops = ["embed_tokens", *(f"layers.{i}" for i in range(LAYERS)), "norm"]
    for token in tokens:
        torch.manual_seed(token)
        # The times carry no information.
        for op in reversed(ops):
            folder = process / str(token) / f"root.model.{op}"
            folder.mkdir(parents=True)
            value = torch.randn(1 if token > 0 else 5, 4)
            torch.save(value, folder / "output.pth")
    layers = [module(f"root.model.layers.{i}", "Layer") for i in range(LAYERS)]
    tree = module(
        "root",
        "Model",
        module(
            "root.model",
            "Inner",
            module("root.model.embed_tokens", "Embedding"),
            module("root.model.layers", "ModuleList", *layers),
            module("root.model.norm", "RMSNorm"),
        ),
    )
    (process / "model_tree.json").write_text(json.dumps(tree))
    return process


def layer_rows(folder: Path, golden: Path | str, my: Path | str) -> list[list[str]]:
    """Returns token, golden and my op of each row; all values must be equal."""
    words = ("llm", "compare", "-gp", str(golden), "-mp", str(my), "-cl", "layer")
    _, (report,) = run(folder, *words)
    rows = list(csv.DictReader(report.read_text().splitlines()))
    report.unlink()
    assert {r["max_absolute_error"] for r in rows} == {"0.0"}
    assert [r["data_id"] for r in rows] == [str(i) for i in range(len(rows))]

    def op_of(path: str) -> str:
        parts = Path(path).parts
        return parts[-3] if parts[-2] == "after" else parts[-2]

    paths = ("golden_data_path", "my_data_path")
    return [[r["token_id"], *(op_of(r[path]) for path in paths)] for r in rows]


def test_prefill_and_decode_are_compared_token_by_token(tmp_path: Path) -> None:
    golden = write_model(tmp_path / "msit_dump_1", range(3))
    my = tmp_path / "msit_dump_2"
    # The warm-up has only files: it is not a token.
    write_graphs(my, golden, {0: [1, 1], 1: [0, 1], 2: [2, 2]})
    ops = ["embed_tokens", *(f"layers.{i}" for i in range(LAYERS)), "norm"]
    kinds = ["WordEmbedding", *["Layer"] * LAYERS, "RmsNormOperation"]
    size = len(ops)

    def expected(tokens: list[int], *, is_turned: bool = False) -> list[list[str]]:
        rows = []
        for token in tokens:
            first = 0 if token == 0 else size
            pairs = [
                [str(token), f"root.model.{op}", f"{first + i}_{kind}"]
                for i, (op, kind) in enumerate(zip(ops, kinds, strict=True))
            ]
            if is_turned:
                # In msit's order of torch modules: the layers first.
                turned = [*pairs[1:-1], pairs[0], pairs[-1]]
                pairs = [[number, op, name] for number, name, op in turned]
            rows += pairs
        return rows

    # A dump may also contain the third execution of prefill.
    for path in (my / "tensors" / "0_4242" / "2").glob("[0-9]_*"):
        shutil.rmtree(path)
    for i in range(10, size):
        shutil.rmtree(my / "tensors" / "0_4242" / "2" / f"{i}_{kinds[i]}")
    assert layer_rows(tmp_path, golden, my) == expected([0, 1, 2])
    assert layer_rows(tmp_path, my, golden) == expected([0, 1, 2], is_turned=True)
    execution = my / "tensors" / "0_4242" / "1"
    assert layer_rows(tmp_path, golden, execution) == expected([0, 1])
    assert layer_rows(tmp_path, f"{golden}/1", execution) == expected([1])
    # Each of two dumps of the library has a warm-up.
    rows = layer_rows(tmp_path, shutil.copytree(my, f"{my}_copy"), my)
    assert len(rows) == 5 * LAYERS
    # It is compared by itself if the user names it.
    warm_up = my / "tensors" / "0_4242" / "0"
    rows = layer_rows(tmp_path, f"{golden}/1", warm_up)
    assert [row[0] for row in rows] == ["0"] * 2 * size


def test_a_warm_up_alone_is_no_token(tmp_path: Path) -> None:
    golden = write_model(tmp_path / "msit_dump_1", range(2))
    my = tmp_path / "msit_dump_2"
    write_graphs(my, golden, {0: [0, 1]})
    log, reports = run(tmp_path, "llm", "compare", "-gp", str(golden), "-mp", str(my))
    assert not reports
    assert messages(log, "ERROR") == [
        "my tokens is [warmup] and golden tokens is [0, 1]. The two cannot be matched."
    ]


def test_what_the_library_lacks_is_told(tmp_path: Path) -> None:
    golden = write_torch(tmp_path / "msit_dump_1", range(1))
    my = tmp_path / "msit_dump_2"
    write_library(my, golden)
    shutil.rmtree(my / "tensors" / "0_4242" / "0" / "3_Layer")
    words = ("llm", "compare", "-gp", str(golden), "-mp", str(my), "-cl", "layer")
    log, _ = run(tmp_path, *words)
    why = "its counterpart was not recorded"
    assert messages(log, "WARNING") == [
        f"layer: 1 golden tensors are not compared: {why} (root.layers.3)",
        "layer: 10 pairs compared, 1 tensors unmatched, 55 need no counterpart",
    ]
    for path in my.rglob("outtensor0.bin"):
        path.write_bytes(b"format=2\ndtype=0\ndims=1\n$End=1\n" + bytes(4))
    log, _ = run(tmp_path, *words)
    warnings = messages(log, "WARNING")
    assert "layer: no tensors correspond to each other" in warnings
    assert warnings[-1].startswith("layer: 0 pairs compared, 21 tensors unmatched, ")


def test_tensors_that_are_there_twice_are_told(tmp_path: Path) -> None:
    golden = write_torch(tmp_path / "msit_dump_1", range(1))
    my = tmp_path / "msit_dump_2"
    write_library(my, golden)
    op = os.path.realpath(my / "tensors" / "0_4242" / "0" / "3_Layer")
    text = Path(op, "after", "outtensor0.bin").read_bytes()
    Path(op, "outtensor0.bin").write_bytes(text[:-4] + b"\0\0\0\0")
    words = ("llm", "compare", "-gp", str(golden), "-mp", str(my), "-cl", "layer")
    log, _ = run(tmp_path, *words)
    warnings = messages(log, "WARNING")
    assert any(
        "outtensor0.bin: tensor 3_Layer was already imported from " in text
        for text in warnings
    )
    assert "1 tensors are not compared: their names were already in use" in warnings


def test_tokens_that_the_user_names_are_compared(tmp_path: Path) -> None:
    golden = write_torch(tmp_path / "msit_dump_1", range(1))
    my = write_torch(tmp_path / "msit_dump_2", range(1, 2))
    sides = ("-gp", str(golden), "-mp", str(my))
    log, reports = run(tmp_path, "llm", "compare", *sides)
    assert not reports
    assert messages(log, "ERROR") == [
        "my tokens is [1] and golden tokens is [0]. The two cannot be matched."
    ]
    sides = ("-gp", f"{golden}/0", "-mp", f"{my}/1/")
    _, (report,) = run(tmp_path, "llm", "compare", *sides, "-cl", "api")
    rows = list(csv.DictReader(report.read_text().splitlines()))
    assert len(rows) == 6 * LAYERS
    assert {r["token_id"] for r in rows} == {"1"}
    assert all("/cpu_99/0/" in r["golden_data_path"] for r in rows)


def write_mindie(folder: Path, values: dict[str, np.ndarray]) -> None:
    """Writes Relu ops of MindIE, the modules of torch, and both mappings."""
    step = folder / "npu" / "Graph" / "1" / "0"
    step.mkdir(parents=True)
    rt, nodes = [], []
    for i, (name, value) in enumerate(values.items()):
        module_folder = folder / "cpu" / "0" / f"root.{name}"
        module_folder.mkdir(parents=True)
        torch.save(torch.from_numpy(value), module_folder / "output.pth")
        op, layer = f"Relu_{i}", f"layer_{i}"
        output = torchair_dump.dumped(value)
        ge_dump.write(step / f"Relu.{op}.1.2.{1756699200000000 + i}", [], [output], op)
        number = len(values) - i
        rt.append({"id": number, "rt_layer": layer, "ge_op": op, "fusion_ops": [op]})
        node = f"%a = aten::relu(%b), scope: __module.x/__module.{name} # f.py:1:0"
        nodes.append({"jit_node": node, "rt_layer": layer})
    (folder / "mindie_rt_op_mapping.json").write_text(json.dumps(rt))
    (folder / "mindie_torch_op_mapping.json").write_text(json.dumps(nodes))


MINDIE = ("debug", "compare", "-gp", "cpu/0", "-mp", "npu/Graph", "--ops-json", ".")


def test_mindie_is_compared_with_torch(tmp_path: Path) -> None:
    good = np.array([[1, 2], [3, 4]], np.float32)
    bad = np.array([1, np.nan], np.float32)
    write_mindie(tmp_path, {"a.relu": bad, "b.relu": good})
    log, (report,) = run(tmp_path, *MINDIE)
    assert report.read_bytes().decode() == (
        "Key,cosine_similarity,max_relative_error,mean_relative_error,"
        "max_absolute_error,mean_absolute_error,kl_divergence,"
        "relative_euclidean_distance,cmp_fail_reason\r\n"
        "b.relu,1.0,0.0,0.0,0.0,0.0,0.0,0.0,\r\n"
        "a.relu,,,,,,,,cpu_data includes NAN or inf. npu_data includes NAN or inf.\r\n"
    )
    assert log[-1] == (
        "msit_debug_loger",
        "INFO",
        f"compare resut has been saved on '{os.path.realpath(report)}' .",
    )
    assert "2 tensors were matched in total." in messages(log, "INFO")
    op_map = json.loads((tmp_path / "op_map_updated.json").read_text())
    assert list(op_map) == ["Relu_1", "Relu_0"]
    assert op_map["Relu_0"]["fuse_path"][0]["ge_op"] == "Relu_0"
    first = report.read_bytes()
    for path in ("npu", "npu/Graph/1/0"):
        words = list(MINDIE)
        words[5] = path
        _, (report,) = run(tmp_path, *words)
        assert report.read_bytes() == first


def test_what_mindie_lacks_is_counted(tmp_path: Path) -> None:
    values = {f"{name}.relu": np.ones(3, np.float32) for name in "abc"}
    write_mindie(tmp_path, values)
    (path,) = (tmp_path / "npu").rglob("Relu.Relu_0.*")
    path.unlink()
    shutil.rmtree(tmp_path / "cpu" / "0" / "root.b.relu")
    extra = tmp_path / "cpu" / "0" / "root.other"
    extra.mkdir()
    torch.save(torch.ones(2), extra / "output.pth")
    log, _ = run(tmp_path, *MINDIE)
    assert messages(log, "WARNING")[-1] == (
        "1 pairs compared, 2 tensors unmatched, 1 need no counterpart, 0 rows left out"
    )


def test_mindie_needs_both_mappings(tmp_path: Path) -> None:
    write_mindie(tmp_path, {"a.relu": np.ones(2, np.float32)})
    (tmp_path / "mindie_torch_op_mapping.json").unlink()
    ((_, _, text),), _ = run(tmp_path, *MINDIE, expect=1)
    assert "mindie_torch_op_mapping.json" in text
    assert text.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_mappings_are_those_that_are_named_though_they_are_links(
    tmp_path: Path,
) -> None:
    write_mindie(tmp_path, {"a.relu": np.ones(2, np.float32)})
    (tmp_path / "ops").mkdir()
    for path in list(tmp_path.glob("mindie_*.json")):
        real = path.rename(tmp_path / f"real_{path.name}")
        (tmp_path / "ops" / path.name).symlink_to(real)
        (tmp_path / "npu" / path.name).write_text('"of another model"')
    log, (report,) = run(tmp_path, *MINDIE[:-1], "ops")
    assert "1 tensors were matched in total." in messages(log, "INFO")
    assert messages(log, "WARNING") == []
    assert len(report.read_text().splitlines()) == 2


@pytest.mark.parametrize("text", ["[]", "{", '[{"id": 1}]'])
def test_mapping_that_is_none_leaves_no_report(tmp_path: Path, text: str) -> None:
    write_mindie(tmp_path, {"a.relu": np.ones(2, np.float32)})
    (tmp_path / "mindie_torch_op_mapping.json").write_text(text)
    run(tmp_path, *MINDIE, expect=1)
    assert not (tmp_path / "out").exists()
