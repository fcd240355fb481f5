"""A disk that becomes full, to the last byte, under the real daemon."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import msitd
import numpy as np
import pytest
from chunk_bytes import Chunk, Record
from msitd.v1.ingest_service_pb2 import IF_EXISTS_APPEND
from names import tensor_name
from small_disk import MIB, SmallDisk
from wire import IngestStream, write

from daemon import Daemon

DISK_BYTES = 256 * MIB
SMALL_COUNT = 80_000
CHUNK_RECORDS = 1000
WAIT_S = 60
# The CLI's exit code for RESOURCE_EXHAUSTED.
EXHAUSTED = 72


@pytest.fixture
def new_disk(tmp_path: Path) -> Iterator[Callable[..., SmallDisk]]:
    """Returns a function that creates a disk, which is removed after the test."""
    made: list[SmallDisk] = []

    def make(kind: str, size: int = DISK_BYTES) -> SmallDisk:
        made.append(SmallDisk(tmp_path, kind, size))
        return made[-1]

    yield make
    for disk in made:
        disk.unmount()


@pytest.fixture(params=["ext4", "tmpfs"])
def disk(
    request: pytest.FixtureRequest, new_disk: Callable[..., SmallDisk]
) -> SmallDisk:
    return new_disk(request.param)


@pytest.fixture
def daemon_on(disk: SmallDisk, new_daemon: Callable[[], Daemon]) -> Iterator[Daemon]:
    """A running daemon with its data on the small disk."""
    daemon = new_daemon()
    daemon.data_dir = disk.path / "data"
    # Either the whole index stays in memory, or most of it is on the disk.
    buffer = 32 * MIB if disk.kind == "ext4" else MIB
    # Runs share few segments, which are deleted with the last of their runs.
    daemon.start(
        "--index-write-buffer-bytes", str(buffer), "--segment-bytes", str(16 * MIB)
    )
    yield daemon
    # Before the disk is removed.
    daemon.clean()


def small_chunks(run: str) -> list[bytes]:
    """Returns SMALL_COUNT tensors of 64 bytes, whose bytes are their number."""
    chunks = []
    for sequence in range(SMALL_COUNT // CHUNK_RECORDS):
        first = sequence * CHUNK_RECORDS
        records = [
            Record(f"op.{i % 100}", small_bytes(i), [16], token=i // 100, sequence=i)
            for i in range(first, first + CHUNK_RECORDS)
        ]
        chunks.append(Chunk(run, records, sequence=sequence).pack())
    return chunks


def small_bytes(i: int) -> bytes:
    return i.to_bytes(4, "little") * 16


def write_until_refused(daemon: Daemon, run: str) -> int:
    """Sends large tensors until the daemon reports that its disk is full."""
    stream = IngestStream(daemon.channel(), run)
    stream.opened()
    for i in range(DISK_BYTES // MIB):
        record = Record(f"op.{i}", bytes([i % 251]) * MIB, [MIB // 4], sequence=i)
        stream.send_chunk(Chunk(run, [record], sequence=i).pack())
    end = stream.refused()
    assert end.code == grpc.StatusCode.RESOURCE_EXHAUSTED, end
    assert end.reason == "DISK_FULL", end
    return stream.committed


def counted(daemon: Daemon, run: str) -> int:
    counters = daemon.ctl_json("run", "get", run)["counters"]
    return int(counters.get("tensor_count", 0))


def read(daemon: Daemon, name: str) -> bytes:
    args = ("tensor", "read", name, "--out", "-", "--format", "raw")
    return daemon.ctl(*args, binary=True).stdout


def check_small(daemon: Daemon, run: str) -> None:
    assert counted(daemon, run) == SMALL_COUNT
    for i in (0, 1, SMALL_COUNT // 2, SMALL_COUNT - 1):
        name = tensor_name(run, f"op.{i % 100}", token=i // 100)
        assert read(daemon, name) == small_bytes(i)


def wait_until_ok(daemon: Daemon) -> None:
    deadline = time.monotonic() + WAIT_S
    while daemon.ctl_json("node", "status")["storage_state"] != "OK":
        assert time.monotonic() < deadline, daemon.log()
        time.sleep(0.05)


def test_small_tensors_then_a_run_that_fills_the_disk(daemon_on: Daemon) -> None:
    daemon = daemon_on
    write(daemon.channel(), "small", small_chunks("small"))
    committed = write_until_refused(daemon, "large")
    assert committed > 50
    assert daemon.ctl_json("node", "status")["storage_state"] == "FULL"
    check_small(daemon, "small")
    assert counted(daemon, "large") >= committed
    daemon.kill()
    daemon.start()
    check_small(daemon, "small")
    last = committed - 1
    assert read(daemon, tensor_name("large", f"op.{last}")) == bytes([last % 251]) * MIB
    daemon.ctl("run", "delete", "large", "--yes")
    wait_until_ok(daemon)
    write(daemon.channel(), "again", small_chunks("again"))
    check_small(daemon, "again")


def test_another_process_takes_the_last_byte(
    daemon_on: Daemon, disk: SmallDisk
) -> None:
    daemon = daemon_on
    write(daemon.channel(), "small", small_chunks("small"))
    disk.fill()
    assert disk.free() == 0
    # New data is refused, but existing data can be queried and sealed.
    daemon.ctl("run", "create", "more", expect=EXHAUSTED)
    stream = IngestStream(
        daemon.channel(), "small", stream_id=1, if_exists=IF_EXISTS_APPEND
    )
    # The position at which it continues the run could not be stored.
    assert stream.refused().reason == "DISK_FULL"
    check_small(daemon, "small")
    daemon.ctl("run", "seal", "small")
    # Index data in memory is still written to the disk.
    assert daemon.stop() == 0
    disk.fill()
    daemon.start()
    check_small(daemon, "small")
    daemon.kill()
    disk.fill()
    daemon.start()
    check_small(daemon, "small")
    daemon.ctl("run", "delete", "small", "--yes")
    assert disk.free() > 0
    disk.empty()
    wait_until_ok(daemon)
    write(daemon.channel(), "again", small_chunks("again"))
    check_small(daemon, "again")


def test_a_client_that_opens_waits_for_room(daemon_on: Daemon, disk: SmallDisk) -> None:
    daemon = daemon_on
    disk.fill()
    daemon.ctl("run", "create", "none", expect=EXHAUSTED)
    # The daemon refuses at once; the state may be temporary, so the client
    # retries.
    begin = time.monotonic()
    with pytest.raises(msitd.MsitError, match="DISK_FULL"):
        msitd.Client("run", endpoint=daemon.endpoint, open_timeout=2)
    assert 1.9 < time.monotonic() - begin < 6
    timer = threading.Timer(1, disk.empty)
    timer.start()
    begin = time.monotonic()
    with msitd.Client("run", endpoint=daemon.endpoint, open_timeout=30) as client:
        taken = time.monotonic() - begin
        client.record(np.arange(8, dtype=np.float32), op="x")
    timer.join()
    assert 0.9 < taken < 15
    assert counted(daemon, "run") == 1
