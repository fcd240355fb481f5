"""msitctl, as used by people and by scripts."""

import csv
import io
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from chunk_bytes import Chunk, Record, float32
from names import tensor_name
from wire import write

from daemon import BIN_DIR, Daemon, help_of

USAGE = 2
LOCAL = 3
NOT_FOUND = 64 + 5
UNAVAILABLE = 64 + 14

ODD_NAMES = [
    "model/layers/0/attn",
    "an op with blanks",
    "tab\tand\nnew line",
    "percent%20sign",
    "'quotes' and \"double\"",
    "\u6ce8\u610f\u529b.\u5c42",
    "emoji \U0001f680",
    "aten::add.Tensor",
    "a,b;c",
    "*",
    "-dash",
    "x" * 1024,
]


def fill(daemon: Daemon, run: str = "r", ops: list[str] | None = None) -> None:
    records = [
        Record(op, float32(i, 1), [2], sequence=i, index="k/v \u00e9")
        for i, op in enumerate(ops or ["op.0", "op.1"])
    ]
    write(daemon.channel(), run, [Chunk(run, records).pack()])


def test_any_name_goes_in_and_out(daemon: Daemon) -> None:
    run = "a run/with % and \u6ce8"
    fill(daemon, run, ODD_NAMES)
    names = daemon.ctl("-o", "name", "tensor", "list", "--run", run).stdout
    expected = [tensor_name(run, op, index="k/v \u00e9") for op in ODD_NAMES]
    assert names.splitlines() == expected
    for i, name in enumerate(expected):
        got = daemon.ctl_json("tensor", "get", name)
        assert got["op"] == ODD_NAMES[i]
        read = daemon.ctl(
            "tensor", "read", name, "--out", "-", "--format", "raw", binary=True
        )
        assert read.stdout == float32(i, 1)
    listed = daemon.ctl_json("run", "list")["runs"]
    assert [r["name"] for r in listed] == [run]
    assert daemon.ctl("run", "list").stdout.count("\n") == 2
    daemon.ctl("compare", "run", run, run)
    daemon.ctl("run", "delete", run, "--yes")
    daemon.ctl("run", "get", run, expect=NOT_FOUND)


def test_tensor_read_writes_npy(daemon: Daemon, tmp_path: Path) -> None:
    fill(daemon)
    out = tmp_path / "x.npy"
    name = tensor_name("r", "op.1", index="k/v \u00e9")
    daemon.ctl("tensor", "read", name, "--out", str(out))
    array = np.load(out)
    assert array.dtype == np.float32
    assert array.tolist() == [1, 1]


def test_stats_and_find(daemon: Daemon) -> None:
    records = [
        Record("good", float32(1, -4), [2], sequence=0),
        Record("bad", float32(float("nan"), float("inf")), [2], sequence=1),
    ]
    write(daemon.channel(), "r", [Chunk("r", records).pack()])
    (group,) = daemon.ctl_json("tensor", "stats", "--run", "r")["groups"]
    assert int(group["tensor_count"]) == 2
    summary = group["summary"]
    assert int(summary["count"]) == 4
    assert int(summary["nan_count"]) == 1
    assert int(summary["positive_infinity_count"]) == 1
    assert summary["min"] == -4
    assert summary["l1_norm"] == 5
    groups = daemon.ctl_json("tensor", "stats", "--run", "r", "--by", "op")["groups"]
    assert [g["key"] for g in groups] == ["good", "bad"]
    found = daemon.ctl(
        "-o", "name", "tensor", "find", "--run", "r", "--where", "nan_count > 0"
    ).stdout
    assert found.split() == [tensor_name("r", "bad")]


def test_lists_are_complete_across_pages(daemon: Daemon) -> None:
    ops = [f"op.{i}" for i in range(1024)]
    fill(daemon, "r", ops)
    more = [
        Record(f"late.{i}", float32(i), [1], token=1, sequence=2000 + i)
        for i in range(1000)
    ]
    write(
        daemon.channel(),
        "r2",
        [Chunk("r2", more).pack()],
    )
    listed = daemon.ctl("-o", "name", "tensor", "list", "--run", "r", "--limit", "0")
    assert len(listed.stdout.splitlines()) == 1024
    limited = daemon.ctl("-o", "name", "tensor", "list", "--run", "r", "--limit", "7")
    assert len(limited.stdout.splitlines()) == 7
    only = daemon.ctl(
        "-o", "name", "tensor", "list", "--run", "r2", "--tokens", "1", "--ops", "*.99*"
    )
    assert len(only.stdout.splitlines()) == 11


