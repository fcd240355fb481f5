"""Measures msitd and what people use instead, in the same run.

Writes a list of {name, figure, unit, better, target, value, baseline,
baseline_value}: `figure` is what the target is about. For a ratio it is the
quotient of `value` and `baseline_value`, which are in GB/s of payload or in
seconds per GB; for a time all three are in its unit, and there is no baseline.
"""

import argparse
import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import msitd
import numpy as np
import torch

MIB = 1 << 20


@dataclass
class Result:
    """One benchmark as it is written."""

    figure: float
    unit: str
    better: str
    target: float
    value: float
    baseline: str
    baseline_value: float


def best_of(count: int, work: Callable[[], int]) -> float:
    """Returns the best GB/s of `count` tries of `work`, which returns bytes."""
    best = 0.0
    for _ in range(count):
        start = time.perf_counter()
        done = work()
        best = max(best, done / (time.perf_counter() - start) / 1e9)
    return best


def kernel(tests: Path, name: str) -> float:
    """Returns the GB/s that a benchmark of msitd_compute_bench prints."""
    out = subprocess.run(
        [
            tests / "msitd_compute_bench",
            f"--benchmark_filter=^{name}$",
            "--benchmark_format=json",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return json.loads(out)["benchmarks"][0]["bytes_per_second"] / 1e9


def shared_memory(
    tests: Path, binaries: Path, folder: Path, repetitions: int, *names: str
) -> list[float]:
    """Returns the median seconds of benchmarks of msitd_shm_bench.

    Their repetitions take turns, so that what else the machine does meets all.
    """
    out = subprocess.run(
        [
            tests / "msitd_shm_bench",
            f"--benchmark_filter=^({'|'.join(names)})(/|$)",
            f"--benchmark_repetitions={repetitions}",
            "--benchmark_enable_random_interleaving=true",
            "--benchmark_format=json",
        ],
        env={
            **os.environ,
            "MSITD_BIN_DIR": str(binaries),
            "MSITD_BENCH_DIR": str(folder),
        },
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    runs = json.loads(out)["benchmarks"]
    nanoseconds = {"ns": 1, "us": 1e3, "ms": 1e6}
    return [
        statistics.median(
            run["real_time"] * nanoseconds[run["time_unit"]] / 1e9
            for run in runs
            if run["run_type"] == "iteration" and run["run_name"].split("/")[0] == name
        )
        for name in names
    ]


def capture_memcpy_ratio(tests: Path, binaries: Path, folder: Path) -> Result:
    """Recording 1 MiB tensors against memcpy of the same bytes."""
    record_s, memcpy_s = shared_memory(
        tests, binaries, folder, 7, "BM_RecordMiB", "BM_MemcpyMiB"
    )
    gigabytes = 24 * MIB / 1e9  # Of one iteration of each.
    return Result(
        figure=record_s / memcpy_s,
        unit="x",
        better="lower",
        target=1.10,
        value=record_s / gigabytes,
        baseline="memcpy of the same bytes into touched memory, s/GB",
        baseline_value=memcpy_s / gigabytes,
    )


def capture_small_us(tests: Path, binaries: Path, folder: Path) -> Result:
    """The median time of one record of 8 KiB."""
    (seconds,) = shared_memory(tests, binaries, folder, 3, "BM_RecordSmall")
    return Result(seconds * 1e6, "us", "lower", 2.0, seconds * 1e6, "none", 0.0)


def ingest_disk_ratio(tests: Path, binaries: Path, folder: Path) -> Result:
    """Two producers of 1 MiB tensors against O_DIRECT writes of as many bytes."""
    ingest_s, raw_s = shared_memory(
        tests, binaries, folder, 3, "BM_IngestMiB", "BM_RawWrite"
    )
    gigabytes = 1024 * MIB / 1e9
    return Result(
        figure=raw_s / ingest_s,
        unit="x",
        better="higher",
        target=0.90,
        value=gigabytes / ingest_s,
        baseline="O_DIRECT writes of 4 MiB and one sync on the same disk, GB/s",
        baseline_value=gigabytes / raw_s,
    )


def numpy_statistics() -> float:
    """Returns the GB/s of min, max, mean and norm of a float32 array."""
    array = np.random.default_rng(0).standard_normal(16 * MIB, dtype=np.float32)

    def work() -> int:
        _ = (array.min(), array.max(), array.mean(), np.linalg.norm(array))
        return array.nbytes

    return best_of(5, work)


def numpy_pair() -> float:
    """Returns the GB/s, of both sides, of four metrics of a pair."""
    rng = np.random.default_rng(0)
    golden = rng.standard_normal(16 * MIB, dtype=np.float32)
    target = golden + np.float32(1e-3)

    def work() -> int:
        difference = np.abs(target - golden)
        _ = difference.max(), difference.mean()
        _ = np.linalg.norm(difference) / np.linalg.norm(golden)
        _ = np.dot(target, golden) / np.linalg.norm(target) / np.linalg.norm(golden)
        return 2 * golden.nbytes

    return best_of(3, work)


def torch_statistics(dtype: torch.dtype) -> float:
    """Returns the GB/s of max, min, mean and norm in torch, on one thread."""
    tensor = torch.randn(16 * MIB, generator=torch.manual_seed(0)).to(dtype)

    def work() -> int:
        _ = (tensor.max(), tensor.min(), tensor.mean(), torch.linalg.norm(tensor))
        return tensor.numel() * tensor.element_size()

    return best_of(5, work)


def torch_msit() -> float:
    """Returns the GB/s, of both sides, of msit's seven metrics in torch."""
    generator = torch.manual_seed(0)
    golden = torch.randn(4 * MIB, generator=generator)
    mine = golden + 1e-3 * torch.randn(4 * MIB, generator=generator)
    eps = torch.finfo(torch.float32).eps

    def work() -> int:
        g, m = golden.reshape(-1).float(), mine.reshape(-1).float()
        _ = bool(torch.isfinite(g).all()), bool(torch.isfinite(m).all())
        a, b = g.double(), m.double()
        _ = torch.cosine_similarity(a, b, dim=0).item()
        large = g.abs() > eps
        relative = torch.where(large, (m / g - 1).abs(), torch.tensor(0.0))
        absolute = torch.where(large, (m - g).abs(), torch.tensor(0.0))
        _ = relative.max().item(), relative.mean().item()
        _ = absolute.max().item(), absolute.mean().item()
        p, q = torch.softmax(g, dim=-1), torch.softmax(m, dim=-1)
        _ = torch.nn.functional.kl_div(q.log(), p, reduction="sum").item()
        _ = (((m - g) ** 2).sum() / (g**2).sum()).sqrt().item()
        return 2 * golden.numel() * golden.element_size()

    return best_of(3, work)


def record(folder: Path, binaries: Path, count: int) -> float:
    """Returns the GB/s at which 1 MiB tensors become durable in a daemon."""
    sockets = Path(tempfile.mkdtemp(prefix="msitd-bench-"))
    tensor = np.random.default_rng(0).standard_normal(MIB // 4, dtype=np.float32)
    with open(folder / "msitd.log", "wb") as log:
        daemon = subprocess.Popen(
            [
                binaries / "msitd",
                *("--data-dir", folder / "data"),
                *("--socket-dir", sockets),
                *("--listen", "none"),
            ],
            stdout=log,
            stderr=log,
        )
    try:
        for _ in range(3000):
            if (sockets / "endpoint").exists():
                break
            time.sleep(0.01)
        endpoint = f"unix:{sockets}/msitd.sock"
        with msitd.Client("bench", endpoint=endpoint, max_block=60) as client:

            def work() -> int:
                for i in range(count):
                    tensor[0] = i
                    client.record(tensor, op=f"op.{i}")
                client.flush(120)
                client.next_token()
                return count * tensor.nbytes

            return best_of(3, work)
    finally:
        daemon.terminate()
        daemon.wait(60)
        shutil.rmtree(sockets)


def numpy_save(folder: Path, count: int) -> float:
    """Returns the GB/s of numpy.save of 1 MiB tensors, durable at the end."""
    tensor = np.random.default_rng(0).standard_normal(MIB // 4, dtype=np.float32)
    files = folder / "npy"
    files.mkdir()

    def work() -> int:
        for i in range(count):
            tensor[0] = i
            with open(files / f"{i}.npy", "wb") as f:
                np.save(f, tensor)
        subprocess.run(["sync", "-f", files], check=True)
        return count * tensor.nbytes

    return best_of(3, work)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", required=True, help="file to write")
    parser.add_argument("--only", action="append", help="benchmark to run; repeatable")
    parser.add_argument("--bin", type=Path, required=True, help="folder of msitd")
    parser.add_argument("--tests", type=Path, required=True, help="folder of tests")
    args = parser.parse_args()

    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=args.bin.parent))
    tests, binaries = args.tests.resolve(), args.bin.resolve()

    def ratio(
        target: float,
        baseline: str,
        measure: Callable[[], float],
        measure_baseline: Callable[[], float],
    ) -> Callable[[], Result]:
        def run() -> Result:
            baseline_value = measure_baseline()
            value = measure()
            return Result(
                value / baseline_value,
                "x",
                "higher",
                target,
                value,
                baseline,
                baseline_value,
            )

        return run

    read = functools.cache(lambda: kernel(tests, "BM_Read"))

    def against_read(name: str, target: float) -> Callable[[], Result]:
        return ratio(target, "plain read", lambda: kernel(tests, name), read)

    benchmarks: dict[str, Callable[[], Result]] = {
        "summary-and-hash-float32": ratio(
            1.0,
            "numpy min, max, mean and norm",
            lambda: kernel(tests, "BM_Digest/float32"),
            numpy_statistics,
        ),
        "pair-metrics-float32": ratio(
            3.0,
            "numpy max and mean error, relative distance and cosine",
            lambda: kernel(tests, "BM_Pair/float32_without_kl"),
            numpy_pair,
        ),
        "reduce.bandwidth_ratio.fp32": against_read("BM_Summarize/float32", 0.9),
        "reduce.bandwidth_ratio.bf16": against_read("BM_Summarize/bfloat16", 0.8),
        "reduce.bandwidth_ratio.fp16": against_read("BM_Summarize/float16", 0.6),
        "reduce.bandwidth_ratio.int8": against_read("BM_Summarize/int8", 0.8),
        "reduce.bandwidth_ratio.fp8": against_read("BM_Summarize/float8_e4m3fn", 0.4),
        "reduce.vs_torch.fp32": ratio(
            2.5,
            "torch max, min, mean and norm",
            lambda: kernel(tests, "BM_Summarize/float32"),
            lambda: torch_statistics(torch.float32),
        ),
        "reduce.vs_torch.bf16": ratio(
            6.0,
            "torch max, min, mean and norm",
            lambda: kernel(tests, "BM_Summarize/bfloat16"),
            lambda: torch_statistics(torch.bfloat16),
        ),
        "compare.bandwidth_ratio.fp32": against_read("BM_Pair/float32_without_kl", 0.9),
        "compare.bandwidth_ratio.bf16": against_read(
            "BM_Pair/bfloat16_without_kl", 0.9
        ),
        "compare.bandwidth_ratio_kl.fp32": against_read("BM_Pair/float32", 0.45),
        "compare.vs_msit": ratio(
            40.0,
            "msit's seven metrics in torch",
            lambda: kernel(tests, "BM_Pair/float32"),
            torch_msit,
        ),
        "record-1-mib": ratio(
            1.0,
            "numpy.save of the same tensors to the same disk",
            lambda: record(folder, args.bin, 200),
            lambda: numpy_save(folder, 200),
        ),
        "capture.memcpy_ratio": lambda: capture_memcpy_ratio(tests, binaries, folder),
        "capture.small_us": lambda: capture_small_us(tests, binaries, folder),
        "ingest.disk_ratio": lambda: ingest_disk_ratio(tests, binaries, folder),
    }
    unknown = set(args.only or ()) - set(benchmarks)
    if unknown:
        parser.error(f"no benchmark {sorted(unknown)}; there are {list(benchmarks)}")
    results = []
    try:
        for name in args.only or benchmarks:
            result = benchmarks[name]()
            results.append({"name": name, **asdict(result)})
            print(
                f"{name}: {result.figure:.2f} {result.unit} (target "
                f"{result.target:g}, {result.better} is better); "
                f"{result.value:.3g} against {result.baseline_value:.3g}, "
                f"{result.baseline}",
                flush=True,
            )
    finally:
        shutil.rmtree(folder)
    Path(args.json).write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
