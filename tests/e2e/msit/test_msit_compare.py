"""`msit llm compare` of dumps of TorchAir."""

import csv
import os
import shutil
import signal
import subprocess
from pathlib import Path

import ge_dump
import numpy as np
import pytest
import torchair_dump
from msit_command import log_of, msit
from torchair_dump import ge_tokens, rank_folder, write_new_layout

from daemon import BIN_DIR

HEADINGS = (
    "token_id,data_id,golden_data_path,golden_op_type,golden_dtype,golden_shape,"
    "golden_max_value,golden_min_value,golden_mean_value,my_data_path,my_op_type,"
    "my_dtype,my_shape,my_max_value,my_min_value,my_mean_value,cosine_similarity,"
    "max_relative_error,mean_relative_error,max_absolute_error,mean_absolute_error,"
    "kl_divergence,relative_euclidean_distance,cmp_fail_reason"
)

# The expected pairs in the order of the report: a file without its time, and
# the tensor in it. The numbers are those of msit.
PAIRS = [
    (4, "add-aten.add.Tensor.INPUT.0", "Add,inputs,0"),
    (5, "add-aten.add.Tensor.INPUT.1", "Add,inputs,1"),
    (6, "add-aten.add.Tensor.OUTPUT.0", "Add,outputs,0"),
    (7, "mm-aten.mm.default.INPUT.0", "MatMul,inputs,0"),
    (8, "mm-aten.mm.default.INPUT.1", "MatMul,inputs,1"),
    (9, "mm-aten.mm.default.OUTPUT.0", "MatMul,outputs,0"),
    (0, "mul-aten.mul.Tensor.INPUT.0", "Mul_1Relu_2,inputs,0"),
    (1, "mul-aten.mul.Tensor.INPUT.1", "Mul_1Relu_2,inputs,1"),
    (2, "relu-aten.relu.default.OUTPUT.0", "Mul_1Relu_2,outputs,0"),
    (3, "trans_TransData_7,inputs,0", "trans_TransData_7,outputs,0"),
    (10, "sub-aten.sub.Tensor.INPUT.0", "Sub,inputs,0"),
    (11, "sub-aten.sub.Tensor.INPUT.1", "Sub,inputs,1"),
    (12, "sub-aten.sub.Tensor.OUTPUT.0", "Sub,outputs,0"),
]


def short(path: str) -> str:
    """Returns `Add,inputs,0` for the path of a GE file, `NODE.INPUT.0` for one
    of FX.
    """
    name, comma, tensor = Path(path).name.partition(",")
    if name.endswith(".npy"):
        return name.rsplit(".", 2)[0]
    return name.split(".")[1] + comma + tensor


