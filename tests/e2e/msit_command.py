"""Runs the commands msit and msprobe as a user would."""

import os
import re
import subprocess
import sys
from pathlib import Path

import torch

from daemon import BIN_DIR

EPS = 2.0**-23

# The environment in which msit runs the interpreter of these tests, which has torch
# and pandas.
PYTHON = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

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
    return _run("msit", folder, words, expect, environment or {})


def run_msprobe(
    folder: Path, *words: str, expect: int = 0
) -> "subprocess.CompletedProcess[str]":
    """Runs `msprobe WORDS` in a folder, which also has its temporary files."""
    return _run("msprobe", folder, words, expect, {"TMPDIR": str(folder)})


def _run(
    program: str,
    folder: Path,
    words: tuple[str, ...],
    expect: int,
    environment: dict[str, str],
) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [BIN_DIR / program, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == expect, (words, done.stderr)
    return done


def log_of(text: str) -> list[tuple[str, str, str]]:
    """Returns logger, level and message of each line."""
    found = [LINE.fullmatch(line) for line in text.splitlines()]
    assert all(found), text
    return [m.group(1, 2, 3) for m in found if m is not None]


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def metrics_of(golden: torch.Tensor, my: torch.Tensor) -> dict[str, float]:
    """Returns the metrics that msit computes with torch."""
    g, m = golden.reshape(-1).float(), my.reshape(-1).float()
    is_large = g.abs() > EPS
    relative = torch.where(is_large, (m / g - 1).abs(), 0)
    absolute = torch.where(is_large, (m - g).abs(), 0)
    kl = torch.nn.functional.kl_div(m.log_softmax(0), g.softmax(0), reduction="sum")
    return {
        "cosine_similarity": torch.cosine_similarity(g.double(), m.double(), 0).item(),
        "max_relative_error": relative.max().item(),
        "mean_relative_error": relative.mean().item(),
        "max_absolute_error": absolute.max().item(),
        "mean_absolute_error": absolute.mean().item(),
        "kl_divergence": max(kl.item(), 0),
        "relative_euclidean_distance": ((m - g).norm() / g.norm()).item(),
    }
