"""How fast files of other tools come into a run."""

import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ge_dump
import numpy as np
from measure import MIB, Bench, Result, at_least, new_daemon, ratio, seconds_of

FILE_BYTES = 4 * MIB
SMALL_BYTES = 8192


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
    """GE dumps of two tensors each."""
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
    """Returns how long imports into a store take that has nothing yet."""
    with new_daemon(bench) as daemon:

        def bring() -> None:
            for i, folder in enumerate(folders):
                endpoint = ("--endpoint", f"unix:{daemon.socket_dir}")
                words = ("run", "import", str(folder), "--source", "files")
                daemon.ctl(*endpoint, *words, "--run", f"run-{i}")

        return seconds_of(bring)


def disk_ratio(bench: Bench) -> Result:
    """Importing NumPy files and GE dumps against reading them, both from the disk."""
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
