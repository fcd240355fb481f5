"""Readers of other tools' files return the same values as the tools' own readers."""

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import ge_dump
import numpy as np
import pytest
from tensor_files import read, refusal


def plain(array: np.ndarray) -> bytes:
    """Returns the bytes that msitd holds of an array."""
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


def dumped(form: int, stored: np.ndarray, original: tuple[int, ...]) -> ge_dump.Dumped:
    """Returns int16 elements in a layout, with the padding that devices add."""
    raw = np.ascontiguousarray(stored).tobytes() + b"\xaa" * 32
    return ge_dump.Dumped(5, form, stored.shape, original, raw)


def test_ge_layouts_as_numpy_makes_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(20261122)
    tensors, expected = [], []

    def add(form: int, stored: np.ndarray, original: tuple[int, ...],
            plain_array: np.ndarray) -> None:  # fmt: skip
        tensors.append(dumped(form, stored, original))
        expected.append(plain_array)

    for _ in range(20):
        n, c, d, h, w = (int(size) for size in rng.integers(1, 20, 5))
        n0, c0 = (int(rng.choice([2, 4, 16])) for _ in range(2))
        a5 = rng.integers(-999, 999, (n, c, d % 3 + 1, h, w % 5 + 1)).astype("<i2")
        a4 = np.ascontiguousarray(a5[:, :, 0])
        a3, a2, a1 = a4[..., 0], a4[0, 0], a4[0, 0, 0]
        nhwc, hwcn = a4.transpose(0, 2, 3, 1), a4.transpose(2, 3, 1, 0)
        for array in (a5, a4, a3, a2):
            add(ge_dump.FRACTAL_NZ, ge_dump.to_nz(array, n0, c0), array.shape, array)
        add(ge_dump.FRACTAL_NZ, ge_dump.to_nz(a1[None], n0, c0), a1.shape, a1)
        # The outer dimensions of the matrices can be joined.
        joined = ge_dump.to_nz(a4.reshape(-1, *a4.shape[2:]), n0, c0)
        add(ge_dump.FRACTAL_NZ, joined, a4.shape, a4)
        five = ge_dump.to_nc1hwc0(a4, c0)
        add(ge_dump.NC1HWC0, five, a4.shape, a4)
        if a4.shape[2:] != nhwc.shape[2:]:
            add(ge_dump.NC1HWC0, five, nhwc.shape, a4)
        add(ge_dump.NDC1HWC0, ge_dump.to_ndc1hwc0(a5, c0), a5.shape, a5)
        flat = a2[..., None, None, None]
        add(ge_dump.NDC1HWC0, ge_dump.to_ndc1hwc0(flat, c0), a2.shape, a2)
        add(ge_dump.FRACTAL_Z, ge_dump.to_fractal_z(a4, n0, c0), a4.shape, a4)
        add(ge_dump.NHWC, nhwc, a4.shape, a4)
        add(ge_dump.HWCN, hwcn, a4.shape, a4)
        add(ge_dump.ND, a5, a5.shape, a5)
        add(ge_dump.NHWC, a3, a3.shape, a3)
    path = tmp_path / "MatMulV2.mm.1.2.3"
    half = len(tensors) // 2
    ge_dump.write(path, tensors[:half], tensors[half:])
    for piece_bytes in (16, 100, 65536):
        got = read(path, piece_bytes)
        assert [t.io for t in got[half - 1 : half + 1]] == ["input", "output"]
        assert [t.index for t in got[half : half + 2]] == ["0", "1"]
        for tensor, array in zip(got, expected, strict=True):
            assert tensor.problem == ""
            assert tensor.dtype == "int16"
            assert tensor.shape == array.shape
            assert tensor.data == np.ascontiguousarray(array).tobytes()


