"""Measures msitd and what people use instead, in the same run.

Writes a list of {name, figure, unit, better, target, value, baseline,
baseline_value}: `value` and `baseline_value` are in GB/s of payload, `figure`
is what the target is about, their quotient.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msitd
import numpy as np

MIB = 1 << 20


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

    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=args.bin.parent))
    benchmarks: dict[str, tuple[float, str, Callable[[], float], Callable[[], float]]]
    benchmarks = {
        "summary-and-hash-float32": (
            1.0,
            "numpy min, max, mean and norm",
            lambda: kernel(args.tests, "BM_Digest/float32"),
            numpy_statistics,
        ),
        "pair-metrics-float32": (
            3.0,
            "numpy max and mean error, relative distance and cosine",
            lambda: kernel(args.tests, "BM_Pair/float32_without_kl"),
            numpy_pair,
        ),
        "record-1-mib": (
            1.0,
            "numpy.save of the same tensors to the same disk",
            lambda: record(folder, args.bin, 200),
            lambda: numpy_save(folder, 200),
        ),
    }
    unknown = set(args.only or ()) - set(benchmarks)
    if unknown:
        parser.error(f"no benchmark {sorted(unknown)}; there are {list(benchmarks)}")
    results = []
    try:
        for name in args.only or benchmarks:
            target, baseline, measure, measure_baseline = benchmarks[name]
            baseline_value = measure_baseline()
            value = measure()
            results.append(
                {
                    "name": name,
                    "figure": value / baseline_value,
                    "unit": "x",
                    "better": "higher",
                    "target": target,
                    "value": value,
                    "baseline": baseline,
                    "baseline_value": baseline_value,
                }
            )
            print(
                f"{name}: {value:.2f} GB/s, {baseline}: {baseline_value:.2f} GB/s, "
                f"{value / baseline_value:.2f} times (target {target:g})",
                flush=True,
            )
    finally:
        shutil.rmtree(folder)
    Path(args.json).write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
