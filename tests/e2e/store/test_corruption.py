"""Disk corruption is detected, named, and affects no other data."""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from chunk_bytes import Chunk, Record
from names import tensor_name
from wire import write

from daemon import BIN_DIR, Daemon

DATA_LOSS_EXIT = 64 + 15
PROBLEMS_EXIT = 1
CANNOT_OPEN_EXIT = 3
PARTIAL_EXIT = 4
MARK = b"0123456789abcdef" * 4


def payload(i: int) -> bytes:
    return bytes([i]) * 64 + MARK


def fill(daemon: Daemon) -> None:
    chunks = []
    for i in range(5):
        record = Record(f"op.{i}", payload(i), [32], sequence=i)
        chunks.append(Chunk("r", [record], sequence=i).pack())
    write(daemon.channel(), "r", chunks)


def inspect(daemon: Daemon, *args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [BIN_DIR / "msitd-inspect", "--data-dir", str(daemon.data_dir), *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_inspect_verifies_a_good_store(daemon: Daemon) -> None:
    fill(daemon)
    assert daemon.stop() == 0
    result = inspect(daemon, "verify")
    assert result.returncode == 0, result.stdout + result.stderr


def test_spoiled_payload_is_data_loss_for_that_tensor_only(daemon: Daemon) -> None:
    fill(daemon)
    assert daemon.stop() == 0
    daemon.spoil(payload(3))
    result = inspect(daemon, "verify")
    assert result.returncode == PROBLEMS_EXIT
    assert "FRAME_CORRUPT" in result.stdout or "hash" in result.stdout
    daemon.start()
    for i in range(5):
        args = ("tensor", "read", tensor_name("r", f"op.{i}"), "--out", "-")
        expected = DATA_LOSS_EXIT if i == 3 else 0
        read = daemon.ctl(*args, "--format", "raw", expect=expected, binary=True)
        if i == 3:
            assert b"FRAME_CORRUPT" in read.stderr or b"hash" in read.stderr
        else:
            assert read.stdout == payload(i)
    # Summaries outlive the bytes.
    tensor = daemon.ctl_json("tensor", "get", tensor_name("r", "op.3"))
    assert int(tensor["summary"]["count"]) == 32


def test_comparison_goes_on_past_a_spoiled_tensor(daemon: Daemon) -> None:
    fill(daemon)
    other = []
    for i in range(5):
        data = payload(i)[:-1] + b"\0"
        record = Record(f"op.{i}", data, [32], sequence=i)
        other.append(Chunk("other", [record], sequence=i).pack())
    write(daemon.channel(), "other", other)
    assert daemon.stop() == 0
    daemon.spoil(payload(3))
    daemon.start()
    daemon.ctl("compare", "run", "r", "other", expect=None)
    rows = daemon.ctl_json("compare", "rows", "c-000001")["rows"]
    verdicts = {row["op"]: row["verdict"] for row in rows}
    assert len(verdicts) == 5
    assert verdicts["op.3"] in ("SKIPPED", "FAIL")
    assert verdicts["op.4"] in ("PASS", "FAIL")


def test_spoiled_head_is_found_by_verify(daemon: Daemon) -> None:
    fill(daemon)
    assert daemon.stop() == 0
    daemon.spoil(b"op.2")
    assert inspect(daemon, "verify").returncode == PROBLEMS_EXIT


def lose_current(index: Path) -> None:
    (index / "CURRENT").unlink()


def cut_manifest(index: Path) -> None:
    for path in index.glob("MANIFEST-*"):
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size // 2)


def lose_a_table(index: Path) -> None:
    min(index.glob("*.sst")).unlink()


def lose_everything(index: Path) -> None:
    shutil.rmtree(index)


def two_runs(daemon: Daemon) -> None:
    """Fills `r` and `other`, which differ in one byte of each tensor."""
    fill(daemon)
    chunks = []
    for i in range(5):
        record = Record(f"op.{i}", payload(i)[:-1] + b"\0", [32], sequence=i)
        chunks.append(Chunk("other", [record], sequence=i).pack())
    write(daemon.channel(), "other", chunks)


def verdicts(daemon: Daemon, comparison: str) -> dict[str, str]:
    rows = daemon.ctl_json("compare", "rows", comparison)["rows"]
    return {row["op"]: row["verdict"] for row in rows}


@pytest.mark.parametrize(
    "damage", [lose_current, cut_manifest, lose_a_table, lose_everything]
)
def test_a_damaged_index_is_rebuilt(
    daemon: Daemon, damage: Callable[[Path], None]
) -> None:
    two_runs(daemon)
    daemon.ctl("run", "seal", "r")
    daemon.ctl("compare", "run", "r", "other", expect=1)
    before = verdicts(daemon, "c-000001")
    names = [run["name"] for run in daemon.ctl_json("run", "list")["runs"]]
    assert daemon.stop() == 0
    index = daemon.data_dir / "index"
    damage(index)
    # A truncated manifest may also look like an older, valid one.
    if damage is not cut_manifest:
        process = daemon.spawn()
        assert process.wait(30) != 0
        assert f"msitd-inspect rebuild --data-dir {daemon.data_dir}" in daemon.log()
        daemon.process = None
    result = inspect(daemon, "rebuild")
    complete = damage is lose_current
    expected = 0 if complete else PROBLEMS_EXIT
    assert result.returncode == expected, result.stdout + result.stderr
    assert "problems=0" in result.stdout
    assert ("note:" in result.stdout) != complete
    daemon.start()
    runs = daemon.ctl_json("run", "list")["runs"]
    assert [run["name"] for run in runs] == names
    for i in range(5):
        args = ("tensor", "read", tensor_name("r", f"op.{i}"), "--out", "-")
        read = daemon.ctl(*args, "--format", "raw", binary=True)
        assert read.stdout == payload(i)
    daemon.ctl("compare", "run", "r", "other", expect=1)
    comparisons = daemon.ctl_json("compare", "list")["comparisons"]
    newest = max(one["name"] for one in comparisons).removeprefix("comparisons/")
    assert verdicts(daemon, newest) == before
    if complete:
        assert verdicts(daemon, "c-000001") == before
    assert daemon.stop() == 0
    assert inspect(daemon, "verify").returncode == 0
    # Intact data is rebuilt unchanged.
    assert inspect(daemon, "rebuild").returncode == 0


def test_rebuild_leaves_a_store_in_use_alone(daemon: Daemon) -> None:
    fill(daemon)
    result = inspect(daemon, "rebuild")
    assert result.returncode == CANNOT_OPEN_EXIT
    assert "is in use by another process" in result.stderr
    assert not (daemon.data_dir / "index.rebuilding").exists()


def test_a_rebuild_that_was_killed_can_be_run_again(daemon: Daemon) -> None:
    two_runs(daemon)
    assert daemon.stop() == 0
    cut_manifest(daemon.data_dir / "index")
    command = [BIN_DIR / "msitd-inspect", "rebuild", "--data-dir", daemon.data_dir]
    # At first it has hardly begun; in the end it is complete.
    for tenth in range(8):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        time.sleep(0.02 + 0.1 * tenth)
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        assert (daemon.data_dir / "index").exists()
    assert inspect(daemon, "rebuild").returncode in {0, PROBLEMS_EXIT}
    assert not (daemon.data_dir / "index.rebuilding").exists()
    assert not (daemon.data_dir / "index.rebuilt").exists()
    daemon.start()
    for run, changed in (("r", False), ("other", True)):
        for i in range(5):
            args = ("tensor", "read", tensor_name(run, f"op.{i}"), "--out", "-")
            read = daemon.ctl(*args, "--format", "raw", binary=True)
            expected = payload(i)[:-1] + b"\0" if changed else payload(i)
            assert read.stdout == expected


def test_nothing_is_lost_if_a_segment_is_missing_after_a_crash(daemon: Daemon) -> None:
    fill(daemon)
    daemon.kill()
    segment = daemon.data_dir / "segments" / "00000001.seg"
    hidden = daemon.data_dir.parent / "hidden.seg"
    segment.rename(hidden)
    daemon.start()
    status = daemon.ctl_json("node", "status")
    assert status["storage_state"] == "FAILED", status
    assert segment.name in status["storage_error"], status
    # Both sides lack the same, so nothing that is there differs.
    same = daemon.ctl("compare", "run", "r", "r", expect=PARTIAL_EXIT)
    assert "may lack tensors" in same.stdout + same.stderr
    with pytest.raises(grpc.RpcError) as refused:
        write(daemon.channel(), "other", [])
    assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
    assert not segment.exists()
    hidden.rename(segment)
    deadline = time.monotonic() + 60
    while daemon.ctl_json("node", "status")["storage_state"] != "OK":
        assert time.monotonic() < deadline
        time.sleep(0.2)
    daemon.ctl("compare", "run", "r", "r")
    for i in range(5):
        args = ("tensor", "read", tensor_name("r", f"op.{i}"), "--out", "-")
        read = daemon.ctl(*args, "--format", "raw", binary=True)
        assert read.stdout == payload(i)
    record = Record("op", payload(5), [32])
    write(daemon.channel(), "other", [Chunk("other", [record]).pack()])


@pytest.mark.parametrize("damage", [lose_current, cut_manifest, lose_everything])
def test_a_damaged_store_is_read_as_it_is(
    daemon: Daemon, damage: Callable[[Path], None]
) -> None:
    two_runs(daemon)
    daemon.ctl("compare", "run", "r", "other", expect=1)
    before = verdicts(daemon, "c-000001")
    assert daemon.stop() == 0
    damage(daemon.data_dir / "index")
    store = {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in daemon.data_dir.rglob("*")
        if path.is_file()
    }
    daemon.start("--recover")
    status = daemon.ctl_json("node", "status")
    assert status["storage_state"] == "DEGRADED"
    assert "--recover" in status["storage_error"]
    for i in range(5):
        args = ("tensor", "read", tensor_name("r", f"op.{i}"), "--out", "-")
        read = daemon.ctl(*args, "--format", "raw", binary=True)
        assert read.stdout == payload(i)
    daemon.ctl("compare", "run", "r", "other", expect=1)
    comparisons = daemon.ctl_json("compare", "list")["comparisons"]
    newest = max(one["name"] for one in comparisons).removeprefix("comparisons/")
    assert verdicts(daemon, newest) == before
    for command in (["run", "seal", "r"], ["run", "delete", "r", "--yes"]):
        result = daemon.ctl(*command, expect=None)
        assert result.returncode != 0
        assert "--recover" in result.stderr
    with pytest.raises(grpc.RpcError, match="--recover"):
        write(
            daemon.channel(), "new", [Chunk("new", [Record("op", MARK, [16])]).pack()]
        )
    assert "msitd-inspect rebuild" in daemon.log()
    assert daemon.stop() == 0
    assert store == {
        path: (path.stat().st_mtime_ns, path.read_bytes())
        for path in daemon.data_dir.rglob("*")
        if path.is_file()
    }
