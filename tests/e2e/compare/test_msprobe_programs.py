"""Verbs of the command msprobe that are Python programs: overflow_check, merge_result
and graph_visualize.
"""

import json
import math
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
from msit_command import run_msprobe
from report_pairs import GROUP, Data, arguments, tensor, value, write_dump

BAD = {"Max": math.nan, "Min": math.nan, "Mean": math.nan, "Norm": math.nan}


def msprobe(folder: Path, *words: str, expect: int = 0) -> str:
    """Runs `msprobe WORDS` in a folder, and returns what it prints."""
    done = run_msprobe(folder, *words, expect=expect)
    return done.stdout + done.stderr


def write_ranks(folder: Path, *ranks: Data) -> None:
    """Writes a step with these ranks."""
    for number, data in enumerate(ranks):
        write_dump(folder / "one", "summary", data)
        (folder / "step0").mkdir(exist_ok=True)
        (folder / "one/step0/rank0").rename(folder / f"step0/rank{number}")
        (folder / "one/step0").rmdir()
        (folder / "one").rmdir()


def origins(folder: Path) -> dict[str, list[str]]:
    """Returns the names that overflow_check finds on each rank."""
    msprobe(folder, "overflow_check", "-i", "step0", "-o", "out")
    if not (folder / "out").exists():
        return {}
    (path,) = (folder / "out").iterdir()
    found: dict[str, list[dict[str, Any]]] = json.loads(path.read_text())
    path.unlink()
    return {rank: [call["op_name"] for call in calls] for rank, calls in found.items()}


def reduce_of(leaf: Data, result: Data) -> Data:
    return arguments(leaf, group=GROUP, output=result)


def test_the_first_bad_call_is_the_origin(tmp_path: Path) -> None:
    bad = tensor() | BAD
    write_ranks(
        tmp_path,
        {
            "Torch.empty.0.forward": arguments(tensor(), output=bad),
            "Torch.good.0.forward": arguments(tensor()),
            "Torch.bad.0.forward": arguments(tensor(), value("int", 2), output=bad),
            "Torch.worse.0.forward": arguments(tensor(), output=bad),
        },
    )
    rank = tmp_path / "step0/rank0"
    (rank / "construct.json").write_text(
        json.dumps({"Torch.bad.0.forward": "Module.a.A.forward.0", "Module.a": None})
    )
    (rank / "stack.json").write_text(
        json.dumps({"0": [["Torch.bad.0.forward"], ["File a.py, line 1, in f"]]})
    )
    msprobe(tmp_path, "nan_analyze", "-i", "step0", "-o", "out")
    (path,) = (tmp_path / "out").iterdir()
    (call,) = json.loads(path.read_text())["rank_0"]
    assert call["op_name"] == "Torch.bad.0.forward"
    assert call["construct_info"] == ["Module.a.A.forward.0", "Torch.bad.0.forward"]
    assert call["stack_info"] == ["File a.py, line 1, in f"]
    assert call["data_info"]["input_args"][1] == value("int", 2)


def test_origins_after_a_communication_belong_to_its_source(tmp_path: Path) -> None:
    """Rank 1 poisons the collective; rank 0 has an origin of its own after it."""
    bad = tensor() | BAD
    write_ranks(
        tmp_path,
        {
            "Distributed.all_reduce.0.forward": reduce_of(tensor(), bad),
            "Torch.later.0.forward": arguments(tensor(), output=bad),
        },
        {
            "Torch.first.0.forward": arguments(tensor(), output=bad),
            "Distributed.all_reduce.0.forward": reduce_of(bad, bad),
        },
    )
    assert origins(tmp_path) == {"rank_1": ["Torch.first.0.forward"]}


