"""Writes GE dumps from the table of their fields."""

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

NCHW, NHWC, ND, NC1HWC0, FRACTAL_Z = 0, 1, 2, 3, 4
HWCN, FRACTAL_NZ, NDC1HWC0 = 16, 29, 32


@dataclass
class Dumped:
    """One input or output. `raw` is written to the file, `size` is stated in
    the header.
    """

    data_type: int
    form: int
    shape: tuple[int, ...]
    original: tuple[int, ...]
    raw: bytes
    size: int | None = None
    address: int = 0x1000


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number) if number else b""


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _shape(dims: tuple[int, ...]) -> bytes:
    return _bytes(1, b"".join(map(_varint, dims))) if dims else b""


def _tensor(tensor: Dumped, fields: tuple[int, int, int]) -> bytes:
    size = len(tensor.raw) if tensor.size is None else tensor.size
    size_field, original_field, address_field = fields
    return (
        _number(1, tensor.data_type)
        + _number(2, tensor.form)
        + _bytes(3, _shape(tensor.shape))
        + _number(size_field, size)
        + _bytes(original_field, _shape(tensor.original))
        + _number(address_field, tensor.address)
    )


def write(
    path: Path,
    inputs: list[Dumped],
    outputs: list[Dumped],
    op: str = "model/layers.0/MatMul",
) -> None:
    """Writes the dump of one task."""
    head = _bytes(1, b"2.0") + _number(2, 1756699200000001)
    for tensor in outputs:
        head += _bytes(3, _tensor(tensor, (6, 7, 9)))
    for tensor in inputs:
        head += _bytes(4, _tensor(tensor, (5, 6, 8)))
    head += _bytes(6, op.encode())
    raw = b"".join(t.raw for t in [*inputs, *outputs])
    path.write_bytes(struct.pack("<Q", len(head)) + head + raw)


def _tagged(tag: int, value: bytes) -> bytes:
    return struct.pack("<II", tag, len(value)) + value


def _nano_list(tag: int, tensors: list[Dumped]) -> bytes:
    out = struct.pack("<I", len(tensors))
    for tensor in tensors:
        values = b""
        for number, dims in enumerate((tensor.shape, tensor.original)):
            values += _tagged(number, struct.pack(f"<{len(dims)}q", *dims))
        out += struct.pack("<iii", tensor.data_type, tensor.form, 0)
        if tag == 5:
            out += struct.pack("<iii", 0, tensor.data_type, tensor.form)
            values += _tagged(2, b"original")
        size = len(tensor.raw) if tensor.size is None else tensor.size
        out += struct.pack("<QQQI", tensor.address, 0, size, len(values)) + values
    return _tagged(tag, out)


def write_nano(path: Path, inputs: list[Dumped], outputs: list[Dumped]) -> None:
    """Writes the dump of one task in the format of CANN nano, with the dtypes
    of ACL.
    """
    head = struct.pack("<II", 0x5A5A5A5A, 1)
    head += _nano_list(4, inputs) + _nano_list(5, outputs)
    raw = b"".join(t.raw for t in [*inputs, *outputs])
    path.write_bytes(struct.pack("<Q", len(head)) + head + raw)


def _blocks(size: int, block: int) -> int:
    return -(-size // block)


def _padded(array: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    pads = [(0, size - have) for size, have in zip(sizes, array.shape, strict=True)]
    return np.pad(array, pads, constant_values=99)


def to_nz(array: np.ndarray, n0: int, c0: int) -> np.ndarray:
    """Returns (..., N, C) as (..., C1, N1, N0, C0)."""
    *outer, n, c = array.shape
    n1, c1 = _blocks(n, n0), _blocks(c, c0)
    full = _padded(array, (*outer, n1 * n0, c1 * c0))
    cut = full.reshape(*outer, n1, n0, c1, c0)
    k = len(outer)
    return cut.transpose(*range(k), k + 2, k, k + 1, k + 3)


def to_nc1hwc0(nchw: np.ndarray, c0: int) -> np.ndarray:
    """Returns NCHW as (N, C1, H, W, C0)."""
    n, c, h, w = nchw.shape
    c1 = _blocks(c, c0)
    full = _padded(nchw, (n, c1 * c0, h, w))
    return full.reshape(n, c1, c0, h, w).transpose(0, 1, 3, 4, 2)


def to_ndc1hwc0(ncdhw: np.ndarray, c0: int) -> np.ndarray:
    """Returns NCDHW as (N, D, C1, H, W, C0)."""
    n, c, d, h, w = ncdhw.shape
    c1 = _blocks(c, c0)
    full = _padded(ncdhw, (n, c1 * c0, d, h, w))
    return full.reshape(n, c1, c0, d, h, w).transpose(0, 3, 1, 4, 5, 2)


def to_fractal_z(nchw: np.ndarray, n0: int, c0: int) -> np.ndarray:
    """Returns NCHW as (C1 * H * W, N1, N0, C0)."""
    n, c, h, w = nchw.shape
    n1, c1 = _blocks(n, n0), _blocks(c, c0)
    full = _padded(nchw, (n1 * n0, c1 * c0, h, w))
    cut = full.reshape(n1, n0, c1, c0, h, w).transpose(2, 4, 5, 0, 1, 3)
    return cut.reshape(c1 * h * w, n1, n0, c0)
