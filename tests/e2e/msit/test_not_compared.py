"""Mistakes that `msit llm compare` reports at once, and tensors of TorchAir that
it does not compare.
"""

import csv
import os
import shutil
from pathlib import Path

import ge_dump
import numpy as np
import pytest
import torchair_dump
from msit_command import log_of, msit
from torchair_dump import ge_tokens, rank_folder, write_new_layout

Rows = list[dict[str, str]]


def compare(folder: Path, *words: str) -> tuple[list[str], Rows, Rows]:
    """Returns the warnings, the rows of the report, and the rows of the table
    of the rest.
    """
    done = msit(
        folder,
        *("llm", "compare", "-gp", "golden", "-mp", "my", "-o", "out", *words),
        environment={"TMPDIR": str(folder)},
    )
    found: dict[str, Rows] = {}
    for path in (folder / "out").iterdir():
        assert path.stat().st_mode & 0o777 == 0o640
        name = path.name.split("_rank0_")[0]
        found[name] = list(csv.DictReader(path.read_text().splitlines()))
        path.unlink()
    warnings = [text for _, level, text in log_of(done.stderr) if level == "WARNING"]
    rest = found.pop("msit_not_compared", [])
    ((name, rows),) = found.items()
    assert name == "msit_cmp_report"
    return warnings, rows, rest


def refused(folder: Path, golden: str, my: str, output: str = "out") -> str:
    """Returns the only line of a comparison that fails before it begins."""
    words = ("llm", "compare", "-gp", golden, "-mp", my, "-o", output)
    before = sorted(folder.rglob("*"))
    done = msit(folder, *words, expect=1, environment={"TMPDIR": str(folder)})
    (line,) = done.stderr.splitlines()
    assert line.startswith("msit: ")
    assert sorted(folder.rglob("*")) == before
    return line


def test_equal_paths_are_refused(tmp_path: Path) -> None:
    write_new_layout(tmp_path, range(1))
    (tmp_path / "link").symlink_to("my")
    for golden, my in (("my", "my"), ("my", "link"), ("golden", "golden/.")):
        line = refused(tmp_path, golden, my)
        assert "are the same folder" in line and "two runs" in line


def test_swapped_paths_are_named(tmp_path: Path) -> None:
    write_new_layout(tmp_path, range(1))
    line = refused(tmp_path, "my", "golden")
    real = os.path.realpath(tmp_path)
    assert f"swapped: {real}/my is a dump of GE" in line
    assert f"{real}/golden is a dump of FX" in line and "(-gp)" in line


def test_empty_folders_are_refused(tmp_path: Path) -> None:
    write_new_layout(tmp_path, range(1))
    (tmp_path / "empty" / "worldsize2_global_rank0").mkdir(parents=True)
    for golden, my in (("empty", "my"), ("golden", "empty")):
        line = refused(tmp_path, golden, my)
        flag = "--golden-path" if golden == "empty" else "--my-path"
        assert f"{flag}: {os.path.realpath(tmp_path)}/empty contains no files" in line
    # A dump may consist of links.
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "rank").symlink_to(rank_folder(tmp_path / "golden", 0))
    done = msit(
        tmp_path, "llm", "compare", "-gp", "links", "-mp", "my", "-o", "out", expect=1
    )
    assert "contains no files" not in done.stderr


def test_folder_with_both_dumps_is_refused(tmp_path: Path) -> None:
    write_new_layout(tmp_path / "dump", range(1))
    line = refused(tmp_path, "dump", "dump/my")
    assert "one folder contains the other" in line


def test_output_is_checked_before_anything_is_compared(tmp_path: Path) -> None:
    write_new_layout(tmp_path, range(1))
    (tmp_path / "file").write_text("")
    for output in ("file", "file/out", "/proc/msit/out"):
        assert "--output: " in refused(tmp_path, "golden", "my", output)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_output_without_permission_is_refused(tmp_path: Path) -> None:
    write_new_layout(tmp_path, range(1))
    (tmp_path / "closed").mkdir(0o500)
    assert "--output: " in refused(tmp_path, "golden", "my", "closed")
    assert "--output: " in refused(tmp_path, "golden", "my", "closed/out")