def test_messages_have_a_direction(tmp_path: Path) -> None:
    bad = tensor() | BAD
    good = arguments(tensor())
    for source, expected in ((0, ["rank_0"]), (1, ["rank_0", "rank_1"])):
        folder = tmp_path / str(source)
        folder.mkdir()
        send = arguments(tensor(), value("int", 1 - source))
        receive = arguments(tensor(), value("int", source))
        origin = {"Torch.f.0.forward": arguments(tensor(), output=bad)}
        message = [
            {"Distributed.send.0.forward": send},
            {"Distributed.recv.0.forward": receive},
        ]
        ours, theirs = message if source == 0 else message[::-1]
        # Rank 0 is bad before the message, rank 1 after it.
        write_ranks(
            folder, origin | ours, {"Torch.g.0.forward": good} | theirs | origin
        )
        assert sorted(origins(folder)) == expected


def test_names_of_modules_do_not_decide_the_pass(tmp_path: Path) -> None:
    """Outputs are those of the own record, even if modules are called `output`."""
    bad = tensor() | BAD
    forward = arguments(bad, output=bad)
    write_ranks(
        tmp_path,
        {
            "Module.rnn.backward_layer.Linear.forward.0": forward,
            "Module.rnn.forward.Linear.backward.0": {"input": [bad], "output": [bad]},
            "Module.a.backward.Linear.forward.0": arguments(tensor(), output=bad),
        },
    )
    assert origins(tmp_path) == {"rank_0": ["Module.a.backward.Linear.forward.0"]}


def test_ranks_of_equal_numbers_have_their_own_keys(tmp_path: Path) -> None:
    bad = {"Torch.f.0.forward": arguments(tensor(), output=tensor() | BAD)}
    write_ranks(tmp_path, bad, bad, bad)
    (tmp_path / "step0/rank1").rename(tmp_path / "step0/rank")
    (tmp_path / "step0/rank2").rename(tmp_path / "step0/proc5")
    found = {key: ["Torch.f.0.forward"] for key in ("rank_0 (rank)", "rank_0 (rank0)")}
    assert origins(tmp_path) == found | {"rank_5": ["Torch.f.0.forward"]}


def test_good_dumps_have_no_file(tmp_path: Path) -> None:
    write_ranks(tmp_path, {"Torch.f.0.forward": arguments(tensor())})
    assert origins(tmp_path) == {}
    bad = tensor() | BAD
    (tmp_path / "step0/rank0").rename(tmp_path / "kept")
    write_ranks(tmp_path, {"Torch.f.0.forward": arguments(bad, output=bad)})
    said = msprobe(tmp_path, "overflow_check", "-i", "step0")
    assert "[WARNING] 1 of 1 ranks have NaN or infinities, but no call" in said


def test_damaged_dumps_are_errors(tmp_path: Path) -> None:
    write_ranks(tmp_path, {"Torch.f.0.forward": arguments(tensor())})
    for text in ("", "[" * 100000, '{"data": 3}', '{"data": {"a": [1]}}', "\0"):
        (tmp_path / "step0/rank0/dump.json").write_text(text)
        code = 0 if text.endswith("}}") else 1
        said = msprobe(tmp_path, "overflow_check", "-i", "step0", expect=code)
        assert len(said.splitlines()) == 1, said
        path = ("-tp", "step0", "-o", "graph")
        said = msprobe(tmp_path, "graph_visualize", *path, expect=code)
        assert len(said.splitlines()) == 1, said
    assert "step9" in msprobe(tmp_path, "overflow_check", "-i", "step9", expect=1)


def compare_ranks(folder: Path, *flags: str) -> None:
    """Compares two ranks into `reports`."""
    for run, high in (("g", 2.0), ("t", 3.0)):
        (folder / run).mkdir()
        data = {
            "Torch.f.0.forward": arguments(tensor(high=high), output=tensor(high=high)),
            "Torch.g.0.forward": arguments(tensor()),
        }
        other = {"Torch.f.0.forward": arguments(tensor(high=2 * high))}
        write_ranks(folder / run, data, other)
    path = ("-tp", "t/step0", "-gp", "g/step0", "-o", "reports")
    msprobe(folder, "compare", *path, *flags)


