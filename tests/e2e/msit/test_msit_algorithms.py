"""msit llm compare --custom-algorithms: functions of the user in addition to
the metrics.
"""

import ast
import csv
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torchair_dump
from msit_command import PYTHON, log_of, msit, only_file

FUNCTIONS = """
import torch
from beside import SHARE

def difference(golden, my):
    assert golden.dtype == my.dtype == torch.float32
    assert golden.ndim == my.ndim == 1
    return (golden - my).abs().max().item() * SHARE, ""

def count(golden, my):
    return golden.numel(), "counted"

def word(golden, my):
    return "it's", "in words"

def truth(golden, my):
    return True, ""

def raises(golden, my):
    if golden.numel() > 1:
        raise RuntimeError("too\\nlong")
    return 0.0, ""

def ends(golden, my):
    if golden.numel() > 1:
        import os
        os._exit(3)
    return 0.0, ""

def of_three(golden, my, other=1):
    return 0.0, ""

def no_pair(golden, my):
    return 0.0

def tensor(golden, my):
    return golden, ""

def fails(golden, my):
    raise ValueError("never")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "f.py").write_text(FUNCTIONS)
    (tmp_path / "beside.py").write_text("SHARE = 0.5\n")
    np.save(tmp_path / "g.npy", np.array([[1.0, 2.0], [3.0, 5.0]], np.float64))
    torch.save(torch.tensor([1.0, 2.0, 3.0, 4.0]).bfloat16(), tmp_path / "m.pth")
    return tmp_path


def compare(
    folder: Path, *functions: str
) -> tuple[dict[str, object], list[tuple[str, str, str]]]:
    """Runs the verb with functions; returns the dictionary and the log."""
    done = msit(
        folder,
        *("llm", "compare", "-gp", "g.npy", "-mp", "m.pth", "-alg"),
        *(f"f.py:{name}" for name in functions),
        environment=PYTHON,
    )
    log = log_of("\n".join(x for x in done.stderr.splitlines() if " - msit_" in x))
    said, _, text = log[-1][2].partition(": ")
    assert said == "Compared results"
    value = ast.literal_eval(text)
    assert isinstance(value, dict)
    return value, log


def test_values_stand_behind_the_metrics(folder: Path) -> None:
    found, log = compare(folder, "difference", "count", "word", "truth")
    names = ["difference", "count", "word", "truth"]
    assert list(found)[7:] == [*names, "cmp_fail_reason"]
    assert [found[name] for name in names] == [0.5, 4, "it's", True]
    assert isinstance(found["difference"], float) and isinstance(found["count"], int)
    assert found["max_absolute_error"] == 1.0
    assert found["cmp_fail_reason"] == "counted in words"
    for name in names:
        added = f"Added custom comparing algorithm: {name}"
        assert ("msit_llm_logger", "INFO", added) in log


def test_function_that_fails_has_no_value(folder: Path) -> None:
    found, _ = compare(folder, "raises", "ends", "count")
    assert "raises" not in found and "ends" not in found
    assert found["count"] == 4
    reason = str(found["cmp_fail_reason"])
    assert "RuntimeError: too" in reason and reason.endswith("counted")


def test_nothing_is_measured_of_what_is_not_compared(folder: Path) -> None:
    torch.save(torch.ones(3), folder / "m.pth")
    found, _ = compare(folder, "count")
    assert found == {"cmp_fail_reason": "data shape doesn't match."}


def test_last_function_of_a_name_counts(folder: Path) -> None:
    (folder / "h.py").write_text("def count(golden, my):\n    return -1, ''\n")
    done = msit(
        folder,
        *("llm", "cc", "-gp", "g.npy", "-mp", "m.pth"),
        *("-alg", "f.py:count", "h.py:count"),
        environment=PYTHON,
    )
    log = log_of(done.stderr)
    assert "'count': -1," in log[-1][2] and log[-1][2].count("'count'") == 1


def test_interpreter_without_torch_is_said(folder: Path) -> None:
    other = folder / "python3"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    other.chmod(0o755)
    done = msit(
        folder,
        *("llm", "compare", "-gp", "g.npy", "-mp", "m.pth", "-alg", "f.py:count"),
        expect=1,
        environment={"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": ""},
    )
    assert "No module named" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("f.py:of_three", "it has 3 parameters"),
        ("f.py:no_pair", "not a pair of a value and a text"),
        ("f.py:tensor", "the value is of type Tensor"),
        ("f.py:fails", "ValueError: never"),
        ("f.py", "is not FILE.py:FUNCTION"),
        (":count", "is not FILE.py:FUNCTION"),
        ("f.py:a:b", "is not FILE.py:FUNCTION"),
        ("none.py:count", "none.py"),
        ("m.pth:count", "it is not a Python file"),
        ("open.py:count", "others must not be able to write it"),
        (".:count", "it is not a Python file"),
    ],
)
def test_wrong_functions_are_refused(folder: Path, function: str, said: str) -> None:
    (folder / "open.py").write_text(FUNCTIONS)
    (folder / "open.py").chmod(0o666)
    done = msit(
        folder,
        *("llm", "compare", "-gp", "g.npy", "-mp", "m.pth", "-alg", function),
        expect=1,
        environment=PYTHON,
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith("msit: --custom-algorithms") and said in last


def compare_folders(folder: Path, *words: str, below: str = "") -> list[dict[str, str]]:
    """Compares `golden` with `my`. Returns the rows of the only report."""
    sides = ("-gp", f"golden/{below}", "-mp", f"my/{below}")
    msit(folder, "llm", "compare", *sides, "-o", "out", *words, environment=PYTHON)
    report = only_file(folder / "out")
    rows = list(csv.DictReader(report.read_text().splitlines()))
    report.unlink()
    return rows


def test_values_of_a_graph_are_columns(folder: Path) -> None:
    my = torchair_dump.rank_folder(folder / "my", 0)
    torchair_dump.write_graph(folder / "my")
    torchair_dump.write_ge(torchair_dump.ge_tokens(my) / "0", error=0.5)
    golden = torchair_dump.rank_folder(folder / "golden", 0) / "graph_1" / "0"
    torchair_dump.write_fx(golden)
    functions = [f"f.py:{name}" for name in ("difference", "count", "word", "raises")]
    rows = compare_folders(folder, "-alg", *functions)
    assert list(rows[0])[23:] == [
        *("cmp_fail_reason", "difference", "count", "word", "raises")
    ]
    for row in rows:
        is_wrong = row["max_absolute_error"] != "0.0"
        # Half of it: the function receives its share.
        assert float(row["difference"]) == pytest.approx(0.25 if is_wrong else 0)
        assert (row["count"], row["word"], row["raises"]) == ("16", '"it\'s"', "")
        reason = row["cmp_fail_reason"]
        assert reason.startswith("counted in words") and "RuntimeError: too" in reason
    assert sum(row["difference"] != "0.0" for row in rows) == 1
    rows = compare_folders(folder, "-alg", "f.py:count", "--compat")
    assert list(rows[0])[-1] == "cmp_fail_reason"
    assert {row["cmp_fail_reason"] for row in rows} == {"counted"}


def test_values_of_a_model_are_columns(folder: Path) -> None:
    for side, error in (("golden", 0.0), ("my", 1.0)):
        process = folder / side / "cpu_9"
        place = process / "0" / "root.fc"
        place.mkdir(parents=True)
        torch.save(torch.ones(3).bfloat16() + error, place / "output.pth")
        torch.save(torch.ones(3 if error else 2), place / "input_0.pth")
        (process / "model_tree.json").write_text(
            '{"name": "root", "type": "M", "children": '
            '[{"name": "root.fc", "type": "Linear", "children": []}]}'
        )
    words = ("-cl", "api", "-alg", "f.py:difference")
    rows = compare_folders(folder, *words, below="cpu_9")
    found = {
        Path(row["my_data_path"]).name: (row["difference"], row["cmp_fail_reason"])
        for row in rows
    }
    assert found == {
        "output.pth": ("0.5", ""),
        "input_0.pth": ("", "data shape doesn't match."),
    }
