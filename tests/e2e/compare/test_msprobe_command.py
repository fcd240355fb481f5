"""The command msprobe, run as a user would."""

import csv
import json
import math
import re
import subprocess
from pathlib import Path

import openpyxl
import pytest
from msit_command import run_msprobe
from report_pairs import (
    CASES,
    Data,
    arguments,
    differences,
    rows_of,
    tensor,
    value,
    write_dump,
)

from daemon import ROOT

GOLDEN = ROOT / "tests/golden/msprobe_reports"
LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(\d+\) \[([A-Z]+)\] (.*)")
REFUSED = (
    *("acc_check", "multi_acc_check", "api_precision_compare", "config_check"),
    *("data2db", "parse", "offline_dump", "install_deps", "run_ut"),
)


def msprobe(folder: Path, *words: str, expect: int = 0) -> str:
    """Runs `msprobe WORDS` in a folder, and returns its log, or its error."""
    done = run_msprobe(folder, *words, expect=expect)
    assert not (done.returncode == 0 and done.stderr), done.stderr
    return done.stderr or done.stdout


def write_pair(folder: Path, case: str) -> str:
    """Writes the dumps `g` and `t` of a case, and returns its mode."""
    mode, golden, target = CASES[case]
    write_dump(folder / "g", mode, golden)
    write_dump(folder / "t", mode, target)
    return mode


def compare(folder: Path, *flags: str) -> str:
    """Compares step 0 of both dumps into `out`, and returns the log."""
    return msprobe(
        folder, "compare", "-tp", "t/step0", "-gp", "g/step0", "-o", "out", *flags
    )


def only_report(folder: Path) -> Path:
    (path,) = (folder / "out").iterdir()
    return path


@pytest.mark.parametrize("case", CASES)
def test_reports_are_those_of_msprobe(tmp_path: Path, case: str) -> None:
    write_pair(tmp_path, case)
    log = compare(tmp_path, "--compat")
    assert all(LINE.fullmatch(line) for line in log.splitlines()), log
    path = only_report(tmp_path)
    assert re.fullmatch(r"compare_result_rank0_\d{14}\.csv", path.name)
    text, theirs = path.read_text(), (GOLDEN / f"{case}.csv").read_text()
    found = differences(text, theirs)
    assert not found, "\n".join(found)
    assert text.splitlines()[0] == theirs.splitlines()[0]
    # The names of files are exact here.
    for name, row in rows_of(theirs).items():
        assert rows_of(text)[name].get("Data_name") == row.get("Data_name"), name
    # Nothing remains of the private daemon.
    assert {p.name for p in tmp_path.iterdir()} == {"g", "t", "out"}


def test_a_workbook_has_the_cells_of_the_csv(tmp_path: Path) -> None:
    write_pair(tmp_path, "files.all")
    compare(tmp_path)
    rows = list(csv.reader(only_report(tmp_path).open()))
    only_report(tmp_path).unlink()
    compare(tmp_path, "--xlsx")
    sheet = openpyxl.load_workbook(only_report(tmp_path)).active
    assert sheet is not None
    assert sheet.title == "Sheet1"
    cells = [list(row) for row in sheet.iter_rows(values_only=True)]
    assert cells[0] == rows[0]
    assert [row[0] for row in cells] == [row[0] for row in rows]
    at = cells[0].index("Requires_grad Consistent")
    assert {row[at] for row in cells[1:]} == {True, False, "N/A"}


def test_differences_in_a_workbook_are_texts(tmp_path: Path) -> None:
    """msprobe writes them so, with all digits."""
    write_pair(tmp_path, "places.summary")
    compare(tmp_path, "--xlsx")
    sheet = openpyxl.load_workbook(only_report(tmp_path)).active
    assert sheet is not None
    head, *rows = sheet.iter_rows(values_only=True)
    column = [row[head.index("Max diff")] for row in rows]
    assert {type(cell) for cell in column} == {str}
    assert {type(row[head.index("NPU max")]) for row in rows} <= {str, int, float}


def test_unmatched_tensors_do_not_pass(tmp_path: Path) -> None:
    write_pair(tmp_path, "missing.summary")
    log = compare(tmp_path)
    rows = rows_of(only_report(tmp_path).read_text())
    unmatched = [row for row in rows.values() if row["Bench Name"] == "N/A"]
    assert unmatched
    assert {row["Result"] for row in unmatched} == {"warning"}
    assert "rows that only the golden run has are left out" in log


def test_only_what_the_rules_cannot_judge_differs_from_msprobe(tmp_path: Path) -> None:
    """A small difference passes as in msprobe, a NaN on the golden side does not."""
    bad = {"Max": math.nan, "Min": 1.0}
    pairs = {
        "Torch.small.0.forward": (tensor(), tensor(high=2.01)),
        "Torch.nan.0.forward": (tensor() | bad, tensor()),
        "Torch.sign.0.forward": (tensor(high=-math.inf), tensor(high=math.inf)),
        "Torch.value.0.forward": (value("int", 100), value("int", 101)),
    }
    for side, run in enumerate(("g", "t")):
        data: Data = {
            name: arguments(tensor(), output=pair[side]) for name, pair in pairs.items()
        }
        write_dump(tmp_path / run, "summary", data)
    results = {}
    for flags in ((), ("--compat",)):
        compare(tmp_path, *flags)
        path = only_report(tmp_path)
        rows = rows_of(path.read_text())
        results[flags] = [rows[f"{name}.output.0"]["Result"] for name in pairs]
        path.unlink()
    assert results[()] == ["pass", "warning", "warning", "warning"]
    assert results[("--compat",)] == ["pass"] * 4


