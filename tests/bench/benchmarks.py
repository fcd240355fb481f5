"""Measures msitd and its alternatives in the same run.

Writes a list of {name, figure, unit, better, target, value, baseline,
baseline_value}: `figure` is compared with the target. For a ratio it is the
quotient of `value` and `baseline_value`, which are in GB/s of payload or in
seconds per GB; for a time all three are in its unit, and there is no baseline.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import bench_archive
import bench_compare
import bench_cores
import bench_far
import bench_fleet
import bench_import
import bench_ingest
import bench_model
import bench_ray
import bench_recover
import bench_watch
import numpy as np
import torch
from measure import SCALES, Bench, NotMeasured, Result, best_of, google, ratio


def kernels(bench: Bench, *names: str) -> list[float]:
    """Returns the best GB/s of benchmarks of msitd_compute_bench."""
    runs = google(bench, "msitd_compute_bench", names, 3)
    return [max(run["bytes_per_second"] for run in runs[n]) / 1e9 for n in names]


def numpy_statistics(bench: Bench) -> float:
    """Returns the GB/s of min, max, mean and norm of a float32 array."""
    array = np.random.default_rng(0).standard_normal(
        bench.scale.array_elements, dtype=np.float32
    )

    def work() -> int:
        _ = (array.min(), array.max(), array.mean(), np.linalg.norm(array))
        return array.nbytes

    return best_of(5, work)


def numpy_pair(bench: Bench) -> float:
    """Returns the GB/s, of both sides, of four metrics of a pair."""
    rng = np.random.default_rng(0)
    golden = rng.standard_normal(bench.scale.array_elements, dtype=np.float32)
    target = golden + np.float32(1e-3)

    def work() -> int:
        difference = np.abs(target - golden)
        _ = difference.max(), difference.mean()
        _ = np.linalg.norm(difference) / np.linalg.norm(golden)
        _ = np.dot(target, golden) / np.linalg.norm(target) / np.linalg.norm(golden)
        return 2 * golden.nbytes

    return best_of(3, work)


def torch_statistics(bench: Bench, dtype: torch.dtype) -> float:
    """Returns the GB/s of max, min, mean and norm in torch, on one thread."""
    tensor = torch.randn(bench.scale.array_elements, generator=torch.manual_seed(0)).to(
        dtype
    )

    def work() -> int:
        _ = (tensor.max(), tensor.min(), tensor.mean(), torch.linalg.norm(tensor))
        return tensor.numel() * tensor.element_size()

    return best_of(5, work)


def torch_msit(bench: Bench) -> float:
    """Returns the GB/s, of both sides, of msit's seven metrics in torch."""
    generator = torch.manual_seed(0)
    elements = bench.scale.array_elements // 4
    golden = torch.randn(elements, generator=generator)
    mine = golden + 1e-3 * torch.randn(elements, generator=generator)
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


Measure = Callable[[Bench], Result]


def against(
    target: float, name: str, baseline: str, measure: Callable[[Bench], float]
) -> Measure:
    """A kernel compared with its usual alternative."""

    def run(bench: Bench) -> Result:
        baseline_value = measure(bench)
        (value,) = kernels(bench, name)
        return ratio("higher", target, value, baseline, baseline_value)

    return run


def against_read(target: float, name: str) -> Measure:
    """A kernel compared with reading the same bytes."""

    def run(bench: Bench) -> Result:
        value, read = kernels(bench, name, "BM_Read")
        return ratio("higher", target, value, "plain read", read)

    return run


