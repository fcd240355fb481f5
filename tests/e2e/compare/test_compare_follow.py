"""compare run --follow supports all output formats of other lists."""

import csv
import io
import json

import pytest
from chunk_bytes import Chunk, Record, float32
from wire import write

from daemon import Daemon

FAILED, USAGE = 1, 2
TOKENS = 4


@pytest.fixture
def runs(daemon: Daemon) -> Daemon:
    """A daemon with two sealed runs, in which every token fails."""
    for run, value in (("g", 1.0), ("t", 9.0)):
        records = [
            Record("op", float32(value), [1], token=token, sequence=token)
            for token in range(TOKENS)
        ]
        write(daemon.channel(), run, [Chunk(run, records).pack()])
        daemon.ctl("run", "seal", run)
    return daemon


FOLLOW = ("compare", "run", "g", "t", "--follow")


def test_csv_has_a_heading_and_lines(runs: Daemon) -> None:
    text = runs.ctl(*FOLLOW, "-o", "csv", expect=FAILED).stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["token"] for row in rows] == ["0", "1", "2", "3"]
    assert {row["verdict"] for row in rows} == {"fail"}
    assert float(rows[0]["metrics.max_abs"]) == 8


def test_csv_is_that_of_a_comparison_that_is_not_followed(runs: Daemon) -> None:
    columns = ("-o", "csv", "--columns", "row,token,op,verdict,cosine")
    followed = runs.ctl(*FOLLOW, *columns, expect=FAILED).stdout
    assert followed == runs.ctl(*FOLLOW[:-1], *columns, expect=FAILED).stdout


def test_a_name_is_that_of_the_comparison(runs: Daemon) -> None:
    assert runs.ctl(*FOLLOW, "-o", "name", expect=FAILED).stdout == "c-000001\n"


@pytest.mark.parametrize("form", ["csv", "table", "json"])
def test_limit_counts_rows(runs: Daemon, form: str) -> None:
    flags = ("--limit", "2", "-o", form)
    if form == "table":
        flags += ("--columns", "token,verdict")
    result = runs.ctl(*FOLLOW, *flags, expect=FAILED)
    lines = result.stdout.splitlines()
    if form == "table":
        # The header of the comparison follows the rows.
        assert [line.split() for line in lines[:3]] == [
            ["token", "verdict"],
            ["0", "fail"],
            ["1", "fail"],
        ]
        assert [line.split()[:2] for line in lines[3:6]] == [
            ["t", "differs"],
            [],
            ["comparison", lines[5].split()[1]],
        ]
        assert "note: 2 of 4 rows" in result.stderr
    elif form == "csv":
        assert len(lines) == 1 + 2
    else:
        assert [json.loads(line).get("row") for line in lines] == ["0", "1", None]


def test_json_ends_with_verdict_and_counts(runs: Daemon) -> None:
    lines = runs.ctl(*FOLLOW, "-o", "json", expect=FAILED).stdout.splitlines()
    assert len(lines) == TOKENS + 1
    end = json.loads(lines[-1])
    assert end["verdict"] == "FAIL"
    assert end["comparison"]["state"] == "DONE"
    assert int(end["comparison"]["fail_count"]) == TOKENS
    # A comparison without --follow reports this, too.
    whole = runs.ctl_json(*FOLLOW[:-1], expect=FAILED)
    assert whole["verdict"] == "FAIL"
    passing = runs.ctl_json("compare", "run", "g", "g", "--rows", "none")
    assert (passing["verdict"], passing["rows"]) == ("PASS", [])


def test_a_wrong_column_is_told_before_anything_is_compared(runs: Daemon) -> None:
    result = runs.ctl(*FOLLOW, "--columns", "nonsense", expect=USAGE)
    assert "nonsense" in result.stderr
    assert runs.ctl("compare", "list", "-o", "name").stdout == ""