def test_run_life_cycle(daemon: Daemon) -> None:
    daemon.ctl("run", "create", "r", "--world-size", "2", "--label", "model=x")
    run = daemon.ctl_json("run", "get", "r")
    assert run["state"] == "ACTIVE"
    assert run["world_size"] == 2
    assert run["labels"] == {"model": "x"}
    daemon.ctl("run", "seal", "r")
    daemon.ctl("run", "seal", "r")
    assert daemon.ctl_json("run", "get", "r")["state"] == "SEALED"
    # Without a terminal, deleting requires --yes.
    assert daemon.ctl("run", "delete", "r", expect=None).returncode in (USAGE, LOCAL)
    daemon.ctl("run", "delete", "r", "--yes")
    daemon.ctl("run", "get", "r", expect=NOT_FOUND)


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("nonsense",), USAGE),
        (("run",), USAGE),
        (("run", "get"), USAGE),
        (("run", "list", "--no-such-flag"), USAGE),
        (("-o", "yaml", "run", "list"), USAGE),
        (("run", "get", "absent"), NOT_FOUND),
        (("tensor", "list", "--run", "absent"), NOT_FOUND),
        (("tensor", "list", "--run", "r", "--tokens", "5-"), USAGE),
        (("--endpoint", "127.0.0.1:1", "--timeout", "2s", "run", "list"), UNAVAILABLE),
        (
            ("tensor", "read", tensor_name("r", "op.0", index="k/v \u00e9"))
            + ("--out", "/nonexistent/x"),
            LOCAL,
        ),
    ],
)
def test_exit_codes(daemon: Daemon, args: tuple[str, ...], code: int) -> None:
    fill(daemon)
    result = daemon.ctl(*args, expect=code)
    assert result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("compare", "list", "--limit", "-1"),
        ("compare", "list", "--limit", "1e999"),
        ("compare", "list", "--limit", "9" * 400),
        ("run", "create", "x", "--world-size", "-1"),
        ("run", "create", "x", "--world-size", "9" * 400),
        ("run", "retain", "x", "--tokens", "-2"),
        ("capture", "set", "x", "--from-token", "-1"),
    ],
)
def test_a_number_that_is_refused_is_told_in_a_short_line(
    args: tuple[str, ...],
) -> None:
    result = subprocess.run(
        [BIN_DIR / "msitctl", *args],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert result.returncode == USAGE
    assert len(result.stderr) < 200 and result.stderr.count("\n") == 1


def test_text_that_a_spreadsheet_would_run_is_guarded(
    daemon: Daemon, tmp_path: Path
) -> None:
    names = ["=1+1", "+sum", "-2+3", "@x", "-1.5", "+", 'a=1,"b"', "\tx"]
    records = [Record(op, float32(-1.5), [1]) for op in names]
    for run in ("g", "t"):
        write(daemon.channel(), run, [Chunk(run, records).pack()])
    daemon.ctl("compare", "run", "g", "t", "--metrics", "msit,msprobe")
    guarded = {"'=1+1", "'+sum", "'-2+3", "'@x", "-1.5", "'+", 'a=1,"b"', "'\tx"}

    def ops(text: str, column: str) -> set[str]:
        return {row[column] for row in csv.DictReader(io.StringIO(text))}

    tensors = ("tensor", "list", "--run", "g", "-o", "csv")
    assert ops(daemon.ctl(*tensors).stdout, "op") == set(names)
    assert ops(daemon.ctl(*tensors, "--guard-formulas").stdout, "op") == guarded
    report = ("compare", "report", "c-000001", "--guard-formulas")
    text = daemon.ctl(*report).stdout
    assert ops(text, "op") == guarded
    # Numbers are not included.
    assert ops(text, "golden_min") == {"-1.5"}
    text = daemon.ctl(*report, "--format", "msprobe").stdout
    assert "'=1+1.0.forward.output.0" in ops(text, "NPU Name")
    assert ops(text, "Bench max") == {"-1.5"}
    out = tmp_path / "report.jsonl"
    daemon.ctl(*report, "--out", str(out))
    assert '"=1+1"' in out.read_text()


def test_errors_go_to_stderr_and_data_to_stdout(daemon: Daemon) -> None:
    fill(daemon)
    missing = daemon.ctl("run", "get", "absent", expect=NOT_FOUND)
    assert missing.stdout == ""
    assert "absent" in missing.stderr
    listed = daemon.ctl("-o", "json", "run", "list")
    assert listed.stderr == ""
    assert json.loads(listed.stdout)["runs"][0]["name"] == "r"


def test_every_verb_shows_an_example() -> None:
    verbs = {
        "run": ("list", "get", "create", "seal", "delete"),
        "tensor": ("list", "get", "read", "stats", "find"),
        "compare": ("run", "list", "get", "rows"),
        "capture": ("get", "set", "coverage"),
        "node": ("status",),
    }
    for noun, names in verbs.items():
        for verb in names:
            assert f"msitctl {noun} {verb}" in help_of(noun, verb)
