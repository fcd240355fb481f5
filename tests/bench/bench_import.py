"""Speed of importing files of other tools into a run."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ge_dump
import numpy as np
from measure import (
    MIB,
    Bench,
    NotMeasured,
    Result,
    at_least,
    new_daemon,
    ratio,
    seconds_of,
)

FILE_BYTES = 4 * MIB
SMALL_BYTES = 8192
# Per token in the trees that are compared: each op has two inputs and an
# output.
TOKEN_OPS = 100
OP_SHAPE = (1, 4096)  # The shape in a decoding step.
FIRST_US = 1_756_699_200_000_000


@contextmanager
def new_folder(bench: Bench) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="import-", dir=bench.folder))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def sync(files: list[Path]) -> None:
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


def forget(files: list[Path]) -> None:
    """Drops files from the page cache."""
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def read_once(files: list[Path]) -> None:
    buffer = bytearray(MIB)
    for path in files:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def write_arrays(folder: Path, count: int, size_bytes: int) -> list[Path]:
    array = np.random.default_rng(0).standard_normal(size_bytes // 4, dtype=np.float32)
    files = [folder / f"{i // 1000}/op.{i}.npy" for i in range(count)]
    for i, file in enumerate(files):
        file.parent.mkdir(parents=True, exist_ok=True)
        array[0] = i
        np.save(file, array)
    return files


def write_dumps(folder: Path, count: int) -> list[Path]:
    """Writes GE dumps of two tensors each."""
    folder.mkdir(parents=True)
    array = np.random.default_rng(1).standard_normal(FILE_BYTES // 8, dtype=np.float32)
    shape = array.shape
    files = []
    for i in range(count):
        tensors = []
        for side in range(2):
            array[0] = 2 * i + side
            raw = array.tobytes()
            tensors.append(ge_dump.Dumped(1, ge_dump.ND, shape, shape, raw))
        files.append(folder / f"MatMul.op{i}.{i}.1.{1759312800000000 + i}")
        ge_dump.write(files[-1], tensors[:1], tensors[1:])
    return files


def import_seconds(bench: Bench, *folders: Path) -> float:
    """Returns the time of imports into an empty store, in seconds."""
    with new_daemon(bench) as daemon:

        def bring() -> None:
            for i, folder in enumerate(folders):
                endpoint = ("--endpoint", f"unix:{daemon.socket_dir}")
                words = ("run", "import", str(folder), "--source", "files")
                daemon.ctl(*endpoint, *words, "--run", f"run-{i}")

        return seconds_of(bring)


def disk_ratio(bench: Bench) -> Result:
    """Importing NumPy files and GE dumps, against reading them, both from the disk."""
    count = max(bench.scale.import_mib * MIB // FILE_BYTES // 2, 1)
    gigabytes = 2 * count * FILE_BYTES / 1e9
    import_s, read_s = [], []
    with new_folder(bench) as folder:
        arrays = write_arrays(folder / "npy", count, FILE_BYTES)
        files = [*arrays, *write_dumps(folder / "ge", count)]
        sync(files)
        for _ in range(min(3, bench.scale.repetitions)):
            forget(files)
            import_s.append(import_seconds(bench, folder / "npy", folder / "ge"))
            forget(files)
            read_s.append(seconds_of(lambda: read_once(files)))
    value = gigabytes / statistics.median(import_s)
    baseline_value = gigabytes / statistics.median(read_s)
    baseline = "reading the files once with a cold cache, GB/s"
    return ratio("higher", 0.5, value, baseline, baseline_value)


def small_files(bench: Bench) -> Result:
    """Files of 8 KiB that are in the page cache."""
    count = bench.scale.import_files
    import_s, read_s = [], []
    with new_folder(bench) as folder:
        files = write_arrays(folder, count, SMALL_BYTES)
        for _ in range(min(3, bench.scale.repetitions)):
            read_s.append(seconds_of(lambda: read_once(files)))
            import_s.append(import_seconds(bench, folder))
    value = count / statistics.median(import_s)
    baseline_value = count / statistics.median(read_s)
    baseline = "reading the same files in Python, files/s"
    return at_least(10_000, value, "files/s", baseline, baseline_value)


def write_graph(file: Path) -> None:
    lines = ['name: "graph_1"']
    for i in range(TOKEN_OPS):
        fx = f'"mul_{i}-aten.mul.Tensor.OUTPUT.0"'
        lines.append(
            f'op {{\n  name: "Mul_{i}"\n  type: "Mul"\n  output_desc {{\n'
            f'    name: "y"\n    attr {{\n      key: "_fx_tensor_name"\n'
            f"      value {{\n        s: {fx}\n      }}\n    }}\n  }}\n}}"
        )
    file.write_text("\n".join(lines) + "\n")


def write_trees(folder: Path, tokens: int) -> tuple[Path, Path]:
    """Writes TorchAir's dumps of a model in eager mode, and in graph mode."""
    rank = "worldsize1_global_rank0"
    eager, graph = folder / "msit_fx_dump", folder / "msit_ge_dump"
    rng = np.random.default_rng(2)
    for token in range(tokens):
        fx = eager / rank / "graph_1" / str(token)
        ge = graph / rank / "20250901040000" / "0" / "graph_1" / "1" / str(token)
        fx.mkdir(parents=True)
        ge.mkdir(parents=True)
        for op in range(TOKEN_OPS):
            arrays = rng.standard_normal((3, *OP_SHAPE), dtype=np.float32)
            time_us = FIRST_US + token * TOKEN_OPS + op
            for place, array in zip(
                ("INPUT.0", "INPUT.1", "OUTPUT.0"), arrays, strict=True
            ):
                name = f"mul_{op}-aten.mul.Tensor.{place}.2025090104{time_us % 10**10}"
                np.save(fx / f"{name}.npy", array)
            arrays *= np.float32(1 + 1e-4)
            raw = [array.tobytes() for array in arrays]
            dumped = [ge_dump.Dumped(1, ge_dump.ND, OP_SHAPE, OP_SHAPE, r) for r in raw]
            file = ge / f"Mul.Mul_{op}.{op}.1.{time_us}"
            ge_dump.write(file, dumped[:2], dumped[2:], f"Mul_{op}")
    write_graph(graph / "dynamo_original_graph_1_rank_0_pid_1_ts_20250901040000.txt")
    return eager, graph


