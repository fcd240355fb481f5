"""Comparisons of whole runs, and queries, with the real daemon."""

import functools
from dataclasses import dataclass
from typing import Any

import grpc
from measure import (
    MIB,
    OPS_PER_TOKEN,
    Bench,
    Result,
    at_least,
    at_most,
    google,
    import_stubs,
    medians,
    memory_bytes,
    new_daemon,
    peak_memory,
    ratio,
    read_directly,
    record_different,
    record_mebibytes,
    record_names,
    record_small,
    segments,
    take_turns,
)

# After every row: a stream from here only reports the end.
BEHIND_ALL_ROWS = 1 << 40


def compare(
    channel: grpc.Channel, golden: str, target: str, target_view: str = ""
) -> Any:
    """Compares two runs and returns the comparison once it is done.

    A view, if not empty, applies to all tensors of the target.
    """
    import_stubs()
    from msitd.v1 import comparison_service_pb2 as pb
    from msitd.v1.comparison_service_pb2_grpc import ComparisonServiceStub

    stub = ComparisonServiceStub(channel)
    request = pb.CreateComparisonRequest()
    request.comparison.golden_run = golden
    request.comparison.target_run = target
    if target_view:
        request.comparison.matching.target_views.add(op_pattern="*", view=target_view)
    comparison = stub.CreateComparison(request)
    watch = pb.StreamComparisonRowsRequest(
        comparison=comparison.name, first_row=BEHIND_ALL_ROWS
    )
    for message in stub.StreamComparisonRows(watch):
        comparison = message.comparison
    assert comparison.state == pb.Comparison.DONE, comparison
    return comparison


@dataclass
class ComparedRuns:
    """The results of comparing two large runs."""

    bytes_read: int
    compare_s: float
    read_s: float
    memory_before: int
    memory_peak: int


@functools.cache
def compared_runs(bench: Bench) -> ComparedRuns:
    """Compares two runs of tensors of 1 MiB that all differ."""
    count = bench.scale.compare_mib
    with new_daemon(bench) as daemon:
        record_mebibytes(daemon, "golden", count, seed=0)
        record_mebibytes(daemon, "target", count, seed=1)
        channel = daemon.channel()
        bytes_read = 2 * count * MIB

        def work() -> None:
            comparison = compare(channel, "golden", "target")
            assert comparison.read_bytes == bytes_read, comparison
            assert comparison.pass_count + comparison.fail_count == count

        import_stubs()
        before = memory_bytes(daemon)
        with peak_memory(daemon) as observed:
            compare_s, read_s = take_turns(
                bench, 5, work, lambda: read_directly(segments(daemon), bytes_read)
            )
        return ComparedRuns(bytes_read, compare_s, read_s, before, max(observed))


def run_ratio(bench: Bench) -> Result:
    """Two stored runs end to end, compared with reading their bytes."""
    runs = compared_runs(bench)
    gigabytes = runs.bytes_read / 1e9
    return ratio(
        "higher",
        0.8,
        gigabytes / runs.compare_s,
        "O_DIRECT reads of 4 MiB of the same bytes, GB/s",
        gigabytes / runs.read_s,
    )


def run_growth_mib(bench: Bench) -> Result:
    """Growth of the daemon's memory during such comparisons."""
    runs = compared_runs(bench)
    growth = (runs.memory_peak - runs.memory_before) / MIB
    before = runs.memory_before / MIB
    return at_most(256, growth, "MiB", "its memory before, MiB", before)


@dataclass
class DifferentRuns:
    """The results of comparing two runs of tensors that all differ."""

    gigabytes: float
    compare_s: float
    read_s: float


@functools.cache
def different_runs(bench: Bench, count: int, size_bytes: int) -> DifferentRuns:
    """Compares two runs of tensors of one size, with a thousand ops."""
    with new_daemon(bench) as daemon:
        for seed, run in enumerate(("golden", "target")):
            record_different(daemon, run, count, seed, size_bytes, OPS_PER_TOKEN)
        channel = daemon.channel()
        bytes_read = 2 * count * size_bytes

        def work() -> None:
            comparison = compare(channel, "golden", "target")
            assert comparison.read_bytes == bytes_read, comparison
            assert comparison.pass_count + comparison.fail_count == count

        import_stubs()
        compare_s, read_s = take_turns(
            bench, 5, work, lambda: read_directly(segments(daemon), bytes_read)
        )
    return DifferentRuns(bytes_read / 1e9, compare_s, read_s)


def of_read(runs: DifferentRuns, target: float) -> Result:
    """Comparing them, against reading their bytes."""
    return ratio(
        "higher",
        target,
        runs.gigabytes / runs.compare_s,
        "O_DIRECT reads of 4 MiB of as many bytes, GB/s",
        runs.gigabytes / runs.read_s,
    )


def small_ratio(bench: Bench) -> Result:
    """Two runs of tensors of 8 KiB, all different."""
    return of_read(different_runs(bench, bench.scale.small_tensors, 8 << 10), 0.5)


def small_rows(bench: Bench) -> Result:
    """Two runs of tensors of 1 KiB, all different: rows per second."""
    count = bench.scale.small_tensors
    runs = different_runs(bench, count, 1 << 10)
    baseline = "as many bytes with O_DIRECT reads of 4 MiB, rows/s"
    return at_least(
        100_000, count / runs.compare_s, "rows/s", baseline, count / runs.read_s
    )


def mid_ratio(bench: Bench) -> Result:
    """Two runs of tensors of 256 KiB, all different."""
    return of_read(different_runs(bench, bench.scale.mid_tensors, 256 << 10), 0.85)


