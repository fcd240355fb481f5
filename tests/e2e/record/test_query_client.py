"""msitd.query with the real daemon returns the same answers as msitctl -o json."""

import csv
import io
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import ml_dtypes
import msitd
import numpy as np
import pytest
import trustme
from google.protobuf import json_format
from msitd import query
from msitd.query.messages import from_message, new

from daemon import BIN_DIR, Daemon

OPS = [f"layer.{i}" for i in range(12)]


def record(daemon: Daemon, run: str, dtype: Any, world_size: int = 1) -> None:
    """Records 12 ops and 2 tokens; in all runs except golden, layer.5 differs."""
    values = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    with msitd.Client(run=run, world_size=world_size, endpoint=daemon.endpoint) as rank:
        for token in range(2):
            for i, op in enumerate(OPS):
                tensor = values * (i + 1)
                if run != "golden" and op == "layer.5":
                    tensor[1, 2] = np.nan if token else 100
                rank.record(tensor.astype(dtype), op=op, token=token)


@pytest.fixture
def recorded(daemon: Daemon) -> Daemon:
    record(daemon, "golden", np.float32)
    record(daemon, "target", ml_dtypes.bfloat16, world_size=2)
    return daemon


@pytest.fixture
def asked(recorded: Daemon) -> Iterator[query.Connection]:
    with query.connect(recorded.endpoint) as asked:
        yield asked


def parsed(message: str, value: dict[str, Any]) -> Any:
    """Parses the output of msitctl into the dataclass of a message."""
    return from_message(json_format.ParseDict(value, new(message)))


def printed(daemon: Daemon, message: str, *args: str, expect: int = 0) -> Any:
    return parsed(message, daemon.ctl_json(*args, expect=expect))


def printed_rows(
    daemon: Daemon, message: str, field: str, *args: str, expect: int = 0
) -> list[Any]:
    found = daemon.ctl_json(*args, expect=expect)[field]
    return [parsed(message, row) for row in found]


def test_runs(recorded: Daemon, asked: query.Connection) -> None:
    made = asked.runs.create("labelled", world_size=3, labels={"model": "x", "k": ""})
    assert made.labels == {"model": "x", "k": ""}
    kept = asked.runs.retain(
        "labelled", age_max=timedelta(hours=1.5), token_count=4, pinned=True
    )
    assert kept.retention is not None
    assert kept.retention.age_max == timedelta(minutes=90)
    assert asked.runs.retain("labelled", pinned=False).retention == query.Retention(
        False, 0, timedelta(minutes=90), 4
    )
    assert asked.runs.seal("golden").state == "sealed"
    runs = list(asked.runs.list())
    assert runs == printed_rows(recorded, "Run", "runs", "run", "list")
    assert [run.name for run in runs] == ["golden", "labelled", "target"]
    for run in runs:
        assert asked.runs.get(run.name) == run
        assert printed(recorded, "Run", "run", "get", run.name) == run
    asked.runs.delete("labelled")
    with pytest.raises(query.QueryError, match="NOT_FOUND") as caught:
        asked.runs.get("labelled")
    assert caught.value.reason == "RUN_NOT_FOUND"
    with pytest.raises(query.QueryError) as caught:
        asked.runs.create("golden")
    assert (caught.value.code, caught.value.reason) == ("ALREADY_EXISTS", "RUN_EXISTS")


def test_tensors(recorded: Daemon, asked: query.Connection) -> None:
    listing = asked.tensors.list(
        "target", query.select(ops=["layer.1*", "layer.5"], tokens=1, io="output")
    )
    flags = ("--run", "target", "--ops", "layer.1*,layer.5", "--tokens", "1")
    told = ("tensor", "list", *flags, "--io", "output")
    rows = list(listing)
    assert rows == printed_rows(recorded, "Tensor", "tensors", *told, expect=4)
    assert [row.op for row in rows] == ["layer.1", "layer.5", "layer.10", "layer.11"]
    assert listing.ranks().partial
    assert not asked.tensors.list("golden").ranks().partial
    assert asked.tensors.get(rows[0].name) == rows[0]

    [found] = asked.tensors.find("target", "nan_count > 0")
    assert (found.op, found.token, found.dtype) == ("layer.5", 1, "bfloat16")
    stats = asked.tensors.stats("target", query.select(ranks=0), by="op")
    flags = ("tensor", "stats", "--run", "target", "--ranks", "0", "--by", "op")
    assert stats == printed(recorded, "SummarizeTensorsResponse", *flags)
    assert [group.key for group in stats.groups] == OPS
    [whole] = asked.tensors.stats("golden").groups
    assert (whole.key, whole.tensor_count) == ("", 24)
    histogram = asked.tensors.histogram(found, bins=5, low=-3)
    told = ("tensor", "histogram", found.name, "--bins", "5", "--low", "-3")
    assert histogram == printed(recorded, "Histogram", *told)
    assert (sum(histogram.counts) + histogram.below_count, histogram.nan_count) == (
        31,
        1,
    )


