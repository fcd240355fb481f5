"""Comparisons on Ray equal those of one daemon, whatever is killed in between."""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from apart import BIN_DIR, has_rights, run_apart

HERE = Path(__file__).resolve().parent

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="ray is not installed"
    ),
    pytest.mark.skipif(
        not has_rights(), reason="no rights for namespaces of network and processes"
    ),
    pytest.mark.skipif(not (BIN_DIR / "msitd").exists(), reason="no daemon is built"),
]


def run_scenario(folder: Path, what: str) -> dict[str, Any]:
    words = [str(HERE / "scenario.py"), what, str(folder)]
    run_apart(folder, words, sys.executable)
    value = json.loads((folder / "answer.json").read_text())
    assert isinstance(value, dict)
    return value


def check(value: dict[str, Any]) -> None:
    assert value["rows"] == 4 * 60 * 40
    assert value["equal_rows"]
    assert value["equal_header"]
    assert value["by_sql"]
    assert value["fail_count"] == 2 * 53


def test_rows_are_those_of_one_daemon(tmp_path: Path) -> None:
    value = run_scenario(tmp_path, "whole")
    check(value)
    assert value["lost"] == 0
    assert value["attempts"] == 1


def test_worker_that_is_killed_loses_and_doubles_no_row(tmp_path: Path) -> None:
    value = run_scenario(tmp_path, "kill_worker")
    check(value)
    assert value["killed"] == 1
    assert value["lost"] >= 1


def test_node_that_is_killed_loses_and_doubles_no_row(tmp_path: Path) -> None:
    value = run_scenario(tmp_path, "kill_node")
    check(value)
    assert value["killed"] == 1
    # Both workers were on that node.
    assert value["lost"] == 2