def test_reports_of_ranks_are_joined(tmp_path: Path) -> None:
    for flags in (("--xlsx",), ()):
        folder = tmp_path / str(len(flags))
        folder.mkdir()
        compare_ranks(folder, *flags)
        (folder / "merge.yaml").write_text(
            "api: [Torch.f, Torch.g]\ncompare_index:\n- Max diff\n- MaxRelativeErr\n"
        )
        words = ("-i", "reports", "-o", "merged", "-config", "merge.yaml")
        said = msprobe(folder, "merge_result", *words)
        (path,) = (folder / "merged").iterdir()
        book = openpyxl.load_workbook(path)
        assert book.sheetnames == ["Max diff", "MaxRelativeErr"]
        assert list(book["Max diff"].iter_rows(values_only=True)) == [
            ("NPU Name", "rank0", "rank1"),
            ("Torch.f.0.forward.input.0", 1, 2),
            ("Torch.f.0.forward.output.0", 1, 0),
            ("Torch.g.0.forward.input.0", 0, None),
            ("Torch.g.0.forward.output.0", 0, None),
        ]
        assert book["MaxRelativeErr"]["B2"].value == "50.0%"
        assert "2 cells of each sheet are empty" in said


def test_errors_of_merge_result(tmp_path: Path) -> None:
    compare_ranks(tmp_path, "--xlsx")
    words = ("merge_result", "-i", "reports", "-o", "merged", "-config", "merge.yaml")
    for text in (
        "api: Torch.f",
        "compare_index: [Max diff]",
        "api: [nothing]",
        "api: [Torch]\ncompare_index: [nothing]",
        "api: [Torch",
        "- a",
    ):
        (tmp_path / "merge.yaml").write_text(text)
        assert len(msprobe(tmp_path, *words, expect=1).splitlines()) == 1, text
    (tmp_path / "merge.yaml").write_text("api: [Torch]")
    for path in (tmp_path / "reports").iterdir():
        path.write_bytes(path.read_bytes()[:-100])
    assert "cannot be read" in msprobe(tmp_path, *words, expect=1)
    assert not (tmp_path / "merged").exists()


def merge(folder: Path, expect: int = 0) -> str:
    """Joins `reports` into `merged`."""
    (folder / "merge.yaml").write_text("api: [Torch]\ncompare_index: [Max diff]")
    words = ("-i", "reports", "-o", "merged", "-config", "merge.yaml")
    return msprobe(folder, "merge_result", *words, expect=expect)


def test_the_newest_report_of_a_rank_is_used(tmp_path: Path) -> None:
    """Times and numbers of files are numbers, and `rank0-rank1` says nothing of them."""
    (tmp_path / "reports").mkdir()
    names = (
        *("rank0-rank0_20260101000000", "rank0_20270101000000"),
        *("rank0_20270101000000_9", "rank0_20270101000000_10"),
    )
    for number, name in enumerate(names):
        (tmp_path / f"reports/compare_result_{name}.csv").write_text(
            f"NPU Name,Max diff\nTorch.f.0.forward.input.0,{number}\n"
        )
    (tmp_path / "reports/compare_result_step1_rank1_20270101000000.csv").touch()
    log = merge(tmp_path)
    (path,) = (tmp_path / "merged").iterdir()
    sheet = openpyxl.load_workbook(path)["Max diff"]
    assert sheet["B2"].value == len(names) - 1
    assert log.count("is not used") == len(names)
    assert "compare_result_step1_rank1_20270101000000.csv is not used" in log


def test_cells_outside_of_a_sheet_are_errors(tmp_path: Path) -> None:
    compare_ranks(tmp_path, "--xlsx")
    path = min((tmp_path / "reports").iterdir())
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    name = "xl/worksheets/sheet1.xml"
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    wide = '<row r="2"><c r="XFD2"/></row>' * 5000
    for rows in (
        '<row r="1"><c r="ZZZZZZZ1"/></row>',
        '<row r="1"><c r="XFE1"/></row>',
        '<row r="1"><c r="é1"/></row>',
        '<row r="1"><c r="B1"/><c r="A1"/></row>',
        '<row r="1"><c r="A1" t="s"><v>-1</v></c></row>',
        wide,
    ):
        xml = f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>'
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
            for part, data in (parts | {name: xml.encode()}).items():
                book.writestr(part, data)
        said = merge(tmp_path, expect=1)
        assert "cannot be read" in said, said
        assert len(said.splitlines()) == 1, said


