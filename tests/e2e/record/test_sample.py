"""Capture level sample: the stored part of a tensor is read and compared."""

import csv
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import msitd
import numpy as np
import pytest
from names import tensor_name
from test_capture import wait_until

from daemon import BIN_DIR, Daemon

EXPIRED_EXIT = 64 + 9
PASS, FAILED = 0, 1

Array = np.ndarray[Any, Any]


def sample_of(data: Array) -> Array:
    """Returns every step-th element, with the smallest step that leaves at most
    1024.
    """
    flat = data.reshape(-1)
    step = 1
    while -(-flat.size // step) > 1024:
        step += 1
    return flat[::step]


def random_tensors() -> dict[str, Array]:
    random = np.random.default_rng(7)

    def normal(*shape: int) -> Array:
        return random.standard_normal(shape)

    return {
        "scalar": np.float32(2.5).reshape(()),
        "empty": np.zeros((3, 0), dtype=np.float32),
        "short": normal(8, 16).astype(np.float32),
        "whole": normal(32, 32).astype(np.float64),
        "over": normal(25, 41).astype(np.float16),
        "bytes": random.integers(-128, 127, 70_001, dtype=np.int8),
        "complex": (normal(3000) + 1j * normal(3000)).astype(np.complex64),
        # Three parts and a small rest.
        "large": normal(3 * (1 << 20) + 77).astype(np.float32),
    }


def read_sample(daemon: Daemon, folder: Path, name: str) -> Array:
    path = folder / "sample.npy"
    path.unlink(missing_ok=True)
    daemon.ctl("tensor", "read", name, "--sample", "--out", str(path))
    return np.load(path)


def check_samples(daemon: Daemon, folder: Path, run: str) -> None:
    for op, data in random_tensors().items():
        name = tensor_name(run, op)
        expected = sample_of(data)
        got = read_sample(daemon, folder, name)
        assert got.dtype == data.dtype, op
        np.testing.assert_array_equal(got, expected, err_msg=op)
        raw = daemon.ctl(
            "tensor", "read", name, "--sample", "--out", "-", binary=True
        ).stdout
        assert raw == expected.tobytes(), op


def verify(daemon: Daemon) -> str:
    return subprocess.run(
        [BIN_DIR / "msitd-inspect", "verify", "--data-dir", daemon.data_dir],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def record_all(daemon: Daemon, run: str, tensors: dict[str, Array]) -> None:
    with msitd.Client(run, endpoint=str(daemon.socket_dir)) as client:
        for op, data in tensors.items():
            assert client.record(data, op=op)


@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_samples_are_those_that_numpy_takes(
    daemon: Daemon, tmp_path: Path, transport: str
) -> None:
    endpoint = str(daemon.socket_dir) if transport == "shm" else daemon.endpoint
    daemon.ctl("capture", "set", "--run", "r", "--level", "sample")
    policy = daemon.ctl_json("capture", "get", "--run", "r")
    assert policy["rules"][0]["level"] == "CAPTURE_LEVEL_SAMPLE"
    tensors = random_tensors()
    with msitd.Client("r", endpoint=endpoint) as client:
        for op, data in tensors.items():
            assert client.record(data, op=op)
    check_samples(daemon, tmp_path, "r")
    kept = sum(sample_of(data).nbytes for data in tensors.values())
    run = daemon.ctl_json("run", "get", "r")["counters"]
    assert int(run["tensor_count"]) == len(tensors)
    assert int(run["size_bytes"]) == kept
    for op, data in tensors.items():
        name = tensor_name("r", op)
        tensor = daemon.ctl_json("tensor", "get", name)
        assert tensor["has_sample"] and not tensor.get("has_bytes", False)
        assert int(tensor.get("size_bytes", 0)) == data.nbytes
        if data.size > 0 and not np.iscomplexobj(data):
            assert tensor["summary"]["max"] == float(data.max())
        result = daemon.ctl(
            "tensor", "read", name, "--out", str(tmp_path / "x"), expect=EXPIRED_EXIT
        )
        assert "TENSOR_EXPIRED" in result.stderr
        assert "its sample is" in result.stderr
    assert " problems=0" in verify(daemon)
    daemon.kill()
    daemon.start()
    check_samples(daemon, tmp_path, "r")
    daemon.stop()
    assert f" payload_bytes={kept} " in verify(daemon)


def test_sample_of_a_tensor_with_its_bytes_is_the_same(
    daemon: Daemon, tmp_path: Path
) -> None:
    record_all(daemon, "full", random_tensors())
    check_samples(daemon, tmp_path, "full")
    tensor = daemon.ctl_json("tensor", "get", tensor_name("full", "large"))
    assert tensor["has_bytes"] and not tensor.get("has_sample", False)


def test_live_run_changes_to_samples_at_the_stated_token(daemon: Daemon) -> None:
    data = np.arange(5000, dtype=np.float32)
    ops = ("layers.0", "layers.1", "lm_head")
    with msitd.Client("r", endpoint=str(daemon.socket_dir)) as client:
        for token in range(2):
            for op in ops:
                assert client.record(data, op=op, token=token)
        args = ("--run", "r", "--ops", "layers.*", "--from-token", "3")
        daemon.ctl("capture", "set", *args, "--level", "sample")
        wait_until(lambda: not client.selects("lm_head", token=3))
        for token in range(2, 5):
            for op in ops:
                assert client.record(data, op=op, token=token)
        assert client.counters().filtered_count == 2
    found = daemon.ctl_json("tensor", "list", "--run", "r", "--limit", "0")
    kept = {
        (int(t.get("token", 0)), t["op"]): (
            t.get("has_bytes", False),
            t.get("has_sample", False),
        )
        for t in found["tensors"]
    }
    full = {(token, op): (True, False) for token in range(3) for op in ops}
    sampled = {(token, op): (False, True) for token in (3, 4) for op in ops[:2]}
    assert kept == full | sampled


def rows_of(daemon: Daemon, comparison: str) -> dict[str, dict[str, Any]]:
    rows = daemon.ctl_json("compare", "rows", comparison, "--limit", "0")["rows"]
    return {row["op"]: row for row in rows}


def metric(row: dict[str, Any], name: str) -> float:
    return next(m["value"] for m in row["metrics"] if m["metric"] == name)


def test_comparisons_compare_samples(daemon: Daemon, tmp_path: Path) -> None:
    golden = random_tensors()
    for run in ("sampled-golden", "sampled-target"):
        daemon.ctl("capture", "set", "--run", run, "--level", "sample")
    target = dict(golden)
    # An element that every sample contains, and a byte that none contains.
    target["large"] = golden["large"].copy()
    step = -(-target["large"].size // 1024)
    target["large"][500 * step] += 64
    target["bytes"] = golden["bytes"].copy()
    target["bytes"][1] ^= 64
    for prefix in ("", "sampled-"):
        record_all(daemon, prefix + "golden", golden)
        record_all(daemon, prefix + "target", target)
    for number, (left, right) in enumerate(
        (
            ("sampled-golden", "target"),
            ("golden", "sampled-target"),
            ("sampled-golden", "sampled-target"),
        )
    ):
        comparison = f"c-{number + 1:06}"
        table = daemon.ctl("compare", "run", left, right, expect=FAILED).stdout
        assert "sampled: 1024 of 3145805 elements" in table
        rows = rows_of(daemon, comparison)
        for op in golden.keys() - {"large", "bytes"}:
            assert rows[op]["verdict"] == "PASS"
            assert rows[op]["bitwise_equal"] and not rows[op].get("sampled", False)
        # Integers differ if their hashes do, whether or not in the sample.
        assert rows["bytes"]["verdict"] == "FAIL"
        assert rows["bytes"]["reason"] == "the hashes differ; the bytes are not kept"
        large = rows["large"]
        assert large["sampled"] and large["verdict"] == "FAIL"
        assert f"largest difference at [{500 * step}]: " in large["reason"]
        a = sample_of(target["large"]).astype(np.float64)
        b = sample_of(golden["large"]).astype(np.float64)
        assert metric(large, "max_abs") == np.abs(a - b).max()
        nl2 = np.linalg.norm(a - b) / np.linalg.norm(b)
        assert metric(large, "nl2") == pytest.approx(nl2, rel=1e-6)
    report = tmp_path / "report.csv"
    daemon.ctl("compare", "report", "c-000003", "--format", "csv", "--out", str(report))
    lines = {row["op"]: row for row in csv.DictReader(io.StringIO(report.read_text()))}
    assert "sampled: 1024 of 3145805 elements" in lines["large"]["reason"]
    page = tmp_path / "report.html"
    daemon.ctl("compare", "report", "c-000003", "--format", "html", "--out", str(page))
    assert "sampled: 1024 of 3145805 elements" in page.read_text()


def test_samples_of_shards_are_that_of_the_whole(daemon: Daemon) -> None:
    # A tensor of several parts; every 2048th element, and every 4096th of two
    # of them.
    whole = np.arange(2 << 21, dtype=np.float32).reshape(2048, 2048)
    shards = np.split(whole.copy(), 2)
    shards[1][2, 0] += 1000
    for run in ("one", "two"):
        daemon.ctl("capture", "set", "--run", run, "--level", "sample")
    record_all(daemon, "one", {"w": whole})
    for rank, shard in enumerate(shards):
        with msitd.Client(
            "two", rank=rank, world_size=2, endpoint=str(daemon.socket_dir)
        ) as client:
            assert client.record(shard, op="w")
    layout = ("--target-layout", "*=concat(0)", "--rows", "none")
    daemon.ctl("compare", "run", "one", "two", *layout, expect=FAILED)
    row = rows_of(daemon, "c-000001")["w"]
    assert row["sampled"]
    assert metric(row, "max_abs") == 1000
    assert "[1026,0]" in row["reason"]
    assert "sampled: 1024 of 4194304 elements" in row["reason"]


def test_what_has_no_sample_is_skipped(daemon: Daemon) -> None:
    data = np.arange(5000, dtype=np.float32)
    daemon.ctl("capture", "set", "--run", "a", "--level", "sample")
    daemon.ctl("capture", "set", "--run", "b", "--level", "summary")
    record_all(daemon, "a", {"op": data, "other": data})
    # In another order, which no summary shows.
    record_all(daemon, "b", {"op": data[::-1].copy(), "other": data + 1})
    result = daemon.ctl("compare", "run", "a", "b", expect=FAILED)
    rows = rows_of(daemon, "c-000001")
    row = rows["op"]
    assert row["verdict"] == "SKIPPED" and not row.get("sampled", False)
    assert "are not kept" in row["reason"]
    assert "first skipped     op output/0, rank 0, token 0" in result.stdout
    # A failure that the summaries prove needs no bytes.
    assert rows["other"]["verdict"] == "FAIL"
    assert "the summaries of the whole tensors" in rows["other"]["reason"]


def test_tensor_read_has_help_for_samples(daemon: Daemon) -> None:
    assert "--sample" in daemon.ctl("tensor", "read", "--help").stdout
    assert "--level sample" in daemon.ctl("capture", "set", "--help").stdout
    args = ("--run", "r", "--level", "sample")
    assert json.loads(daemon.ctl("-o", "json", "capture", "set", *args).stdout)
