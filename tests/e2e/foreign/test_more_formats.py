"""Files that people have: GGUF, JSON of Polygraphy, and HDF5, which is refused."""

import base64
import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daemon import Daemon

PARTIAL = 4
LOCAL = 3
F32, F16, Q4_0, Q8_0, Q4_K, IQ1_S, I32, BF16 = 0, 1, 2, 8, 12, 19, 26, 30


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder without the files of the daemon."""
    out = tmp_path / "files"
    out.mkdir()
    return out


def gguf_text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def gguf(
    tensors: list[tuple[str, tuple[int, ...], int, bytes]],
    properties: bytes = b"",
    count: int = 0,
    version: int = 3,
    alignment: int = 32,
) -> bytes:
    """Returns a file. Shapes are in the order of NumPy."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), count) + properties
    data = b""
    for name, shape, kind, raw in tensors:
        data += bytes(-len(data) % alignment)
        head += gguf_text(name) + struct.pack("<I", len(shape))
        head += b"".join(struct.pack("<Q", dim) for dim in reversed(shape))
        head += struct.pack("<IQ", kind, len(data))
        data += raw
    return head + bytes(-len(head) % alignment) + data


PROPERTIES = (
    gguf_text("general.architecture") + struct.pack("<I", 8) + gguf_text("llama")
    + gguf_text("a.number") + struct.pack("<If", 6, 1.5)
    + gguf_text("tokens") + struct.pack("<IIQ", 9, 8, 3)
    + gguf_text("<s>") + gguf_text("ä") + gguf_text("")
    + gguf_text("nested") + struct.pack("<IIQ", 9, 9, 1) + struct.pack("<IQ", 0, 5)
    + b"12345"
    + gguf_text("general.alignment") + struct.pack("<II", 4, 64)
)  # fmt: skip


def tensors_of(daemon: Daemon, run: str) -> dict[str, np.ndarray[Any, Any]]:
    """Returns the tensors of a run by their ops."""
    out = {}
    for one in daemon.ctl_json("tensor", "list", "--run", run)["tensors"]:
        read = ("tensor", "read", one["name"], "--out", "-", "--format", "npy")
        data = daemon.ctl(*read, binary=True).stdout
        out[one["op"]] = np.load(io.BytesIO(data))
    return out


def test_gguf_has_plain_and_quantized_tensors(daemon: Daemon, folder: Path) -> None:
    rng = np.random.default_rng(0)
    plain = rng.standard_normal((2, 3)).astype(np.float32)
    half = rng.standard_normal(5).astype(np.float16)
    scale = np.array([[0.5], [-0.25]], np.float16)
    q8 = rng.integers(-127, 128, (2, 32), dtype=np.int8)
    q4 = rng.integers(0, 256, (2, 16), dtype=np.uint8)
    raw8 = b"".join(s.tobytes() + q.tobytes() for s, q in zip(scale, q8, strict=True))
    raw4 = b"".join(s.tobytes() + q.tobytes() for s, q in zip(scale, q4, strict=True))
    ints = np.arange(4, dtype=np.int32)
    file = gguf(
        [
            ("plain", (2, 3), F32, plain.tobytes()),
            ("blk.0.half", (5,), F16, half.tobytes()),
            ("q8", (2, 32), Q8_0, raw8),
            ("q4", (1, 64), Q4_0, raw4),
            ("ints", (4,), I32, ints.tobytes()),
        ],
        PROPERTIES,
        count=5,
        alignment=64,
    )
    (folder / "m.gguf").write_bytes(file)
    told = daemon.ctl("run", "import", str(folder / "m.gguf"), "--run", "r")
    assert "5 tensors" in told.stdout and "0 problems" in told.stdout
    found = tensors_of(daemon, "r")
    prefix = {op.removesuffix("plain") for op in found if op.endswith("plain")}.pop()
    d = scale.astype(np.float32)
    nibbles = np.concatenate([q4 & 15, q4 >> 4], axis=1).astype(np.float32) - 8
    for name, value in {
        "plain": plain,
        "blk.0.half": half,
        "q8": q8.astype(np.float32) * d,
        "q4": (d * nibbles).reshape(1, 64),
        "ints": ints,
    }.items():
        got = found[prefix + name]
        assert got.dtype == value.dtype and got.shape == value.shape
        assert got.tobytes() == value.tobytes(), name


