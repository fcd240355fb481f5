"""Names that scripts import from msit, in separate interpreters."""

import subprocess
import sys
from pathlib import Path

import ge_dump
import numpy as np
import pytest
import torch
from components.utils import tool
from components.utils.acc_cmp import parse_torchair_dump_data
from msitd import formats

FLOAT, BF16, E5M2, INT32, STRING = 1, 27, 34, 7, 13

# A script that users run after a dump: all tensors become their extremes, in
# place.
CONVERT = """
import os, sys
import numpy as np
from components.utils.acc_cmp import parse_torchair_dump_data

def reduced(array):
    return [array.min(), array.max()]

for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        path = os.path.join(folder, name)
        if name.endswith((".txt", "_min_max.npy", "_min_max.npz")):
            continue
        if name.endswith(".npy"):
            np.save(os.path.splitext(path)[0] + "_min_max", reduced(np.load(path)))
        else:
            inputs, outputs = parse_torchair_dump_data(path)
            np.savez(
                path + "_min_max.npz",
                inputs=[reduced(array) for array in inputs],
                outputs=[reduced(array) for array in outputs],
            )
        os.remove(path)
"""


def dumped(data_type: int, array: np.ndarray, form: int = ge_dump.ND) -> ge_dump.Dumped:
    return ge_dump.Dumped(data_type, form, array.shape, array.shape, array.tobytes())


def test_dump_is_arrays_in_plain_layout(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    plain = rng.random((5, 7), dtype=np.float32)
    nz = ge_dump.to_nz(plain, 16, 8)
    stored = ge_dump.Dumped(FLOAT, ge_dump.FRACTAL_NZ, nz.shape, (5, 7), nz.tobytes())
    brain = torch.tensor([[1.5, -2.25], [3e38, float("nan")]]).bfloat16()
    small = torch.tensor([1.5, -2.0, float("inf"), 0.0]).to(torch.float8_e5m2)
    path = tmp_path / "MatMul.mm.1.2.1756699200000001"
    ge_dump.write(
        path,
        [stored, dumped(BF16, brain.view(torch.int16).numpy())],
        [
            dumped(E5M2, small.view(torch.uint8).numpy()),
            dumped(INT32, np.array(7, np.int32)),
        ],
    )
    inputs, outputs = parse_torchair_dump_data(str(path))
    np.testing.assert_array_equal(inputs[0], plain)
    assert inputs[1].dtype == np.float32 and outputs[0].dtype == np.float64
    np.testing.assert_array_equal(inputs[1], brain.float().numpy())
    np.testing.assert_array_equal(outputs[0], small.double().numpy())
    assert outputs[1].dtype == np.int32 and outputs[1] == 7


def test_script_that_reduces_dumps_runs_as_it_is(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal((3, i + 1)).astype(np.float32) for i in range(3)]
    dump = tmp_path / "msit_ge_dump" / "0"
    dump.mkdir(parents=True)
    ge_dump.write(
        dump / "Add.add.1.2.3",
        [dumped(FLOAT, a) for a in arrays[:2]],
        [dumped(FLOAT, a) for a in arrays[2:]],
    )
    (dump / "graph.txt").write_text("kept")
    np.save(dump / "mm.INPUT.0.npy", arrays[0])
    (tmp_path / "convert.py").write_text(CONVERT)
    subprocess.run(
        [sys.executable, "convert.py", "msit_ge_dump"],
        cwd=tmp_path,
        check=True,
        timeout=60,
    )
    names = ["Add.add.1.2.3_min_max.npz", "graph.txt", "mm.INPUT.0_min_max.npy"]
    assert sorted(p.name for p in dump.iterdir()) == names
    inputs, outputs = parse_torchair_dump_data(str(dump / names[0]))
    wanted = [[a.min(), a.max()] for a in arrays]
    np.testing.assert_array_equal(inputs, wanted[:2])
    np.testing.assert_array_equal(outputs, wanted[2:])


def test_optional_input_that_was_not_given_keeps_its_place(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    first, last, out = (
        rng.standard_normal((3, i)).astype(np.float32) for i in (1, 2, 3)
    )
    absent = ge_dump.Dumped(FLOAT, ge_dump.ND, (3, 2), (3, 2), b"", 24, 0)
    untyped = ge_dump.Dumped(0, ge_dump.ND, (), (), b"", 0, 0)
    path = tmp_path / "Add.add.1.2.3"
    ge_dump.write(
        path,
        [dumped(FLOAT, first), absent, untyped, dumped(FLOAT, last)],
        [dumped(FLOAT, out)],
    )
    inputs, outputs = parse_torchair_dump_data(path)
    assert len(inputs) == 4 and len(outputs) == 1
    np.testing.assert_array_equal(inputs[3], last)
    assert np.isnan(inputs[1]).all() and np.isnan(inputs[2]).all()
    done = [sys.executable, "-c", CONVERT, tmp_path]
    subprocess.run(done, check=True, timeout=60)
    assert not path.exists()
    inputs, outputs = parse_torchair_dump_data(f"{path}_min_max.npz")
    wanted = (
        [first.min(), first.max()],
        [np.nan] * 2,
        [np.nan] * 2,
        [last.min(), last.max()],
    )
    np.testing.assert_array_equal(inputs, wanted)
    np.testing.assert_array_equal(outputs, [[out.min(), out.max()]])


def test_what_is_no_whole_dump_is_refused(tmp_path: Path) -> None:
    """Otherwise a script would delete a file that it has not read."""
    array = np.ones((4, 4), np.float32)
    whole = tmp_path / "Add.add.1.2.3"
    ge_dump.write(whole, [dumped(FLOAT, array)], [])
    cut = tmp_path / "cut"
    cut.write_bytes(whole.read_bytes()[:-5])
    text = tmp_path / "text"
    ge_dump.write(text, [], [ge_dump.Dumped(STRING, ge_dump.ND, (1,), (1,), b"abcd")])
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "objects.npz", inputs=np.array([None, "x"], object))
    for name in ("", "x", "x" * 8):
        (tmp_path / f"short{len(name)}").write_bytes(name.encode())
    for path in tmp_path.iterdir():
        if path != whole:
            with pytest.raises(ValueError):
                parse_torchair_dump_data(str(path))
    with pytest.raises(FileNotFoundError):
        parse_torchair_dump_data(str(tmp_path / "none"))
    np.savez(tmp_path / "other.npz", others=array)
    assert parse_torchair_dump_data(str(tmp_path / "other.npz")) == ([], [])


def test_readers_and_savers_are_those_of_formats() -> None:
    for name in tool.__all__:
        assert getattr(tool, name) is getattr(formats, name)
    assert set(tool.__all__) == set(formats.__all__) - {
        "DumpData",
        "DumpTensor",
        "tensors_of",
    }


def test_import_needs_neither_numpy_nor_torch(tmp_path: Path) -> None:
    code = (
        "import sys, components.utils.acc_cmp, components.utils.tool\n"
        "assert not {'numpy', 'torch'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=60)
