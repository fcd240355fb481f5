"""Every kind of tensor arrives with its bytes, dtype and shape."""

import array
import ctypes

import ml_dtypes
import numpy as np
import pytest
import torch
from msitd import _msit
from msitd._core.leaf import small_elements

NUMPY_DTYPES = [
    "bool",
    *(["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]),
    *(["float16", "float32", "float64", "complex64", "complex128"]),
]
ML_DTYPES = [
    *(["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"]),
    *(["float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"]),
    *(["uint2", "uint4"]),
]
TORCH_DTYPES = [
    "bool",
    *(["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]),
    *(["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"]),
    *(["complex32", "complex64", "complex128"]),
]

SMALL_TORCH_DTYPES = [
    f"{kind}{bits}" for kind in ("int", "uint") for bits in range(1, 8)
]
RAW_TORCH_DTYPES = [
    *("float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("bits8", "bits16", "bits1x8", "bits2x4", "bits4x2"),
]


def values(dtype):
    return np.arange(12).reshape(3, 4).astype(dtype)


def torch_bytes(tensor):
    flat = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return flat.reshape(-1).view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_numpy(recorded, dtype):
    data = values(dtype)
    record = recorded(data)
    assert (record.dtype, record.shape) == (dtype, (3, 4))
    assert record.data == data.tobytes()


@pytest.mark.parametrize("dtype", ML_DTYPES)
def test_ml_dtypes(recorded, dtype):
    data = values(getattr(ml_dtypes, dtype))
    record = recorded(data[:, ::2])
    assert (record.dtype, record.shape) == (dtype, (3, 2))
    assert record.data == data[:, ::2].tobytes()


@pytest.mark.parametrize("dtype", ["int2", "int4"])
def test_small_integers_have_their_sign_in_the_whole_byte(recorded, dtype):
    data = np.arange(-2, 2).astype(getattr(ml_dtypes, dtype))
    record = recorded(data)
    assert (record.dtype, record.shape) == (dtype, (4,))
    assert record.data == np.arange(-2, 2).astype(np.int8).tobytes()


@pytest.mark.parametrize("dtype", TORCH_DTYPES)
def test_torch(recorded, dtype):
    data = torch.arange(12).reshape(3, 4).to(getattr(torch, dtype))
    record = recorded(data)
    assert (record.dtype, record.shape) == (dtype, (3, 4))
    assert record.data == torch_bytes(data)


def small_values(dtype):
    """Returns all bytes as elements of a dtype, and their values in the format."""
    raw = torch.arange(256, dtype=torch.uint8)
    bits = int(dtype[-1])
    low = raw & ((1 << bits) - 1)
    if dtype.startswith("int"):
        low = (low.to(torch.int16) ^ (1 << bits >> 1)) - (1 << bits >> 1)
    return raw.view(getattr(torch, dtype)), low.to(torch.int8).numpy().tobytes()


@pytest.mark.parametrize("shape", [(256,), (16, 16)])
@pytest.mark.parametrize("dtype", SMALL_TORCH_DTYPES)
def test_small_integers_of_torch(recorded, dtype, shape):
    data, expected = small_values(dtype)
    record = recorded(data.reshape(shape))
    assert (record.dtype, record.shape) == (dtype, shape)
    assert record.data == expected


@pytest.mark.parametrize("dtype", RAW_TORCH_DTYPES)
def test_dtypes_that_only_hold_bits(recorded, dtype):
    kind = getattr(torch, dtype)
    raw = torch.arange(256, dtype=torch.uint8)
    record = recorded(raw.view(kind))
    assert (record.dtype, record.shape) == (dtype, (256 // kind.itemsize,))
    assert record.data == bytes(range(256))


def test_every_dtype_of_torch_has_a_name():
    """Quantized tensors are recorded as codes and scales."""
    dtypes = {each for each in vars(torch).values() if isinstance(each, torch.dtype)}
    unknown = {
        each
        for each in dtypes
        if not str(each).startswith(("torch.q", "torch.uq"))
        and _msit.dtype_from_name(small_elements.name_of(each)) == 0
    }
    assert unknown == set()


@pytest.mark.parametrize("dtype", ["int4", "uint2"])
def test_small_integers_of_torch_in_a_module(client, daemon, dtype):
    import msitd

    data, expected = small_values(dtype)
    model = torch.nn.Identity()
    with msitd.register_hook(model, client):
        model(data)
    client.flush()
    assert [(r.io, r.dtype) for r in daemon.records] == [
        ("input", dtype),
        ("output", dtype),
    ]
    assert {r.data for r in daemon.records} == {expected}


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((), (2,)), ((0,), (0,)), ((256,), (512,)), ((2, 128), (2, 256))],
)
def test_packed_floats_of_torch_have_a_byte_each(recorded, shape, expected):
    count = int(np.prod(shape))
    raw = torch.arange(count, dtype=torch.uint8).reshape(shape)
    record = recorded(raw.view(torch.float4_e2m1fn_x2))
    assert (record.dtype, record.shape) == ("float4_e2m1fn", expected)
    assert record.data == bytes(
        half for byte in range(count) for half in (byte & 15, byte >> 4)
    )


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.T,
        lambda a: a[::-1],
        lambda a: a[:, ::-2],
        lambda a: a[1:, 1:3],
        lambda a: np.broadcast_to(a[0], (5, 4)),
        lambda a: a[..., None],
        lambda a: a[0, 0],
        lambda a: a[1:1],
        lambda a: a.astype(">f8"),
    ],
)
def test_numpy_views(recorded, view):
    data = view(values("float64"))
    record = recorded(data)
    assert record.shape == data.shape
    assert record.data == data.astype("<f8").tobytes()


def test_bytes_strides_that_are_no_multiple_of_the_element(recorded):
    rows = np.zeros(4, dtype=[("flag", "u1"), ("value", "<f4")])
    rows["value"] = [1, 2, 3, 4]
    record = recorded(rows["value"])
    assert np.frombuffer(record.data, "<f4").tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.T,
        lambda t: t[:, ::2],
        lambda t: t[1:, 1:3],
        lambda t: t[0].expand(5, 4),
        lambda t: t[0, 0],
        lambda t: t[1:1],
        lambda t: t.requires_grad_(),
        lambda t: torch.nn.Parameter(t),
        lambda t: t.to_mkldnn().to_dense(),
    ],
)
def test_torch_views(recorded, view):
    data = view(torch.arange(12, dtype=torch.float32).reshape(3, 4))
    record = recorded(data)
    assert record.shape == tuple(data.shape)
    assert record.data == torch_bytes(data)


def test_lazy_conjugate_and_negative(recorded):
    data = torch.tensor([1 + 2j, 3 - 4j])
    assert recorded(data.conj()).data == torch_bytes(data.conj())
    assert recorded(data.conj().imag).data == torch_bytes(data.conj().imag)


def test_many_dimensions(recorded):
    data = torch.ones([1] * 31 + [2])
    assert recorded(data).shape == tuple(data.shape)
    with pytest.raises((TypeError, ValueError)):
        recorded(torch.ones([1] * 33))


def test_more_than_one_part(recorded, daemon):
    data = torch.arange(3 << 20, dtype=torch.int32).reshape(3, -1).T
    recorded(data)
    parts = daemon.records
    assert [p.part_offset for p in parts] == [0, 4 << 20, 8 << 20]
    assert b"".join(p.data for p in parts) == torch_bytes(data)


def test_dtype_names_the_elements_of_raw_bytes(recorded):
    raw = np.arange(8, dtype=np.uint8)
    assert recorded(raw, dtype="float8_e4m3fn").dtype == "float8_e4m3fn"
    words = torch.arange(4, dtype=torch.int16)
    assert recorded(words, dtype="bfloat16").dtype == "bfloat16"
    assert recorded(bytearray(4), dtype="float8_e5m2").dtype == "float8_e5m2"
    with pytest.raises(ValueError):
        recorded(raw, dtype="bfloat16")
    with pytest.raises(ValueError):
        recorded(words, dtype="float32")
    with pytest.raises(TypeError):
        recorded(raw, dtype="float12")


@pytest.mark.parametrize(
    ("buffer", "dtype", "shape"),
    [
        (b"abc", "uint8", (3,)),
        (bytearray(5), "uint8", (5,)),
        (array.array("d", [1, 2]), "float64", (2,)),
        (array.array("l", [1, 2]), "int64", (2,)),
        (memoryview(bytes(12)).cast("i", (3, 1)), "int32", (3, 1)),
        ((ctypes.c_float * 3 * 2)(), "float32", (2, 3)),
    ],
)
def test_buffers(recorded, buffer, dtype, shape):
    record = recorded(buffer)
    assert (record.dtype, record.shape) == (dtype, shape)
    assert record.data == memoryview(buffer).tobytes()


class OnlyDlpack:
    """A tensor of a library that the package does not know."""

    def __init__(self, tensor):
        self._tensor = tensor

    def __dlpack__(self, **kwargs):
        return self._tensor.__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()


@pytest.mark.parametrize("dtype", TORCH_DTYPES)
def test_dlpack(recorded, dtype):
    data = torch.arange(12).reshape(3, 4).to(getattr(torch, dtype)).T
    record = recorded(OnlyDlpack(data))
    assert (record.dtype, record.shape) == (dtype, (4, 3))
    assert record.data == torch_bytes(data)


@pytest.mark.parametrize(
    "thing",
    [
        None,
        3.5,
        "text",
        [1.0, 2.0],
        np.array(["a"]),
        np.array([None]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.zeros(2, np.longdouble),
        np.zeros(2, ml_dtypes.float8_e4m3b11fnuz),
        np.zeros(2, dtype=[("a", "f4")]),
        torch.zeros(2, device="meta"),
        torch.zeros(2, 2).to_sparse(),
        torch.quantize_per_tensor(torch.zeros(2), 1.0, 0, torch.qint8),
    ],
    ids=repr,
)
def test_what_is_no_tensor_is_refused(client, thing):
    with pytest.raises(TypeError):
        client.record(thing, op="op")
    assert client.counters().recorded_count == 0


def test_overwriting_afterwards_does_not_alter_the_record(client, daemon):
    data = np.ones(100_000)
    client.record(data, op="op")
    data[:] = 2
    client.flush()
    assert np.frombuffer(daemon.records[0].data).min() == 1
    assert np.frombuffer(daemon.records[0].data).max() == 1


@pytest.mark.parametrize(
    ("dtype", "name"),
    [("int4", "int4"), ("uint3", "uint3"), ("float4_e2m1fn_x2", "float4_e2m1fn")],
)
def test_small_elements_are_the_same_with_their_dtype_given(recorded, dtype, name):
    torch_dtype = getattr(torch, dtype, None)
    if torch_dtype is None:
        pytest.skip(f"this torch has no {dtype}")
    tensor = torch.tensor([15, 8, 7], dtype=torch.uint8).view(torch_dtype)
    plain = recorded(tensor, op="plain")
    given = recorded(tensor, op="given", dtype=name)
    assert (given.dtype, given.shape) == (name, plain.shape)
    assert given.data == plain.data


@pytest.mark.parametrize(
    ("dtype", "other"), [("int4", "uint4"), ("uint4", "uint8"), ("int2", "int4")]
)
def test_small_elements_are_not_taken_as_another_dtype(client, dtype, other):
    torch_dtype = getattr(torch, dtype, None)
    if torch_dtype is None:
        pytest.skip(f"this torch has no {dtype}")
    tensor = torch.tensor([1], dtype=torch.uint8).view(torch_dtype)
    with pytest.raises(ValueError, match=f"{dtype} are smaller than a byte.*{other}"):
        client.record(tensor, op="op", dtype=other)
