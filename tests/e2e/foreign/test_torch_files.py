"""Files of torch.save contain the same tensors as torch.load returns."""

import collections
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tensor_files import Tensor, read, refusal

DTYPES = {
    torch.bool: "bool", torch.uint8: "uint8", torch.int8: "int8",
    torch.int16: "int16", torch.int32: "int32", torch.int64: "int64",
    torch.uint16: "uint16", torch.uint32: "uint32", torch.uint64: "uint64",
    torch.float16: "float16", torch.bfloat16: "bfloat16",
    torch.float32: "float32", torch.float64: "float64",
    torch.complex32: "complex32", torch.complex64: "complex64",
    torch.complex128: "complex128", torch.float8_e4m3fn: "float8_e4m3fn",
    torch.float8_e5m2: "float8_e5m2", torch.float8_e8m0fnu: "float8_e8m0fnu",
}  # fmt: skip


def random(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Returns a tensor of random bits."""
    if dtype is torch.bool:
        return torch.rand(shape) < 0.5
    width = torch.empty(0, dtype=dtype).element_size()
    raw = torch.randint(0, 256, (*shape, width), dtype=torch.uint8)
    return raw.view(dtype).reshape(shape)


def plain(tensor: torch.Tensor) -> bytes:
    """Returns the bytes that msitd holds of a tensor."""
    return bytes(tensor.detach().contiguous().view(-1).view(torch.uint8).tolist())


def check(tensor: Tensor, name: str, expected: torch.Tensor) -> None:
    assert tensor.problem == ""
    assert tensor.name == name
    assert tensor.dtype == DTYPES[expected.dtype]
    assert tensor.shape == tuple(expected.shape)
    assert tensor.data == plain(expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=DTYPES.values())
def test_tensors_of_all_types_and_views(tmp_path: Path, dtype: torch.dtype) -> None:
    torch.manual_seed(15)
    whole = random((4, 6, 5), dtype)
    views = {
        "whole": whole,
        "turned": whole.permute(2, 0, 1),
        "cut": whole[1:3, ::2, 1:4],
        "repeated": whole[0, 0].expand(3, 5),
        "scalar": whole[2, 3, 4],
        "empty": whole[:0],
        "one": whole[1:2, 2:3],
    }
    torch.save(views, tmp_path / "all.pth")
    for piece_bytes in (16, 100, 1 << 16):
        tensors = read(tmp_path / "all.pth", piece_bytes)
        for tensor, name in zip(tensors, views, strict=True):
            check(tensor, name, views[name])
    for name, view in views.items():
        torch.save(view, tmp_path / f"{name}.pth")
        (tensor,) = read(tmp_path / f"{name}.pth")
        check(tensor, "", view)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_checkpoints_give_one_tensor_for_each(tmp_path: Path, protocol: int) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    model(torch.randn(8, 3)).sum().backward()
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.step()
    tagged = torch.nn.Parameter(torch.randn(2))
    tagged.tag = "x"
    attributed = torch.randn(2)
    attributed.tag = ["y", {"z": 1}]
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "parameters": [*model.parameters(), tagged, attributed],
        "nested": ((torch.ones(1), [torch.zeros(0)]), {7: torch.ones(2), (1,): None}),
        "scalars": [1, -1, 1 << 40, 1 << 80, 0.5, None, True, "text", b"bytes"],
        "others": [torch.Size([2, 3]), torch.device("cpu"), torch.bfloat16, {1, 2}],
        "storage": torch.arange(3).untyped_storage(),
    }
    path = tmp_path / "any name.ckpt"
    torch.save(checkpoint, path, pickle_protocol=protocol)
    expected: dict[str, torch.Tensor] = {}

    def walk(value: Any, name: str) -> None:
        if isinstance(value, torch.Tensor):
            expected[name] = value
        elif isinstance(value, dict):
            for place, (key, item) in enumerate(value.items()):
                known = isinstance(key, (str, int))
                walk(item, f"{name}.{key if known else place}".lstrip("."))
        elif isinstance(value, (list, tuple)):
            for place, item in enumerate(value):
                walk(item, f"{name}.{place}")

    walk(checkpoint, "")
    expected["storage"] = torch.tensor(
        checkpoint["storage"].tolist(), dtype=torch.uint8
    )
    assert len(expected) > 20
    for tensor, name in zip(read(path), expected, strict=True):
        check(tensor, name, expected[name])


def test_dumped_values_have_the_name_in_their_tags(tmp_path: Path) -> None:
    meta = {"name": "layer__hidden", "step": 3, "rank": 1, "dims": "b s h"}
    meta["parallel_info"] = {"tp_rank": 1, "tp_size": 2}
    path = tmp_path / "step=3___rank=1___dump_index=7___name=layer__hidden.pt"
    value = torch.randn(2, 3)
    torch.save({"value": value, "meta": meta}, path)
    check(read(path)[0], "layer__hidden", value)
    torch.save({"value": [value, {"a": value}], "meta": meta}, path)
    first, second = read(path)
    check(first, "layer__hidden.0", value)
    check(second, "layer__hidden.1.a", value)
    torch.save({"value": value, "meta": {}}, path)
    check(read(path)[0], "", value)
    torch.save(value, path)
    check(read(path)[0], "", value)


def test_what_has_no_plain_elements_has_a_reason(tmp_path: Path) -> None:
    plain_tensor = torch.randn(2, 3)
    complex_tensor = torch.randn(3, dtype=torch.complex64)
    values = {
        "quantized": torch.quantize_per_tensor(plain_tensor, 0.1, 0, torch.qint8),
        "channels": torch.quantize_per_channel(
            plain_tensor, torch.ones(2), torch.zeros(2), 0, torch.qint8
        ),
        "sparse": plain_tensor.to_sparse(),
        "compressed": plain_tensor.to_sparse_csr(),
        "nested": torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
        "meta": plain_tensor.to("meta"),
        "conjugated": complex_tensor.conj(),
        "negated": complex_tensor.clone().conj().imag,
        "packed": torch.zeros(3, dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
        "good": plain_tensor,
    }
    torch.save(values, tmp_path / "x.pth")
    tensors = read(tmp_path / "x.pth")
    assert [t.name for t in tensors] == list(values)
    check(tensors.pop(), "good", plain_tensor)
    words = ["quantized", "quantized", "sparse", "sparse", "nested", "meta"]
    words += ["conj", "neg", "float4_e2m1fn_x2"]
    for tensor, word in zip(tensors, words, strict=True):
        assert word in tensor.problem
        assert tensor.data == b""


def test_old_files_and_programs_say_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "x.pth"
    torch.save({"a": torch.ones(2)}, path, _use_new_zipfile_serialization=False)
    assert "torch.save(torch.load(FILE), FILE)" in refusal(path)
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), path)
    assert "state_dict()" in refusal(path)


def repack(path: Path, change: Callable[[str, bytes], bytes | None]) -> None:
    """Changes members of an archive; None removes a member."""
    with zipfile.ZipFile(path) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members:
            changed = change(name.split("/", 1)[1], data)
            if changed is not None:
                archive.writestr(name, changed)


def test_byte_order(tmp_path: Path) -> None:
    path = tmp_path / "x.pth"
    value = torch.tensor([1, -2, 3 << 40])
    torch.save(value, path)
    repack(path, lambda name, data: None if name == "byteorder" else data)
    check(read(path)[0], "", value)
    torch.save(value, path)
    swap = {"byteorder": b"big", "data/0": struct.pack(">3q", *value.tolist())}
    repack(path, swap.get)
    check(read(path)[0], "", value)
    swap["byteorder"] = b"middle"
    repack(path, swap.get)
    assert "byte order" in refusal(path)


def test_storages_that_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "x.pth"
    torch.save([torch.ones(4), torch.zeros(4)], path)
    repack(path, lambda name, data: None if name == "data/0" else data)
    missing, good = read(path)
    assert "storage" in missing.problem
    check(good, "1", torch.zeros(4))
    repack(path, lambda name, data: data[:-1] if name == "data/1" else data)
    assert "the 15 stored bytes" in read(path)[1].problem
    repack(path, lambda name, data: None if name == "data.pkl" else data)
    assert "no arrays" in refusal(path)


def save_pickle(path: Path, data: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", data)


class Evil:
    """Runs a command when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.marker}",)