def copy_rank(folder: Path, source: str, place: str) -> None:
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-r", folder / source, folder / place], check=True)


def test_ranks_have_a_report_each(tmp_path: Path) -> None:
    write_pair(tmp_path, "files.all")
    copy_rank(tmp_path, "t/step0/rank0", "t/step0/rank1")
    copy_rank(tmp_path, "g/step0/rank0", "g/step0/rank1")
    copy_rank(tmp_path, "g/step0/rank0", "g/step0/rank2")
    log = compare(tmp_path)
    assert "[WARNING] rank 2 is not compared: only g/step0 has it" in log
    names = sorted(path.name[:21] for path in (tmp_path / "out").iterdir())
    assert names == ["compare_result_rank0_", "compare_result_rank1_"]
    first, second = (path.read_text() for path in (tmp_path / "out").iterdir())
    assert first == second


def test_steps_with_other_numbers_are_compared(tmp_path: Path) -> None:
    write_pair(tmp_path, "files.all")
    (tmp_path / "t/step0").rename(tmp_path / "t/step7")
    msprobe(
        tmp_path,
        *("compare", "--target_path=t/step7/rank0/dump.json"),
        *("--golden", "g/step0/rank0/dump.json", "-o", "out"),
    )
    path = only_report(tmp_path)
    assert re.fullmatch(r"compare_result_\d{14}\.csv", path.name)
    assert rows_of(path.read_text())["Torch.same.0.forward.input.0"]["Cosine"] == "1.0"


def test_only_the_records_of_the_given_file_are_compared(tmp_path: Path) -> None:
    """dump.json and debug.json of a rank share a folder."""
    for run in ("g", "t"):
        data: Data = {"Torch.f.0.forward": arguments(tensor())}
        write_dump(tmp_path / run, "summary", data)
        rank = tmp_path / run / "step0/rank0"
        debug = json.loads((rank / "dump.json").read_text())
        debug["data"] = {"loss.0.debug": tensor()}
        (rank / "debug.json").write_text(json.dumps(debug))
    for name, prefix in (("dump", "Torch.f.0."), ("debug", "loss.0.")):
        paths = [f"{run}/step0/rank0/{name}.json" for run in ("t", "g")]
        words = ("-tp", paths[0], "-gp", paths[1], "-o", f"out_{name}")
        msprobe(tmp_path, "compare", *words)
        (path,) = (tmp_path / f"out_{name}").iterdir()
        rows = rows_of(path.read_text())
        assert rows and all(row.startswith(prefix) for row in rows), list(rows)


@pytest.mark.parametrize("mode", ["all", "summary"])
def test_listed_pairs_may_differ_in_their_dtypes(tmp_path: Path, mode: str) -> None:
    for run, dtype in (("g", "torch.int32"), ("t", "torch.float32")):
        leaf = tensor(dtype=dtype, shape=(2,))
        if mode == "all":
            numbers = [1, 2] if run == "g" else [1.0, 2.0]
            file = "Torch.f.0.forward.input.0.pt"
            leaf |= {"data_name": file, "numbers": numbers}
        write_dump(tmp_path / run, mode, {"Torch.f.0.forward": arguments(leaf)})
    name = "Torch.f.0.forward.input.0"
    (tmp_path / "pairs.yaml").write_text(f"{name}: {name}\n")
    for flags, counterpart in (((), "N/A"), (("-dm", "pairs.yaml"), name)):
        compare(tmp_path, *flags)
        path = only_report(tmp_path)
        row = rows_of(path.read_text())[name]
        assert row["Bench Name"] == counterpart
        assert row["Result"] == ("error" if flags else "warning")
        path.unlink()


@pytest.mark.parametrize("mode", ["torchair", "atb"])
def test_flags_that_a_mode_lacks_are_refused(tmp_path: Path, mode: str) -> None:
    write_pair(tmp_path, "missing.summary")
    (tmp_path / "x.yaml").write_text("{}")
    paths = ("-tp", "t/step0", "-gp", "g/step0", "-o", "out", "-m", mode)
    for flags in (
        *(("--xlsx",), ("-fm",), ("-dm", "x.yaml"), ("-cm",), ("-am", "x.yaml")),
        *(("-lm", "x.yaml"), ("--step", "0"), ("-fr", "x.yaml")),
    ):
        error = msprobe(tmp_path, "compare", *paths, *flags, expect=1)
        assert len(error.splitlines()) == 1, error
        assert flags[0] in error or "offline_data" in error
    assert not (tmp_path / "out").exists()


