"""`msitctl run import --keep`: how much of each tensor is imported."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from watching import Watch, keys, save_fx

from daemon import Daemon

PARTIAL = 4
USAGE = 2
LOCAL = 3


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Three arrays, as TorchAir's eager mode writes them."""
    for number in range(3):
        save_fx(tmp_path / "fx/1/graph_1", number)
    return tmp_path / "fx"


def bring(
    daemon: Daemon, tree: Path, *flags: str, expect: int = 0, run: str = "r"
) -> dict[str, Any]:
    words = ("run", "import", str(tree), "--run", run, "--python", sys.executable)
    done = daemon.ctl("-o", "json", *words, *flags, expect=expect)
    return {**(json.loads(done.stdout) if done.stdout else {}), "stderr": done.stderr}


def listed(daemon: Daemon, run: str = "r") -> list[dict[str, Any]]:
    return daemon.ctl_json("tensor", "list", "--run", run).get("tensors", [])


def function(tmp_path: Path, body: str) -> str:
    file = tmp_path / "keeps.py"
    file.write_text(f"import os\ndef keep(array, where):\n    {body}\n")
    return f"{file}:keep"


@pytest.mark.parametrize("level", ["summary", "sample"])
def test_level_is_the_policy_of_the_run(daemon: Daemon, tree: Path, level: str) -> None:
    assert bring(daemon, tree, "--keep", level)["sealed"]
    policy = daemon.ctl_json("capture", "get", "--run", "r")
    assert policy["rules"][0]["level"] == f"CAPTURE_LEVEL_{level.upper()}"
    found = listed(daemon)
    assert {one["summary"]["max"] for one in found} == {0.0, 1.0, 2.0}
    # Again, although the run is sealed: it has all files.
    again = bring(daemon, tree, "--keep", level)
    assert (int(again["skipped_file_count"]), int(again["file_count"])) == (3, 0)
    other = "sample" if level == "summary" else "summary"
    refused = bring(daemon, tree, "--keep", other, expect=USAGE)
    assert f"--keep {other} cannot change" in refused["stderr"]


def test_import_and_watch_keep_the_same(
    daemon: Daemon, tree: Path, tmp_path: Path
) -> None:
    keep = function(tmp_path, "return {'twice': array * 2, 'count': array.size}")
    result = bring(daemon, tree, "--keep", keep, "--keep-open")
    assert int(result["derived_count"]) == 6
    flags = ("--keep", keep, "--python", sys.executable, "--until-idle", "500ms")
    again = Watch(daemon, tree, *flags).end(stop=False)
    assert int(again["imported"]["file_count"]) == 0
    words = ("watch", str(tree), "--run", "w", *flags)
    daemon.ctl(*words)
    assert keys(daemon, "r") == keys(daemon, "w")
    assert {one["index"] for one in listed(daemon)} == {"0~twice", "0~count"}
    daemon.ctl("run", "attachment", "r", "keep.json", "--out", str(tmp_path / "out"))
    assert json.loads((tmp_path / "out").read_text())["function"] == "keep"


def test_run_has_what_one_function_keeps(
    daemon: Daemon, tree: Path, tmp_path: Path
) -> None:
    keep = function(tmp_path, "return array")
    bring(daemon, tree, "--keep", keep, "--keep-open")
    refused = bring(daemon, tree, expect=USAGE)
    assert "import into another run" in refused["stderr"]
    function(tmp_path, "return -array")
    refused = bring(daemon, tree, "--keep", keep, expect=USAGE)
    assert "import into another run" in refused["stderr"]
    bring(daemon, tree, "--keep-open", run="full")
    refused = bring(daemon, tree, "--keep", keep, run="full", expect=USAGE)
    assert "imported without a function" in refused["stderr"]


def test_function_that_fails_is_told(
    daemon: Daemon, tree: Path, tmp_path: Path
) -> None:
    body = "assert array[0] != 1; return array if array[0] else None"
    keep = function(tmp_path, body)
    result = bring(daemon, tree, "--keep", keep, expect=PARTIAL)
    counts = [
        int(result[f"{name}_count"]) for name in ("derived", "unkept", "underived")
    ]
    assert counts == [1, 1, 1]
    assert "op1-aten.add.OUTPUT" in result["stderr"]
    keep = function(tmp_path, "os._exit(7)")
    for number in range(3, 20):
        save_fx(tree / "1/graph_1", number)
    result = bring(daemon, tree, "--keep", keep, run="lost", expect=LOCAL)
    assert "17 earlier interpreters ended or took too long" in result["stderr"]


def test_dry_run_asks_the_function_and_no_daemon(
    daemon: Daemon, tree: Path, tmp_path: Path
) -> None:
    keep = function(tmp_path, "return array[:0] if array[0] else None")
    result = bring(daemon, tree, "--keep", keep, "--dry-run")
    assert (int(result["derived_count"]), int(result["unkept_count"])) == (2, 1)
    daemon.ctl("run", "get", "r", expect=69)


def test_what_names_no_level_is_refused(daemon: Daemon, tree: Path) -> None:
    for keep in ("most", "no.py:f", "no.py:"):
        bring(daemon, tree, "--keep", keep, expect=USAGE)
    daemon.ctl("run", "get", "r", expect=69)


def test_ten_thousand_small_files(daemon: Daemon, tmp_path: Path) -> None:
    folder = tmp_path / "fx/1/graph_1"
    one = save_fx(tmp_path, 1)
    folder.mkdir(parents=True)
    for number in range(10_000):
        (folder / f"op{number}-aten.OUTPUT.0.{10**19 + number}.npy").hardlink_to(one)
    keep = function(tmp_path, "return array.sum()")
    result = bring(daemon, tmp_path / "fx", "--keep", keep)
    assert int(result["derived_count"]) == 10_000
    sums = {one["summary"]["max"] for one in listed(daemon)}
    assert sums == {float(np.float32(16))}


def test_run_stays_open_if_a_function_hangs(
    daemon: Daemon, tree: Path, tmp_path: Path
) -> None:
    keep = function(tmp_path, "import time; time.sleep(1000)")
    result = bring(daemon, tree, "--keep", keep, "--keep-timeout", "1s", expect=PARTIAL)
    assert "no answer within 1s" in result["stderr"]
    # The import may be repeated.
    assert daemon.ctl_json("run", "get", "r")["state"] == "ACTIVE"
