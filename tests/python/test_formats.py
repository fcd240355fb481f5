"""msitd.formats reads files of other tools, and writes the same files as msit."""

import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from msitd import formats


def write_atb(path: Path, dtype: int, array: np.ndarray) -> None:
    dims = ",".join(map(str, array.shape))
    head = f"$Version=1.0\nformat=2\ndtype={dtype}\ndims={dims}\n$End=1\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head.encode() + array.tobytes())


def write_nano(path: Path, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
    """Writes a dump of float32 arrays in the format of CANN nano."""
    head = struct.pack("<II", 0x5A5A5A5A, 1)
    for tag, arrays in ((4, inputs), (5, outputs)):
        out = struct.pack("<I", len(arrays))
        for array in arrays:
            dims = struct.pack(f"<{array.ndim}q", *array.shape)
            value = struct.pack("<II", 0, len(dims)) + dims
            out += struct.pack("<iii", 0, 2, 0) + bytes(12 if tag == 5 else 0)
            out += struct.pack("<QQQI", 1, 0, array.nbytes, len(value)) + value
        head += struct.pack("<II", tag, len(out)) + out
    raw = b"".join(array.tobytes() for array in [*inputs, *outputs])
    path.write_bytes(struct.pack("<Q", len(head)) + head + raw)


def test_dumps_give_inputs_and_outputs(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    inputs = [rng.random((2, 3), dtype=np.float32), rng.random(1, dtype=np.float32)]
    outputs = [rng.random((3, 1), dtype=np.float32)]
    path = tmp_path / "Add.add.1.2.3"
    write_nano(path, inputs, outputs)
    dump = formats.read_dump_data(path)
    assert dump.kind == "ge_dump"
    assert dump.attributes == {"version": "1"}
    assert [t.index for t in dump.input_data] == ["0", "1"]
    assert dump.input_data[0].dtype == "float32"
    for got, arrays in zip(
        formats.convert_bin_data_to_npy(dump, None), (inputs, outputs), strict=True
    ):
        for array, expected in zip(got, arrays, strict=True):
            np.testing.assert_array_equal(array, expected)
            assert array.flags.writeable
    raw, _ = formats.convert_bin_data_to_npy(dump)
    assert raw[0].dtype == np.uint8
    assert raw[0].tobytes() == inputs[0].tobytes()
    _, flat = formats.convert_bin_data_to_npy(dump, "float32")
    np.testing.assert_array_equal(flat[0], outputs[0].ravel())


def test_files_of_atb(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float16).reshape(2, 3)
    path = tmp_path / "deep" / "intensor0.bin"
    write_atb(path, 1, array)
    tensor = formats.read_bin_data(str(path))
    np.testing.assert_array_equal(tensor.numpy(), array)
    read = formats.convert_bin_data_to_pt(tensor)
    assert read.dtype == torch.float16
    assert torch.equal(read, torch.from_numpy(array))
    assert torch.equal(tensor.get_data(), read)
    with pytest.raises(ValueError, match=".bin"):
        formats.read_bin_data(tmp_path / "x.pth")
    write_atb(tmp_path / "text.bin", 13, array)
    bad = formats.read_bin_data(tmp_path / "text.bin")
    assert "STRING" in bad.problem
    for convert in (bad.numpy, bad.torch):
        with pytest.raises(ValueError, match="STRING"):
            convert()


def test_folders_of_files_of_atb(tmp_path: Path) -> None:
    paths = [
        tmp_path / "a.bin",
        tmp_path / "b" / "c.bin",
        tmp_path / "b" / "d" / "e.bin",
    ]
    for path in paths:
        write_atb(path, 0, np.zeros(1, dtype=np.float32))
    (tmp_path / "b" / "x.txt").write_text("no")
    assert formats.get_bin_data_from_dir(tmp_path) == [str(p) for p in paths]
    assert formats.get_bin_data_from_dir(str(tmp_path), max_depth=3)
    with pytest.raises(RecursionError):
        formats.get_bin_data_from_dir(tmp_path, max_depth=2)
    with pytest.raises(NotADirectoryError):
        formats.get_bin_data_from_dir(paths[0])


def test_what_was_saved_can_be_read(tmp_path: Path) -> None:
    value = torch.randn(3, 5).to(torch.bfloat16)
    path = tmp_path / "new" / "x.pth"
    formats.save_torch_data({"a": [value.t()]}, path)
    (tensor,) = formats.tensors_of(path)
    assert tensor.name == "a.0"
    assert torch.equal(tensor.torch(), value.t())
    array = np.asfortranarray(np.random.default_rng(0).random((4, 3)))
    formats.save_npy_data(str(tmp_path / "new" / "y.npy"), array)
    (tensor,) = formats.tensors_of(tmp_path / "new" / "y.npy")
    np.testing.assert_array_equal(tensor.numpy(), array)
    formats.save_npy_data(tmp_path / "0.npy", np.float64(2.5))
    (tensor,) = formats.tensors_of(tmp_path / "0.npy")
    assert tensor.numpy() == 2.5
    with pytest.raises(ValueError, match=".pt or .pth"):
        formats.save_torch_data(value, tmp_path / "x.bin")
    with pytest.raises(ValueError, match=".npy"):
        formats.save_npy_data(tmp_path / "x.npz", array)
    with pytest.raises(ValueError, match="objects"):
        formats.save_npy_data(tmp_path / "x.npy", np.array([None]))


def test_statistics_are_attributes(tmp_path: Path) -> None:
    path = tmp_path / "Add.add.1.2.3.csv"
    path.write_text(
        "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value\n"
        "Output,0,4,DT_FLOAT,ND,1,2.5,nan\n"
    )
    (tensor,) = formats.read_dump_data(path).output_data
    assert tensor.attributes == {"max": "2.5", "min": "nan"}
    assert tensor.problem
    assert tensor.data == b""


def test_wrong_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        formats.read_dump_data(tmp_path / "none")
    path = tmp_path / "x.pth"
    path.write_bytes(b"hello, world: no tensors")
    with pytest.raises(ValueError, match="not a kind of file"):
        next(formats.tensors_of(path))
    torch.save([os.getcwd], path)
    with pytest.raises(ValueError, match="posix.getcwd"):
        formats.read_dump_data(path)
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ValueError, match="not a kind of file"):
        formats.read_dump_data(path)


def test_torch_is_not_imported_unless_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.ones(3))
    code = (
        "import sys; from msitd import formats\n"
        "assert 'numpy' not in sys.modules and 'torch' not in sys.modules\n"
        f"(tensor,) = formats.tensors_of({str(path)!r})\n"
        "assert tensor.numpy().sum() == 3 and 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
