"""Readers of files of other tools give what the tools' own readers give."""

import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from daemon import BIN_DIR

READER = BIN_DIR.parent / "tests" / "read_tensor_file"


class Tensor(NamedTuple):
    """A line of read_tensor_file."""

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


def plain(array: np.ndarray) -> bytes:
    """Returns what msitd holds of an array."""
    return array.astype(array.dtype.newbyteorder("<")).tobytes(order="C")


@pytest.mark.parametrize(
    "code", ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
    + ["f2", "f4", "f8", "c8", "c16"]
)  # fmt: skip
def test_npy_as_numpy_reads_it(tmp_path: Path, code: str) -> None:
    rng = np.random.default_rng(sum(map(ord, code)))
    for number, shape in enumerate([(), (1,), (0, 3), (5,), (3, 4), (2, 3, 1, 5)]):
        for swapped in (False, True):
            array = rng.integers(0, 256, (*shape, 16), dtype=np.uint8)
            array = np.asarray(array.view(code)[..., 0])
            array = (array != 0) if code == "?" else array
            if swapped:
                array = array.astype(array.dtype.newbyteorder(">"))
            for order in "CF":
                path = tmp_path / f"{number}{swapped}{order}.npy"
                np.save(path, np.asarray(array, order=order))
                (tensor,) = read(path, piece_bytes=16 + number)
                assert tensor.problem == ""
                assert tensor.shape == shape
                assert tensor.dtype == np.dtype(code).name
                assert tensor.data == plain(np.load(path))


def test_npy_without_numbers_has_a_reason(tmp_path: Path) -> None:
    arrays = [
        np.array([None, {}], dtype=object),
        np.array(["a", "bc"]),
        np.zeros(2, dtype=[("a", "<f4"), ("b", "<i4", (2,))]),
        np.zeros(2, dtype="datetime64[s]"),
        np.zeros(2, dtype=np.longdouble),
    ]
    for number, array in enumerate(arrays):
        path = tmp_path / f"{number}.npy"
        np.save(path, array)
        (tensor,) = read(path)
        assert tensor.problem, array.dtype
        assert tensor.data == b""
        assert tensor.shape == (2,)