def equal_ratio(bench: Bench) -> Result:
    """Two equal runs, decided by their hashes: seconds for 1e5 tensors."""
    count = bench.scale.equal_tensors
    with new_daemon(bench) as daemon:
        record_small(daemon, "golden", count)
        record_small(daemon, "target", count)
        channel = daemon.channel()

        def work() -> None:
            comparison = compare(channel, "golden", "target")
            assert comparison.pass_count == count, comparison
            assert comparison.read_bytes == 0, comparison

        import_stubs()
        (compare_s,) = take_turns(bench, 5, work)
    (scan_s,) = medians(
        google(
            bench,
            "msitd_query_bench",
            ("BM_ScanEntries",),
            5,
            MSITD_BENCH_REDUCE_TENSORS=2 * count,
        )
    )
    factor = 1e5 / count
    baseline = "a look at the entries of both in a bare RocksDB, s"
    return at_most(0.5, compare_s * factor, "s", baseline, scan_s * factor)


# The order of [s,b,h] and [b,s,h], with the shape of the recorded tensors.
PERMUTED = "reshape(16,16,1024).permute(1,0,2).flatten"


def view_ratio(bench: Bench) -> Result:
    """Two runs of tensors of 1 MiB, one seen through a view: as many times as long."""
    count = bench.scale.compare_mib
    with new_daemon(bench) as daemon:
        record_mebibytes(daemon, "golden", count, seed=0)
        record_mebibytes(daemon, "target", count, seed=1)
        channel = daemon.channel()

        def work(view: str) -> None:
            comparison = compare(channel, "golden", "target", view)
            # The explanation of the first difference reads some tensors again.
            again = comparison.read_bytes - 2 * count * MIB
            assert 0 <= again <= 16 * MIB, comparison
            assert comparison.pass_count + comparison.fail_count == count

        import_stubs()
        plain_s, viewed_s = take_turns(
            bench, 5, functools.partial(work, ""), functools.partial(work, PERMUTED)
        )
    baseline = "the same comparison without views, s"
    return at_most(1.3, viewed_s / plain_s, "times", baseline, plain_s)


QUERIES = (
    "BM_Get/small",
    "BM_Get/large",
    "BM_GetBare",
    "BM_ListPage/small",
    "BM_ListPage/large",
    "BM_ListPageBare",
    "BM_Summarize",
    "BM_ScanEntries",
)


@functools.cache
def queries(bench: Bench) -> dict[str, float]:
    """Returns the seconds of all queries, for a small and for a large index."""
    small, large = bench.scale.index_tensors
    assert small % OPS_PER_TOKEN == 0 and large % OPS_PER_TOKEN == 0
    with new_daemon(bench) as of_small, new_daemon(bench) as of_large:
        record_small(of_small, "bench", small)
        record_small(of_large, "bench", large)
        runs = google(
            bench,
            "msitd_query_bench",
            QUERIES,
            5,
            MSITD_BENCH_SMALL=f"unix:{of_small.socket_dir}/msitd.sock",
            MSITD_BENCH_SMALL_TENSORS=small,
            MSITD_BENCH_LARGE=f"unix:{of_large.socket_dir}/msitd.sock",
            MSITD_BENCH_LARGE_TENSORS=large,
            MSITD_BENCH_REDUCE_TENSORS=bench.scale.reduce_tensors,
        )
    return dict(zip(QUERIES, medians(runs), strict=True))


def get_us(bench: Bench) -> Result:
    """The median time of one unary get over the Unix socket, large index."""
    seconds = queries(bench)
    us = seconds["BM_Get/large"] * 1e6
    baseline = "a bare gRPC server that gives the same answer, us"
    return at_most(250, us, "us", baseline, seconds["BM_GetBare"] * 1e6)


def list_page_ms(bench: Bench) -> Result:
    """The 99th percentile of the time of a page of 1000, large index."""
    seconds = queries(bench)
    ms = seconds["BM_ListPage/large"] * 1e3
    baseline = "a bare gRPC server that gives the same page, ms"
    return at_most(10, ms, "ms", baseline, seconds["BM_ListPageBare"] * 1e3)


def growth(bench: Bench, name: str, unit: str, factor: float) -> Result:
    """Growth of a query's time with an index that is ten times as large."""
    seconds = queries(bench)
    small, large = seconds[f"{name}/small"], seconds[f"{name}/large"]
    baseline = f"the index with {bench.scale.index_tensors[0]} tensors, {unit}"
    return ratio("lower", 1.3, large * factor, baseline, small * factor)


def get_growth(bench: Bench) -> Result:
    """Growth of a get's time with the index."""
    return growth(bench, "BM_Get", "us", 1e6)


def list_page_growth(bench: Bench) -> Result:
    """Growth of a page's time with the index."""
    return growth(bench, "BM_ListPage", "ms", 1e3)


def set_reduce_ms(bench: Bench) -> Result:
    """Smallest and largest element of 1e5 tensors, from their summaries."""
    seconds = queries(bench)
    factor = 1e3 * 1e5 / bench.scale.reduce_tensors
    ms = seconds["BM_Summarize"] * factor
    baseline = "a look at as many entries of a bare RocksDB, ms"
    return at_most(50, ms, "ms", baseline, seconds["BM_ScanEntries"] * factor)


def control_ms(bench: Bench) -> Result:
    """The 99th percentile of the time of a status during four slow queries."""
    with new_daemon(bench) as daemon:
        record_names(daemon, "bench", bench.scale.names)
        alone_s, besides_s = medians(
            google(
                bench,
                "msitd_query_bench",
                ("BM_Status/alone", "BM_Status/besides"),
                3,
                MSITD_BENCH_NAMES=f"unix:{daemon.socket_dir}/msitd.sock",
            )
        )
    baseline = "the same while nobody else asks, ms"
    return at_most(50, besides_s * 1e3, "ms", baseline, alone_s * 1e3)
