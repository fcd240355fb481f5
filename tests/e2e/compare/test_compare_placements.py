"""Runs whose tensors have placements, compared without a flag."""

import os
import subprocess
import sys
from pathlib import Path

import msitd
import numpy as np
import pytest
from chunk_bytes import Chunk, Record, float32
from names import tensor_name
from wire import IngestStream, write

from daemon import Daemon

FAILED = 1
# Timeout of four processes that import torch at the same time.
TIMEOUT_S = 400


def run_ranks(daemon: Daemon, folder: Path, run: str, world: int, *extra: str) -> None:
    """Runs all ranks of tests/e2e/compare/dtensor_rank.py."""
    program = Path(__file__).parent / "dtensor_rank.py"
    rendezvous = folder / f"rendezvous-{run}"
    ranks = [
        subprocess.Popen(
            [
                sys.executable,
                program,
                daemon.endpoint,
                run,
                str(rank),
                str(world),
                rendezvous,
                *extra,
            ],
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(world)
    ]
    try:
        for rank in ranks:
            out, _ = rank.communicate(timeout=TIMEOUT_S)
            assert rank.returncode == 0, out
    finally:
        for rank in ranks:
            rank.kill()


def rows_of(daemon: Daemon, number: int) -> dict[str, dict]:
    rows = daemon.ctl_json("compare", "rows", f"c-{number:06}")["rows"]
    return {f"{row['op']} {row['io'].removeprefix('IO_')}": row for row in rows}


def layouts_of(rows: dict[str, dict]) -> dict[str, str]:
    return {name: row["target"].get("layout", "") for name, row in rows.items()}


def test_dtensors_are_compared_with_one_rank(daemon: Daemon, tmp_path: Path) -> None:
    run_ranks(daemon, tmp_path, "one", 1)
    run_ranks(daemon, tmp_path, "two", 2)
    daemon.ctl("compare", "run", "one", "two")
    rows = rows_of(daemon, 1)
    assert {row["verdict"] for row in rows.values()} == {"PASS"}
    layouts = layouts_of(rows)
    assert layouts.pop("root.up WEIGHT") == "concat(0)"
    assert layouts == {
        "root INPUT": "replicated",
        "root.up INPUT": "replicated",
        "root.up OUTPUT": "concat(1)",
        "root.act INPUT": "concat(1)",
        "root.act OUTPUT": "concat(1)",
        "root.down WEIGHT": "concat(1)",
        "root.down INPUT": "concat(1)",
        "root.down OUTPUT": "sum",
        "root.gather INPUT": "sum",
        "root.gather OUTPUT": "replicated",
        "root OUTPUT": "replicated",
        "kind.rows OUTPUT": "concat(0)",
        "kind.columns OUTPUT": "concat(1)",
        "kind.copies OUTPUT": "replicated",
        "kind.terms OUTPUT": "sum",
    }
    assert rows["root.up OUTPUT"]["target"]["ranks"] == [0, 1]
    # In the reverse direction, and without the recorded placements.
    daemon.ctl("compare", "run", "two", "one")
    daemon.ctl("compare", "run", "one", "two", "--ignore-placements", expect=FAILED)
    stored = daemon.ctl_json("compare", "get", "c-000003")["matching"]
    assert stored["ignore_placements"]
    # The recorded placement is shown.
    name = tensor_name("two", "root.up", rank=1)
    assert daemon.ctl_json("tensor", "get", name)["placement"] == "0+2/1:S(1)"
    name = tensor_name("one", "root.up")
    assert not daemon.ctl_json("tensor", "get", name).get("placement")


def test_two_dimensional_meshes_and_the_first_divergence(
    daemon: Daemon, tmp_path: Path
) -> None:
    run_ranks(daemon, tmp_path, "one", 1)
    run_ranks(daemon, tmp_path, "four", 4)
    ops = ("--ops", "root*")
    daemon.ctl("compare", "run", "one", "four", *ops)
    rows = rows_of(daemon, 1)
    assert {row["verdict"] for row in rows.values()} == {"PASS"}
    layouts = layouts_of(rows)
    assert layouts["root INPUT"] == "concat(0)"
    assert layouts["root.up WEIGHT"] == "concat(0)"
    assert layouts["root.up OUTPUT"] == "concat(0) of concat(1)"
    assert layouts["root.down OUTPUT"] == "sum of concat(0)"
    assert layouts["root.gather OUTPUT"] == "concat(0)"
    # Ranks 1 and 3 have the second half of `up`: only rank 3 is tampered with.
    run_ranks(daemon, tmp_path, "wrong", 4, "3")
    result = daemon.ctl("compare", "run", "one", "wrong", *ops, expect=FAILED)
    first = next(
        line for line in result.stdout.splitlines() if line.startswith("first div")
    )
    assert "root.up output/0" in first
    row = rows_of(daemon, 2)["root.up OUTPUT"]
    # Column 0 of the second half is column 6 of the whole; ranks 2 and 3 have
    # the last three rows.
    place = row["reason"].split("largest difference at [")[1].split("]")[0]
    line, column = map(int, place.split(","))
    assert line >= 3
    assert column == 6
    # Runs with different sharding can also be compared.
    run_ranks(daemon, tmp_path, "two", 2)
    daemon.ctl("compare", "run", "two", "four", *ops)


def record(daemon: Daemon, run: str, rank: int, world: int, **shards: object) -> None:
    """Records shards as (values, placement) by op."""
    with msitd.Client(run, rank, world, daemon.endpoint) as client:
        for op, (values, placement) in shards.items():
            array = np.asarray(values, dtype=np.float32)
            assert client.record(array, op=op, placement=placement)


def test_placements_that_lie_are_said_in_their_rows(daemon: Daemon) -> None:
    whole = [[1, 2], [3, 4]]
    record(
        daemon,
        "g",
        0,
        1,
        **{op: (whole, None) for op in ("rows", "outside", "shapes", "maximum")},
    )
    for rank in (0, 1):
        shapes = [[1, 2]] if rank == 0 else [[1, 2, 3]]
        record(
            daemon,
            "t",
            rank,
            2,
            rows=([whole[rank]], "0+2/1:S(0)"),
            outside=([whole[rank]], "0+4/1:S(0)"),
            shapes=(shapes, "0+2/1:S(0)"),
            maximum=(whole, "0+2/1:P(max)"),
        )
    daemon.ctl("compare", "run", "g", "t", expect=FAILED)
    rows = rows_of(daemon, 1)
    assert rows["rows OUTPUT"]["verdict"] == "PASS"
    outside = rows["outside OUTPUT"]
    assert outside["verdict"] == "UNMATCHED"
    assert "placement 0+4/1:S(0) goes to rank 3, the run has 2" in outside["reason"]
    shapes = rows["shapes OUTPUT"]
    assert shapes["verdict"] == "FAIL"
    assert "rank 0 has shape [1,2], rank 1 has [1,3]" in shapes["reason"]
    maximum = rows["maximum OUTPUT"]
    assert maximum["verdict"] == "SKIPPED"
    assert "placement 0+2/1:P(max): P(max) is not put together" in maximum["reason"]


def test_what_is_no_placement_is_refused(daemon: Daemon) -> None:
    bad = "0+2/1:S(-1)"
    with (
        msitd.Client("r", 0, 1, daemon.endpoint) as client,
        pytest.raises(ValueError, match="placement"),
    ):
        client.record(np.zeros(1, np.float32), op="op", placement=bad)
    # From a client that does not check placements.
    record = Record("op", float32(1), [1], placement=bad)
    stream = IngestStream(daemon.channel(), "raw")
    stream.opened()
    stream.send_chunk(Chunk("raw", [record]).pack())
    refused = stream.refused()
    assert refused.reason == "NAME_INVALID"
    assert "placement" in refused.message


def test_placements_survive_a_crash_of_the_daemon(daemon: Daemon) -> None:
    for rank in (0, 1):
        shard = Record("op", float32(rank), [1], placement="0+2/1:S(0)")
        chunk = Chunk("t", [shard], rank=rank).pack()
        write(daemon.channel(), "t", [chunk], rank=rank, world_size=2)
    write(
        daemon.channel(), "g", [Chunk("g", [Record("op", float32(0, 1), [2])]).pack()]
    )
    daemon.kill()
    daemon.start()
    daemon.ctl("compare", "run", "g", "t")
    (tensor,) = daemon.ctl_json("tensor", "list", "--run", "t", "--ranks", "1")[
        "tensors"
    ]
    assert tensor["placement"] == "0+2/1:S(0)"
