"""The cost of recording for a rank, and the time until records are durable."""

import functools
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msitd
import numpy as np
import torch
from measure import (
    MIB,
    Bench,
    Result,
    at_most,
    google,
    medians,
    new_client,
    new_daemon,
    ratio,
    take_turns,
)


def capture_memcpy_ratio(bench: Bench) -> Result:
    """Recording 1 MiB tensors against memcpy of the same bytes."""
    record_s, memcpy_s = medians(
        google(bench, "msitd_shm_bench", ("BM_RecordMiB", "BM_MemcpyMiB"), 7)
    )
    gigabytes = 24 * MIB / 1e9  # The size of one iteration of both.
    baseline = "memcpy of the same bytes into touched memory, s/GB"
    return ratio("lower", 1.10, record_s / gigabytes, baseline, memcpy_s / gigabytes)


def capture_summary_ratio(
    bench: Bench, name: str = "BM_RecordSummaryMiB", target: float = 1.0
) -> Result:
    """Recording 1 MiB tensors at level summary against memcpy of the same bytes."""
    record_s, memcpy_s = medians(
        google(bench, "msitd_shm_bench", (name, "BM_MemcpyMiB"), 7)
    )
    gigabytes = 24 * MIB / 1e9  # The size of one iteration of both.
    baseline = "memcpy of the same bytes into touched memory, s/GB"
    return ratio("lower", target, record_s / gigabytes, baseline, memcpy_s / gigabytes)


def capture_summary_again_ratio(bench: Bench) -> Result:
    """The same for bytes that the client has recorded before."""
    return capture_summary_ratio(bench, "BM_RecordSummaryAgainMiB", 0.6)


def capture_small_us(bench: Bench) -> Result:
    """The median time of one record of 8 KiB."""
    (seconds,) = medians(google(bench, "msitd_shm_bench", ("BM_RecordSmall",), 3))
    return at_most(2.0, seconds * 1e6, "us", "none", 0.0)


def capture_python_us(bench: Bench) -> Result:
    """The median time of one torch tensor of 8 KiB from Python."""
    tensor = torch.randn(2048)
    seconds: list[float] = []
    with new_daemon(bench) as daemon, new_client(daemon, "python") as client:
        for token in range(20 * bench.scale.repetitions):
            for _ in range(500):
                start = time.perf_counter()
                client.record(tensor, op="model.layers.17.mlp", token=token)
                seconds.append(time.perf_counter() - start)
            client.flush(60)
    return at_most(8.0, statistics.median(seconds) * 1e6, "us", "none", 0.0)


def capture_off_ns(bench: Bench) -> Result:
    """One record, in C, of an op that the capture policy does not select."""
    (seconds,) = medians(google(bench, "msitd_shm_bench", ("BM_RecordFiltered",), 3))
    return at_most(50.0, seconds * 1e9, "ns", "none", 0.0)


def capture_off_hook_ns(bench: Bench) -> Result:
    """The time that hooks add to each call of a module if the policy selects nothing.

    A model and its children keep their hooks, because each of them may be what
    the program calls. As in most models, nearly all modules are further inside.
    The baseline is what hooks of torch that do nothing add.
    """
    modules = 64
    x = torch.zeros(1)

    def model() -> torch.nn.Module:
        inner = (torch.nn.Identity() for _ in range(modules))
        return torch.nn.Sequential(torch.nn.Sequential(*inner)).eval()

    def call_seconds(*works: Callable[[], object]) -> list[float]:
        rounds = 20
        seconds = take_turns(
            bench, 7, *(lambda f=work: [f() for _ in range(rounds)] for work in works)
        )
        return [one / rounds / (modules + 2) for one in seconds]

    plain = model()
    idle = model()
    for module in idle.modules():
        module.register_forward_pre_hook(lambda *_: None, with_kwargs=True)
        module.register_forward_hook(
            lambda *_: None, with_kwargs=True, always_call=True
        )
    hooked = model()
    with new_daemon(bench) as daemon:
        daemon.ctl("capture", "set", "--run", "off", "--ops", "lm_head")
        with (
            new_client(daemon, "off") as client,
            msitd.register_hook(hooked, client),
        ):
            plain_s, idle_s, hooked_s = call_seconds(
                lambda: plain(x), lambda: idle(x), lambda: hooked(x)
            )
            assert not client.selects("root")
    baseline = "hooks of torch that do nothing, ns"
    added_ns, torch_ns = (hooked_s - plain_s) * 1e9, (idle_s - plain_s) * 1e9
    return at_most(400.0, added_ns, "ns", baseline, torch_ns)


