"""Reads files of other tools with read_tensor_file."""

import subprocess
from pathlib import Path
from typing import NamedTuple

from daemon import BIN_DIR

READER = BIN_DIR.parent / "tests" / "read_tensor_file"


class Tensor(NamedTuple):
    """A line of read_tensor_file's output."""

    name: str
    io: str
    index: str
    dtype: str
    shape: tuple[int, ...]
    data: bytes
    problem: str


def read(path: Path, piece_bytes: int = 4096) -> list[Tensor]:
    """Returns the tensors of a file."""
    out = subprocess.run(
        [READER, path, str(piece_bytes)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    tensors = []
    for line in out.splitlines():
        name, io, index, dtype, shape, data, problem = line.split("\t")
        dims = tuple(int(d) for d in shape.split(",") if d)
        tensors.append(
            Tensor(name, io, index, dtype, dims, bytes.fromhex(data), problem)
        )
    return tensors


def refusal(path: Path) -> str:
    """Returns why a file is refused."""
    done = subprocess.run(
        [READER, path], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1, done.stdout
    return done.stderr