def test_bytes(recorded: Daemon, asked: query.Connection) -> None:
    for run, dtype in (("golden", np.float32), ("target", ml_dtypes.bfloat16)):
        [tensor] = asked.tensors.list(run, query.select(ops="layer.3", tokens=0))
        told = ("tensor", "read", tensor.name, "--out", "-", "--format", "raw")
        raw = recorded.ctl(*told, binary=True).stdout
        assert asked.tensors.read_bytes(tensor.name) == raw
        array = asked.tensors.read(tensor)
        assert (array.dtype, array.shape) == (dtype, (4, 8))
        assert array.tobytes() == raw
        assert asked.tensors.read_torch(tensor).shape == (4, 8)
    with pytest.raises(query.QueryError) as caught:
        asked.tensors.read(
            "runs/golden/ranks/0/devices/cpu:0/tokens/0/ops/x/calls/0/output/0"
        )
    assert caught.value.reason == "TENSOR_NOT_FOUND"


def test_a_tensor_of_many_pieces_and_its_sample(daemon: Daemon) -> None:
    values = np.arange(3_000_000, dtype=np.int32)
    with msitd.Client(run="large", endpoint=daemon.endpoint) as client:
        client.record(values, op="op")
    with query.connect(f"unix:{daemon.socket_dir}/msitd.sock") as asked:
        [tensor] = asked.tensors.list("large")
        assert tensor.size_bytes > asked.node.capabilities().read_piece_bytes_max
        np.testing.assert_array_equal(asked.tensors.read(tensor), values)
        sample = asked.tensors.read(tensor, sample=True)
        np.testing.assert_array_equal(sample, values[:: -(-len(values) // 1024)])


def test_comparisons(recorded: Daemon, asked: query.Connection) -> None:
    policy = query.Policy(
        rules=[
            query.Rule("layer.1*", "max_abs <= 1"),
            query.Rule("*.2", preset="torch"),
        ],
        metric_sets=["pearson"],
    )
    done = asked.comparisons.run(
        "golden", "target", query.select(io="output"), policy=policy
    )
    assert done == printed(recorded, "Comparison", "compare", "get", done.name)
    assert (done.state, done.verdict, done.partial) == ("done", "fail", True)
    assert done.policy == query.Policy(
        rules=tuple(policy.rules), metric_sets=("pearson",)
    )
    assert done.first_non_finite is not None and done.first_non_finite.op == "layer.5"
    rows = list(asked.comparisons.rows(done))
    told = ("compare", "rows", done.name)
    assert rows == printed_rows(recorded, "ComparisonRow", "rows", *told)
    assert [row.row for row in rows] == list(range(24))
    assert "pearson" in rows[0].metrics
    assert rows == list(asked.comparisons.follow(done))
    failed = list(asked.comparisons.rows(done, verdicts=["fail", "unmatched"]))
    assert failed == [row for row in rows if row.verdict != "pass"]
    assert {row.op for row in failed} >= {"layer.5"}
    assert list(asked.comparisons.list()) == [asked.comparisons.get(done)]
    asked.comparisons.delete(done)
    assert list(asked.comparisons.list()) == []
    with pytest.raises(query.QueryError) as caught:
        asked.comparisons.get(done)
    assert caught.value.reason == "COMPARISON_NOT_FOUND"
    with pytest.raises(query.QueryError) as caught:
        asked.comparisons.run(
            "golden", "target", policy=query.Policy(rules=[query.Rule("*", "x <= 1")])
        )
    assert caught.value.reason == "PREDICATE_INVALID"


def test_tables_have_the_columns_of_the_csv(
    recorded: Daemon, asked: query.Connection
) -> None:
    done = asked.comparisons.run("golden", "target")
    text = recorded.ctl("compare", "rows", done.name, "-o", "csv").stdout
    lines = list(csv.DictReader(io.StringIO(text)))
    frame = asked.comparisons.rows(done).to_pandas(all_columns=True)
    table = asked.comparisons.rows(done).to_arrow(all_columns=True)
    assert list(frame.columns) == table.column_names == list(lines[0])
    for name in ("op", "verdict", "golden.dtype", "target.dtype", "reason"):
        assert frame[name].tolist() == [line[name] for line in lines], name
    for name in ("row", "metrics.cosine", "golden.l2_norm", "amplification"):
        wanted = [float(line[name]) if line[name] else None for line in lines]
        told = table[name].to_pylist()
        assert [x is None for x in told] == [x is None for x in wanted]
        np.testing.assert_array_equal(
            [x for x in told if x is not None], [x for x in wanted if x is not None]
        )
    text = recorded.ctl("tensor", "list", "--run", "golden", "-o", "csv").stdout
    heading = text.splitlines()[0].split(",")
    assert (
        asked.tensors.list("golden").to_arrow(all_columns=True).column_names == heading
    )


def test_metrics_of_ones_own(recorded: Daemon, asked: query.Connection) -> None:
    done = asked.comparisons.run("golden", "target")
    metrics = {
        row: [
            query.CustomMetric("angle", row / 2),
            query.CustomMetric("note", text="x"),
        ]
        for row in range(24)
    }
    added = asked.comparisons.add_metrics(done, metrics)
    assert added.custom_metrics == ("angle", "note")
    again = asked.comparisons.add_metrics(done, {})
    assert again.custom_metrics == added.custom_metrics
    rows = list(asked.comparisons.rows(done))
    assert {row.row: list(row.custom_metrics) for row in rows} == metrics
    frame = asked.comparisons.rows(done).to_pandas(all_columns=True)
    assert frame["custom_metrics.angle"].tolist() == [row / 2 for row in range(24)]
    assert frame["custom_metrics.note"].isna().all()
    with pytest.raises(query.QueryError) as caught:
        asked.comparisons.add_metrics(done, {24: [query.CustomMetric("angle", 1.0)]})
    assert (caught.value.code, caught.value.reason) == (
        "INVALID_ARGUMENT",
        "FIELD_INVALID",
    )


def test_a_comparison_is_cancelled_and_followed(asked: query.Connection) -> None:
    followed = asked.comparisons.create("golden", "target", follow=True, detach=True)
    assert asked.comparisons.get(followed).is_over is False
    cancelled = asked.comparisons.cancel(followed)
    assert cancelled.name == followed.name
    with pytest.raises(query.QueryError) as caught:
        asked.comparisons.wait(followed)
    assert caught.value.code == "CANCELLED"

    followed = asked.comparisons.create("golden", "target", follow=True)
    rows: list[query.ComparisonRow] = []
    reading = threading.Thread(
        target=lambda: rows.extend(asked.comparisons.follow(followed))
    )
    reading.start()
    asked.runs.seal("golden")
    asked.runs.seal("target")
    reading.join(60)
    assert not reading.is_alive()
    assert asked.comparisons.get(followed).state == "done"
    assert [row.row for row in rows] == list(range(24))


def test_captures(recorded: Daemon, asked: query.Connection) -> None:
    chosen = query.select(ops="layer.3.*", tokens=[range(5, 8), 12])
    policy = asked.captures.set("soon", chosen, level="sample", first_token=5)
    assert policy == query.CapturePolicy(
        revision=1, first_token=5, rules=(query.CaptureRule(chosen, "sample"),)
    )
    told = ("capture", "get", "--run", "soon")
    assert asked.captures.get("soon") == policy
    assert printed(recorded, "CapturePolicy", *told) == policy
    rules = [
        query.CaptureRule(query.select(ops="a"), "off"),
        query.CaptureRule(level="summary"),
    ]
    assert asked.captures.set("soon", rules=rules).revision == 2
    coverage = asked.captures.coverage("target")
    assert (coverage.ranks[0].stored_count, coverage.partial) == (24, True)
    told = ("capture", "coverage", "target")
    same = printed(recorded, "CaptureCoverage", *told, expect=4)
    assert same.ranks_lacking == coverage.ranks_lacking
    asked.runs.seal("golden")
    with pytest.raises(query.QueryError) as caught:
        asked.captures.set("golden")
    assert caught.value.reason == "RUN_SEALED"


def test_node(recorded: Daemon, asked: query.Connection) -> None:
    assert asked.node.capabilities() == printed(
        recorded, "Capabilities", "node", "capabilities"
    )
    status = asked.node.status()
    assert (status.storage_state, status.run_count) == ("ok", 2)
    told = printed(recorded, "NodeStatus", "node", "status")
    assert status.committed_record_count == told.committed_record_count == 48
    assert status.uptime is not None and told.uptime >= status.uptime


def test_streams(recorded: Daemon, asked: query.Connection) -> None:
    endpoint = f"unix:{recorded.socket_dir}"
    with (
        msitd.Client("open", rank=1, world_size=2, endpoint=endpoint) as second,
        msitd.Client("open", rank=0, world_size=2, endpoint=endpoint) as first,
    ):
        for client in (first, second):
            client.record(np.ones(3, np.float32), op="mine")
            client.flush()
        found = [each for each in asked.node.streams() if each.run == "open"]
        assert [each.rank for each in found] == [0, 1]
        assert all(isinstance(each, query.Stream) for each in found)
        assert {each.committed_record_count for each in found} == {1}
        assert all(each.shares_memory and each.ring_size_bytes for each in found)
        assert len(list(asked.node.streams(limit=1))) == 1
    deadline = time.monotonic() + 30
    while any(each.run == "open" for each in asked.node.streams()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_tls(
    new_daemon: Callable[[], Daemon], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    for who, identity in (("daemon", "127.0.0.1"), ("client", "user@example.org")):
        issued = authority.issue_cert(identity)
        issued.cert_chain_pems[0].write_to_path(tmp_path / f"{who}.pem")
        issued.private_key_pem.write_to_path(tmp_path / f"{who}.key")
    daemon = new_daemon()
    daemon.start(
        *("--tls-cert", str(tmp_path / "daemon.pem")),
        *("--tls-key", str(tmp_path / "daemon.key")),
        *("--tls-client-ca", str(tmp_path / "ca.pem")),
    )
    ca_file = str(tmp_path / "ca.pem")
    own = {
        "cert_file": str(tmp_path / "client.pem"),
        "key_file": str(tmp_path / "client.key"),
    }
    with query.connect(daemon.endpoint, ca_file=ca_file, **own) as asked:
        assert list(asked.runs.list()) == []
        # msitctl, which writes reports, connects with the same files.
        monkeypatch.setenv("PATH", f"{BIN_DIR}:{os.environ['PATH']}")
        with pytest.raises(query.QueryError) as caught:
            asked.comparisons.report("c-1", tmp_path / "report.html")
        assert caught.value.code == "NOT_FOUND"
    for settings in ({}, {"ca_file": ca_file}):
        with (
            query.connect(daemon.endpoint, **settings) as asked,
            pytest.raises(query.QueryError) as caught,
        ):
            list(asked.runs.list())
        assert caught.value.code == "UNAVAILABLE"


def test_what_msitctl_prints_is_json_of_these_messages(recorded: Daemon) -> None:
    """The other tests parse the output with the code under test; this one does not."""
    with query.connect(recorded.endpoint) as asked:
        done = asked.comparisons.run("golden", "target")
        row = list(asked.comparisons.rows(done))[5]
    text = recorded.ctl("compare", "rows", "c-000001", "-o", "json").stdout
    told = json.loads(text)["rows"][5]
    assert row.op == told["op"] == "layer.5"
    assert row.verdict == told["verdict"].lower() == "fail"
    assert row.token == int(told["token"]) == 0
    assert row.golden is not None and row.target is not None
    assert list(row.golden.shape) == [int(n) for n in told["golden"]["shape"]]
    assert (row.golden.dtype, told["golden"]["dtype"]) == ("float32", "D_TYPE_FLOAT32")
    assert row.target.max == told["target"]["max"] == 100
    assert row.metrics == {m["metric"]: float(m["value"]) for m in told["metrics"]}
    assert row.origin == told["origin"].lower()
    assert (row.rtol, "rtol" in told) == (None, False)