def test_gguf_names_types_that_it_cannot_convert(daemon: Daemon, folder: Path) -> None:
    file = gguf(
        [
            ("good", (2,), F32, bytes(8)),
            ("iq", (256,), IQ1_S, bytes(50)),
            *((f"iq{i}", (256,), IQ1_S, bytes(50)) for i in range(100)),
            ("new", (4,), 77, bytes(4)),
            ("odd", (1, 33), Q8_0, bytes(68)),
        ]
    )
    (folder / "m.gguf").write_bytes(file)
    told = daemon.ctl(
        "run", "import", str(folder / "m.gguf"), "--run", "r", expect=PARTIAL
    )
    assert "1 tensors" in told.stdout and "1 problems" in told.stdout
    assert "IQ1_S" in told.stderr and "(and 100 more)" in told.stderr
    assert "number 77" in told.stderr
    assert "rows have 33 elements" in told.stderr


HEAD = b"GGUF" + struct.pack("<IQQ", 3, 1, 1)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "reads versions 2 and 3, not 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 40, 0), "too many tensors"),
        (b"GGUF\x03", "truncated"),
        (HEAD + struct.pack("<Q", 1 << 60), "too many bytes in a name"),
        (HEAD + gguf_text("k") + struct.pack("<IQ", 8, 1 << 62), "truncated"),
        (HEAD + gguf_text("k") + struct.pack("<IIQ", 9, 10, 1 << 63), "truncated"),
        (HEAD + gguf_text("k") + struct.pack("<I", 99), "unknown type"),
        (
            HEAD + gguf_text("k") + struct.pack("<I", 9)
            + struct.pack("<IQ", 9, 1) * 100,
            "too many lists in one another",
        ),
        (
            HEAD + gguf_text("general.alignment") + struct.pack("<II", 4, 3),
            "power of two",
        ),
        (gguf([("x", (1,) * 40, F32, bytes(4))]), "too many dimensions"),
        (gguf([("x", (4,), F32, bytes(16))])[:-1], ""),
        (gguf([("x", (1 << 40, 1 << 40), F32, b"")]), ""),
        (gguf([("x", (1 << 62,), Q8_0, b"")]), ""),
    ],
)  # fmt: skip
def test_gguf_of_strangers_is_refused(
    daemon: Daemon, folder: Path, data: bytes, words: str
) -> None:
    (folder / "m.gguf").write_bytes(data)
    told = daemon.ctl("run", "import", str(folder), "--run", "r", expect=None)
    assert told.returncode in (LOCAL, PARTIAL), told
    whole = daemon.ctl(
        "run", "import", str(folder), "--run", "s", "--source", "files", expect=None
    )
    assert whole.returncode == PARTIAL, whole
    assert words in whole.stderr


def array(value: np.ndarray[Any, Any], kind: str = "ndarray") -> dict[str, str]:
    out = io.BytesIO()
    np.save(out, value)
    text = base64.b64encode(out.getvalue()).decode()
    return {"array": text, "polygraphy_class": kind}


def results(runners: dict[str, list[dict[str, np.ndarray[Any, Any]]]]) -> Any:
    """Returns what Polygraphy saves with --save-outputs."""

    def iteration(name: str, outputs: dict[str, np.ndarray[Any, Any]]) -> Any:
        lazy = {
            key: {"values": array(value), "polygraphy_class": "LazyArray"}
            for key, value in outputs.items()
        }
        return {
            "outputs": lazy,
            "runtime": 0.5,
            "runner_name": name,
            "polygraphy_class": "IterationResult",
        }

    return {
        "lst": [
            [name, [iteration(name, outputs) for outputs in iterations]]
            for name, iterations in runners.items()
        ],
        "polygraphy_class": "RunResults",
    }


def test_outputs_of_polygraphy_have_their_names(daemon: Daemon, folder: Path) -> None:
    rng = np.random.default_rng(1)
    logits = rng.standard_normal((2, 5)).astype(np.float32)
    ids = np.arange(3)
    value = results({"onnxrt-runner-N0-03/10/22": [{"logits": logits, "a/b:0": ids}]})
    (folder / "outputs.json").write_text(json.dumps(value, indent=4))
    told = daemon.ctl("run", "import", str(folder), "--run", "r")
    assert "2 tensors" in told.stdout and "0 problems" in told.stdout
    found = tensors_of(daemon, "r")
    assert set(found) == {"outputs/logits", "outputs/a/b:0"}
    assert found["outputs/logits"].tobytes() == logits.tobytes()
    assert found["outputs/a/b:0"].tolist() == [0, 1, 2]


