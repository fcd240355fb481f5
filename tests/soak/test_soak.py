"""A short soak."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def test_a_short_soak(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, HERE / "soak.py", "--seconds", "24"),
            *("--producers", "8", "--folder", tmp_path / "soak"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
