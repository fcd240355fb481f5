"""Shared by the benchmarks: scales, results, and daemons."""

import functools
import json
import mmap
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msitd
import numpy as np

# The daemon and the stubs of the end-to-end tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from stubs import make_stubs

from daemon import Daemon

MIB = 1 << 20
OPS_PER_TOKEN = 1000
READ_BYTES = 4 * MIB


@dataclass(frozen=True)
class Scale:
    """The amount of work of the benchmarks."""

    repetitions: int  # Maximum.
    kernel_time_s: float
    array_elements: int
    files: int  # Files of 1 MiB.
    ingest_mib: int
    many_producers_mib: int
    records: int
    recover_mib: int
    compare_mib: int  # Per run.
    small_tensors: int  # Per run, as in the following fields.
    mid_tensors: int
    equal_tensors: int  # Per run.
    index_tensors: tuple[int, int]
    reduce_tensors: int
    names: int
    import_mib: int
    import_files: int  # Files of 8 KiB.
    import_tokens: int  # Tokens of 9.4 MiB, both runs together.
    nodes: int  # Daemons running at the same time.
    node_tensors: int  # Per daemon.


SCALES = {
    # Shows that every benchmark runs; its figures mean nothing.
    "smoke": Scale(
        repetitions=1,
        kernel_time_s=0.001,
        array_elements=MIB // 4,
        files=4,
        ingest_mib=16,
        many_producers_mib=16,
        records=4096,
        recover_mib=16,
        compare_mib=16,
        small_tensors=2000,
        mid_tensors=64,
        equal_tensors=2000,
        index_tensors=(2000, 4000),
        reduce_tensors=2000,
        names=2000,
        import_mib=16,
        import_files=200,
        import_tokens=1,
        nodes=2,
        node_tensors=200,
    ),
    "short": Scale(
        repetitions=7,
        kernel_time_s=0.5,
        array_elements=16 * MIB,
        files=200,
        ingest_mib=1024,
        many_producers_mib=2048,
        records=400_000,
        recover_mib=1024,
        compare_mib=256,
        small_tensors=100_000,
        mid_tensors=2048,
        equal_tensors=100_000,
        index_tensors=(100_000, 1_000_000),
        reduce_tensors=100_000,
        names=200_000,
        import_mib=1024,
        import_files=20_000,
        import_tokens=40,
        nodes=4,
        node_tensors=20000,
    ),
    "long": Scale(
        repetitions=7,
        kernel_time_s=1,
        array_elements=16 * MIB,
        files=200,
        ingest_mib=1024,
        many_producers_mib=10_240,
        records=2_000_000,
        recover_mib=4096,
        compare_mib=4096,
        small_tensors=100_000,
        mid_tensors=4096,
        equal_tensors=100_000,
        index_tensors=(1_000_000, 10_000_000),
        reduce_tensors=100_000,
        names=200_000,
        import_mib=4096,
        import_files=50_000,
        import_tokens=200,
        nodes=64,
        node_tensors=20000,
    ),
}


@dataclass
class Result:
    """The result of one benchmark, as it is written."""

    figure: float
    unit: str
    better: str
    target: float
    value: float
    baseline: str
    baseline_value: float


class NotMeasured(Exception):
    """A benchmark lacks something that it requires."""


def ratio(
    better: str, target: float, value: float, baseline: str, baseline_value: float
) -> Result:
    """Returns a result whose figure is the quotient of a value and its baseline."""
    figure = value / baseline_value
    return Result(figure, "x", better, target, value, baseline, baseline_value)


def at_least(
    target: float, value: float, unit: str, baseline: str, baseline_value: float
) -> Result:
    """Returns a result whose figure is the value itself, in `unit`."""
    return Result(value, unit, "higher", target, value, baseline, baseline_value)


def at_most(
    target: float, value: float, unit: str, baseline: str, baseline_value: float
) -> Result:
    """Returns a result whose figure is the value itself, in `unit`."""
    return Result(value, unit, "lower", target, value, baseline, baseline_value)


@dataclass(frozen=True)
class Bench:
    """Locations of programs and output, and the amount of work."""

    tests: Path
    binaries: Path
    folder: Path
    scale: Scale


def best_of(count: int, work: Callable[[], int]) -> float:
    """Returns the best GB/s of `count` tries of `work`, which returns bytes."""
    best = 0.0
    for _ in range(count):
        start = time.perf_counter()
        done = work()
        best = max(best, done / (time.perf_counter() - start) / 1e9)
    return best