def test_runners_and_iterations_are_distinguished(daemon: Daemon, folder: Path) -> None:
    one = {"y": np.ones(2, np.float32)}
    two = {"y": np.zeros(2, np.float32)}
    value = results({"trt": [one, two], "onnx": [one, two]})
    (folder / "o.json").write_text(json.dumps(value))
    inputs = [{"x": array(np.ones(1))}, {"values": array(np.ones(2))}]
    (folder / "i.json").write_text(json.dumps(inputs))
    (folder / "single.json").write_text(json.dumps({"x": array(np.ones(3))}))
    daemon.ctl("run", "import", str(folder), "--run", "r")
    assert set(tensors_of(daemon, "r")) == {
        *(f"o/runner{r}/iteration{i}/y" for r in (0, 1) for i in (0, 1)),
        "i/iteration0/x",
        "i/iteration1/values",
        "single/x",
    }


def test_json_that_cannot_be_read_is_named(daemon: Daemon, folder: Path) -> None:
    good = json.dumps({"x": array(np.ones(3))})
    bad = {
        "torch": json.dumps(
            {"t": {"tensor": "UEsDBA==", "polygraphy_class": "Tensor"}}
        ),
        "old": json.dumps({"x": {"array": "\x93NUMPY", "polygraphy_class": "ndarray"}}),
        "object": json.dumps({"x": array(np.array(["a", "b"]))}),
        "cut": good[:-20],
        "comma": good.replace(",", ",,"),
        "deep": '{"polygraphy_class": ' + "[" * 100_000,
        "other": '{"a": 1}',
    }
    for name, text in bad.items():
        (folder / f"{name}.json").write_text(text)
    (folder / "good.json").write_text(good)
    told = daemon.ctl("run", "import", str(folder), "--run", "r", expect=PARTIAL)
    assert "1 tensors" in told.stdout and f"{len(bad)} problems" in told.stdout
    for name, words in {
        "torch": "tensor of torch",
        "old": "not a .npy file in base64",
        "object": "strings",
        "cut": "truncated",
        "comma": "not valid JSON",
        "deep": "in one another",
        "other": "not a kind of file",
    }.items():
        lines = [line for line in told.stderr.splitlines() if f"{name}.json" in line]
        assert len(lines) == 1 and words in lines[0], (name, told.stderr)


def test_many_small_arrays(daemon: Daemon, folder: Path) -> None:
    value = results({"r": [{f"y{i}": np.full(2, i) for i in range(5000)}]})
    (folder / "o.json").write_text(json.dumps(value))
    told = daemon.ctl("run", "import", str(folder), "--run", "r")
    assert "5000 tensors" in told.stdout and "0 problems" in told.stdout


def test_hdf5_is_refused_with_its_conversion(daemon: Daemon, folder: Path) -> None:
    (folder / "a.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    np.save(folder / "b.npy", np.ones(2))
    told = daemon.ctl("run", "import", str(folder), "--run", "r", expect=PARTIAL)
    assert "a.h5: it is HDF5" in told.stderr and "numpy.savez" in told.stderr


def traced(value: np.ndarray[Any, Any], file: str = "") -> dict[str, Any]:
    """Returns a tensor as the debugger of transformers describes it."""
    out: dict[str, Any] = {
        "shape": f"torch.Size({list(value.shape)})",
        "dtype": f"torch.{value.dtype}",
        "value": f"./{file}" if file else str(value).splitlines(),
    }
    if value.dtype.kind == "f":
        for name in ("mean", "std", "min", "max"):
            number = getattr(value, name)()
            out[name] = f"tensor({number:.4e}, device='cuda:0')"
    return out


def save_safetensors(path: Path, value: np.ndarray[Any, Any]) -> None:
    head = {
        "data": {
            "dtype": "F32",
            "shape": list(value.shape),
            "data_offsets": [0, value.nbytes],
        }
    }
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + value.tobytes())


def module(path: str, inputs: Any, outputs: Any = None, *children: Any) -> Any:
    node = {"module_path": path, "inputs": inputs, "children": list(children)}
    if outputs is not None:
        node["outputs"] = outputs
    return node


def places(daemon: Daemon, run: str, *flags: str) -> dict[str, dict[str, Any]]:
    listed = daemon.ctl_json("tensor", "list", "--run", run, *flags)["tensors"]
    return {one["name"].split("/ops/")[1]: one for one in listed}


