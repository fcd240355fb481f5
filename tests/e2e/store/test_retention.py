"""Bytes are deleted as configured; facts about them stay."""

import time
from typing import Any

from chunk_bytes import Chunk, Record
from names import tensor_name
from wire import write

from daemon import Daemon

MIB = 1 << 20
COUNT = 48
WAIT_S = 60
EXPIRED_EXIT = 73


def payload(index: int) -> bytes:
    return bytes([index % 251]) * MIB


def fill(daemon: Daemon, run: str) -> None:
    """Writes tensors of 1 MiB, three segments of minimum size."""
    chunks = []
    for i in range(COUNT):
        record = Record(f"op.{i}", payload(i), [MIB // 4], sequence=i)
        chunks.append(Chunk(run, [record], sequence=i).pack())
    write(daemon.channel(), run, chunks)


def expired(daemon: Daemon, run: str) -> int:
    counters = daemon.ctl_json("run", "get", run)["counters"]
    return int(counters.get("expired_size_bytes", 0))


def node_status(daemon: Daemon) -> dict[str, Any]:
    return daemon.ctl_json("node", "status")


def wait_for(daemon: Daemon, run: str, minimum: int) -> int:
    deadline = time.monotonic() + WAIT_S
    while (gone := expired(daemon, run)) < minimum:
        assert time.monotonic() < deadline, daemon.log()
        time.sleep(0.05)
    return gone


def read(daemon: Daemon, run: str, index: int, expect: int) -> Any:
    name = tensor_name(run, f"op.{index}")
    args = ("tensor", "read", name, "--out", "-", "--format", "raw")
    return daemon.ctl(*args, expect=expect, binary=True)


def test_quota_takes_the_oldest_bytes_and_leaves_their_summaries(
    daemon: Daemon,
) -> None:
    assert daemon.stop() == 0
    daemon.start("--segment-bytes", str(16 * MIB))
    for run in ("r", "pinned"):
        fill(daemon, run)
    before = int(daemon.ctl_json("node", "status")["segment_size_bytes"])
    daemon.ctl("run", "pin", "pinned")
    for run in ("r", "pinned"):
        daemon.ctl("run", "retain", run, "--bytes", "20MB")
    gone = wait_for(daemon, "r", (COUNT - 20) * MIB)
    assert gone == (COUNT - 20) * MIB
    for _ in range(2):
        assert b"TENSOR_EXPIRED" in read(daemon, "r", 0, EXPIRED_EXIT).stderr
        assert read(daemon, "r", COUNT - 1, 0).stdout == payload(COUNT - 1)
        assert read(daemon, "pinned", 0, 0).stdout == payload(0)
        tensor = daemon.ctl_json("tensor", "get", tensor_name("r", "op.0"))
        assert int(tensor["summary"]["count"]) == MIB // 4
        assert expired(daemon, "r") == gone
        assert expired(daemon, "pinned") == 0
        status = daemon.ctl_json("node", "status")
        assert int(status["segment_size_bytes"]) <= before - gone + MIB
        daemon.kill()
        daemon.start("--segment-bytes", str(16 * MIB))
    daemon.ctl("run", "unpin", "pinned")
    wait_for(daemon, "pinned", (COUNT - 20) * MIB)


def test_limits_of_the_configuration_count_for_every_run(daemon: Daemon) -> None:
    fill(daemon, "r")
    assert daemon.stop() == 0
    daemon.start("--retain-disk-bytes", str(10 * MIB))
    wait_for(daemon, "r", (COUNT - 9) * MIB)
    deadline = time.monotonic() + WAIT_S
    # Deleted bytes free their space a moment later.
    while int((status := node_status(daemon))["segment_size_bytes"]) > 10 * MIB:
        assert time.monotonic() < deadline, status
        time.sleep(0.05)
    assert int(status.get("excess_size_bytes", 0)) == 0
    assert read(daemon, "r", COUNT - 1, 0).stdout == payload(COUNT - 1)