def nodes_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Returns the nodes in the only database of a folder, by id."""
    (path,) = folder.iterdir()
    database = sqlite3.connect(path)
    database.row_factory = sqlite3.Row
    try:
        return {r["id"]: dict(r) for r in database.execute("SELECT * FROM tb_nodes")}
    finally:
        database.close()


def write_model(folder: Path, high: float) -> None:
    """Writes a dump of a module with a function in it, and two at the top."""
    leaf = tensor(high=high) | {"Norm": 2 * high}
    module = arguments(tensor(), output=leaf) | {"parameters": {"weight": tensor()}}
    data: Data = {
        "Functional.linear.0.forward": arguments(tensor(), output=leaf),
        "Module.fc.Linear.forward.0": module,
        "Torch.a.0.forward": arguments(tensor(), value("float", 1.5)),
        "Torch.b.0.forward": arguments(tensor()),
        "Module.fc.Linear.backward.0": {"input": [tensor()], "output": [None]},
        "Module.fc.Linear.parameters_grad.0": {"weight": [tensor()]},
    }
    write_dump(folder, "summary", data)
    parents = dict.fromkeys(data) | {
        "Functional.linear.0.forward": "Module.fc.Linear.forward.0"
    }
    del parents["Module.fc.Linear.parameters_grad.0"]
    rank = folder / "step0/rank0"
    (rank / "construct.json").write_text(json.dumps(parents))
    (rank / "stack.json").write_text(
        json.dumps({"0": [["Module.fc.Linear.forward.0"], ["File a.py, line 1, in f"]]})
    )


def test_the_graph_of_one_dump(tmp_path: Path) -> None:
    write_model(tmp_path / "t", 2.0)
    msprobe(tmp_path, "graph_visualize", "-tp", "t/step0/rank0", "-o", "out")
    nodes = nodes_of(tmp_path / "out")
    children = {
        node["node_name"]: json.loads(node["sub_nodes"] or "[]")
        for node in nodes.values()
    }
    assert children["DefaultModel"] == [
        "Module.fc.Linear.forward.0",
        "Apis_Between_Modules.0",
        "Module.fc.Linear.backward.0",
    ]
    assert children["Apis_Between_Modules.0"] == [
        "Torch.a.0.forward",
        "Torch.b.0.forward",
    ]
    gradients = ["Module.fc.Linear.parameters_grad.0"]
    assert children["Module.fc.Linear.backward.0"] == gradients
    order = sorted(nodes.values(), key=lambda node: node["node_order"])
    assert order[0]["node_name"] == "Functional.linear.0.forward"
    assert order[-1]["node_name"] == "DefaultModel"
    module = nodes["NPU_0_0_Module.fc.Linear.forward.0"]
    assert list(json.loads(module["input_data"])) == [
        "Module.fc.Linear.forward.0.input.0",
        "Module.fc.Linear.forward.0.parameters.weight",
    ]
    backward = nodes["NPU_0_0_Module.fc.Linear.backward.0"]
    assert backward["stack_id"] == module["stack_id"]
    scalar = json.loads(nodes["NPU_0_0_Torch.a.0.forward"]["input_data"])
    assert scalar["Torch.a.0.forward.input.1"]["Max"] == "1.5"


def test_the_graph_of_two_dumps(tmp_path: Path) -> None:
    write_model(tmp_path / "g", 2.0)
    write_model(tmp_path / "t", 9.0)
    paths = ("-tp", "t/step0", "-gp", "g/step0", "-o", "out")
    msprobe(tmp_path, "graph_visualize", *paths)
    nodes = nodes_of(tmp_path / "out")
    indices = {
        node["node_name"]: node["precision_index"]
        for node in nodes.values()
        if node["data_source"] == "NPU"
    }
    assert indices["Functional.linear.0.forward"] == 1
    assert indices["Torch.a.0.forward"] == 0
    assert indices["Apis_Between_Modules.0"] == 0
    assert indices["DefaultModel"] is None
    linear = nodes["NPU_0_0_Functional.linear.0.forward"]
    leaf = json.loads(linear["output_data"])["Functional.linear.0.forward.output.0"]
    assert (leaf["Max diff"], leaf["Result"]) == ("7.0", "error")
    assert json.loads(linear["matched_node_link"]) == [
        "DefaultModel",
        "Module.fc.Linear.forward.0",
        "Functional.linear.0.forward",
    ]
    assert "Bench_0_0_Functional.linear.0.forward" in nodes
    # Nothing remains of the comparison.
    assert {path.name for path in tmp_path.iterdir()} == {"g", "t", "out"}


def indices_of(folder: Path) -> dict[str, float | None]:
    """Compares the dumps `t` and `g`, and returns the results of the target's nodes."""
    msprobe(folder, "graph", *("-tp", "t/step0", "-gp", "g/step0", "-o", "out", "-fm"))
    return {
        node["node_name"]: node["precision_index"]
        for node in nodes_of(folder / "out").values()
        if node["data_source"] == "NPU"
    }


