"""Delay until files are in a run that are written while their folder is watched."""

import json
import os
import subprocess
import time
from pathlib import Path

import ge_dump
import numpy as np
from bench_import import new_folder
from measure import Bench, Result, at_most, new_daemon

FILES_PER_SECOND = 1000
RANKS = 8
OPS = 100
ELEMENTS = 1024
SECONDS_MAX = 30


def write_dumps(root: Path, count: int) -> float:
    """Writes dumps at the rate; returns the rate that was reached."""
    raw = np.arange(ELEMENTS, dtype=np.float32).tobytes()
    tensor = ge_dump.Dumped(1, ge_dump.ND, (ELEMENTS,), (ELEMENTS,), raw)
    start = time.perf_counter()
    for i in range(count):
        rank, task = i % RANKS, i // RANKS
        place = f"worldsize{RANKS}_global_rank{rank}/20250101000000/{rank}/graph_1/1"
        folder = root / place / str(task // OPS)
        if task % OPS == 0:
            folder.mkdir(parents=True, exist_ok=True)
        name = f"MatMul.op_{task % OPS}.{i}.1.{1759312800000000 + i}"
        ge_dump.write(folder / name, [tensor], [tensor])
        ahead = start + (i + 1) / FILES_PER_SECOND - time.perf_counter()
        if ahead > 0.002:
            time.sleep(ahead)
    return count / (time.perf_counter() - start)


def lag_p99_s(bench: Bench) -> Result:
    """GE dumps of 8 KiB of eight ranks, 1,000 per second: from the last change
    of a file until the daemon has acknowledged it.
    """
    count = min(bench.scale.import_files, SECONDS_MAX * FILES_PER_SECOND)
    with new_folder(bench) as folder, new_daemon(bench) as daemon:
        environment = {**os.environ, "MSITCTL_ENDPOINT": f"unix:{daemon.socket_dir}"}
        words = ["-o", "json", "watch", folder, "--run", "r", "--source", "ge"]
        words += ["--world-size", str(RANKS), "--until-idle", "2s"]
        watch = subprocess.Popen(
            [bench.binaries / "msitctl", *words],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            rate = write_dumps(folder, count)
            out, _ = watch.communicate(timeout=120)
        finally:
            watch.kill()
            watch.wait()
    result = json.loads(out)
    assert watch.returncode == 0, result
    assert int(result["imported"]["file_count"]) == count, result
    return at_most(2.0, result["lag_p99_s"], "s", "files written a second", rate)
