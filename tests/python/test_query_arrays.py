"""msitd.query: from bytes to arrays and tables."""

import struct
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import grpc
import ml_dtypes
import numpy as np
import pytest
import torch
from fake_queries import FakeQueries
from msitd import query
from msitd.query import arrays, resuming
from msitd.query.messages import new
from msitd.query.table import columns_of, to_arrow, to_pandas

ALL_CODES = bytes(range(256))


@pytest.fixture
def without_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"]
    + ["uint64", "float16", "float32", "float64", "complex64", "complex128"],
)
def test_types_of_numpy_stay_what_they_are(dtype: str) -> None:
    wanted = (np.arange(6) % 2).astype(dtype).reshape(2, 3)
    read = arrays.to_numpy(wanted.tobytes(), dtype, (2, 3))
    assert read.dtype == wanted.dtype
    np.testing.assert_array_equal(read, wanted)
    read[0, 0] = 1
    tensor = arrays.to_torch(wanted.tobytes(), dtype, (2, 3))
    assert tensor.dtype == torch.from_numpy(wanted).dtype
    np.testing.assert_array_equal(tensor.numpy(), wanted)


SMALL = ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float6_e2m3fn"]
SMALL += ["float6_e3m2fn", "float4_e2m1fn", "float8_e4m3fnuz", "float8_e5m2fnuz"]
BITS = {"float6_e2m3fn": 6, "float6_e3m2fn": 6, "float4_e2m1fn": 4}


@pytest.mark.parametrize("dtype", SMALL)
def test_small_floats_are_those_of_ml_dtypes(dtype: str) -> None:
    codes = ALL_CODES[: 1 << BITS.get(dtype, 8)]
    read = arrays.to_numpy(codes, dtype, (len(codes),))
    assert read.dtype == getattr(ml_dtypes, dtype)
    assert read.tobytes() == codes


@pytest.mark.parametrize("dtype", SMALL)
@pytest.mark.usefixtures("without_ml_dtypes")
def test_small_floats_are_decoded_where_ml_dtypes_is_not(dtype: str) -> None:
    codes = ALL_CODES[: 1 << BITS.get(dtype, 8)]
    read = arrays.to_numpy(codes, dtype, (len(codes),))
    assert read.dtype == np.float32
    wanted = np.frombuffer(codes, getattr(ml_dtypes, dtype)).astype(np.float32)
    np.testing.assert_array_equal(read, wanted)
    np.testing.assert_array_equal(np.signbit(read), np.signbit(wanted))


def test_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.array([1.5, -0.0, np.inf, 3e38, 1e-40], ml_dtypes.bfloat16)
    read = arrays.to_numpy(values.tobytes(), "bfloat16", (5,))
    assert read.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(read, values)
    tensor = arrays.to_torch(values.tobytes(), "bfloat16", (5,))
    assert tensor.dtype == torch.bfloat16
    np.testing.assert_array_equal(tensor.float().numpy(), values.astype(np.float32))
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    read = arrays.to_numpy(values.tobytes(), "bfloat16", (5,))
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, values.astype(np.float32))


def test_floats_that_nobody_has() -> None:
    # From the tables of arXiv:2409.16626.
    hifloat8 = {0x00: 0.0, 0x01: 2.0**-22, 0x07: 2.0**-16, 0x08: 1.0, 0x09: 1.125}
    hifloat8 |= {0x10: 2.0, 0x18: 0.5, 0x88: -1.0, 0x6E: 2.0**15, 0x7E: 2.0**-15}
    read = arrays.to_numpy(bytes(hifloat8), "hifloat8", (len(hifloat8),))
    assert read.tolist() == list(hifloat8.values())
    special = arrays.to_numpy(b"\x80\x6f\xef", "hifloat8", (3,))
    assert np.isnan(special[0]) and special[1:].tolist() == [np.inf, -np.inf]
    steps = arrays.to_numpy(bytes(range(16)), "float4_e1m2", (16,))
    assert steps.tolist() == [i / 4 for i in range(8)] + [-i / 4 for i in range(8)]


