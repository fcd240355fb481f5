"""Runs commands with msitctl exec, and queries their runs."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from daemon import BIN_DIR, Daemon

HEAD = """
import os, signal, subprocess, sys
import torch
from torch import nn
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
    def forward(self, x, *, scale=1.0):
        return torch.relu(self.fc(x)) * scale
model = Net()
"""
FORWARD = "out = model(torch.ones(2, 4), scale=torch.full((1,), 2.0))\n"


@pytest.fixture
def place(user_place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user whose programs learn the endpoint only from exec."""
    monkeypatch.delenv("MSITD_ENDPOINT", raising=False)
    return user_place


def execute(
    *words: str,
    expect: int = 0,
    flags: tuple[str, ...] = ("--run", "r"),
    program: tuple[str, ...] = (),
    **options: Any,
) -> "subprocess.CompletedProcess[str]":
    """Runs a command with exec, or with another verb of `program`."""
    done = subprocess.run(
        [BIN_DIR / "msitctl", *(program or ("exec", *flags)), "--", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        **options,
    )
    assert done.returncode == expect, done.stderr
    return done


def script(
    text: str, *flags: str, head: str = HEAD, expect: int = 0
) -> "subprocess.CompletedProcess[str]":
    Path("script.py").write_text(head + text)
    return execute(
        sys.executable, "script.py", expect=expect, flags=("--run", "r", *flags)
    )


def places(
    daemon: Daemon, run: str = "r", *flags: str
) -> list[tuple[int, int, str, str]]:
    """Returns token, call, op and `io index` of all records of a run."""
    found = daemon.ctl_json("tensor", "list", "--run", run, "--limit", "0", *flags)
    return [
        (
            int(each.get("token", 0)),
            int(each.get("call", 0)),
            each["op"],
            f"{each['io']} {each.get('index', '')}".lower().removeprefix("io_"),
        )
        for each in found.get("tensors", [])
    ]


def state(daemon: Daemon, run: str = "r") -> str:
    return str(daemon.ctl_json("run", "get", run)["state"])


def runs(daemon: Daemon) -> set[str]:
    return {run["name"] for run in daemon.ctl_json("run", "list").get("runs", [])}
