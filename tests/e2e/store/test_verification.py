"""Corrupted bytes on the disk are found before they are read by a query."""

import time
from collections.abc import Callable
from typing import Any

from chunk_bytes import Chunk, Record
from scrape import values
from wire import write

from daemon import Daemon

WAIT_S = 30
FAST = ("--verify-bytes-per-s", str(1 << 30), "--verify-interval-s", "1")


def payload(i: int) -> bytes:
    return bytes([i]) * 64 + b"0123456789abcdef" * 4


def fill(daemon: Daemon, run: str) -> None:
    chunks = [
        Chunk(run, [Record(f"op.{i}", payload(i), [32])], sequence=i).pack()
        for i in range(5)
    ]
    write(daemon.channel(), run, chunks)


def verification(daemon: Daemon) -> dict[str, Any]:
    return daemon.ctl_json("node", "status").get("verification", {})


def wait_for_findings(daemon: Daemon, count: int, frames: int = 0) -> dict[str, Any]:
    deadline = time.monotonic() + WAIT_S
    while True:
        found = verification(daemon)
        numbers = [int(found.get(k, 0)) for k in ("finding_count", "frame_count")]
        if numbers[0] == count and numbers[1] >= frames:
            return found
        assert time.monotonic() < deadline, (found, daemon.log())
        time.sleep(0.1)


def test_bit_rot_is_told_until_its_run_is_deleted(
    new_daemon: Callable[[], Daemon],
) -> None:
    daemon = new_daemon()
    daemon.start(*FAST)
    fill(daemon, "r")
    assert daemon.stop() == 0
    daemon.start(*FAST)
    assert "round_end_time" in wait_for_findings(daemon, 0, frames=5)
    assert daemon.stop() == 0
    segment = daemon.spoil(payload(3))
    daemon.start(*FAST, "--metrics-listen", "127.0.0.1:0")
    found = wait_for_findings(daemon, 1)["findings"][0]
    assert found["segment"] == segment.name
    assert found["run"] == "r"
    assert not found.get("may_be_producer", False)
    assert "stored bytes went bad" in daemon.log()
    assert values(daemon)["msitd_verify_findings"] == 1
    assert "op.3" not in str(found)
    daemon.ctl("run", "delete", "r", "--yes")
    wait_for_findings(daemon, 0)


def test_nothing_is_read_if_it_is_not_to(new_daemon: Callable[[], Daemon]) -> None:
    daemon = new_daemon()
    daemon.start("--verify-bytes-per-s", "0")
    fill(daemon, "r")
    assert daemon.stop() == 0
    daemon.start("--verify-bytes-per-s", "0")
    time.sleep(1.5)
    assert int(verification(daemon).get("frame_count", 0)) == 0


def test_deleting_a_run_frees_its_bytes(daemon: Daemon) -> None:
    record = Record("op", bytes(range(256)) * 8192, [1 << 19])
    for run in ("kept", "gone"):
        chunk = Chunk(run, [record]).pack()
        write(daemon.channel(), run, [chunk])
        assert daemon.stop() == 0
        daemon.start()
    size = int(daemon.ctl_json("node", "status")["segment_size_bytes"])
    on_disk = sum(
        file.stat().st_blocks * 512 for file in daemon.data_dir.glob("segments/*.seg")
    )
    daemon.ctl("run", "delete", "gone", "--yes")
    deadline = time.monotonic() + WAIT_S
    while int(daemon.ctl_json("node", "status")["segment_size_bytes"]) > size * 0.6:
        assert time.monotonic() < deadline, daemon.log()
        time.sleep(0.1)
    left = sum(
        file.stat().st_blocks * 512 for file in daemon.data_dir.glob("segments/*.seg")
    )
    assert left <= on_disk - (2 << 20)