@pytest.mark.parametrize("protocol", [2, 4])
def test_nothing_that_a_pickle_names_is_called(tmp_path: Path, protocol: int) -> None:
    marker = tmp_path / "marker"
    path = tmp_path / "x.pth"
    torch.save([torch.ones(1), Evil(marker)], path, pickle_protocol=protocol)
    assert [tensor.name for tensor in read(path)] == ["0"]
    torch.save(Evil(marker), path, pickle_protocol=protocol)
    assert "posix.system" in refusal(path)
    assert not marker.exists()
    torch.save(collections.Counter("ab"), path, pickle_protocol=protocol)
    assert "collections.Counter" in refusal(path)


class Output(collections.OrderedDict[str, Any]):
    """Is saved with its fields as arguments, items and state, as a ModelOutput."""

    def __reduce__(self) -> Any:
        return Output, (), dict(self), None, iter(self.items())


class Layer:
    """Keeps its tensors in attributes, as a layer of a cache."""

    def __init__(self, keys: torch.Tensor) -> None:
        self.keys = keys
        self.dtype = keys.dtype
        self.owner = self


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_tensors_in_objects_are_read(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "x.pt"

    def saved(value: Any) -> dict[str, bytes]:
        torch.save(value, path, pickle_protocol=protocol)
        return {tensor.name: tensor.data for tensor in read(path)}

    one, two = torch.arange(3.0), torch.arange(4)
    raw = one.numpy().tobytes()
    assert saved(Output(hidden=one, states=(one, two))) == {
        "hidden": raw,
        "states.0": raw,
        "states.1": two.numpy().tobytes(),
    }
    assert saved({"past": [Layer(one), Layer(one)]}) == {
        "past.0.keys": raw,
        "past.1.keys": raw,
    }
    beside = {"x": one, "loss": np.float32(1.5), "all": np.arange(3), "step": 7}
    assert saved(beside) == {"x": raw}
    linear = torch.nn.Linear(3, 1)
    assert saved(linear) == {
        f"_parameters.{name}": parameter.detach().numpy().tobytes()
        for name, parameter in linear.named_parameters()
    }


def laughs() -> bytes:
    """Returns a list of 2^40 values, since each list is twice in the next."""
    ops = b"]q\x000"
    for number in range(1, 41):
        before = b"h" + bytes([number - 1])
        ops += b"]q" + bytes([number]) + b"(" + before * 2 + b"e0"
    return b"\x80\x02" + ops + b"h\x28."


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "truncated"),
        (b"\x80\x02", "truncated"),
        (b"\x80\x09N.", "protocol"),
        (b"\x80\x02X\xff\xff\xff\x7fabc.", "truncated"),
        (b"\x80\x02\x8d" + b"\xff" * 8 + b".", "truncated"),
        (b"\x80\x02t.", "mark"),
        (b"\x80\x02e.", "mark"),
        (b"\x80\x02\x86.", "missing"),
        (b"\x80\x02h\x05.", "refers"),
        (b"\x80\x02NN.", "one value"),
        (b"\x80\x02(N.", "one value"),
        (b"\x80\x02N)R.", "not a global"),
        (b"\x80\x02Na.", "missing"),
        (b"\x80\x02}NNs(Nu.", "dict"),
        (b"\x80\x02ios\nsystem\n.", "operation 0x69"),
        (b"\x80\x02cos\nsystem\n.", "os.system"),
        (b"\x80\x02c__builtin__\neval\n.", "__builtin__.eval"),
        (b"\x80\x02cos", "no end"),
        (b"\x80\x02r\xff\xff\xff\xff.", "missing"),
        (b"\x80\x02Nr\xff\xff\xff\xff.", "references"),
        (b"\x80\x02" + b"]" * 100 + b"a" * 99 + b".", "nests deeper"),
        (b"\x80\x02]q\x00h\x00a.", "nests deeper"),
        (laughs(), "values"),
        (b"\x80\x02(" + b"]" * (1 << 21) + b"t.", "objects"),
        (b"\x80\x02(" + b"N" * (1 << 24) + b"t.", "bytes"),
        (b"\x80\x02" + b"N0" * ((1 << 22) + 1) + b"N.", "operations"),
        (b"\x80\x02(" + b"N" * (5 << 20) + b"t.", "items"),
    ],
)
def test_hostile_pickles_are_refused(tmp_path: Path, data: bytes, word: str) -> None:
    save_pickle(tmp_path / "x.pth", data)
    assert word in refusal(tmp_path / "x.pth")


