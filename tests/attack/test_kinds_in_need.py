"""Values, statistics and aliases that arrive while the daemon has no space left."""

import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import chunk_bytes as cb
import grpc
import pytest
from chunk_bytes import Chunk, Record
from msitd.v1.ingest_service_pb2 import IF_EXISTS_APPEND
from names import tensor_name
from small_disk import MIB, SmallDisk
from wire import IngestStream

from daemon import BIN_DIR, Daemon

DISK_BYTES = 128 * MIB
FILES_MAX = 128
TENSOR = 256 << 10


def data(i: int) -> bytes:
    return bytes([i % 251]) * TENSOR


def records(i: int) -> list[Record]:
    """A tensor, an alias of it, a value and statistics."""
    tensor = Record("linear", data(i), [TENSOR // 4], token=i, sequence=4 * i)
    alias = Record(
        "relu",
        b"",
        [TENSOR // 4],
        token=i,
        sequence=4 * i + 1,
        io=cb.INPUT,
        tensor_bytes=TENSOR,
        alias_of=("linear", 0, cb.OUTPUT, "0"),
    )
    value = Record(
        "sum",
        b"",
        [0],
        dtype=cb.UINT8,
        token=i,
        sequence=4 * i + 2,
        io=cb.INPUT,
        kind=cb.TEXT,
        value=f"{i:0>1000}",
    )
    statistics = Record(
        "conv",
        b"",
        [4],
        token=i,
        sequence=4 * i + 3,
        kind=cb.STATISTICS,
        value=f'{{"max": {i}}}',
    )
    return [tensor, alias, value, statistics]


def chunk(run: str, i: int) -> bytes:
    return Chunk(run, records(i), sequence=i, version=3).pack()


def check(daemon: Daemon, run: str, count: int) -> None:
    """Checks that every acknowledged record of `count` chunks is stored, and
    complete.
    """
    counters = daemon.ctl_json("run", "get", run)["counters"]
    assert int(counters["tensor_count"]) >= 2 * count
    assert int(counters["value_count"]) >= count
    assert int(counters["statistics_count"]) >= count
    assert counters["dangling_count"] == "0"
    last = count - 1
    name = tensor_name(run, "relu", token=last, io="input")
    args = ("tensor", "read", name, "--out", "-", "--format", "raw")
    assert daemon.ctl(*args, binary=True).stdout == data(last)
    value = daemon.ctl_json(
        "tensor", "get", tensor_name(run, "sum", token=last, io="input")
    )
    assert value["value"] == f"{last:0>1000}"
    statistics = daemon.ctl_json("tensor", "get", tensor_name(run, "conv", token=last))
    assert statistics["value"] == f'{{"max": {last}}}'


def verify(daemon: Daemon) -> None:
    subprocess.run(
        [BIN_DIR / "msitd-inspect", "verify", "--data-dir", daemon.data_dir],
        check=True,
        timeout=120,
    )


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path, "ext4", DISK_BYTES)
    yield disk
    disk.unmount()


@pytest.fixture
def daemon_on(disk: SmallDisk, new_daemon: Callable[[], Daemon]) -> Iterator[Daemon]:
    """A running daemon with its data on the small disk."""
    daemon = new_daemon()
    daemon.data_dir = disk.path / "data"
    daemon.start("--segment-bytes", str(16 * MIB))
    yield daemon
    daemon.clean()


def test_a_full_disk_takes_whole_chunks_or_none(
    daemon_on: Daemon, disk: SmallDisk
) -> None:
    daemon = daemon_on
    stream = IngestStream(daemon.channel(), "full")
    stream.opened()
    for i in range(2 * DISK_BYTES // TENSOR):
        stream.send_chunk(chunk("full", i))
    end = stream.refused()
    assert end.code == grpc.StatusCode.RESOURCE_EXHAUSTED, end
    assert end.reason == "DISK_FULL", end
    committed = stream.committed
    assert committed > 50
    check(daemon, "full", committed)
    disk.fill()
    daemon.kill()
    daemon.start()
    check(daemon, "full", committed)
    daemon.kill()
    verify(daemon)
    disk.empty()
    daemon.start()
    # The rest of a stream continues where its aliases have their originals.
    daemon.ctl("run", "retain", "full", "--bytes", str(8 * MIB))
    again = IngestStream(
        daemon.channel(), "after", stream_id=1, if_exists=IF_EXISTS_APPEND
    )
    again.opened()
    again.send_chunk(
        Chunk("after", records(0), stream_id=1, version=3).pack(),
    )
    again.wait_committed(1)
    again.finish()
    check(daemon, "after", 1)


def test_few_descriptors_leave_the_store_its_files(
    new_daemon: Callable[[], Daemon],
) -> None:
    daemon = new_daemon()
    daemon.prefix = ["prlimit", f"--nofile={FILES_MAX}:{FILES_MAX}"]
    # Small segments, so that segments and index tables are opened all the time.
    daemon.start("--segment-bytes", str(16 * MIB))
    stream = IngestStream(daemon.channel(), "few")
    stream.opened()
    strangers = []
    path = str(daemon.socket_dir / "msitd.sock")
    for _ in range(2 * FILES_MAX):
        stranger = socket.socket(socket.AF_UNIX)
        stranger.settimeout(5)
        try:
            stranger.connect(path)
        except OSError:
            stranger.close()
            break
        strangers.append(stranger)
    count = 300
    for i in range(count):
        stream.send_chunk(chunk("few", i))
    stream.wait_committed(count)
    stream.finish()
    for stranger in strangers:
        stranger.close()
    check(daemon, "few", count)
    daemon.kill()
    daemon.start()
    check(daemon, "few", count)
    daemon.stop()
    verify(daemon)
