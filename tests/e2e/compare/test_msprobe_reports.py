"""The report of msprobe, compared with those in tests/golden/msprobe_reports, which
`msprobe compare` wrote for the same dumps.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from report_pairs import (
    CASES,
    DIFFERENT_VALUES,
    Data,
    arguments,
    differences,
    rows_of,
    tensor,
    value,
    write_dump,
)

from daemon import ROOT, Daemon

GOLDEN = ROOT / "tests/golden/msprobe_reports"

# Pairs of DIFFERENT_VALUES that pass in msprobe, and those that are equal numbers.
SAME = [
    (value("float", 0.0), value("float", -0.0)),
    (value("int", 5), value("int32", 5)),
]
EQUAL = [
    *SAME,
    (value("int", 2), value("float", 2.0)),
    (value("int", 1), value("bool", True)),
]
CHECKED = ("crc32", "xor")


def import_pair(daemon: Daemon, folder: Path, case: str) -> None:
    """Imports both dumps of a case, as the runs g and t."""
    mode, golden, target = CASES[case]
    for run, data in (("g", golden), ("t", target)):
        write_dump(folder / run, mode, data)
        daemon.ctl("run", "import", str(folder / run), "--run", run)


def compare(daemon: Daemon, *flags: str) -> dict[str, Any]:
    """Compares the runs g and t."""
    daemon.ctl("compare", "run", "g", "t", "--rows", "none", *flags, expect=None)
    got = daemon.ctl("-o", "json", "compare", "get", "latest", expect=None)
    return json.loads(got.stdout)


def report(daemon: Daemon, mode: str, *flags: str) -> str:
    # The exit code is 4 if a row could not be compared.
    return daemon.ctl(
        *("compare", "report", "latest", "--format", "msprobe", "--mode", mode),
        *flags,
        expect=None,
    ).stdout


@pytest.mark.parametrize("case", CASES)
def test_reports_are_those_of_msprobe(
    daemon: Daemon, tmp_path: Path, case: str
) -> None:
    import_pair(daemon, tmp_path, case)
    compare(daemon, "--preset", "msprobe", "--kind", "all")
    ours = report(daemon, CASES[case][0], "--compat")
    found = differences(ours, (GOLDEN / f"{case}.csv").read_text())
    assert not found, "\n".join(found)


def test_values_that_differ_do_not_pass(daemon: Daemon, tmp_path: Path) -> None:
    """Each of them is a failure, and none passes in the default report."""
    import_pair(daemon, tmp_path, "different_values.summary")
    comparison = compare(daemon, "--preset", "msprobe", "--kind", "all")
    # Each pair is an argument twice.
    assert int(comparison["fail_count"]) == 2 * (len(DIFFERENT_VALUES) - len(EQUAL))
    rows = rows_of(report(daemon, "summary"))
    for i, pair in enumerate(DIFFERENT_VALUES):
        result = rows[f"Torch.f{i}.0.forward.input.1"]["Result"]
        assert (result == "pass") == (pair in SAME), (pair, result)


def test_integers_and_single_elements_are_judged_by_their_difference(
    daemon: Daemon, tmp_path: Path
) -> None:
    """By cosine, 2 and 3 are equal."""
    for run, number in (("g", 2), ("t", 3)):
        data: Data = {}
        for kind in ("int64", "float32"):
            for shape in ([], [1], [3]):
                leaf = tensor(dtype=f"torch.{kind}", shape=tuple(shape))
                leaf |= dict.fromkeys(("Max", "Min"), number)
                data[f"Torch.{kind}{len(data)}.0.forward"] = arguments(output=leaf)
        write_dump(tmp_path / run, "summary", data)
        daemon.ctl("run", "import", str(tmp_path / run), "--run", run)
    comparison = compare(daemon, "--preset", "msprobe")
    assert int(comparison["pass_count"]) == 0, comparison


def test_values_that_were_not_compared_are_noted(
    daemon: Daemon, tmp_path: Path
) -> None:
    import_pair(daemon, tmp_path, "places.summary")
    compare(daemon, "--preset", "msprobe")
    told = daemon.ctl(
        *("compare", "report", "latest", "--format", "msprobe", "--mode", "summary"),
        expect=None,
    ).stderr
    assert "the report lacks rows that msprobe has" in told
    assert "values (use --kind all)" in told


@pytest.mark.parametrize("case", ["checksums.md5", "xor.md5"])
@pytest.mark.parametrize("preset", [(), ("--preset", "msprobe")])
def test_runs_with_other_checksums_do_not_pass(
    daemon: Daemon, tmp_path: Path, case: str, preset: tuple[str, ...]
) -> None:
    import_pair(daemon, tmp_path, case)
    compare(daemon, *preset)
    listed = daemon.ctl("-o", "json", "compare", "rows", "latest", expect=None)
    rows = json.loads(listed.stdout)["rows"]
    results = rows_of(report(daemon, "md5"))
    for row in rows:
        golden, target = (
            {k: v for k, v in json.loads(row[side]["value"]).items() if k in CHECKED}
            for side in ("golden", "target")
        )
        if golden.keys() == target.keys() and golden != target:
            assert row["verdict"] != "PASS", row
            side = row["io"].removeprefix("IO_").lower()
            name = f"{row['op']}.0.forward.{side}.0"
            assert results[name]["Result"] == "error", row