def test_small_integers_have_a_byte_each() -> None:
    read = arrays.to_numpy(b"\xf8\x07", "int4", (2,))
    assert (read.dtype, read.tolist()) == (np.int8, [-8, 7])
    tensor = arrays.to_torch(b"\x0f\x00", "uint4", (2,))
    assert (tensor.dtype, tensor.tolist()) == (torch.uint8, [15, 0])


def test_complex32_is_widened() -> None:
    data = struct.pack("<4e", 1, -2, 0.5, 3)
    read = arrays.to_numpy(data, "complex32", (2,))
    assert (read.dtype, read.tolist()) == (np.complex64, [1 - 2j, 0.5 + 3j])
    assert arrays.to_torch(data, "complex32", (2,)).dtype == torch.complex32


def test_shapes_without_elements_and_without_dimensions() -> None:
    assert arrays.to_numpy(b"", "float32", (0, 4)).shape == (0, 4)
    assert arrays.to_torch(b"", "bfloat16", (0, 4)).shape == (0, 4)
    assert arrays.to_numpy(struct.pack("<f", 2), "float32", ()) == np.float32(2)


def test_a_dtype_of_a_newer_daemon_is_named() -> None:
    with pytest.raises(ValueError, match="dtype 250 is unknown"):
        arrays.to_numpy(b"\0", "250", (1,))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeQueries]:
    monkeypatch.setattr(resuming, "_FIRST_DELAY_S", 0)
    fake = FakeQueries()
    yield fake
    fake.stop()


@pytest.fixture
def daemon(fake: FakeQueries) -> Iterator[query.Connection]:
    with query.connect(fake.endpoint) as daemon:
        yield daemon


def serve(fake: FakeQueries, shape: tuple[int, ...], read: Any) -> None:
    """Answers GetTensor with a uint8 tensor, and ReadTensor with the result of
    `read`.
    """
    tensor = new("Tensor", name="t", dtype="uint8", shape=shape)
    tensor.size_bytes = int(np.prod(shape))
    fake.answer("TensorService/GetTensor", lambda request, context: tensor)
    fake.answer("TensorService/ReadTensor", read, streams=True)


def piece(offset: int, data: bytes) -> Any:
    return new("ReadTensorResponse", offset_bytes=offset, data=data)


