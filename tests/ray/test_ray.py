"""Comparisons on Ray, in network and process namespaces of their own.

Ray listens on all addresses and ends processes of the whole machine, so it gets a
machine of its own: loopback alone, its own processes, its own home. Its tokens stay on.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
BIN_DIR = Path(
    os.environ.get("MSITD_BIN_DIR", HERE.parents[1] / "build/release/bin")
).resolve()
APART = ["unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]
TIMEOUT_S = 300


def _has_rights() -> bool:
    tried = subprocess.run([*APART, "true"], capture_output=True, check=False)
    return tried.returncode == 0


pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="ray is not installed"
    ),
    pytest.mark.skipif(
        not _has_rights(), reason="no rights for namespaces of network and processes"
    ),
    pytest.mark.skipif(not (BIN_DIR / "msitd").exists(), reason="no daemon is built"),
]


def run_apart(
    folder: Path, words: list[str], expect: int = 0
) -> "subprocess.CompletedProcess[str]":
    """Runs a command where nothing of this machine can be reached."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    environment = {
        "PATH": f"{BIN_DIR}:{Path(sys.executable).parent}:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(home),
        # Paths of sockets have 107 bytes at most.
        "RAY_TMPDIR": "/tmp",
        "TMPDIR": "/tmp",
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
    }
    script = 'ip link set lo up && exec "$@"'
    done = subprocess.run(
        [*APART, "sh", "-c", script, "sh", *words],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=environment,
        check=False,
    )
    assert done.returncode == expect, (done.stdout, done.stderr)
    return done


def run_scenario(folder: Path, what: str) -> dict[str, Any]:
    script = str(HERE / "scenario.py")
    run_apart(folder, [sys.executable, script, what, str(folder)])
    value = json.loads((folder / "answer.json").read_text())
    assert isinstance(value, dict)
    return value


def check(value: dict[str, Any]) -> None:
    assert value["rows"] == 4 * 60 * 40
    assert value["equal_rows"]
    assert value["equal_header"]
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
    # Both workers were on it.
    assert value["lost"] == 2