def names_of(rows: Rows, side: str) -> list[tuple[str, str]]:
    """Returns the token and the name of the file of each row."""
    return [
        (row["token_id"], Path(row[f"{side}_data_path"]).name)
        for row in rows
        if row[f"{side}_data_path"]
    ]


def test_op_without_golden_in_one_token_is_named(tmp_path: Path) -> None:
    write_new_layout(tmp_path, range(3))
    fx = rank_folder(tmp_path / "golden", 0) / "graph_1" / "1"
    for path in fx.glob("add-aten*"):
        path.unlink()
    for words in ((), ("--compat",)):
        warnings, rows, rest = compare(tmp_path, *words)
        assert len(rows) == 36
        (line,) = [text for text in warnings if " of Add " in text]
        assert line == (
            "3 my tensors of Add are not compared in token 1: "
            "its golden tensor was not recorded in this token"
        )
        assert [token for token, _ in names_of(rest, "my")] == ["1"] * 3
        assert all("Add.Add." in name for _, name in names_of(rest, "my"))
        assert all(row["cmp_fail_reason"] for row in rest)


def test_op_without_my_side_in_one_token_is_named(tmp_path: Path) -> None:
    write_new_layout(tmp_path, range(3))
    for path in ge_tokens(rank_folder(tmp_path / "my", 0)).glob("1/Sub.*"):
        path.unlink()
    warnings, rows, rest = compare(tmp_path)
    assert len(rows) == 36
    (line,) = [text for text in warnings if " of sub-aten.sub.Tensor " in text]
    assert line.startswith("3 golden tensors of ") and "in token 1: " in line
    assert {token for token, _ in names_of(rest, "golden")} == {"1"}
    assert len(rest) == 3 and not names_of(rest, "my")


def test_ge_without_golden_in_one_token_is_named(tmp_path: Path) -> None:
    for side in ("golden", "my"):
        torchair_dump.write_graph(tmp_path / side)
        for token in range(2):
            folder = ge_tokens(rank_folder(tmp_path / side, 0)) / str(token)
            torchair_dump.write_ge(folder, token)
    for path in ge_tokens(rank_folder(tmp_path / "golden", 0)).glob("1/Add.*"):
        path.unlink()
    warnings, _, rest = compare(tmp_path)
    assert "Golden data missing, My tensor name: Add" in warnings
    assert any("3 my tensors of Add are not compared in token 1" in w for w in warnings)
    assert len(rest) == 3


def test_duplicates_are_named(tmp_path: Path) -> None:
    write_new_layout(tmp_path)
    folder = ge_tokens(rank_folder(tmp_path / "my", 0)) / "1"
    (first,) = folder.glob("Add.*")
    shutil.copy(first, first.with_name("Add.Add.99.6.1756699200999999"))
    for words in ((), ("--compat",)):
        warnings, rows, rest = compare(tmp_path, *words)
        assert len(rows) == 26
        (line,) = [text for text in warnings if " of Add" in text]
        assert line.startswith("3 my tensors of Add, dump ") and "token 1" in line
        assert len(rest) == 3
        paths = {row["my_data_path"].rsplit(",", 2)[0] for row in rows + rest}
        assert {str(first.resolve()), str(first.resolve())[:-1]} & paths
        assert any("Add.Add.99.6." in path for path in paths)


def test_tokens_of_the_golden_side_alone_are_named(tmp_path: Path) -> None:
    write_new_layout(tmp_path, range(3))
    shutil.rmtree(ge_tokens(rank_folder(tmp_path / "my", 0)) / "2")
    warnings, _, _ = compare(tmp_path)
    assert warnings == ["Golden token_id 2 not found in my dump data"]


