"""A daemon for one test run or one measurement."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MSITD = Path(os.environ.get("MSITD_BIN_DIR", ROOT / "build/release/bin")) / "msitd"


@contextmanager
def own_daemon(data: Path) -> Iterator[str]:
    """Starts a daemon on a folder, yields its Unix socket, and stops it."""
    with tempfile.TemporaryDirectory(prefix="msitd-") as sockets:
        process = subprocess.Popen([MSITD, "--data-dir", data, "--socket-dir", sockets])
        try:
            file = Path(sockets) / "endpoint"
            deadline = time.monotonic() + 30
            while not (file.exists() and file.read_text().strip()):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.01)
            yield next(e for e in file.read_text().split() if e.startswith("unix:"))
        finally:
            process.terminate()
            process.wait(60)