def compare(
    folder: Path, *words: str, expect: int = 0
) -> tuple[list[tuple[str, str, str]], dict[str, list[dict[str, str]]]]:
    """Compares `golden` with `my`. Returns the log, and the rows of each report."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    done = msit(
        folder,
        *("llm", "compare", "-gp", "golden", "-mp", "my", "-o", "out", *words),
        expect=expect,
        environment={"TMPDIR": str(temporary)},
    )
    assert not os.listdir(temporary)
    if expect != 0:
        return [("", "", done.stderr)], {}
    reports = {}
    for path in sorted((folder / "out").glob("*")):
        assert path.stat().st_mode & 0o777 == 0o640
        text = path.read_text()
        assert text.startswith(HEADINGS + "\n")
        if path.name.startswith("msit_cmp_report_"):
            reports[path.name] = list(csv.DictReader(text.splitlines()))
        path.unlink()
    return log_of(done.stderr), reports


def messages(log: list[tuple[str, str, str]], level: str) -> list[str]:
    return [message for _, found, message in log if found == level]


def pairs_of(rows: list[dict[str, str]]) -> list[tuple[int, str, str]]:
    return [
        (int(r["data_id"]), short(r["golden_data_path"]), short(r["my_data_path"]))
        for r in rows
    ]


def test_graph_is_compared_with_its_fx_nodes(tmp_path: Path) -> None:
    write_new_layout(tmp_path, error=0.5)
    log, reports = compare(tmp_path)
    ((name, rows),) = reports.items()
    assert name.startswith("msit_cmp_report_rank0_20")
    per_token = len(PAIRS)
    assert pairs_of(rows[:per_token]) == PAIRS
    assert pairs_of(rows[per_token:]) == [(i + 13, *pair) for i, *pair in PAIRS]
    assert [r["token_id"] for r in rows] == ["0"] * per_token + ["1"] * per_token
    assert {Path(r["my_data_path"]).is_absolute() for r in rows} == {True}
    wrong = [r for r in rows if r["relative_euclidean_distance"] != "0.0"]
    assert [short(r["my_data_path"]) for r in wrong] == ["Add,outputs,0"] * 2
    assert float(wrong[0]["max_absolute_error"]) == 0.5
    golden = torchair_dump.tensors()["add"].astype(np.float64)
    assert float(wrong[0]["relative_euclidean_distance"]) == pytest.approx(
        0.5 / np.linalg.norm(golden), rel=1e-6
    )
    assert (wrong[0]["golden_dtype"], wrong[0]["my_shape"]) == (
        "torch.float32",
        "[4, 4]",
    )
    real = os.path.realpath(tmp_path)
    infos = messages(log, "INFO")
    assert infos[0].startswith(
        f"[compare_torchair], golden_path: {real}/golden/worldsize2_global_rank0, "
        f"my_path: {real}/my/worldsize2_global_rank0, ge_graph_path: ['{real}/my/dyn"
    )
    for text in (
        "Comparing GE with FX",
        "All token ids in my_dump_data: dict_keys([0, 1])",
        "All token ids in golden_dump_data: dict_keys([0, 1])",
        "Comparing token_id: 0",
        "Comparing token_id: 1",
        f"Saved comparing results: {real}/out/{name}",
    ):
        assert text in infos
    # Ops that GE inserted are compared with themselves.
    assert infos[-1] == (
        "26 pairs compared, 0 tensors unmatched, 4 need no counterpart, 0 rows left out"
    )
    assert not messages(log, "WARNING")


def test_what_is_not_compared_with_itself_belongs_to_none(tmp_path: Path) -> None:
    write_new_layout(tmp_path, range(1))
    (path,) = (tmp_path / "my").rglob("TransData.*")
    relu = torchair_dump.dumped(torchair_dump.tensors()["relu"])
    ge_dump.write(path, [relu], [], "trans_TransData_7")
    log, reports = compare(tmp_path)
    ((_, rows),) = reports.items()
    assert len(rows) == len(PAIRS) - 1
    infos = messages(log, "INFO")
    assert infos[-1].startswith("12 pairs compared, 0 tensors unmatched, 3 need")
    assert any(
        text.startswith("1 my tensors are not compared: inserted by GE")
        for text in infos
    )


def test_old_layout_counts_steps_from_one(tmp_path: Path) -> None:
    torchair_dump.write_graph(tmp_path / "my")
    for token in (0, 1):
        ge = ge_tokens(tmp_path / "my") / str(token)
        torchair_dump.write_ge(ge, token)
        step = tmp_path / "golden" / "data_dump" / str(token + 1)
        torchair_dump.write_fx(step / "gm_20250901_dump", token)
    torchair_dump.write_ge(ge_tokens(tmp_path / "my") / "5", 5)
    log, reports = compare(tmp_path, "--rank", "3")
    ((name, rows),) = reports.items()
    assert name.startswith("msit_cmp_report_20")
    assert pairs_of(rows[:13]) == PAIRS
    assert {r["cosine_similarity"] for r in rows} == {"1.0"}
    warnings = messages(log, "WARNING")
    assert warnings[0].startswith("The directory structure of torchair data is old")
    assert "My token_id 5 not found in golden dump data" in warnings


def test_fused_graph_is_compared_with_one_without_fusion(tmp_path: Path) -> None:
    for side, is_fused in (("golden", False), ("my", True)):
        torchair_dump.write_graph(tmp_path / side)
        folder = ge_tokens(rank_folder(tmp_path / side, 0)) / "0"
        torchair_dump.write_ge(folder, is_fused=is_fused)
    log, reports = compare(tmp_path)
    assert "Comparing GE with GE" in messages(log, "INFO")
    ((_, rows),) = reports.items()
    fused = [pair[1:] for pair in pairs_of(rows) if "Mul_1Relu_2" in pair[2]]
    assert fused == [
        ("Mul_1,inputs,0", "Mul_1Relu_2,inputs,0"),
        ("Mul_1,inputs,1", "Mul_1Relu_2,inputs,1"),
        ("Relu_2,outputs,0", "Mul_1Relu_2,outputs,0"),
    ]
    assert all(a == b for _, a, b in pairs_of(rows) if "Mul_1Relu_2" not in b)
    assert {r["cosine_similarity"] for r in rows} == {"1.0"}
    _, reports = compare(tmp_path, "--compat")
    ((_, rows),) = reports.items()
    golden = [pair[1] for pair in pairs_of(rows) if pair[2].startswith("Mul_1Relu_2")]
    assert golden == ["Mul_1,inputs,0", "Mul_1,inputs,1", "Relu_2,inputs,0,outputs,0"]
    golden = [pair[1] for pair in pairs_of(rows) if pair[2].startswith("Add")]
    assert golden == ["Add", "Add", "Add,inputs,0,outputs,0"]


def test_ranks_of_both_sides_are_compared(tmp_path: Path) -> None:
    for rank in (0, 1, 2):
        torchair_dump.write_graph(tmp_path / "my", rank=rank)
        ge = ge_tokens(rank_folder(tmp_path / "my", rank)) / "0"
        torchair_dump.write_ge(ge, error=rank)
    for rank in (1, 2, 3):
        fx = rank_folder(tmp_path / "golden", rank) / "graph_1" / "0"
        torchair_dump.write_fx(fx)
    log, reports = compare(tmp_path)
    assert [name[: len("msit_cmp_report_rank1")] for name in reports] == [
        "msit_cmp_report_rank1",
        "msit_cmp_report_rank2",
    ]
    for rank, rows in zip((1, 2), reports.values(), strict=True):
        errors = {float(r["max_absolute_error"]) for r in rows}
        assert max(errors) == pytest.approx(rank)
        assert {f"rank{rank}/" in r["my_data_path"] for r in rows} == {True}
    assert messages(log, "WARNING") == [
        "My rank 0 not found in golden path",
        "Golden rank 3 not found in my path",
    ]
    log, reports = compare(tmp_path, "-r", "2")
    assert len(reports) == 1
    assert (
        "Can not get golden data in rank 0"
        in compare(tmp_path, "-r", "0", expect=1)[0][0][2]
    )


def test_ranks_that_lie_further_below_are_told_apart(tmp_path: Path) -> None:
    ge, fx = tmp_path / "my" / "msit_ge_dump", tmp_path / "golden" / "msit_fx_dump"
    for rank in (0, 1):
        torchair_dump.write_graph(ge, rank=rank)
        for token in (0, 1):
            folder = ge_tokens(rank_folder(ge, rank)) / str(token)
            torchair_dump.write_ge(folder, token, error=rank)
            step = rank_folder(fx, rank) / "graph_1" / str(token)
            torchair_dump.write_fx(step, token)
    log, reports = compare(tmp_path)
    assert [name[: len("msit_cmp_report_rank0")] for name in reports] == [
        "msit_cmp_report_rank0",
        "msit_cmp_report_rank1",
    ]
    for rank, rows in enumerate(reports.values()):
        assert [pair[1:] for pair in pairs_of(rows)] == [p[1:] for p in PAIRS] * 2
        assert {f"rank{rank}/" in r["my_data_path"] for r in rows} == {True}
        assert max(float(r["max_absolute_error"]) for r in rows) == pytest.approx(rank)
    assert not messages(log, "WARNING")


def test_ranks_that_would_be_merged_are_an_error(tmp_path: Path) -> None:
    my = tmp_path / "my"
    for dump in ("a", "b"):
        torchair_dump.write_graph(my / dump)
        torchair_dump.write_ge(ge_tokens(rank_folder(my / dump, 0)) / "0")
    for rank in (0, 1):
        fx = rank_folder(tmp_path / "golden", rank) / "graph_1" / "0"
        torchair_dump.write_fx(fx)
    ((_, _, text),), _ = compare(tmp_path, expect=1)
    real = os.path.realpath(tmp_path)
    assert f"ranks in several folders: pass one of {real}/my/a, {real}/my/b" in text
    (my / "a").rename(tmp_path / "other")
    old = ge_tokens(my) / "0"
    old.parent.mkdir(parents=True)
    (ge_tokens(rank_folder(my / "b", 0)) / "0").rename(old)
    rank_folder(my / "b", 0).rename(tmp_path / "empty")
    ((_, _, text),), _ = compare(tmp_path, expect=1)
    assert "golden has ranks 0, 1" in text and "worldsize<W>_global_rank<R>" in text
    assert not (tmp_path / "out").exists()


def test_sides_without_a_common_rank_are_an_error(tmp_path: Path) -> None:
    torchair_dump.write_graph(tmp_path / "my")
    torchair_dump.write_ge(ge_tokens(rank_folder(tmp_path / "my", 0)) / "0")
    torchair_dump.write_fx(rank_folder(tmp_path / "golden", 1) / "graph_1" / "0")
    ((_, _, text),), _ = compare(tmp_path, expect=1)
    assert text.endswith("msit: No common rank data in golden_path and my_path.\n")


def test_each_graph_has_a_report(tmp_path: Path) -> None:
    for graph in (1, 2, 3):
        torchair_dump.write_graph(tmp_path / "my", graph)
        ge = ge_tokens(rank_folder(tmp_path / "my", 0), graph) / "0"
        torchair_dump.write_ge(ge, graph)
        fx = rank_folder(tmp_path / "golden", 0) / f"graph_{graph}" / "0"
        torchair_dump.write_fx(fx, graph)
    _, reports = compare(tmp_path)
    assert len(reports) == 3
    by_graph = sorted(reports.values(), key=lambda rows: int(rows[0]["data_id"]))
    for graph, rows in enumerate(by_graph, start=1):
        first = 13 * (graph - 1)
        assert pairs_of(rows) == [(i + first, *pair) for i, *pair in PAIRS]
        assert {f"/graph_{graph}/" in r["my_data_path"] for r in rows} == {True}
        assert {r["cosine_similarity"] for r in rows} == {"1.0"}


def write_graphs(
    folder: Path, ge: dict[int, tuple[int, range]], fx: dict[int, range]
) -> None:
    """Writes graphs whose values encode graph and token. `ge` has ids of models."""
    for graph, (model, tokens) in ge.items():
        torchair_dump.write_graph(folder / "my", graph)
        tokens_of_graph = ge_tokens(rank_folder(folder / "my", 0), graph, model)
        for token in tokens:
            torchair_dump.write_ge(tokens_of_graph / str(token), 10 * graph + token)
    for graph, tokens in fx.items():
        for token in tokens:
            step = rank_folder(folder / "golden", 0) / f"graph_{graph}" / str(token)
            torchair_dump.write_fx(step, 10 * graph + token)


def graphs_of(reports: dict[str, list[dict[str, str]]]) -> set[str]:
    """Returns the graphs that are compared with FX, all without an error."""
    rows = [r for rows in reports.values() for r in rows]
    compared = [r for r in rows if r["golden_data_path"].endswith(".npy")]
    assert {r["cosine_similarity"] for r in compared} == {"1.0"}
    graphs = set()
    for row in compared:
        mine = Path(row["my_data_path"]).parts[-4]
        assert f"/{mine}/" in row["golden_data_path"]
        graphs.add(mine)
    return graphs


def test_graphs_are_paired_by_number_not_by_the_ids_of_models(tmp_path: Path) -> None:
    once = range(1)
    write_graphs(tmp_path, {1: (5, once), 2: (3, once)}, {1: once, 2: once})
    log, reports = compare(tmp_path)
    assert graphs_of(reports) == {"graph_1", "graph_2"}
    assert not messages(log, "WARNING")
    for name, rows in reports.items():
        (graph,) = graphs_of({name: rows})
        assert name.startswith(f"msit_cmp_report_rank0_{graph}_20")


def test_fx_graph_is_that_of_its_number_alone(tmp_path: Path) -> None:
    once = range(1)
    write_graphs(tmp_path, {1: (1, once), 2: (2, once)}, {2: once})
    log, reports = compare(tmp_path)
    assert graphs_of(reports) == {"graph_2"}
    warnings = messages(log, "WARNING")
    text = "1 of 2 models of GE: its FX graph is unknown (graph_1/1/)"
    assert text in warnings
    # Inputs and outputs of Add, MatMul, Mul_1Relu_2 and Sub.
    assert "12 tensors unmatched" in warnings[-1]


def test_text_is_that_of_the_number_though_one_graph_is_left(tmp_path: Path) -> None:
    write_graphs(tmp_path, {1: (1, range(1)), 2: (2, range(2))}, {2: range(1, 2)})
    first = next((tmp_path / "my").glob("dynamo_original_graph_1_*"))
    add, sub = "add-aten.add.Tensor", "sub-aten.sub.Tensor"
    text = first.read_text().replace(add, "?").replace(sub, add).replace("?", sub)
    first.write_text(text)
    log, reports = compare(tmp_path)
    assert graphs_of(reports) == {"graph_2"}
    ((_, rows),) = reports.items()
    assert [pair[1:] for pair in pairs_of(rows)] == [pair[1:] for pair in PAIRS]
    assert messages(log, "WARNING") == ["My token_id 0 not found in golden dump data"]


def test_what_the_original_drops_stays_with_a_reason(tmp_path: Path) -> None:
    write_new_layout(tmp_path, range(1))
    my = ge_tokens(rank_folder(tmp_path / "my", 0)) / "0"
    values = {
        name: torchair_dump.dumped(x) for name, x in torchair_dump.tensors().items()
    }
    short_output = torchair_dump.dumped(np.ones(3, np.float32))
    whole = np.ones((4, 4), np.int8)
    int8 = torchair_dump.dumped(whole, torchair_dump.INT8)
    ge_dump.write(
        next(my.glob("MatMulV2.*")),
        [values["add"], values["b"]],
        [short_output],
        "MatMul",
    )
    ge_dump.write(next(my.glob("Add.*")), [int8, int8], [int8], "Add")
    (my / "Sub.Sub.15.6.1756699200000004").write_bytes(b"\0" * 100)
    log, reports = compare(tmp_path)
    ((_, rows),) = reports.items()
    bad = rows.pop()
    assert bad["my_data_path"].endswith("/Sub.Sub.15.6.1756699200000004")
    assert bad["cmp_fail_reason"].startswith("my_data: ")
    assert (bad["golden_data_path"], bad["my_dtype"]) == ("", "")
    assert pairs_of(rows) == PAIRS[:10]
    reasons = {short(r["my_data_path"]): r["cmp_fail_reason"] for r in rows}
    assert reasons.pop("MatMul,outputs,0") == "data shape doesn't match."
    assert set(reasons.values()) == {""}
    warnings = messages(log, "WARNING")
    assert any("Sub.Sub.15.6.1756699200000004 is not compared" in w for w in warnings)
    assert any("sub-aten.sub.Tensor" in w for w in warnings)
    _, reports = compare(tmp_path, "--compat")
    ((_, rows),) = reports.items()
    # It removes every second row with int8.
    assert pairs_of(rows) == [PAIRS[1], *PAIRS[3:5], *PAIRS[6:10]]


def test_type_that_has_no_numbers_is_a_row_with_a_reason(tmp_path: Path) -> None:
    write_new_layout(tmp_path, range(1))
    (sub,) = (tmp_path / "my").rglob("Sub.Sub.*")
    text = ge_dump.Dumped(13, ge_dump.ND, (1,), (1,), b"text")
    values = [torchair_dump.dumped(x) for x in torchair_dump.tensors().values()]
    ge_dump.write(sub, values[:2], [text], "Sub")
    _, reports = compare(tmp_path)
    ((_, rows),) = reports.items()
    (row,) = [r for r in rows if r["my_data_path"].endswith(sub.name)]
    assert row["cmp_fail_reason"] == (
        "my_data: output 0: msitd does not support elements of CANN's type STRING"
    )
    # Its inputs are compared.
    assert len([r for r in rows if f"{sub.name},inputs," in r["my_data_path"]]) == 2


STATISTICS = (
    "Input/Output,Index,Data Size,Data Type,Format,Shape,"
    "Max Value,Min Value,Avg Value,Count,Nan Count,Negative Inf Count,Positive Inf Count\n"
    "Input,0,64,DT_FLOAT,ND,4x4,120,6,51.75,16,0,0,0\n"
    "Input,1,64,DT_FLOAT,ND,4x4,8,1,3.75,16,0,0,0\n"
    "Output,0,64,DT_FLOAT,ND,4x4,112,5,48,16,0,0,0\n"
)


def test_statistics_beside_tensors_are_rows_with_a_reason(tmp_path: Path) -> None:
    write_new_layout(tmp_path, range(1))
    (sub,) = (tmp_path / "my").rglob("Sub.Sub.*")
    sub.unlink()
    sub.with_name(sub.name + ".csv").write_text(STATISTICS)
    _, reports = compare(tmp_path)
    ((_, rows),) = reports.items()
    assert [pair[1] for pair in pairs_of(rows)] == [pair[1] for pair in PAIRS]
    for row, pair in zip(rows, PAIRS, strict=True):
        is_bare = pair[1].startswith("sub")
        reason = "my_data has only statistics." if is_bare else ""
        assert row["cmp_fail_reason"] == reason
        assert (row["kl_divergence"] == "") == is_bare
        assert (row["cosine_similarity"] == "") == is_bare
    assert [r["my_max_value"] for r in rows[-3:]] == ["120.0", "8.0", "112.0"]


def test_original_has_no_bfloat16(tmp_path: Path) -> None:
    write_new_layout(tmp_path, range(1))
    my = ge_tokens(rank_folder(tmp_path / "my", 0)) / "0"
    halves = np.full((4, 4), 0x3F80, np.uint16)
    ones = torchair_dump.dumped(halves, torchair_dump.BFLOAT16)
    ge_dump.write(next(my.glob("Add.*")), [ones, ones], [ones], "Add")
    for words, expected in (((), "torch.bfloat16"), (("--compat",), "torch.float32")):
        _, reports = compare(tmp_path, *words)
        ((_, rows),) = reports.items()
        types = {short(r["my_data_path"]): r["my_dtype"] for r in rows}
        assert types["Add,outputs,0"] == expected
        assert types["Sub,outputs,0"] == "torch.float32"
        assert {r["golden_dtype"] for r in rows} == {"torch.float32"}


def test_fx_node_that_is_missing_is_named(tmp_path: Path) -> None:
    write_new_layout(tmp_path, range(1))
    for path in (tmp_path / "golden").rglob("add-aten*"):
        path.unlink()
    log, reports = compare(tmp_path)
    ((_, rows),) = reports.items()
    assert pairs_of(rows) == [
        (i - 3 if i > 6 else i, *pair) for i, *pair in PAIRS if not 4 <= i <= 6
    ]
    warnings = messages(log, "WARNING")
    missing = (
        "FX data missing, GE tensor name: Add, FX tensor name: add-aten.add.Tensor"
    )
    assert missing in warnings
    assert warnings[-1].startswith("10 pairs compared, 3 tensors unmatched")


def test_sides_that_share_nothing_are_not_fine(tmp_path: Path) -> None:
    write_new_layout(tmp_path, range(1))
    for path in list((tmp_path / "golden").rglob("*.npy")):
        path.rename(path.with_name("other_" + path.name))
    log, reports = compare(tmp_path)
    ((_, rows),) = reports.items()
    assert pairs_of(rows) == [(0, *PAIRS[9][1:])]
    assert messages(log, "WARNING")[-1] == (
        "1 pairs compared, 26 tensors unmatched, 0 need no counterpart, 0 rows left out"
    )


def test_folder_that_is_no_dump_is_an_error_in_the_log(tmp_path: Path) -> None:
    for side in ("golden", "my"):
        torchair_dump.write_fx(tmp_path / side / "graph_1" / "0")
    log, reports = compare(tmp_path)
    assert not reports
    real = os.path.realpath(tmp_path)
    what = "it is not a atb dump path or a torch dump path."
    assert messages(log, "ERROR") == [
        f"cannot parse data path({real}/{side}). {what}" for side in ("golden", "my")
    ]


def test_golden_may_be_a_copy_of_my_dump(tmp_path: Path) -> None:
    torchair_dump.write_graph(tmp_path / "my")
    torchair_dump.write_ge(ge_tokens(rank_folder(tmp_path / "my", 0)) / "0")
    shutil.copytree(tmp_path / "my", tmp_path / "golden")
    _, reports = compare(tmp_path)
    ((_, rows),) = reports.items()
    assert {r["cosine_similarity"] for r in rows} == {"1.0"}
    assert [a for _, a, b in pairs_of(rows)] == [b for _, a, b in pairs_of(rows)]


def test_interrupt_leaves_nothing(tmp_path: Path) -> None:
    write_new_layout(tmp_path, range(100))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    with subprocess.Popen(
        [BIN_DIR / "msit", "llm", "compare", "-gp", "golden", "-mp", "my", "-o", "out"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    ) as running:
        assert running.stderr is not None
        assert "compare_torchair" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        _, text = running.communicate(timeout=60)
    assert running.returncode == 130, text
    assert text.splitlines()[-1].endswith("interrupted")
    assert not os.listdir(temporary)
    assert not (tmp_path / "out").exists()