def disk_ratio(bench: Bench) -> Result:
    """Two producers of 1 MiB tensors, against O_DIRECT writes of the same
    number of bytes.
    """
    ingest_s, raw_s = medians(
        google(
            bench,
            "msitd_shm_bench",
            ("BM_IngestMiB", "BM_RawWrite"),
            3,
            MSITD_BENCH_MIB=bench.scale.ingest_mib,
        )
    )
    gigabytes = bench.scale.ingest_mib * MIB / 1e9
    baseline = "O_DIRECT writes of 4 MiB and one sync on the same disk, GB/s"
    return ratio("higher", 0.90, gigabytes / ingest_s, baseline, gigabytes / raw_s)


@functools.cache
def file_seconds(bench: Bench) -> tuple[float, float, float]:
    """Returns the seconds until 1 MiB tensors are durable.

    With msitd, and as files of numpy.save and of torch.save.
    """
    count = bench.scale.files
    array = np.random.default_rng(0).standard_normal(MIB // 4, dtype=np.float32)
    tensor = torch.from_numpy(array)
    files = Path(tempfile.mkdtemp(prefix="files-", dir=bench.folder))

    def save(name: str, save_one: Callable[[Path], None]) -> None:
        paths = [files / f"{i}.{name}" for i in range(count)]
        for i, path in enumerate(paths):
            array[0] = i
            save_one(path)
        for path in [*paths, files]:
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)

    with new_daemon(bench) as daemon, new_client(daemon, "files") as client:

        def record() -> None:
            for i in range(count):
                array[0] = i
                client.record(tensor, op=f"op.{i}")
            client.flush(120)
            client.next_token()

        seconds = take_turns(
            bench,
            5,
            record,
            lambda: save("npy", lambda path: np.save(path, array)),
            lambda: save("pt", lambda path: torch.save(tensor, path)),
        )
    shutil.rmtree(files)
    record_s, numpy_s, torch_s = seconds
    return record_s, numpy_s, torch_s


def against_files(bench: Bench, target: float, files: str, files_s: float) -> Result:
    """Recording 1 MiB tensors against writing them to files."""
    record_s, _, _ = file_seconds(bench)
    gigabytes = bench.scale.files * MIB / 1e9
    baseline = f"{files} of the same tensors to the same disk, fsync at the end"
    return ratio("higher", target, gigabytes / record_s, baseline, gigabytes / files_s)


def record_1_mib(bench: Bench) -> Result:
    """Recording 1 MiB tensors against numpy.save."""
    return against_files(bench, 1.0, "numpy.save", file_seconds(bench)[1])


def files_ratio(bench: Bench) -> Result:
    """Recording 1 MiB tensors against the faster of numpy.save and torch.save."""
    _, numpy_s, torch_s = file_seconds(bench)
    if numpy_s < torch_s:
        return against_files(bench, 4.0, "numpy.save", numpy_s)
    return against_files(bench, 4.0, "torch.save", torch_s)


def records_ratio(bench: Bench) -> Result:
    """Records of 1 KiB against index entries of the same number and size."""
    record_s, put_s = medians(
        google(
            bench,
            "msitd_ingest_bench",
            ("BM_RecordKiB", "BM_PutEntries"),
            3,
            MSITD_BENCH_RECORDS=bench.scale.records,
        )
    )
    count = bench.scale.records
    baseline = "batches of the same entries into a bare RocksDB, records/s"
    return ratio("higher", 0.6, count / record_s, baseline, count / put_s)


def grpc_ratio(bench: Bench) -> Result:
    """Recording over the network against a bare gRPC stream of bytes."""
    record_s, stream_s = medians(
        google(
            bench,
            "msitd_ingest_bench",
            ("BM_RecordRemotely", "BM_StreamBytes"),
            5,
            MSITD_BENCH_MIB=bench.scale.ingest_mib,
        )
    )
    gigabytes = bench.scale.ingest_mib * MIB / 1e9
    baseline = "gRPC stream of messages as long, thrown away, GB/s"
    return ratio("higher", 0.9, gigabytes / record_s, baseline, gigabytes / stream_s)


def rss_mib(bench: Bench) -> Result:
    """The peak memory of a daemon to which 16 ranks stream, without rings."""
    (run,) = google(
        bench,
        "msitd_ingest_bench",
        ("BM_ManyProducers",),
        MSITD_BENCH_MIB=bench.scale.many_producers_mib,
    )["BM_ManyProducers"]
    peak, before = run["peak_bytes"] / MIB, run["before_bytes"] / MIB
    return at_most(256, peak, "MiB", "its memory before, MiB", before)
