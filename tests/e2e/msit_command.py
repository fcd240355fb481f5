"""The command msit, run as a user runs it."""

import os
import re
import subprocess
from pathlib import Path

from daemon import BIN_DIR

LINE = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - \d+ - (\w+) - ([A-Z]+) - (.*)"
)


def msit(
    folder: Path,
    *words: str,
    expect: int = 0,
    environment: dict[str, str] | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Runs `msit WORDS` in a folder."""
    done = subprocess.run(
        [BIN_DIR / "msit", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    assert done.returncode == expect, (words, done.stderr)
    return done


def log_of(text: str) -> list[tuple[str, str, str]]:
    """Logger, level and message of each line."""
    found = [LINE.fullmatch(line) for line in text.splitlines()]
    assert all(found), text
    return [m.group(1, 2, 3) for m in found if m is not None]


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path