def seconds_of(work: Callable[[], object]) -> float:
    """Returns the time that `work` takes, in seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def take_turns(
    bench: Bench, repetitions: int, *works: Callable[[], object]
) -> list[float]:
    """Returns the median seconds of each of `works`.

    They take turns, so that other load of the machine affects all of them
    alike.
    """
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(min(repetitions, bench.scale.repetitions)):
        for work, list_of_work in zip(works, seconds, strict=True):
            list_of_work.append(seconds_of(work))
    return [statistics.median(one) for one in seconds]


def google(
    bench: Bench,
    program: str,
    names: tuple[str, ...],
    repetitions: int = 1,
    **environment: object,
) -> dict[str, list[dict[str, Any]]]:
    """Runs benchmarks of one of msitd's programs, and returns the runs of each.

    Their repetitions take turns, too.
    """
    repetitions = min(repetitions, bench.scale.repetitions)
    out = subprocess.run(
        [
            bench.tests / program,
            f"--benchmark_filter=^({'|'.join(names)})(/|$)",
            f"--benchmark_repetitions={repetitions}",
            f"--benchmark_min_time={bench.scale.kernel_time_s}",
            "--benchmark_enable_random_interleaving=true",
            "--benchmark_format=json",
        ],
        env={
            **os.environ,
            "MSITD_BIN_DIR": str(bench.binaries),
            "MSITD_BENCH_DIR": str(bench.folder),
            **{name: str(value) for name, value in environment.items()},
        },
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    runs = [
        run for run in json.loads(out)["benchmarks"] if run["run_type"] == "iteration"
    ]
    return {
        name: [run for run in runs if f"{run['run_name']}/".startswith(f"{name}/")]
        for name in names
    }


def medians(runs: dict[str, list[dict[str, Any]]]) -> list[float]:
    """Returns the median seconds of the benchmarks that `google` ran."""
    units = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}
    return [
        statistics.median(run["real_time"] / units[run["time_unit"]] for run in one)
        for one in runs.values()
    ]


@functools.cache
def import_stubs() -> None:
    """Lets this process import the stubs of the API."""
    with tempfile.TemporaryDirectory(prefix="msitd-stubs-") as folder:
        make_stubs(Path(folder))
        import msitd.v1.comparison_service_pb2_grpc
        import msitd.v1.node_service_pb2_grpc  # noqa: F401


@contextmanager
def new_daemon(bench: Bench, *flags: str) -> Iterator[Daemon]:
    """A running daemon with its own store."""
    folder = Path(tempfile.mkdtemp(prefix="daemon-", dir=bench.folder))
    daemon = Daemon(folder)
    try:
        daemon.start("--log-level", "warn", *flags)
        yield daemon
        if daemon.process is not None:
            daemon.stop()
    finally:
        daemon.clean()
        shutil.rmtree(folder)


@contextmanager
def new_client(daemon: Daemon, run: str) -> Iterator[msitd.Client]:
    """A client that waits for the daemon if necessary, and loses nothing."""
    endpoint = f"unix:{daemon.socket_dir}"
    with msitd.Client(run, endpoint=endpoint, max_block=60) as client:
        yield client
        client.flush(600)
        counters = client.counters()
        assert counters.dropped_count == 0, counters


def record_mebibytes(daemon: Daemon, run: str, count: int, seed: int) -> None:
    """Records tensors of 1 MiB. Another seed gives slightly different tensors."""
    record_different(daemon, run, count, seed, MIB, 64)


def record_different(
    daemon: Daemon, run: str, count: int, seed: int, size_bytes: int, op_count: int
) -> None:
    """Records tensors that all differ. Another seed gives slightly different
    tensors.
    """
    tensors = np.random.default_rng(0).standard_normal(
        (16, size_bytes // 4), dtype=np.float32
    )
    tensors *= np.float32(1 + seed * 1e-5)
    ops = [f"op.{i}" for i in range(op_count)]
    with new_client(daemon, run) as client:
        for i in range(count):
            tensors[i % 16, 0] = i
            token, op = divmod(i, op_count)
            client.record(tensors[i % 16], op=ops[op], token=token, call=0)


def record_small(daemon: Daemon, run: str, count: int) -> None:
    """Records tensors of 64 bytes, OPS_PER_TOKEN per token."""
    ops = [f"op.{i}" for i in range(OPS_PER_TOKEN)]
    tensor = np.arange(16, dtype=np.float32)
    with new_client(daemon, run) as client:
        for i in range(count):
            token, op = divmod(i, OPS_PER_TOKEN)
            client.record(tensor, op=ops[op], token=token, call=0)


def record_names(daemon: Daemon, run: str, count: int) -> None:
    """Records tensors of 64 bytes, each with its own op."""
    tensor = np.arange(16, dtype=np.float32)
    with new_client(daemon, run) as client:
        for i in range(count):
            client.record(tensor, op=f"{'a' * 40}{i}", token=0, call=0)


def segments(daemon: Daemon) -> list[Path]:
    """Returns the segment files of a daemon."""
    return sorted((daemon.data_dir / "segments").iterdir())


def read_directly(files: list[Path], size_bytes: int) -> None:
    """Reads that many bytes of `files` past the page cache."""
    with mmap.mmap(-1, READ_BYTES) as buffer:
        left = size_bytes
        for file in files:
            descriptor = os.open(file, os.O_RDONLY | os.O_DIRECT)
            try:
                at = 0
                while left > 0:
                    got = os.preadv(descriptor, [buffer], at)
                    if got == 0:
                        break
                    at += got
                    left -= got
            finally:
                os.close(descriptor)
    assert left <= 0, f"{left} of {size_bytes} bytes are not there"


def memory_bytes(daemon: Daemon) -> int:
    """Returns the memory of a daemon without the memory that it shares with ranks."""
    assert daemon.process is not None
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    kibibytes = [int(fields[name].split()[0]) for name in ("VmRSS", "RssShmem")]
    return (kibibytes[0] - kibibytes[1]) * 1024


@contextmanager
def peak_memory(daemon: Daemon) -> Iterator[list[int]]:
    """Yields a list that collects the memory of a daemon over time."""
    observed = [memory_bytes(daemon)]
    done = threading.Event()

    def observe() -> None:
        while not done.wait(0.005):
            observed.append(memory_bytes(daemon))

    thread = threading.Thread(target=observe)
    thread.start()
    try:
        yield observed
    finally:
        done.set()
        thread.join()