def described(*arguments: Any) -> bytes:
    """Returns a pickle of a tensor with these arguments after its storage."""
    storage = b"((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000"
    storage += b"X\x03\x00\x00\x00cpuK\x06tQ"
    rest = b"".join(pickle.dumps(a, protocol=2)[2:-1] for a in arguments)
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n" + storage + rest + b"tR."


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (0,),
        (0, (6,)),
        (-1, (6,), (1,)),
        (0, (-6,), (1,)),
        (0, (6,), (-1,)),
        (0, (6,), ()),
        (0, (), (1,)),
        (0, 6, 1),
        (0.5, (6,), (1,)),
        (0, (6.0,), (1,)),
        (1, (6,), (1,)),
        (0, (6,), (2,)),
        (0, (2, 1 << 62), (1, 1)),
        (0, (1 << 30, 1 << 30), (0, 0)),
        (0, (1 << 62,), (1 << 62,)),
        (0, (2,), ((1 << 63) - 1,)),
        (1 << 62, (6,), (1,)),
        (0, (1,) * 40, (1,) * 40),
    ],
)
def test_tensors_that_lie_about_their_place(
    tmp_path: Path, arguments: tuple[Any, ...]
) -> None:
    path = tmp_path / "x.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", described(*arguments))
        archive.writestr("x/data/0", bytes(24))
    (tensor,) = read(path)
    assert tensor.problem
    assert tensor.data == b""


def test_long_texts_that_come_again_and_again(tmp_path: Path) -> None:
    size = struct.pack("<I", 8 << 20)
    text = b"X" + size + b"a" * (8 << 20) + b"q\x00"
    path = tmp_path / "x.pth"
    save_pickle(path, b"\x80\x02}(" + text + b"N" + b"h\x00N" * (1 << 20) + b"u.")
    assert read(path) == []
    # As the device and the key of a storage.
    head = b"\x80\x02" + text + b"0("
    storage = b"(X\x07\x00\x00\x00storagectorch\nByteStorage\nh\x00h\x00K\x00tQq\x01"
    save_pickle(path, head + storage + b"h\x01" * 60000 + b"t.")
    tensors = read(path)
    assert len(tensors) == 60001
    assert all("storage" in tensor.problem for tensor in tensors)


def test_names_that_are_too_long(tmp_path: Path) -> None:
    path = tmp_path / "x.pth"
    torch.save({"a" * 2000: torch.ones(1), "b": {"c" * 1000: torch.ones(1)}}, path)
    long, fits = read(path)
    assert "name" in long.problem
    assert long.name == "a" * 1024
    assert fits.problem == ""
