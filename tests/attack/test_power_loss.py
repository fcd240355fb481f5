"""Power loss, simulated by a copy of the block device that is taken without a sync."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chunk_bytes import Chunk, Record
from names import tensor_name
from small_disk import MIB, SmallDisk
from wire import IngestStream, write

from daemon import Daemon

DISK_BYTES = 64 * MIB
CHUNKS = 5
HEADER_BYTES = 4096
# Sharing would sync the files that it reads, a moment after the start.
FLAGS = ("--direct-io=false", "--share-equal-bytes=false")


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[list[SmallDisk]]:
    """Disks that are removed after the test; the first one exists already."""
    disks = [SmallDisk(tmp_path, "ext4", DISK_BYTES)]
    yield disks
    for disk in disks:
        disk.unmount()


def payload(index: int) -> bytes:
    return bytes([1 + index]) * 40_000


def chunk(index: int) -> bytes:
    record = Record(f"op.{index}", payload(index), [10_000], sequence=index)
    return Chunk("r", [record], sequence=index).pack()


def forget_what_was_synced(segment: Path) -> None:
    """Leaves the frames only in the page cache, in preallocated space.

    This is the state after a daemon was killed between a write and its sync.
    """
    with open(segment, "r+b") as file:
        file.seek(HEADER_BYTES)
        frames = file.read()
        file.truncate(HEADER_BYTES)
        room = ("fallocate", "--keep-size", "--length", str(MIB), segment)
        subprocess.run(room, check=True)
        os.fsync(file.fileno())
        file.seek(HEADER_BYTES)
        file.write(frames)


def test_what_a_restarted_daemon_acknowledges_survives_power(
    new_daemon: Callable[[], Daemon], disks: list[SmallDisk], tmp_path: Path
) -> None:
    daemon = new_daemon()
    daemon.data_dir = disks[0].path / "data"
    daemon.start(*FLAGS)
    write(daemon.channel(), "r", [chunk(i) for i in range(CHUNKS)])
    daemon.kill()
    forget_what_was_synced(daemon.data_dir / "segments" / "00000001.seg")
    daemon.start(*FLAGS)
    # The producer learns that it need not send them again.
    assert IngestStream(daemon.channel(), "r").opened() == CHUNKS
    disks.append(disks[0].after_power_loss(tmp_path))
    daemon.kill()
    daemon.data_dir = disks[1].path / "data"
    daemon.start()
    for i in range(CHUNKS):
        name = tensor_name("r", f"op.{i}")
        args = ("tensor", "read", name, "--out", "-", "--format", "raw")
        assert daemon.ctl(*args, binary=True).stdout == payload(i)
    daemon.kill()
