"""msitd.query in a notebook, with the real daemon, shows what msitctl shows."""

import csv
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import msitd
import numpy as np
import pandas as pd
import pytest
from msitd import query

from daemon import BIN_DIR, Daemon

MARKUP = "layer.<b onclick='x'>1</b>"


@pytest.fixture
def recorded(daemon: Daemon) -> Daemon:
    values = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    for run, dtype in (("golden", np.float32), ("bf16", ml_dtypes.bfloat16)):
        with msitd.Client(run=run, world_size=1, endpoint=daemon.endpoint) as rank:
            for number in range(30):
                tensor = values * (number + 1)
                if run != "golden" and number >= 20:
                    tensor[1, 2] = 100
                rank.record(tensor.astype(dtype), op=f"{MARKUP}.{number}")
    return daemon


@pytest.fixture
def asked(recorded: Daemon, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("PATH", f"{BIN_DIR}:{os.environ['PATH']}")
    with query.connect(recorded.endpoint) as asked:
        yield asked


def check_columns(daemon: Daemon, frame: pd.DataFrame, *command: str) -> None:
    """Checks that msitctl has columns of these names, with the same cells."""
    text = daemon.ctl(*command).stdout
    heading = text.split("\n\n")[-1].splitlines()[0].split()
    names = list(frame.columns)
    assert [name for name in names if name in heading] == heading
    text = daemon.ctl(*command, "--columns", ",".join(names), "-o", "csv").stdout
    lines = list(csv.DictReader(io.StringIO(text)))
    assert list(lines[0]) == names
    for name in ("op", "io/index", "dtype", "verdict", "reason", "name", "state"):
        if name in names:
            shown = [str(cell).lower() for cell in frame[name]]
            assert shown == [line[name].lower() for line in lines], name
    for name in ("row", "rank", "nl2", "min", "nan_count", "tensors", "fail"):
        if name in names:
            printed = [float(line[name]) for line in lines]
            assert frame[name].tolist() == printed, name


def test_tables_have_the_columns_of_msitctl(
    recorded: Daemon, asked: query.Connection
) -> None:
    done = asked.comparisons.run("golden", "bf16")
    rows = asked.comparisons.rows(done).to_pandas()
    check_columns(recorded, rows, "compare", "rows", done.name)
    assert rows["dtype"].tolist() == ["float32/bfloat16"] * 30
    check_columns(recorded, asked.comparisons.list().to_pandas(), "compare", "list")
    check_columns(recorded, asked.runs.list().to_pandas(), "run", "list")
    tensors = asked.tensors.list("golden").to_pandas()
    check_columns(recorded, tensors, "tensor", "list", "--run", "golden")
    wide = asked.comparisons.rows(done).to_pandas(all_columns=True)
    assert len(wide.columns) > 80 and "golden.dtype" in wide.columns


def test_a_comparison_is_shown_as_msitctl_prints_it(
    recorded: Daemon, asked: query.Connection
) -> None:
    done = asked.comparisons.run("golden", "bf16")
    printed = recorded.ctl("compare", "get", done.name).stdout
    sentence = repr(done).splitlines()[0]
    assert sentence == printed.splitlines()[0]
    assert "10 of 30 tensors fail" in sentence
    page: str = done._repr_html_()  # type: ignore[attr-defined]
    assert "&lt;b onclick=" in page and "<b" not in page
    page = asked.comparisons.rows(done)._repr_html_()
    assert "20 of 30 rows are shown (10 more)" in page
    assert page.count("<tr>") == 21 and "<b" not in page
    # The metrics of a single row are the default metrics of the daemon.
    row = done.first_divergence
    table = asked.node.capabilities().metric_table
    default = [metric.name for metric in table if metric.in_default_columns]
    assert all(f", {name}=" in repr(row) for name in default if name in row.metrics)


def test_names_and_reports_are_those_of_msitctl(
    recorded: Daemon, asked: query.Connection, tmp_path: Path
) -> None:
    first = asked.comparisons.run("golden", "bf16")
    second = asked.comparisons.run("bf16", "golden")
    assert asked.comparisons.get("c-1") == first
    assert asked.comparisons.get("latest") == second
    assert asked.comparisons.get(-2) == first
    page = tmp_path / "report.html"
    asked.comparisons.report("latest", page)
    assert "</html>" in page.read_text()
    rows = tmp_path / "rows"
    asked.comparisons.report(first, rows, "jsonl", verdicts="fail")
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [line.get("verdict") for line in lines[1:]] == ["FAIL"] * 10
    printed = tmp_path / "printed"
    recorded.ctl(
        *("compare", "report", first.name, "--verdict", "fail"),
        *("--format", "jsonl", "--out", str(printed)),
        expect=0,
    )
    assert rows.read_bytes() == printed.read_bytes()
    with pytest.raises(ValueError, match="the file name must end in"):
        asked.comparisons.report(first, tmp_path / "report.txt")
    with pytest.raises(OSError, match="nowhere"):
        asked.comparisons.report(first, tmp_path / "nowhere" / "x.html")
    with pytest.raises(query.QueryError) as caught:
        asked.comparisons.report("c-99", page)
    assert caught.value.code == "NOT_FOUND"