def test_the_form_of_early_releases(tmp_path: Path) -> None:
    write_pair(tmp_path, "files.all")
    paths = {
        "npu_path": str(tmp_path / "t/step0/rank0/dump.json"),
        "bench_path": str(tmp_path / "g/step0/rank0/dump.json"),
        "stack_path": str(tmp_path / "t/step0/rank0/stack.json"),
        "is_print_compare_log": True,
    }
    (tmp_path / "compare.json").write_text(json.dumps(paths))
    form = ("-f", "pytorch", "compare", "-i", "compare.json", "-o", "out", "-s")
    msprobe(tmp_path, *form)
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert [name[:8] for name in names] == ["advisor_", "compare_"]
    advice = (tmp_path / "out" / names[0]).read_text()
    assert "Suspect Nodes: Torch.g.0.forward.output.0" in advice
    msprobe(tmp_path, *form[:-2], "out2", "-c")
    assert len(list((tmp_path / "out2").iterdir())) == 1


def test_stacks_have_their_source_lines(tmp_path: Path) -> None:
    write_pair(tmp_path, "missing.summary")
    frames = ["File a.py, line 3, in main, \n x = f(y)", "File b.py, line 1, in <m>"]
    (tmp_path / "t/step0/rank0/stack.json").write_text(
        json.dumps({"0": [["Torch.f.0.forward"], frames]})
    )
    compare(tmp_path)
    rows = rows_of(only_report(tmp_path).read_text())
    stacks = [row["NPU_Stack_Info"] for row in rows.values()]
    assert stacks[0] == str(frames)
    assert set(stacks[1:]) == {"N/A"}


def test_recorded_statistics_are_not_computed_again(tmp_path: Path) -> None:
    """The file has other elements than the statistics say."""
    for run in ("g", "t"):
        leaf = tensor(high=7.0, shape=(2,)) | {
            "data_name": "Torch.f.0.forward.input.0.pt",
            "numbers": [1.0, 2.0],
        }
        data: Data = {"Torch.f.0.forward": arguments(leaf)}
        write_dump(tmp_path / run, "all", data)
    compare(tmp_path)
    rows = rows_of(only_report(tmp_path).read_text())
    row = rows["Torch.f.0.forward.input.0"]
    assert (row["NPU max"], row["Bench l2norm"]) == ("7.0", "3.5")


@pytest.mark.parametrize("verb", REFUSED)
def test_a_verb_that_is_not_there_says_what_to_use(tmp_path: Path, verb: str) -> None:
    error = msprobe(tmp_path, verb, "-x", "y", expect=1)
    assert error.startswith("msprobe: msprobe ") and "is not in this build: " in error
    assert len(error.splitlines()) == 1


def test_errors_are_one_line(tmp_path: Path) -> None:
    write_pair(tmp_path, "missing.summary")
    path = ("-tp", "t/step0", "-gp")
    for words, code in (
        ((), 0),
        (("compare",), 1),
        (("compare", *path, "gone"), 1),
        (("compare", *path, "g/step0/rank0"), 1),
        (("compare", *path, "g/step0", "-da"), 1),
        (("compare", *path, "g/step0", "--config", "x.yaml"), 1),
        (("compare", *path, "g/step0", "-dm", "gone.yaml"), 1),
        (("compare", *path, "g/step0", "-am"), 1),
        (("compare", *path, "g/step0", "-m", "offline_data"), 1),
        (("compare", *path, "g/step0", "-m", "nothing"), 2),
        (("compare", "--unknown"), 2),
        (("nothing",), 2),
    ):
        error = msprobe(tmp_path, *words, expect=code)
        assert code == 0 or len(error.splitlines()) == 1, (words, error)
    assert not (tmp_path / "output").exists()


def test_different_tasks_are_refused(tmp_path: Path) -> None:
    write_dump(tmp_path / "g", "all", {"Torch.f.0.forward": arguments(tensor())})
    write_dump(tmp_path / "t", "summary", {"Torch.f.0.forward": arguments(tensor())})
    error = msprobe(
        tmp_path, "compare", "-tp", "t/step0", "-gp", "g/step0", "-o", "out", expect=1
    )
    assert "record both with the same task" in error
    assert not list((tmp_path / "out").iterdir() if (tmp_path / "out").exists() else [])


def test_damaged_dumps_are_errors_or_warnings(tmp_path: Path) -> None:
    write_pair(tmp_path, "files.all")
    dump = tmp_path / "t/step0/rank0/dump.json"
    text = dump.read_text()
    file = tmp_path / "t/step0/rank0/dump_tensor_data/Torch.g.0.forward.input.0.pt"
    file.write_bytes(b"PK\x03\x04 nothing")
    log = compare(tmp_path)
    assert "[WARNING]" in log and file.name in log
    assert "1 rows that only the golden run has are left out" in log
    dump.write_text(text[: text.index('"data"')])
    path = ("-tp", "t/step0", "-gp", "g/step0", "-o", "out2")
    error = msprobe(tmp_path, "compare", *path, expect=1)
    assert len(error.splitlines()) == 1 and "dump.json" in error
