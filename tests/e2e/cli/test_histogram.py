"""Histograms compared with numpy, through the real daemon and the real CLI."""

import csv
import io
import json
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from chunk_bytes import Chunk, Record, float32
from msitd.v1 import tensor_service_pb2 as pb
from msitd.v1 import tensor_service_pb2_grpc as pb_grpc
from wire import write

from daemon import Daemon

DTYPES: dict[str, tuple[int, type]] = {
    "bool": (1, np.bool_),
    "int8": (2, np.int8),
    "int16": (3, np.int16),
    "int32": (4, np.int32),
    "int64": (5, np.int64),
    "uint8": (6, np.uint8),
    "uint16": (7, np.uint16),
    "uint32": (8, np.uint32),
    "uint64": (9, np.uint64),
    "float16": (10, np.float16),
    "bfloat16": (11, ml_dtypes.bfloat16),
    "float32": (12, np.float32),
    "float64": (13, np.float64),
    "float8_e4m3fn": (14, ml_dtypes.float8_e4m3fn),
    "float8_e5m2": (15, ml_dtypes.float8_e5m2),
    "complex64": (16, np.complex64),
    "complex128": (17, np.complex128),
}
BINS = (1, 7, 64, 1024)
MAX = np.finfo(np.float64).max
LEAST = 5e-324


def record(daemon: Daemon, tensors: dict[str, np.ndarray], run: str = "r") -> None:
    """Writes tensors, each as a separate op."""
    numbers = {np.dtype(t): n for n, t in DTYPES.values()}
    records = [
        Record(op, a.tobytes(), a.shape, numbers[a.dtype], sequence=i)
        for i, (op, a) in enumerate(tensors.items())
    ]
    write(daemon.channel(), run, [Chunk(run, records).pack()])


def name_of(op: str, run: str = "r") -> str:
    return f"runs/{run}/ranks/0/devices/cpu:0/tokens/0/ops/{op}/calls/0/output/0"


def doubles(a: np.ndarray) -> np.ndarray:
    """Returns the elements that count; a complex element is two of them."""
    if np.iscomplexobj(a):
        a = np.stack([a.real, a.imag])
    with np.errstate(invalid="ignore"):
        return a.astype(np.float64).ravel()


def check(got: pb.Histogram, a: np.ndarray, bins: int, exact: bool = True) -> None:
    """Compares a histogram with numpy's."""
    x = doubles(a)
    finite = x[np.isfinite(x)]
    low, high = got.low, got.high
    assert got.nan_count == np.isnan(x).sum()
    assert got.below_count == (x < low).sum()
    assert got.above_count == (x > high).sum()
    inside = finite[(finite >= low) & (finite <= high)]
    assert sum(got.counts) == len(inside)
    if low == high:
        assert list(got.counts) == [len(inside)] + [0] * (bins - 1)
    elif exact:
        expected, _ = np.histogram(inside, bins=bins, range=(low, high))
        assert list(got.counts) == expected.tolist()