def test_unmatched_tensors_colour_their_node(tmp_path: Path) -> None:
    """Neither they nor calls without a counterpart look like equal ones."""
    both: Data = {"Torch.c.0.forward": arguments(tensor())}
    write_dump(tmp_path / "g", "summary", both)
    lone = {f"Torch.{name}.0.forward": arguments(tensor()) for name in "de"}
    between = {"Module.m.M.forward.0": arguments(tensor())}
    more = {"Torch.c.0.forward": arguments(tensor(), tensor())}
    write_dump(tmp_path / "t", "summary", more | between | lone)
    indices = indices_of(tmp_path)
    assert indices["Torch.c.0.forward"] == 0.5
    assert indices["Torch.d.0.forward"] is None
    assert indices["Apis_Between_Modules.0"] is None
    (row,) = (
        node
        for node in nodes_of(tmp_path / "out").values()
        if node["id"] == "NPU_0_0_Torch.c.0.forward"
    )
    leaf = json.loads(row["input_data"])["Torch.c.0.forward.input.1"]
    assert leaf["Result"] == "warning"


def test_modules_may_be_called_output(tmp_path: Path) -> None:
    names = [
        f"Module.bert.{name}.output.Linear.forward" for name in ("input", "output")
    ]
    for run, call in (("g", 1), ("t", 0)):
        data = {f"{name}.{call}": arguments(tensor()) for name in names}
        write_dump(tmp_path / run, "summary", data)
    assert indices_of(tmp_path) == {"DefaultModel": None} | {
        f"{name}.0": 0 for name in names
    }
    for node in nodes_of(tmp_path / "out").values():
        if node["id"] in {f"NPU_0_0_{name}.0" for name in names}:
            link = json.loads(node["matched_node_link"])
            assert link[-1] == node["node_name"][:-1] + "1"


def test_cycles_of_modules_end(tmp_path: Path) -> None:
    write_model(tmp_path / "t", 2.0)
    loop = {"Module.a.A.forward.0": "Module.b.B.forward.0"}
    loop |= {"Module.b.B.forward.0": "Module.a.A.forward.0", "c": "c", "d": "gone"}
    (tmp_path / "t/step0/rank0/construct.json").write_text(json.dumps(loop))
    msprobe(tmp_path, "graph_visualize", "-tp", "t/step0", "-o", "out")
    names = {node["node_name"] for node in nodes_of(tmp_path / "out").values()}
    assert {*loop, "Functional.linear.0.forward"} <= names
