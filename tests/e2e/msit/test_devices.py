"""Several devices in dumps of TorchAir without folders of ranks."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path

import torchair_dump
from msit_command import log_of, msit

from daemon import Daemon

TOKENS = (0, 1)
USAGE = 2


def seed(place: int, token: int) -> int:
    """Returns a seed, so that each device has different values."""
    return 100 * place + token


def write_ge(
    root: Path,
    devices: Sequence[int],
    errors: Sequence[float] = (),
    *,
    is_fused: bool = True,
) -> Path:
    dump = root / "dump_20250901_120000"
    for place, device in enumerate(devices):
        torchair_dump.write_graph(dump, rank=place + 8)
        for token in TOKENS:
            folder = dump / f"20250901120005/{device}/graph_1_0/1/{token}"
            torchair_dump.write_ge(
                folder,
                seed(place, token),
                is_fused=is_fused,
                error=errors[place] if errors else 0,
            )
    return dump


def write_fx(root: Path, count: int) -> Path:
    """Writes the dumps of `count` processes, one after the other, as their
    graphs were built.
    """
    for place in range(count):
        for token in TOKENS:
            folder = root / f"data_dump/{token + 1}/gm_2025090112000000000{place}_dump"
            torchair_dump.write_fx(folder, seed(place, token))
    return root


def compare(
    folder: Path, golden: Path, my: Path, *flags: str
) -> tuple[dict[str, list[dict[str, str]]], list[str]]:
    """Returns the rows of each report, by the part of its name before the time."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    done = msit(
        folder,
        *("llm", "compare", "-gp", str(golden), "-mp", str(my), "-o", "out", *flags),
        environment={"TMPDIR": str(temporary)},
    )
    assert not os.listdir(temporary)
    out = {}
    for number, report in enumerate(sorted((folder / "out").glob("*.csv"))):
        name = report.stem.removeprefix("msit_cmp_report_").split("2")[0]
        rows = list(csv.DictReader(report.read_text().splitlines()))
        out[name or f"report {number}"] = rows
        report.unlink()
    return out, [f"{level} {text}" for _, level, text in log_of(done.stderr)]


def errors(rows: list[dict[str, str]]) -> set[str]:
    return {row["max_absolute_error"] for row in rows}


def test_devices_stand_beside_the_graphs_of_their_processes(tmp_path: Path) -> None:
    golden = write_fx(tmp_path / "fx", 2)
    # Sorted as texts, 10 would precede 2.
    my = write_ge(tmp_path, (2, 10), (0, 0.5))
    reports, log = compare(tmp_path, golden, my)
    assert set(reports) == {"rank0_", "rank1_"}
    assert errors(reports["rank0_"]) == {"0.0"}
    wrong = [r for r in reports["rank1_"] if r["max_absolute_error"] != "0.0"]
    assert {r["token_id"] for r in wrong} == {"0", "1"} and len(wrong) == 2
    assert all("/10/" in r["my_data_path"] for r in reports["rank1_"])
    assert {len(rows) for rows in reports.values()} == {26}
    assert not [line for line in log if line.startswith("WARNING")], log
    reports, _ = compare(tmp_path, golden, my, "--compat")
    assert {len(rows) for rows in reports.values()} == {26}


def test_devices_of_ge_stand_beside_those_of_ge(tmp_path: Path) -> None:
    golden = write_ge(tmp_path / "golden", (0, 1), is_fused=False)
    my = write_ge(tmp_path / "my", (6, 7), (0, 0.5))
    reports, _ = compare(tmp_path, golden, my)
    assert set(reports) == {"rank0_", "rank1_"}
    assert errors(reports["rank0_"]) == {"0.0"}
    assert errors(reports["rank1_"]) != {"0.0"}


def test_other_numbers_of_devices_are_said(tmp_path: Path) -> None:
    golden = write_fx(tmp_path / "fx", 2)
    my = write_ge(tmp_path, (0, 1, 2))
    _, log = compare(tmp_path, golden, my)
    assert any("3 devices, and" in line and "2 graphs of FX" in line for line in log)


def test_a_device_that_the_golden_side_lacks_is_said(tmp_path: Path) -> None:
    golden = write_ge(tmp_path / "golden", (0,), is_fused=False)
    my = write_ge(tmp_path / "my", (0, 1))
    reports, log = compare(tmp_path, golden, my)
    assert any(errors(rows) == {"0.0"} for rows in reports.values())
    assert any(
        "tensors unmatched" in line for line in log if line.startswith("WARNING")
    )


def test_imported_devices_are_ranks(daemon: Daemon, tmp_path: Path) -> None:
    golden = write_fx(tmp_path / "fx", 2)
    my = write_ge(tmp_path, (2, 10), (0, 0.5))
    for name, tree in (("fx", golden), ("ge", my)):
        daemon.ctl("run", "import", str(tree), "--run", name, "--device-ranks")
        listed = daemon.ctl_json("tensor", "list", "--run", name)["tensors"]
        assert {int(one.get("rank", 0)) for one in listed} == {0, 1}
    daemon.ctl("compare", "run", "fx", "ge", expect=1)
    listed = daemon.ctl_json("compare", "rows", "c-000001", "--verdict", "fail")
    assert {(int(row.get("rank", 0)), row["op"]) for row in listed["rows"]} == {
        (1, "add-aten.add.Tensor")
    }
    # Without the flag, everything belongs to rank 0.
    daemon.ctl("run", "import", str(my), "--run", "one")
    listed = daemon.ctl_json("tensor", "list", "--run", "one")["tensors"]
    assert {int(one.get("rank", 0)) for one in listed} == {0}
    assert {one["device"] for one in listed} == {"npu:2", "npu:10"}