def test_reading_goes_on_where_a_stream_broke(
    fake: FakeQueries, daemon: query.Connection
) -> None:
    def read(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        offset = request.offset_bytes
        yield piece(offset, ALL_CODES[offset : offset + 64])
        if offset < 128:
            context.abort(grpc.StatusCode.UNAVAILABLE, "going down")
        if offset < 192:
            return
        assert offset == 192

    serve(fake, (16, 16), read)
    assert daemon.tensors.read("t").tobytes() == ALL_CODES
    assert [r.offset_bytes for r in fake.requests[1:]] == [0, 64, 128, 192]


def test_reading_what_does_not_come_ends(
    fake: FakeQueries, daemon: query.Connection
) -> None:
    def read(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        context.abort(grpc.StatusCode.UNAVAILABLE, "going down")
        yield

    serve(fake, (4,), read)
    with pytest.raises(query.QueryError) as caught:
        daemon.tensors.read("t")
    assert caught.value.code == "UNAVAILABLE"
    assert len(fake.requests) == 1 + 6


@pytest.mark.parametrize("answer", [piece(0, b"12345"), piece(1, b"1")])
def test_a_daemon_that_sends_something_else_is_not_believed(
    fake: FakeQueries, daemon: query.Connection, answer: Any
) -> None:
    serve(fake, (4,), lambda request, context: iter([answer]))
    with pytest.raises(query.QueryError, match="0 of 4 were read") as caught:
        daemon.tensors.read("t")
    assert caught.value.code == "INTERNAL"


@pytest.mark.parametrize(("count", "sampled"), [(5, 5), (1024, 1024), (1025, 513)])
def test_samples_have_one_dimension(
    fake: FakeQueries, daemon: query.Connection, count: int, sampled: int
) -> None:
    def read(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        assert request.sample
        yield piece(0, bytes(sampled))

    serve(fake, (count,), read)
    assert daemon.tensors.read("t", sample=True).shape == (sampled,)


def row(number: int, **fields: Any) -> query.ComparisonRow:
    message = new("ComparisonRow", row=number, op="op", verdict="pass", **fields)
    return query.comparisons.from_message(message)


def rows() -> list[query.ComparisonRow]:
    golden = new("ComparedTensor", dtype="float32", shape=(2, 3), nan_count=0)
    metric = new("MetricValue", metric="cosine", value=0.5)
    custom = new("CustomMetric", metric="angle", value=7.0)
    return [
        row(0, golden=golden, metrics=[metric], custom_metrics=[custom], rtol=0.25),
        row(1),
    ]


NAMES = {"metrics": ["cosine", "max_abs"], "custom_metrics": ["angle"]}


def test_rows_become_an_arrow_table() -> None:
    table = to_arrow(rows(), columns_of(query.ComparisonRow, NAMES))
    cells = table.to_pydict()
    assert cells["row"] == [0, 1] and cells["verdict"] == ["pass", "pass"]
    assert cells["golden.dtype"] == ["float32", None]
    assert cells["golden.shape"] == [[2, 3], None]
    assert cells["golden.nan_count"] == [0, None]
    assert cells["rtol"] == [0.25, None]
    assert cells["metrics.cosine"] == [0.5, None]
    assert cells["metrics.max_abs"] == [None, None]
    assert cells["custom_metrics.angle"] == [7.0, None]
    empty = to_arrow([], columns_of(query.ComparisonRow, NAMES))
    assert empty.schema == table.schema


def test_rows_become_a_data_frame() -> None:
    frame = to_pandas(rows(), columns_of(query.ComparisonRow, NAMES))
    assert frame["metrics.cosine"].dtype == np.float64
    assert frame["metrics.cosine"].isna().tolist() == [False, True]
    assert frame["golden.nan_count"].dtype == "Int64"
    assert frame["golden.nan_count"].isna().tolist() == [False, True]
    assert frame["golden.dtype"].tolist() == ["float32", None]
    assert frame["row"].sum() == 1
    empty = to_pandas([], columns_of(query.ComparisonRow, NAMES))
    assert empty.dtypes.equals(frame.dtypes)


def test_runs_become_tables() -> None:
    time = datetime(2026, 1, 2, tzinfo=timezone.utc)
    run = query.Run(
        name="r",
        labels={"k": "v"},
        create_time=time,
        counters=query.RunCounters(tensor_count=3),
        retention=query.Retention(age_max=timedelta(seconds=5)),
        ranks_held=(query.RankRange(0, 0), query.RankRange(2, 3)),
    )
    columns = columns_of(query.Run, {})
    cells = to_arrow([run], columns).to_pydict()
    assert cells["labels"] == [[("k", "v")]]
    assert cells["create_time"] == [time] and cells["seal_time"] == [None]
    assert cells["retention.age_max"] == [timedelta(seconds=5)]
    assert cells["ranks_held"] == ["0,2-3"]
    frame = to_pandas([run], columns)
    assert frame["counters.tensor_count"].tolist() == [3]
    assert frame["create_time"][0] == time


@pytest.mark.parametrize("package", ["pandas", "pyarrow"])
def test_a_table_without_its_package_says_so(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    make = {"pandas": to_pandas, "pyarrow": to_arrow}[package]
    with pytest.raises(ImportError, match=f"needs {package}: pip install"):
        make([], columns_of(query.Run, {}))
