"""Comparisons in parts by `msitctl compare run`: output, exit codes and errors."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from comparison_parts import (
    OF_ONE_DAEMON,
    Case,
    programs_on_path,  # noqa: F401
    two_runs,
)
from msitd import fleet

from daemon import Daemon

pytest.importorskip("pyarrow")


def ctl(case: Case, *words: str, expect: int = 0) -> "subprocess.CompletedProcess[str]":
    """Runs `compare run g t` in parts, with the Python of the tests."""
    return case.daemon.ctl(
        "compare", "run", "g", "t", "--python", sys.executable, *words, expect=expect
    )


@pytest.fixture
def spoken(daemon: Daemon, tmp_path: Path) -> Case:
    two_runs(daemon)
    return Case(daemon, tmp_path)


def without(text: str, *beginnings: str) -> list[str]:
    lines = [line for line in text.splitlines() if not line.startswith(beginnings)]
    return [" ".join(line.split()) for line in lines]


def test_msitctl_prints_it_as_any_comparison(spoken: Case) -> None:
    out = str(spoken.folder / "rows")
    whole = spoken.daemon.ctl("compare", "run", "g", "t", expect=1)
    parts = ctl(spoken, "--engine", "processes", "--out", out, expect=1)
    apart = ("comparison", "read")
    assert without(parts.stdout, *apart) == without(whole.stdout, *apart)
    assert f"comparison        fleet:{out}" in parts.stdout
    assert json.loads((Path(out) / "manifest.json").read_text())["tasks"]
    (compared,) = spoken.asked.comparisons.list(limit=1)
    assert fleet.read_rows(out).num_rows == compared.total_count


def test_msitctl_prints_json_and_csv(spoken: Case) -> None:
    for form in ("json", "csv"):
        whole = spoken.daemon.ctl("compare", "run", "g", "t", "-o", form, expect=1)
        parts = ctl(spoken, "--engine", "processes", "-o", form, expect=1)
        if form == "csv":
            assert parts.stdout == whole.stdout
            continue
        values = [json.loads(answer.stdout) for answer in (whole, parts)]
        for value in values:
            for name in (*OF_ONE_DAEMON, "waiting_behind_count"):
                value["comparison"].pop(name, None)
        assert values[0] == values[1]


def test_msitctl_exits_as_ever(spoken: Case) -> None:
    words = ("--engine", "processes", "--rows", "none", "-o", "name")
    ctl(spoken, *words, "--tokens", "0-1")
    ctl(spoken, *words, expect=1)
    answer = ctl(spoken, *words, "--rule", "head: nonsense <= 1", expect=2)
    assert "--rule 'head: nonsense <= 1'" in answer.stderr
    spoken.daemon.ctl("run", "delete", "t", "--yes")
    answer = ctl(spoken, *words, expect=69)
    assert "RUN_NOT_FOUND" in answer.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--out", "x"], "with --engine, --out is a folder"),
        (
            ["--engine", "processes", "--ray-address", "a"],
            "--ray-address requires --engine ray",
        ),
        (
            ["--engine", "ray", "--follow"],
            "--engine cannot be combined with --follow: ",
        ),
        (
            ["--engine", "ray", "--rows", "all"],
            "--engine cannot be combined with --rows all: ",
        ),
        (["--engine", "spark"], "--engine"),
    ],
)
def test_msitctl_refuses_what_has_no_parts(
    spoken: Case, words: list[str], says: str
) -> None:
    assert says in ctl(spoken, *words, expect=2).stderr


def test_msitctl_says_what_is_lacking(spoken: Case) -> None:
    spoken.daemon.ctl(
        *("compare", "run", "g", "t", "--engine", "processes"),
        *("--python", "/nowhere/python"),
        expect=3,
    )
    bare = spoken.folder / "python"
    bare.write_text("#!/bin/sh\necho No module named msitd >&2\nexit 1\n")
    bare.chmod(0o755)
    answer = spoken.daemon.ctl(
        *("compare", "run", "g", "t", "--engine", "processes"),
        *("--python", str(bare)),
        expect=3,
    )
    assert f"{bare} -m pip install 'msitd[ray]'" in answer.stderr
    if importlib.util.find_spec("ray") is None:
        answer = ctl(spoken, "--engine", "ray", expect=3)
        assert "needs ray: pip install 'msitd[ray]'" in answer.stderr


def test_msitctl_out_of_time_leaves_nothing(spoken: Case) -> None:
    answer = ctl(spoken, "--engine", "processes", "--timeout", "0.3", expect=68)
    assert "not over in 0.3 s" in answer.stderr