X = np.arange(6, dtype=np.float32).reshape(2, 3)
OP = "t_debug_tree_SUMMARY%2FNet"


def test_a_trace_of_transformers_has_statistics(daemon: Daemon, folder: Path) -> None:
    trace = module(
        "Net",
        {"kwargs": {"ids": traced(np.ones(3, np.int64)), "flag": "True"}},
        None,
        module("Net.fc", {"args": [traced(X)]}, traced(X + 1)),
        module("Net.b", {"args": [[traced(X), traced(X)], "None"]}, {"h": traced(X)}),
        module("Net.fc", {"args": [traced(X)]}, [traced(X), "None", traced(X)]),
    )
    (folder / "t_debug_tree_SUMMARY.json").write_text(json.dumps(trace, indent=2))
    told = daemon.ctl("run", "import", str(folder), "--run", "r")
    assert "0 tensors" in told.stdout and "0 problems" in told.stdout
    found = places(daemon, "r", "--kind", "statistics")
    assert {place.replace(OP, "") for place in found} == {
        "/calls/0/input/ids",
        *(f".fc/calls/0/{side}/0" for side in ("input", "output")),
        ".b/calls/0/input/0.0",
        ".b/calls/0/input/0.1",
        ".b/calls/0/output/h",
        ".fc%2Fcall1/calls/0/input/0",
        ".fc%2Fcall1/calls/0/output/0",
        ".fc%2Fcall1/calls/0/output/2",
    }
    one = found[f"{OP}.fc/calls/0/output/0"]
    assert one["shape"] == ["2", "3"] and one["dtype"] == "D_TYPE_FLOAT32"
    assert '"max": 6.0000e+00' in json.dumps(one).replace('\\"', '"')


def test_a_trace_with_files_has_bytes(daemon: Daemon, folder: Path) -> None:
    save_safetensors(folder / "Net.a_outputs.safetensors", X)
    save_safetensors(folder / "Net.b_outputs.safetensors", X + 1)
    outside = folder.parent / "outside.safetensors"
    save_safetensors(outside, X)
    (folder / "link.safetensors").symlink_to(outside)
    trace = module(
        "Net",
        None,
        None,
        module("Net.a", None, traced(X, "Net.a_outputs.safetensors")),
        # The second call has overwritten the file of the first.
        module("Net.b", None, traced(X, "Net.b_outputs.safetensors")),
        module("Net.b", None, traced(X + 1, "Net.b_outputs.safetensors")),
        module("Net.up", None, traced(X, "../outside.safetensors")),
        module("Net.link", None, traced(X, "link.safetensors")),
        module("Net.gone", None, traced(X, "gone.safetensors")),
    )
    file = folder / "t_debug_tree_FULL_TENSORS.json"
    file.write_text(json.dumps(trace))
    told = daemon.ctl("run", "import", str(file), "--run", "r", expect=PARTIAL)
    assert "2 tensors" in told.stdout and "1 problems" in told.stdout
    for words in ("not in the same folder", "is a link", "gone.safetensors"):
        assert words in told.stderr
    found = tensors_of(daemon, "r")
    values = {op.rpartition("Net.")[2]: value for op, value in found.items()}
    assert set(values) == {"a", "b/call1"}
    assert values["a"].tolist() == X.tolist()
    assert values["b/call1"].tolist() == (X + 1).tolist()
    assert len(places(daemon, "r", "--kind", "statistics")) == 1


def test_traces_that_cannot_be_read_are_named(daemon: Daemon, folder: Path) -> None:
    good = json.dumps(module("Net", {"args": [traced(X)]}))
    bad = {
        "cut": good[:-3],
        "empty": '{"module_path": ""}',
        "deep": '{"module_path": "a", "children": [' * 2000,
    }
    for name, text in bad.items():
        (folder / f"{name}.json").write_text(text)
    odd = traced(X)
    odd["shape"] = "torch.Size([2, -3])"
    (folder / "odd.json").write_text(json.dumps(module("Net", {"args": [odd]})))
    (folder / "good.json").write_text(good)
    told = daemon.ctl("run", "import", str(folder), "--run", "r", expect=PARTIAL)
    assert "4 problems" in told.stdout, told
    for words in ("truncated", "no path", "in one another", "torch.Size([2, -3])"):
        assert words in told.stderr
    assert len(places(daemon, "r", "--kind", "statistics")) == 1
