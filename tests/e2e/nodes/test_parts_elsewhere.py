"""Comparisons in parts whose workers read both runs from their sources."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chunk_bytes import Chunk, Record, float32
from msitd import fleet, query
from wire import write

from daemon import BIN_DIR, Daemon

pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def _programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{BIN_DIR}:{os.environ['PATH']}")


def socket_of(daemon: Daemon) -> str:
    return f"unix:{daemon.socket_dir}/msitd.sock"


def record(daemon: Daemon, run: str, ranks: list[int], is_off: bool = False) -> None:
    for rank in ranks:
        records = [
            Record(
                f"op.{i}",
                float32(i, token, rank + 0.5 * (is_off and rank > 1 and token > 2)),
                [3],
                token=token,
                sequence=10 * token + i,
            )
            for token in range(6)
            for i in range(5)
        ]
        chunk = Chunk(run, records, rank=rank).pack()
        write(daemon.channel(), run, [chunk], rank=rank, world_size=4)
    # In a growing run, parts would read different states.
    daemon.ctl("run", "seal", run)


def rows_of(comparison: Any, asked: query.Connection) -> list[str]:
    table = asked.comparisons.rows(comparison).to_arrow(all_columns=True)
    return [repr(row) for row in table.to_pylist()]


def compare_in_parts(folder: Path, **how: Any) -> fleet.Compared:
    return fleet.compare(
        golden="g",
        target="t",
        engine="processes",
        workers=2,
        out=str(folder / "out"),
        task_groups=3,
        **how,
    )


@pytest.fixture
def one(daemon: Daemon) -> Daemon:
    """A daemon that has both runs, and their comparison."""
    record(daemon, "g", [0, 1, 2, 3])
    record(daemon, "t", [0, 1, 2, 3], is_off=True)
    return daemon


def check(one: Daemon, done: fleet.Compared) -> None:
    with query.connect(one.endpoint) as asked:
        whole = asked.comparisons.run("g", "t")
        rows = rows_of(whole, asked)
        names = asked.comparisons.rows(whole).to_arrow(all_columns=True).column_names
    cut = fleet.read_rows(done.folder).select(names)
    assert [repr(row) for row in cut.to_pylist()] == rows
    assert done.comparison.fail_count == whole.fail_count == 2 * 3 * 5
    assert done.comparison.first_divergence == whole.first_divergence
    assert done.comparison.makers == whole.makers
    assert done.comparison.golden_ranks == whole.golden_ranks


def test_workers_read_a_peer(one: Daemon, tmp_path: Path) -> None:
    place = socket_of(one)
    done = compare_in_parts(tmp_path, golden_source=place, target_source=place)
    check(one, done)
    assert done.comparison.golden_source == place


def test_run_of_the_daemon_asked_is_read_there(one: Daemon, tmp_path: Path) -> None:
    done = compare_in_parts(
        tmp_path, golden_source=socket_of(one), endpoint=socket_of(one)
    )
    check(one, done)


def test_run_that_lies_on_several_daemons(
    one: Daemon, new_daemon: Callable[[], Daemon], tmp_path: Path
) -> None:
    halves = [new_daemon() for _ in range(2)]
    for daemon, ranks in zip(halves, ([0, 1], [2, 3]), strict=True):
        daemon.start()
        record(daemon, "t", ranks, is_off=True)
    done = compare_in_parts(
        tmp_path,
        golden_source=socket_of(one),
        target_source=",".join(map(socket_of, halves)),
    )
    check(one, done)


def test_peer_that_is_gone_is_named(one: Daemon, tmp_path: Path) -> None:
    place = f"unix:{tmp_path}/nobody.sock"
    with pytest.raises(query.QueryError) as raised:
        compare_in_parts(tmp_path, golden_source=place, target_source=socket_of(one))
    assert "nobody.sock" in str(raised.value)


def test_workers_read_an_archive(one: Daemon, tmp_path: Path) -> None:
    archive = f"file://{tmp_path}/archive"
    (tmp_path / "archive").mkdir()
    one.stop()
    one.start("--archives", archive)
    for run in ("g", "t"):
        one.ctl("run", "archive", run, archive)
    done = compare_in_parts(tmp_path, golden_source=archive, target_source=archive)
    check(one, done)
    # msitctl needs no daemon for it.
    words = [BIN_DIR / "msitctl", "--endpoint", f"unix:{tmp_path}/nobody.sock"]
    words += ["compare", "run", f"{archive}/g", f"{archive}/t"]
    words += ["--engine", "processes", "--python", sys.executable]
    printed = subprocess.run(words, capture_output=True, text=True, check=False)
    assert printed.returncode == 1, printed.stderr
    assert "30 fail" in printed.stdout


def test_archive_that_is_not_there_is_named(tmp_path: Path) -> None:
    archive = f"file://{tmp_path}/archive"
    with pytest.raises(query.QueryError) as raised:
        compare_in_parts(tmp_path, golden_source=archive, target_source=archive)
    assert "archive" in str(raised.value)
