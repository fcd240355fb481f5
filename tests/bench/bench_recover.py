"""Time that a daemon needs to restart after it was killed."""

import os
import shutil
import statistics
import time
from pathlib import Path

from measure import (
    MIB,
    Bench,
    Result,
    import_stubs,
    new_daemon,
    ratio,
    read_directly,
    record_mebibytes,
    seconds_of,
    segments,
)

from daemon import START_TIMEOUT_S, Daemon

GIB = 1 << 30


def start_s(daemon: Daemon) -> float:
    """Starts a daemon without its segments in the page cache; returns the seconds."""
    endpoint = daemon.socket_dir / "endpoint"
    endpoint.unlink(missing_ok=True)
    for file in segments(daemon):
        descriptor = os.open(file, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
    start = time.perf_counter()
    daemon.process = daemon.spawn("--log-level", "warn")
    while not endpoint.exists():
        assert daemon.process.poll() is None, daemon.log()
        assert time.perf_counter() - start < START_TIMEOUT_S, daemon.log()
        time.sleep(0.0005)
    return time.perf_counter() - start


def recovered_frames(daemon: Daemon) -> int:
    """Returns the number of frames that the last start recovered."""
    import_stubs()
    from msitd.v1 import node_service_pb2 as pb
    from msitd.v1.node_service_pb2_grpc import NodeServiceStub

    status = NodeServiceStub(daemon.channel()).GetNodeStatus(pb.GetNodeStatusRequest())
    return status.recovered_frame_count


def replace(folder: Path, by: Path) -> None:
    """Replaces `folder` by a copy of `by`."""
    shutil.rmtree(folder)
    shutil.copytree(by, folder)


def seconds_per_gib(bench: Bench) -> Result:
    """The time to recover the data that is missing in the index of a killed daemon.

    The time of a start without recovery is subtracted.
    """
    count = bench.scale.recover_mib
    gibibytes = count * MIB / GIB
    behind: list[float] = []
    ahead: list[float] = []
    read: list[float] = []
    with new_daemon(bench) as daemon:
        record_mebibytes(daemon, "recover", count, seed=0)
        daemon.kill()
        index = daemon.data_dir / "index"
        killed = daemon.folder / "index-of-the-killed"
        shutil.copytree(index, killed)
        for _ in range(min(5, bench.scale.repetitions)):
            replace(index, killed)
            behind.append(start_s(daemon))
            frames = recovered_frames(daemon)
            # A chunk has at most four of these tensors.
            assert frames >= count / 4, f"{frames} frames for {count} MiB"
            daemon.stop()
            ahead.append(start_s(daemon))
            assert recovered_frames(daemon) == 0
            daemon.stop()
            read.append(
                seconds_of(lambda: read_directly(segments(daemon), count * MIB))
            )
    reopen_s = statistics.median(behind) - statistics.median(ahead)
    read_s = statistics.median(read)
    baseline = "O_DIRECT reads of 4 MiB of the same bytes, s/GiB"
    return ratio("lower", 0.2, reopen_s / gibibytes, baseline, read_s / gibibytes)
