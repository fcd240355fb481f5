"""msit llm compare --custom-algorithms: functions of the user beside the metrics."""

import ast
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from msit_command import log_of, msit

# The interpreter of these tests has torch.
PYTHON = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

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
    """Runs the verb with functions; the dictionary and the log."""
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
        ("f.py:no_pair", "no pair of a value and a text"),
        ("f.py:tensor", "the value is of type Tensor"),
        ("f.py:fails", "ValueError: never"),
        ("f.py", "is not FILE.py:FUNCTION"),
        (":count", "is not FILE.py:FUNCTION"),
        ("f.py:a:b", "is not FILE.py:FUNCTION"),
        ("none.py:count", "none.py"),
        ("m.pth:count", "it is no Python file"),
        ("open.py:count", "others may not write it"),
        (".:count", "it is no Python file"),
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