def test_ge_nano(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    array = rng.integers(-999, 999, (3, 20, 17)).astype("<i2")
    blocks = np.ascontiguousarray(ge_dump.to_nz(array, 16, 16))
    plain_array = rng.random((2, 3))
    raw = plain_array.tobytes()
    inputs = [
        ge_dump.Dumped(
            6, ge_dump.FRACTAL_NZ, blocks.shape, array.shape, blocks.tobytes()
        ),
        ge_dump.Dumped(11, ge_dump.ND, (2, 3), (), raw),
    ]
    outputs = [
        ge_dump.Dumped(11, ge_dump.NCHW, (2, 3), (2, 3), raw + b"????", address=0),
        ge_dump.Dumped(28, ge_dump.ND, (9,), (9,), b"ab"),
        ge_dump.Dumped(13, ge_dump.ND, (2,), (2,), b"text"),
        ge_dump.Dumped(12, ge_dump.ND, (), (), b"\x01"),
    ]
    path = tmp_path / "Add.add.1.2.3"
    ge_dump.write_nano(path, inputs, outputs)
    tensors = read(path)
    expected = [array.tobytes(), raw, raw, b"ab", b"", b"\x01"]
    assert [t.data for t in tensors] == expected
    assert [t.io for t in tensors] == ["input"] * 2 + ["output"] * 4
    assert [t.index for t in tensors] == ["0", "1", "0", "1", "2", "3"]
    dtypes = ["int16", "float64", "float64", "int8", "unspecified", "bool"]
    assert [t.dtype for t in tensors] == dtypes
    assert tensors[0].shape == array.shape
    assert tensors[5].shape == ()
    assert tensors[2].name == "original"
    assert "STRING" in tensors[4].problem


GE_TYPES = {
    1: "float32", 2: "float16", 3: "int8", 4: "uint8", 5: "int16", 6: "uint16",
    7: "int32", 8: "int64", 9: "uint32", 10: "uint64", 11: "bool", 12: "float64",
    16: "complex64", 17: "complex128", 18: "int8", 19: "int16", 20: "int32",
    21: "uint8", 22: "uint16", 27: "bfloat16", 28: "int4", 29: "uint1", 30: "int2",
    31: "uint2", 32: "complex32", 33: "hifloat8", 34: "float8_e5m2",
    35: "float8_e4m3fn", 36: "float8_e8m0fnu", 37: "float6_e3m2fn",
    38: "float6_e2m3fn", 39: "float4_e2m1fn", 40: "float4_e1m2",
}  # fmt: skip
BITS = {"int4": 4, "uint1": 1, "int2": 2, "uint2": 2, "float6_e3m2fn": 6}
BITS |= {"float6_e2m3fn": 6, "float4_e2m1fn": 4, "float4_e1m2": 4}
WIDTHS = {"float32": 4, "float16": 2, "int16": 2, "uint16": 2, "int32": 4}
WIDTHS |= {"int64": 8, "uint32": 4, "uint64": 8, "float64": 8, "complex64": 8}
WIDTHS |= {"complex128": 16, "bfloat16": 2, "complex32": 4}


def packed(values: np.ndarray, bits: int, dtype: str) -> bytes:
    """Returns elements as CANN packs them: masks of one bit, from the highest
    bit on.
    """
    order = "big" if dtype == "uint1" else "little"
    split = values[:, None] >> np.arange(bits, dtype=np.uint8) & 1
    return np.packbits(split.astype(np.uint8).ravel(), bitorder=order).tobytes()


def test_ge_types(tmp_path: Path) -> None:
    rng = np.random.default_rng(22)
    shape = (3, 7)
    tensors, expected = [], []
    for number, dtype in GE_TYPES.items():
        bits = BITS.get(dtype, 8)
        count = 21 * WIDTHS.get(dtype, 1)
        values = rng.integers(0, 1 << bits, count).astype(np.uint8)
        raw = packed(values, bits, dtype) if bits < 8 else values.tobytes()
        if dtype.startswith("int") and bits < 8:
            sign = 1 << (bits - 1)
            values = (((values.astype(int) ^ sign) - sign) & 0xFF).astype(np.uint8)
        tensors.append(ge_dump.Dumped(number, ge_dump.ND, shape, shape, raw + b"\xaa"))
        expected.append((dtype, values.tobytes()))
    path = tmp_path / "dump"
    ge_dump.write(path, tensors, [])
    for tensor, (dtype, data) in zip(read(path, 17), expected, strict=True):
        assert (tensor.problem, tensor.dtype) == ("", dtype)
        assert tensor.data == data, dtype


def test_ge_types_without_elements_have_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "dump"
    numbers = [13, 14, 15, 23, 24, 25, 26, 41, 42, 77]
    good = ge_dump.Dumped(4, ge_dump.ND, (2,), (2,), b"ok")
    bad = [ge_dump.Dumped(n, ge_dump.ND, (2,), (2,), b"12345678") for n in numbers]
    ge_dump.write(path, [x for tensor in bad for x in (tensor, good)], [good])
    tensors = read(path)
    assert all(t.problem and not t.data for t in tensors[:-1:2])
    assert all(t.data == b"ok" for t in [*tensors[1::2], tensors[-1]])


def test_ge_bytes_that_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "dump"

    def one(raw: bytes, size: int, address: int) -> ge_dump.Dumped:
        return ge_dump.Dumped(4, ge_dump.ND, (2,), (2,), raw, size, address)

    # Two tensors without an address, whose bytes are not in the file.
    inputs = [one(b"ab", 2, 1), one(b"", 2, 0), one(b"", 0, 5), one(b"cd", 2, 9)]
    ge_dump.write(path, inputs, [one(b"", 64, 0), one(b"ef??", 4, 7)])
    assert [t.data for t in read(path)] == [b"ab", b"", b"", b"cd", b"", b"ef"]
    # Older versions write no address.
    ge_dump.write(path, [one(b"ab", 2, 0)], [one(b"cd", 2, 0)])
    assert [t.data for t in read(path)] == [b"ab", b"cd"]
    # The last byte is padding, the one before is not.
    ge_dump.write(path, [one(b"ab", 2, 1)], [one(b"cd?", 3, 1)])
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert [t.data for t in read(path)] == [b"ab", b"cd"]
    path.write_bytes(whole[:-2])
    assert [t.data for t in read(path)] == [b"ab", b""]
    assert "truncated" in read(path)[1].problem


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_as_numpy_reads_it(tmp_path: Path, save: Callable[..., None]) -> None:
    rng = np.random.default_rng(3)
    arrays = {
        "inputs": rng.random((3, 50, 7)),
        "turned": np.asfortranarray(rng.random((40, 70))),
        "with/slash.dot": rng.integers(0, 9, 20000).astype(">i4"),
        "empty": np.zeros((0, 2), dtype=np.float32),
        "objects": np.array([None], dtype=object),
    }
    path = tmp_path / "x_min_max.npz"
    save(path, **arrays)
    for piece_bytes in (100, 1 << 20):
        tensors = {t.name: t for t in read(path, piece_bytes)}
        assert tensors.keys() == arrays.keys()
        assert tensors.pop("objects").problem
        for name, tensor in tensors.items():
            assert tensor.problem == ""
            assert tensor.shape == arrays[name].shape
            assert tensor.data == plain(arrays[name])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_reduced_dumps_have_a_tensor_for_each_row(
    tmp_path: Path, save: Callable[..., None]
) -> None:
    rng = np.random.default_rng(4)
    path = tmp_path / "Add.add.1.2.3_min_max.npz"
    for inputs in (rng.random((12, 2)), np.asfortranarray(rng.random((12, 2)))):
        outputs = rng.integers(0, 9, (1, 2)).astype(">i2")
        save(path, inputs=inputs, outputs=outputs)
        tensors = read(path, 16)
        assert [t.io for t in tensors] == ["input"] * 12 + ["output"]
        assert [t.index for t in tensors] == [*map(str, range(12)), "0"]
        assert all(t.shape == (2,) and t.name == "" for t in tensors)
        expected = [plain(row) for row in (*inputs, *outputs)]
        assert [t.data for t in tensors] == expected
    save(path, inputs=np.array([]), outputs=np.ones((1, 2), dtype=bool))
    assert [(t.io, t.data) for t in read(path)] == [("output", b"\1\1")]
    # Other arrays with these names are ordinary arrays.
    save(path, inputs=np.ones((3, 4)), outputs=np.ones((3, 2)))
    assert [(t.name, t.shape) for t in read(path)] == [
        ("inputs", (3, 4)),
        ("outputs", (3, 2)),
    ]


def test_npz_members_that_are_no_arrays(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/", b"")
        archive.writestr("readme.txt", b"hello, world")
        # A header of 120 bytes that declares 8 MB.
        array = io.BytesIO()
        np.save(array, np.zeros(1 << 20))
        archive.writestr("cut.npy", array.getvalue()[:128])
        archive.writestr("good.npy", array.getvalue())
    text, cut, good = read(path)
    assert (text.name, text.data) == ("readme.txt", b"")
    assert "magic" in text.problem
    assert "truncated" in cut.problem
    assert good.data == bytes(8 << 20)


def test_zip_archives_that_explode_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(1 << 20))
    good = path.read_bytes()
    assert "magic" in read(path)[0].problem
    # The size of the member in the central directory.
    place = good.index(b"PK\x01\x02") + 24
    path.write_bytes(good[:place] + struct.pack("<I", 1 << 31) + good[place + 4 :])
    assert "implausible" in refusal(path)
    path.write_bytes(good[: len(good) // 2])
    assert "zip" in refusal(path)


def test_archives_without_arrays_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", b"hello, world")
    assert "no arrays" in refusal(path)
    np.savez(path)
    assert read(path) == []
