"""Runs commands in separate network and process namespaces.

Ray listens on all addresses and ends processes of the whole machine, so it gets
a machine of its own: only the loopback, its own processes, its own home. Its
tokens stay enabled.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN_DIR = Path(os.environ.get("MSITD_BIN_DIR", ROOT / "build/release/bin")).resolve()
_APART = ["unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child"]


def has_rights() -> bool:
    """Returns whether this user may create namespaces."""
    tried = subprocess.run([*_APART, "true"], capture_output=True, check=False)
    return tried.returncode == 0


def run_apart(
    folder: Path, words: list[str], python: str, timeout_s: float = 300
) -> "subprocess.CompletedProcess[str]":
    """Runs a command with `python`, whose home is in `folder`."""
    place = tempfile.mkdtemp(prefix="msitd-ray-", dir="/tmp")
    home = folder / "home"
    home.mkdir(exist_ok=True)
    programs = f"{BIN_DIR}:{Path(python).parent}"
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(home),
        # The paths of sockets have at most 107 bytes.
        "RAY_TMPDIR": place,
        "TMPDIR": "/tmp",
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
    }
    script = 'ip link set lo up && exec "$@"'
    try:
        done = subprocess.run(
            [*_APART, "sh", "-c", script, "sh", python, *words],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=environment,
            check=False,
        )
    finally:
        shutil.rmtree(place, ignore_errors=True)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done
