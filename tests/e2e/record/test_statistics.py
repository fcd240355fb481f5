"""Statistics of tensors without bytes: recorded, listed, counted."""

import csv
import subprocess

import chunk_bytes as cb
import grpc
import msitd
import numpy as np
import pytest
from chunk_bytes import Chunk, Record
from msitd import query
from names import tensor_name
from wire import write

from daemon import BIN_DIR, Daemon

KNOWN = {"max": 1.5, "min": -2, "mean": float("nan"), "crc32": "0badcafe"}
TEXT = '{"max": 1.5, "min": -2, "mean": "nan", "crc32": "0badcafe"}'


def record(endpoint: str, run: str, statistics: dict[str, object] = KNOWN) -> None:
    with msitd.Client(run=run, endpoint=endpoint) as client:
        assert client.record_statistics(
            (2, 3), "bfloat16", statistics, op="linear", token=3, requires_grad=True
        )


@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_statistics_are_kept_and_shown(daemon: Daemon, transport: str) -> None:
    record(str(daemon.socket_dir) if transport == "shm" else daemon.endpoint, "r")
    assert not daemon.ctl_json("tensor", "list", "--run", "r").get("tensors")
    listed = daemon.ctl("tensor", "list", "--run", "r", "--kind", "statistics").stdout
    assert "statistics" in listed
    assert (
        TEXT in daemon.ctl("tensor", "get", tensor_name("r", "linear", token=3)).stdout
    )
    with query.connect(daemon.endpoint) as client:
        (found,) = client.tensors.list("r", query.select(kinds="statistics"))
        assert (found.kind, found.value) == ("statistics", TEXT)
        assert (found.dtype, found.shape) == ("bfloat16", (2, 3))
        assert found.requires_grad is True
        assert (found.size_bytes, found.has_bytes) == (0, False)
        with pytest.raises(query.QueryError, match="are not kept"):
            client.tensors.read(found.name)


def test_a_run_of_statistics_does_not_look_empty(daemon: Daemon) -> None:
    record(daemon.endpoint, "r")
    counters = daemon.ctl_json("run", "get", "r")["counters"]
    assert counters["statistics_count"] == "1"
    assert counters["tensor_count"] == counters["value_count"] == "0"
    head, row = daemon.ctl("run", "list").stdout.splitlines()
    assert dict(zip(head.split(), row.split(), strict=False))["statistics"] == "1"
    told = daemon.ctl("tensor", "list", "--run", "r").stderr
    assert (
        "no tensors yet, but statistics of 1; to list them: --kind statistics" in told
    )


def test_runs_without_statistics_have_no_such_column(daemon: Daemon) -> None:
    write(daemon.channel(), "r", [Chunk("r", [Record("op", b"1234", [1])]).pack()])
    assert "statistics" not in daemon.ctl("run", "list").stdout


def test_statistics_outlive_the_daemon(daemon: Daemon) -> None:
    record(daemon.endpoint, "r")
    daemon.kill()
    daemon.start()
    tensor = daemon.ctl_json("tensor", "get", tensor_name("r", "linear", token=3))
    assert tensor["value"] == TEXT
    daemon.stop()
    subprocess.run(
        [BIN_DIR / "msitd-inspect", "verify", "--data-dir", daemon.data_dir],
        check=True,
    )


def statistics(text: str) -> Record:
    return Record("op", b"", [2], kind=cb.STATISTICS, value=text)


def test_malformed_statistics_are_refused_at_the_border(daemon: Daemon) -> None:
    for version, text in ((2, "{}"), (3, "{"), (3, '{"max": null}')):
        chunk = Chunk("r", [statistics(text)], version=version).pack()
        with pytest.raises(grpc.RpcError) as error:
            write(daemon.channel(), "r", [chunk])
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    write(daemon.channel(), "r", [Chunk("r", [statistics("{}")], version=3).pack()])
    assert daemon.ctl_json("run", "get", "r")["counters"]["statistics_count"] == "1"


def test_runs_of_statistics_are_compared_without_being_asked(daemon: Daemon) -> None:
    record(daemon.endpoint, "golden", {"max": 1.5, "nan_count": 0})
    record(daemon.endpoint, "target", {"max": 2.5, "nan_count": 0})
    told = daemon.ctl("compare", "run", "golden", "target", expect=1).stdout
    assert "1 fail, 0 unmatched, 0 skipped; 1 by statistics only" in told
    assert "statistics differ: max: target 2.5, golden 1.5; " in told
    assert "first divergence  linear output/0, rank 0, token 3, row 0" in told
    told = daemon.ctl("compare", "run", "golden", "golden").stdout
    assert "PASS (1 of 1 by statistics)" in told
    (row,) = daemon.ctl_json("compare", "rows", "c-000001")["rows"]
    assert row["golden"]["kind"] == "RECORD_KIND_STATISTICS"
    assert row["golden"]["value"] == '{"max": 1.5, "nan_count": 0}'
    assert row["golden"]["max"] == 1.5
    # There are no tensors to compare.
    told = daemon.ctl(
        "compare", "run", "golden", "target", "--kind", "tensor", expect=1
    ).stdout
    assert "FAIL (nothing was compared)" in told
    assert "not compared      1 golden and 1 target values and statistics" in told


