"""A damaged disk is noticed, named, and harms nothing beside it."""

import subprocess

from chunk_bytes import Chunk, Record
from names import tensor_name
from wire import write

from daemon import BIN_DIR, Daemon

DATA_LOSS_EXIT = 64 + 15
PROBLEMS_EXIT = 1
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