BENCHMARKS: dict[str, Measure] = {
    "summary-and-hash-float32": against(
        1.0, "BM_Digest/float32", "numpy min, max, mean and norm", numpy_statistics
    ),
    "pair-metrics-float32": against(
        3.0,
        "BM_Pair/float32_without_kl",
        "numpy max and mean error, relative distance and cosine",
        numpy_pair,
    ),
    "reduce.bandwidth_ratio.fp32": against_read(0.9, "BM_Summarize/float32"),
    "reduce.bandwidth_ratio.bf16": against_read(0.8, "BM_Summarize/bfloat16"),
    "reduce.bandwidth_ratio.fp16": against_read(0.6, "BM_Summarize/float16"),
    "reduce.bandwidth_ratio.int8": against_read(0.8, "BM_Summarize/int8"),
    "reduce.bandwidth_ratio.fp8": against_read(0.4, "BM_Summarize/float8_e4m3fn"),
    "reduce.vs_torch.fp32": against(
        2.5,
        "BM_Summarize/float32",
        "torch max, min, mean and norm",
        lambda bench: torch_statistics(bench, torch.float32),
    ),
    "reduce.vs_torch.bf16": against(
        6.0,
        "BM_Summarize/bfloat16",
        "torch max, min, mean and norm",
        lambda bench: torch_statistics(bench, torch.bfloat16),
    ),
    "compare.bandwidth_ratio.fp32": against_read(0.9, "BM_Pair/float32_without_kl"),
    "compare.bandwidth_ratio.bf16": against_read(0.9, "BM_Pair/bfloat16_without_kl"),
    "compare.bandwidth_ratio_kl.fp32": against_read(0.45, "BM_Pair/float32"),
    "compare.vs_msit": against(
        40.0, "BM_Pair/float32", "msit's seven metrics in torch", torch_msit
    ),
    "compare.run_ratio": bench_compare.run_ratio,
    "compare.run_growth_mib": bench_compare.run_growth_mib,
    "compare.small_ratio": bench_compare.small_ratio,
    "compare.small_rows": bench_compare.small_rows,
    "compare.mid_ratio": bench_compare.mid_ratio,
    "compare.equal_ratio": bench_compare.equal_ratio,
    "compare.view_ratio": bench_compare.view_ratio,
    "query.get_us": bench_compare.get_us,
    "query.get_growth": bench_compare.get_growth,
    "query.list_page_ms": bench_compare.list_page_ms,
    "query.list_page_growth": bench_compare.list_page_growth,
    "query.set_reduce_ms": bench_compare.set_reduce_ms,
    "query.control_ms": bench_compare.control_ms,
    "recover.seconds_per_gib": bench_recover.seconds_per_gib,
    "record-1-mib": bench_ingest.record_1_mib,
    "capture.memcpy_ratio": bench_ingest.capture_memcpy_ratio,
    "capture.summary_ratio": bench_ingest.capture_summary_ratio,
    "capture.summary_again_ratio": bench_ingest.capture_summary_again_ratio,
    "capture.small_us": bench_ingest.capture_small_us,
    "capture.python_us": bench_ingest.capture_python_us,
    "capture.off_ns": bench_ingest.capture_off_ns,
    "capture.off_hook_ns": bench_ingest.capture_off_hook_ns,
    **bench_model.BENCHMARKS,
    **bench_cores.BENCHMARKS,
    "ingest.disk_ratio": bench_ingest.disk_ratio,
    "ingest.files_ratio": bench_ingest.files_ratio,
    "ingest.records_ratio": bench_ingest.records_ratio,
    "ingest.grpc_ratio": bench_ingest.grpc_ratio,
    "ingest.rss_mib": bench_ingest.rss_mib,
    "import.disk_ratio": bench_import.disk_ratio,
    "import.small_files": bench_import.small_files,
    "import.vs_msit": bench_import.vs_msit,
    "watch.lag_p99_s": bench_watch.lag_p99_s,
    **bench_fleet.BENCHMARKS,
    **bench_far.BENCHMARKS,
    **bench_ray.BENCHMARKS,
    **bench_archive.BENCHMARKS,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", required=True, help="file to write")
    parser.add_argument("--only", action="append", help="benchmark to run; repeatable")
    parser.add_argument("--bin", type=Path, required=True, help="folder of msitd")
    parser.add_argument("--tests", type=Path, required=True, help="folder of tests")
    parser.add_argument(
        "--scale",
        choices=SCALES,
        default="short",
        help="how much to do: smoke only shows that all of them work, long is "
        "gigabytes and an index of 10 M tensors; default: short",
    )
    args = parser.parse_args()
    unknown = set(args.only or ()) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no benchmark {sorted(unknown)}; there are {list(BENCHMARKS)}")

    torch.set_num_threads(1)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=args.bin.parent)).resolve()
    bench = Bench(args.tests.resolve(), args.bin.resolve(), folder, SCALES[args.scale])
    results = []
    try:
        for name in args.only or BENCHMARKS:
            try:
                result = BENCHMARKS[name](bench)
            except NotMeasured as missing:
                print(f"{name}: not measured: {missing}", flush=True)
                continue
            results.append({"name": name, **asdict(result)})
            print(
                f"{name}: {result.figure:.3g} {result.unit} (target "
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