def test_histograms_agree_with_numpy_for_all_dtypes(daemon: Daemon) -> None:
    rng = np.random.default_rng(3)
    tensors: dict[str, np.ndarray] = {}
    for name, (_, dtype) in DTYPES.items():
        bits = rng.integers(0, 256, 40_000, dtype=np.uint8)
        if name == "bool":
            bits %= 2
        size = np.dtype(dtype).itemsize
        tensors[name + ".bits"] = bits[: len(bits) // size * size].view(dtype)
        normal = rng.standard_normal(3001) * 40
        tensors[name + ".normal"] = normal.astype(dtype)
    record(daemon, tensors)
    stub = pb_grpc.TensorServiceStub(daemon.channel())
    for op, a in tensors.items():
        x = doubles(a)
        finite = x[np.isfinite(x)]
        for bins in BINS:
            request = pb.ComputeHistogramRequest(name=name_of(op), bin_count=bins)
            got = stub.ComputeHistogram(request)
            assert (got.low, got.high) == (finite.min(), finite.max()), op
            # numpy's own arithmetic overflows for the whole range of doubles.
            check(got, a, bins, exact=finite.max() / 2 - finite.min() / 2 < 1e300)
            request.low, request.high = -1, 2.5
            check(stub.ComputeHistogram(request), a, bins)


ADVERSARIAL = {
    "empty": [],
    "one": [3.25],
    "equal": [7.0] * 50,
    "zeros": [0.0, -0.0] * 20,
    "not finite": [np.nan, np.inf, -np.inf],
    "nan": [np.nan] * 9,
    "inf amid": [1.0, 2.0, np.inf, 3.0, -np.inf, np.nan],
    "edges": list(np.linspace(-1, 0.3, 65)),
    "beside edges": list(np.nextafter(np.linspace(-1, 0.3, 65), 9)),
    "large": list(np.linspace(-1e300, 1e300, 999)),
    "narrow": list(1 + np.arange(100) * np.finfo(np.float64).eps),
    "offset": list(1e15 + np.arange(2000) / 8),
}


@pytest.mark.parametrize("bins", BINS)
def test_adversarial_elements_agree_with_numpy(daemon: Daemon, bins: int) -> None:
    tensors = {op: np.array(values, np.float64) for op, values in ADVERSARIAL.items()}
    record(daemon, tensors)
    stub = pb_grpc.TensorServiceStub(daemon.channel())
    for op, a in tensors.items():
        request = pb.ComputeHistogramRequest(
            name=name_of(op.replace(" ", "%20")), bin_count=bins
        )
        got = stub.ComputeHistogram(request)
        # numpy refuses bins that are narrower than the spacing of doubles.
        check(got, a, bins, exact=op != "narrow")
        if not np.isfinite(a).any():
            assert (got.low, got.high) == (0, 0)


def test_ranges_at_the_ends_of_double_are_cut_evenly(daemon: Daemon) -> None:
    steps = np.arange(0, 1001)
    tensors = {
        "whole": np.concatenate([np.linspace(-1, 1, 1001) * MAX, [MAX, -MAX]]),
        "least": steps * LEAST,
    }
    record(daemon, tensors)
    stub = pb_grpc.TensorServiceStub(daemon.channel())
    for op, a in tensors.items():
        got = stub.ComputeHistogram(
            pb.ComputeHistogramRequest(name=name_of(op), bin_count=10)
        )
        assert (got.low, got.high) == (a.min(), a.max())
        assert sum(got.counts) == len(a)
        assert max(got.counts) - min(got.counts) <= 3, (op, got.counts)


def test_histogram_of_the_command_line(daemon: Daemon) -> None:
    a = np.array([-1, -0.5, 0, 0, 0, 1, np.inf, np.nan], np.float32)
    record(daemon, {"op": a})
    name = name_of("op")
    flags = ("tensor", "histogram", name, "--bins", "4")
    table = daemon.ctl(*flags).stdout
    assert re.search(r"^ +0 +0.5 +3  \u2588{40}$", table, re.MULTILINE)
    rows = list(csv.DictReader(io.StringIO(daemon.ctl(*flags, "-o", "csv").stdout)))
    assert [int(row["count"]) for row in rows] == [0, 1, 1, 3, 1, 1, 1]
    whole = daemon.ctl_json(*flags, "--low", "-0.5", "--high", "0")
    assert whole["counts"] == ["1", "0", "0", "3"]
    assert (whole["below_count"], whole["above_count"]) == ("1", "2")
    daemon.ctl("tensor", "histogram", name, "--bins", "1025", expect=2)
    daemon.ctl("tensor", "histogram", name_of("none"), expect=64 + 5)


def histograms(page: Path) -> dict[str, dict[str, object]]:
    """Returns the histograms in a page of the HTML report, by row."""
    text = re.search(
        r'<script type="application/json" id="data">(.*?)</script>',
        page.read_text(),
        re.DOTALL,
    )
    assert text
    return json.loads(text.group(1))["histograms"]["rows"]


def test_the_page_has_histograms_of_both_sides(daemon: Daemon, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    golden = rng.standard_normal(5000).astype(np.float32)
    target = (golden * 1.5).astype(ml_dtypes.bfloat16)
    record(daemon, {"a": golden, "same": golden}, "g")
    record(daemon, {"a": target, "same": golden}, "t")
    daemon.ctl("compare", "run", "g", "t", expect=1)
    out = tmp_path / "report.html"
    daemon.ctl("compare", "report", "c-000001", "--out", str(out))
    rows = histograms(out)
    assert set(rows) == {"0", "1"}
    row = rows["0"]
    x, y = golden.astype(float), target.astype(float)
    limits = min(x.min(), y.min()), max(x.max(), y.max())
    assert (row["low"], row["high"]) == limits
    for side, values in (("golden", x), ("target", y)):
        expected, _ = np.histogram(values, bins=64, range=limits)
        assert row[side] == [expected.tolist(), 0, 0, 0]
    assert rows["1"]["golden"] == rows["1"]["target"]
    daemon.ctl(
        *("compare", "report", "c-000001", "--out", str(out)),
        *("--histograms", "1"),
    )
    assert set(histograms(out)) == {"0"}


def test_a_page_of_a_run_that_is_gone_says_so(daemon: Daemon, tmp_path: Path) -> None:
    for run, value in (("g", 1.0), ("t", 2.0)):
        chunk = Chunk(run, [Record("a", float32(value), [1])])
        write(daemon.channel(), run, [chunk.pack()])
    daemon.ctl("compare", "run", "g", "t", expect=1)
    daemon.ctl("run", "delete", "g", "--yes")
    out = tmp_path / "report.html"
    daemon.ctl("compare", "report", "c-000001", "--out", str(out))
    (row,) = histograms(out).values()
    assert row["golden"] is None and row["target"] is not None
    assert "golden: NOT_FOUND" in str(row["note"])