def test_compat_loses_no_row(tmp_path: Path) -> None:
    write_new_layout(tmp_path, range(1))
    my = ge_tokens(rank_folder(tmp_path / "my", 0)) / "0"
    values = {
        name: torchair_dump.dumped(x) for name, x in torchair_dump.tensors().items()
    }
    short = torchair_dump.dumped(np.ones(3, np.float32))
    int8 = torchair_dump.dumped(np.ones((4, 4), np.int8), torchair_dump.INT8)
    ge_dump.write(
        next(my.glob("MatMulV2.*")), [values["add"], values["b"]], [short], "MatMul"
    )
    ge_dump.write(next(my.glob("Add.*")), [int8, int8], [int8], "Add")
    (my / "Sub.Sub.15.6.1756699200000004").write_bytes(b"\0" * 100)
    _, everything, _ = compare(tmp_path)
    warnings, rows, rest = compare(tmp_path, "--compat")
    assert len(rows) == 7
    assert "3 rows left out" in warnings[-1]
    kept = {row["my_data_path"] for row in rows + rest}
    assert {row["my_data_path"] for row in everything} <= kept
    reasons = {Path(r["my_data_path"]).name: r["cmp_fail_reason"] for r in rest}
    (shapes,) = [text for name, text in reasons.items() if name.startswith("MatMul")]
    assert shapes == "data shape doesn't match."
    assert reasons["Sub.Sub.15.6.1756699200000004"].startswith("my_data: ")


RESOURCE = 23
COMPLEX64 = 16


def test_resource_does_not_shift_the_other_inputs(tmp_path: Path) -> None:
    write_new_layout(tmp_path, range(1))
    (sub,) = (tmp_path / "my").rglob("Sub.Sub.*")
    values = torchair_dump.tensors()
    handle = ge_dump.Dumped(RESOURCE, ge_dump.ND, (1,), (1,), bytes(8))
    output = torchair_dump.dumped(values["relu"] - values["a"])
    ge_dump.write(sub, [handle, torchair_dump.dumped(values["a"])], [output], "Sub")
    for words in ((), ("--compat",)):
        warnings, rows, rest = compare(tmp_path, *words)
        assert any("CANN's type RESOURCE" in text for text in warnings)
        inputs = {
            row["my_data_path"].rsplit(",", 1)[1]: row
            for row in rows
            if f"{sub.name},inputs," in row["my_data_path"]
        }
        assert list(inputs) == ["1"]
        assert ".INPUT.1." in inputs["1"]["golden_data_path"]
        assert inputs["1"]["max_absolute_error"] == "0.0"
        assert any(".INPUT.0." in row["golden_data_path"] for row in rest)


def test_complex_pairs_say_what_is_compared(tmp_path: Path) -> None:
    write_new_layout(tmp_path, range(1))
    (sub,) = (tmp_path / "my").rglob("Sub.Sub.*")
    (golden,) = (tmp_path / "golden").rglob("sub-aten*OUTPUT*")
    array = np.full((4, 4), 1 + 2j, np.complex64)
    np.save(golden, array)
    values = torchair_dump.tensors()
    inputs = [torchair_dump.dumped(values[name]) for name in ("relu", "a")]
    array[0, 0] = 1 + 5j
    output = torchair_dump.dumped(array, COMPLEX64)
    # An output of another op, whose golden one is real.
    add = [torchair_dump.dumped(values[name]) for name in ("a", "b")]
    (other,) = (tmp_path / "my").rglob("Add.Add.*")
    ge_dump.write(other, add, [output], "Add")
    ge_dump.write(sub, inputs, [output], "Sub")
    only_real = "only the real parts are compared."
    for words, reason in (((), only_real), (("--compat",), "")):
        _, rows, _ = compare(tmp_path, *words)
        (row,) = [r for r in rows if f"{sub.name},outputs" in r["my_data_path"]]
        assert (row["golden_dtype"], row["my_dtype"]) == ("torch.complex64",) * 2
        assert (row["max_absolute_error"], row["cmp_fail_reason"]) == ("0.0", reason)
        (row,) = [r for r in rows if f"{other.name},outputs" in r["my_data_path"]]
        assert row["max_absolute_error"] == ""
        assert "complex against real is not compared" in row["cmp_fail_reason"]