def report_rows(output: Path) -> int:
    (report,) = output.glob("msit_cmp_report_rank0_*.csv")
    return len(report.read_text().splitlines()) - 1


def msit_seconds(msit: Path, trees: tuple[Path, Path], output: Path) -> float:
    output.mkdir()
    program = Path(__file__).resolve().parent / "msit_original.py"
    words = [sys.executable, program, msit, *trees, output, str(np.prod(OP_SHAPE))]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


def our_seconds(bench: Bench, trees: tuple[Path, Path], output: Path) -> float:
    eager, graph = trees
    paths = ("-gp", eager, "-mp", graph, "-o", output)
    words = [bench.binaries / "msit", "llm", "compare", *paths]
    # Its daemon stores its data on the disk that is measured.
    environment = {**os.environ, "TMPDIR": str(bench.folder)}

    def compare() -> None:
        subprocess.run(words, capture_output=True, check=True, env=environment)

    return seconds_of(compare)


def vs_msit(bench: Bench) -> Result:
    """From the files of two runs to the report with 24 columns."""
    tokens = bench.scale.import_tokens
    ours, theirs = [], []
    source = os.environ.get("MSIT_SOURCE")
    with new_folder(bench) as folder:
        trees = write_trees(folder, tokens)
        for i in range(min(3, bench.scale.repetitions)):
            outputs = [folder / f"{who}-{i}" for who in ("ours", "theirs")]
            ours.append(our_seconds(bench, trees, outputs[0]))
            if source is None:
                continue
            theirs.append(msit_seconds(Path(source), trees, outputs[1]))
            if report_rows(outputs[0]) != report_rows(outputs[1]):
                raise RuntimeError(f"the reports differ: {outputs}")
    value = tokens / statistics.median(ours)
    if not theirs:
        raise NotMeasured(
            f"{value:.3g} tokens/s; MSIT_SOURCE names no checkout of msit, whose "
            "components/llm is the baseline"
        )
    baseline_value = tokens / statistics.median(theirs)
    baseline = "msit's own Python without its parser of dumps, tokens/s"
    return ratio("higher", 20, value, baseline, baseline_value)