def test_statistics_are_compared_with_tensors(daemon: Daemon) -> None:
    with msitd.Client(run="golden", endpoint=daemon.endpoint) as client:
        client.record(np.array([1, -2, 3], np.float32), op="linear")
    for run, largest, code in (("alike", 3, 0), ("other", 4, 1)):
        with msitd.Client(run=run, endpoint=daemon.endpoint) as client:
            known = {"max": largest, "min": -2.0, "mean": 0.6666667}
            client.record_statistics((3,), "float32", known, op="linear")
        daemon.ctl("compare", "run", "golden", run, expect=code)


def test_report_of_msit_says_where_only_statistics_are(daemon: Daemon) -> None:
    for run in ("golden", "target"):
        with msitd.Client(run=run, endpoint=daemon.endpoint) as client:
            client.record(np.ones(3, np.float32), op="tensor")
            client.record_value(1, op="value", io="input", index="number")
            client.record_value("a", op="value", io="input", index="text")
            client.record_statistics((3,), "float32", {"max": 3}, op="both")
            if run == "golden":
                client.record(np.ones(3, np.float32), op="one")
            else:
                known = {"max": 1, "min": -2, "mean": 0.5}
                client.record_statistics((3,), "float32", known, op="one")
    for number, kind in enumerate(((), ("--kind", "all")), start=1):
        words = ("golden", "target", "--preset", "msit", *kind)
        daemon.ctl("compare", "run", *words, expect=None)
        name = f"c-{number:06}"
        text = daemon.ctl("compare", "report", name, "--format", "msit").stdout
        rows = {
            row["my_data_path"].split("/ops/")[1].split("/")[0]: row
            for row in csv.DictReader(text.splitlines())
        }
        bare = "my_data has only statistics."
        for op, reason in (
            ("tensor", ""),
            ("both", f"golden_data has only statistics. {bare}"),
            ("one", bare),
        ):
            assert rows[op]["cmp_fail_reason"] == reason
            assert rows[op]["cosine_similarity"] == ("" if reason else "1.0")
        values = [f"my_{what}_value" for what in ("max", "min", "mean")]
        assert [rows["both"][key] for key in values] == ["3.0", "", ""]
        assert [rows["one"][key] for key in values] == ["1.0", "-2.0", "0.5"]


def test_what_a_comparison_leaves_out_is_told(daemon: Daemon) -> None:
    for run in ("golden", "target"):
        with msitd.Client(run=run, endpoint=daemon.endpoint) as client:
            client.record(np.ones(3, np.float32), op="linear")
            client.record_value(run, op="linear", io="input", index="mode")
            client.record_document("module_tree.json", "{}")
    told = daemon.ctl("compare", "run", "golden", "target").stdout
    assert "not compared      1 golden and 1 target values (use --kind all)" in told
    told = daemon.ctl(
        "compare", "run", "golden", "target", "--kind", "all", expect=1
    ).stdout
    assert "--kind all" not in told
    report = daemon.ctl("compare", "report", "c-000002", "--format", "csv").stdout
    (row,) = (
        row
        for row in csv.DictReader(report.splitlines())
        if row["golden_kind"] == "text"
    )
    assert (row["golden_kind"], row["golden_value"]) == ("text", "golden")
    assert (row["target_kind"], row["target_value"]) == ("text", "target")
    page = daemon.ctl("compare", "report", "c-000002", "--format", "html").stdout
    assert '"golden/target"' in page
    assert '"text"' in page


def test_statistics_that_decide_nothing_are_said(daemon: Daemon) -> None:
    record(daemon.endpoint, "golden", {"max": 1.5, "mean": 1, "l2_norm": 2})
    record(daemon.endpoint, "target", {"max": 1.5})
    told = daemon.ctl("compare", "run", "golden", "target").stdout
    assert "0 skipped; 1 by statistics only, 1 of them in part" in told
    (row,) = daemon.ctl_json("compare", "rows", "c-000001")["rows"]
    assert row["reason"] == "statistics agree: max; only golden has mean, l2_norm"
    assert row["statistics_in_part"]


def test_other_checksums_do_not_pass(daemon: Daemon) -> None:
    record(daemon.endpoint, "golden", {"max": 1.5, "crc32": "0a"})
    record(daemon.endpoint, "target", {"max": 1.5, "crc32": "0b"})
    told = daemon.ctl("compare", "run", "golden", "target", expect=None)
    assert told.returncode != 0 and "PASS" not in told.stdout
    (row,) = daemon.ctl_json("compare", "rows", "c-000001")["rows"]
    assert (row["verdict"], row["reason"]) == (
        "SKIPPED",
        "statistics agree: max, but the checksums differ: crc32: target 0b, golden 0a",
    )
    flags = ("--preset", "msprobe")
    told = daemon.ctl("compare", "run", "golden", "target", *flags, expect=1)
    (row,) = daemon.ctl_json("compare", "rows", "c-000002")["rows"]
    assert row["verdict"] == "FAIL"
    assert "the policy asks for equal checksums" in row["reason"]
