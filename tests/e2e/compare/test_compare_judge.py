"""Stored rows that are judged by another policy."""

import json
from pathlib import Path

import pytest
from chunk_bytes import Chunk, Record, float32
from msitd import query
from wire import write

from daemon import Daemon

PASS, FAILED, USAGE, PARTIAL = 0, 1, 2, 4
PRECONDITION, NOT_FOUND = 64 + 9, 64 + 5


def record_run(daemon: Daemon, run: str, *values: float) -> None:
    records = [
        Record(f"layer.{i}", float32(v, 1, 2), [3]) for i, v in enumerate(values)
    ]
    for sequence, record in enumerate(records):
        record.sequence = sequence
    write(daemon.channel(), run, [Chunk(run, records).pack()])


@pytest.fixture
def compared(daemon: Daemon) -> Daemon:
    """c-000001: layer.0 is equal, layer.1 is near, layer.2 fails."""
    record_run(daemon, "g", 1, 2, 3)
    record_run(daemon, "t", 1, 2.00001, 4)
    daemon.ctl("compare", "run", "g", "t", expect=FAILED)
    return daemon


def test_bounds_are_tried_without_reading(compared: Daemon) -> None:
    loose = compared.ctl(
        "compare", "judge", "c-000001", "--tol", "nl2 <= 1", expect=PASS
    )
    assert "judged from" in loose.stdout
    assert "c-000001" in loose.stdout
    strict = compared.ctl(
        "compare", "judge", "c-1", "--tol", "nl2 <= 1e-9", expect=FAILED
    )
    assert "layer.1" in strict.stdout
    header = compared.ctl_json("compare", "get", "c-000003")
    assert header["judged_comparison"] == "c-000001"
    assert header["first_divergence"]["op"] == "layer.1"
    assert int(header.get("read_bytes", 0)) == 0
    assert int(header["fail_count"]) == 2
    assert int(header["pass_count"]) == 1
    # The original is as it was.
    assert int(compared.ctl_json("compare", "get", "c-000001")["fail_count"]) == 1


def test_what_was_not_computed_is_partial(compared: Daemon) -> None:
    compared.ctl(
        "compare", "judge", "latest", "--tol", "pearson >= 0.1", expect=PARTIAL
    )
    rows = compared.ctl_json("compare", "rows", "c-000002", expect=PARTIAL)["rows"]
    assert [row["verdict"] for row in rows] == ["PASS", "SKIPPED", "SKIPPED"]
    assert {row["reason"] for row in rows[1:]} == {"metric pearson was not computed"}
    # Its rows can be judged again.
    compared.ctl("compare", "judge", "c-000002", "--tol", "nl2 <= 1", expect=PASS)


def test_reports_name_the_original(compared: Daemon, tmp_path: Path) -> None:
    page, summary = tmp_path / "r.html", tmp_path / "r.md"
    for path in (page, summary):
        compared.ctl(
            "compare", "judge", "c-1", "--preset", "torch", "--rows", "none",
            "--out", str(path), expect=FAILED,
        )  # fmt: skip
        assert "judged from" in path.read_text()
    graph = tmp_path / "graph.json"
    compared.ctl(
        "compare", "report", "latest", "--format", "model-explorer",
        "--out", str(graph),
    )  # fmt: skip
    nodes = json.loads(graph.read_text())["graphs"][0]["nodes"]
    assert [node["id"] for node in nodes] == ["layer.0", "layer.1", "layer.2"]


@pytest.mark.parametrize(
    ("tolerance", "message"),
    [
        ("nl2 =< 1", "--tol"),
        ("(" * 2000, "--tol"),
        ("outlier_count == 0", "rtol"),
        ("no_such_metric <= 1", "no_such_metric"),
    ],
)
def test_hostile_predicates_are_refused(
    compared: Daemon, tolerance: str, message: str
) -> None:
    refused = compared.ctl("compare", "judge", "c-1", "--tol", tolerance, expect=USAGE)
    assert message in refused.stderr
    assert len(compared.ctl_json("compare", "list")["comparisons"]) == 1


def test_only_complete_comparisons_are_judged(compared: Daemon) -> None:
    compared.ctl("compare", "judge", "c-77", expect=NOT_FOUND)
    record_run(compared, "growing", 1)
    made = compared.ctl(
        "compare", "run", "growing", "growing", "--follow", "--detach", "-o", "name"
    ).stdout.strip()
    running = compared.ctl("compare", "judge", made, expect=PRECONDITION)
    assert "has not ended" in running.stderr
    compared.ctl("compare", "cancel", made)
    cancelled = compared.ctl("compare", "judge", made, expect=PRECONDITION)
    assert "was cancelled" in cancelled.stderr


def test_several_daemons_are_refused(compared: Daemon) -> None:
    endpoints = f"{compared.endpoint},{compared.endpoint}1"
    refused = compared.ctl(
        "--endpoints", endpoints, "compare", "judge", "c-1", expect=USAGE
    )
    assert "--endpoints" in refused.stderr


def test_the_result_survives_the_original_and_a_restart(compared: Daemon) -> None:
    compared.ctl("compare", "judge", "c-1", "--tol", "nl2 <= 1", expect=PASS)
    compared.ctl("compare", "delete", "c-000001", "--yes")
    compared.stop()
    compared.start()
    header = compared.ctl_json("compare", "get", "c-000002")
    assert (header["state"], header["judged_comparison"]) == ("DONE", "c-000001")
    compared.ctl("compare", "judge", "c-2", "--tol", "nl2 <= 1e-9", expect=FAILED)


def test_python_judges_as_the_command(compared: Daemon) -> None:
    with query.connect(compared.endpoint) as daemon:
        loose = query.Policy([query.Rule("*", "nl2 <= 1")])
        judged = daemon.comparisons.judge("c-1", loose)
        assert (judged.verdict, judged.judged_comparison) == ("pass", "c-000001")
        assert daemon.comparisons.judge(judged).verdict == "fail"
        partial = daemon.comparisons.judge(
            judged, query.Policy([query.Rule("*", "max_ulp <= 1")])
        )
        assert partial.verdict == "partial"
        assert [row.lacks_metrics for row in daemon.comparisons.rows(partial)] == [
            False,
            True,
            True,
        ]
        for refused in (
            query.Policy(metric_sets=["ulp"]),
            query.Policy(top_k=3),
            query.Policy(allow_unmatched=["*"]),
        ):
            with pytest.raises(query.QueryError, match="INVALID_ARGUMENT"):
                daemon.comparisons.judge("c-1", refused)
        with pytest.raises(TypeError):
            daemon.comparisons.judge("c-1", "nl2 <= 1")  # type: ignore[arg-type]
