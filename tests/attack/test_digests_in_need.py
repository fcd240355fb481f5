"""Digests that arrive while the daemon has no space left."""

from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from chunk_bytes import INT16, Chunk, Record
from digests import HAS_DIGEST, SUMMARY_ONLY, digest
from names import tensor_name
from small_disk import MIB, SmallDisk
from wire import IngestStream

from daemon import Daemon

DISK_BYTES = 96 * MIB
CHUNK_RECORDS = 1000
CHUNKS_MAX = 800


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path, "ext4", DISK_BYTES)
    yield disk
    disk.unmount()


SHAPE = (64,)


def constant(value: int) -> bytes:
    """Returns the digest of a tensor whose elements all have one value."""
    values = np.full(SHAPE, value, np.int16)
    return digest(values, float(values.sum()))


DIGESTS = [constant(number) for number in range(CHUNK_RECORDS)]


def chunk(i: int) -> bytes:
    records = [
        Record(
            f"op.{number}",
            data,
            SHAPE,
            INT16,
            token=i,
            tensor_bytes=2 * SHAPE[0],
            flags=HAS_DIGEST,
            sequence=i * CHUNK_RECORDS + number,
        )
        for number, data in enumerate(DIGESTS)
    ]
    return Chunk("full", records, sequence=i, version=4, flags=SUMMARY_ONLY).pack()


def check(daemon: Daemon, count: int) -> None:
    """Checks that all of `count` chunks are stored, with their sums."""
    counters = daemon.ctl_json("run", "get", "full")["counters"]
    assert int(counters["tensor_count"]) >= count * CHUNK_RECORDS
    for number in (0, 1, CHUNK_RECORDS - 1):
        name = tensor_name("full", f"op.{number}", token=count - 1)
        found = daemon.ctl_json("tensor", "get", name)
        assert found["summary"]["sum"] == 64.0 * number
        assert found["claimed"]


def test_a_full_disk_takes_whole_chunks_of_digests_or_none(
    new_daemon: Callable[[], Daemon], disk: SmallDisk
) -> None:
    daemon = new_daemon()
    daemon.data_dir = disk.path / "data"
    daemon.start("--segment-bytes", str(16 * MIB))
    try:
        stream = IngestStream(daemon.channel(), "full")
        stream.opened()
        for i in range(CHUNKS_MAX):
            stream.send_chunk(chunk(i))
        end = stream.refused()
        assert end.code == grpc.StatusCode.RESOURCE_EXHAUSTED, end
        assert end.reason == "DISK_FULL", end
        committed = stream.committed
        assert committed > 20
        check(daemon, committed)
        disk.fill()
        daemon.kill()
        daemon.start()
        check(daemon, committed)
    finally:
        # Before the disk is removed.
        daemon.clean()
