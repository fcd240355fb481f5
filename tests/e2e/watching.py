"""A running `msitctl watch`, and the files that it imports."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import ge_dump
import numpy as np

from daemon import BIN_DIR, Daemon

WAIT_S = 60
ND = ge_dump.ND
FLOAT32 = 1


class Watch:
    """A running `msitctl watch`."""

    def __init__(self, daemon: Daemon, folder: Path, *flags: str) -> None:
        self.process = subprocess.Popen(
            [BIN_DIR / "msitctl", "-o", "json", "watch", folder, "--run", "r", *flags],
            env={**os.environ, "MSITCTL_ENDPOINT": f"unix:{daemon.socket_dir}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    def end(self, *, expect: int | None = 0, stop: bool = True) -> dict[str, Any]:
        """Stops the watch in an orderly way; returns its output."""
        if stop:
            self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=WAIT_S)
        assert expect in (None, self.process.returncode), (out, err)
        return json.loads(out) if out else {}

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def tensor_count(daemon: Daemon, run: str = "r") -> int:
    result = daemon.ctl("-o", "json", "run", "get", run, expect=None)
    if result.returncode != 0:
        return 0
    return int(json.loads(result.stdout).get("counters", {}).get("tensor_count", 0))


def wait_for(daemon: Daemon, count: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while tensor_count(daemon) < count:
        assert time.monotonic() < deadline, tensor_count(daemon)
        time.sleep(0.05)


def save_fx(folder: Path, number: int, time_us: int | None = None) -> Path:
    """Writes one array as TorchAir's eager mode does."""
    folder.mkdir(parents=True, exist_ok=True)
    when = 20250101000000000000 + (number if time_us is None else time_us)
    path = folder / f"op{number}-aten.add.OUTPUT.0.{when}.npy"
    np.save(path, np.full(16, number, np.float32))
    return path


def ge_bytes(path: Path, count: int = 64) -> bytes:
    raw = np.arange(count, dtype=np.float32).tobytes()
    tensor = ge_dump.Dumped(FLOAT32, ND, (count,), (count,), raw)
    ge_dump.write(path, [tensor], [tensor])
    return path.read_bytes()


def ge_folder(root: Path, token: int) -> Path:
    folder = root / f"worldsize1_global_rank0/20250101000000/0/graph_1/1/{token}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def import_agrees(daemon: Daemon, folder: Path, count: int) -> None:
    """Checks that an import of the finished folder finds no new or bad files."""
    result = daemon.ctl_json("run", "import", str(folder), "--run", "r")
    assert int(result["skipped_file_count"]) == count
    assert (int(result["file_count"]), int(result["problem_count"])) == (0, 0)


def keys(daemon: Daemon, run: str) -> set[tuple[object, ...]]:
    listed = daemon.ctl_json("tensor", "list", "--run", run)["tensors"]
    return {
        (
            one.get("rank", 0),
            one.get("token", 0),
            one["op"],
            one.get("call", 0),
            one["io"],
            one.get("index"),
            one["hash"],
        )
        for one in listed
    }


def wait_until_gone(*paths: Path) -> None:
    deadline = time.monotonic() + WAIT_S
    while left := [path for path in paths if path.exists()]:
        assert time.monotonic() < deadline, (len(left), left[:3])
        time.sleep(0.05)
