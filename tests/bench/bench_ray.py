"""The overhead of Ray for a comparison in parts, compared with plain processes."""

import functools
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from measure import Bench, NotMeasured, Result, at_most, ratio

sys.path.append(str(Path(__file__).resolve().parents[1] / "ray"))

from apart import has_rights, run_apart

SCENARIO = Path(__file__).resolve().parents[1] / "ray" / "bench_scenario.py"
TIMEOUT_S = 3600


@functools.cache
def answers(bench: Bench) -> dict[str, list[dict[str, Any]]]:
    """Returns the answers of both engines, run in turns."""
    python = os.environ.get("MSITD_RAY_PYTHON")
    if python is None:
        raise NotMeasured("MSITD_RAY_PYTHON names no Python with msitd[ray]")
    if not has_rights():
        raise NotMeasured("no rights for namespaces of network and processes")
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir=bench.folder))
    rows = bench.scale.index_tensors[-1]
    turns = min(3, bench.scale.repetitions)
    words = [str(SCENARIO), "turns", str(folder), str(rows), str(turns)]
    run_apart(folder, words, python, TIMEOUT_S)
    value = json.loads((folder / "answer.json").read_text())
    for engine in value.values():
        assert all(answer["rows"] == rows for answer in engine)
    assert isinstance(value, dict)
    return value


def efficiency(bench: Bench) -> Result:
    """Two processes with half of the work each / two actors of a running Ray."""
    processes, ray = (
        statistics.median(answer["seconds"] for answer in engine)
        for engine in answers(bench).values()
    )
    return ratio("higher", 0.9, processes, "s of two actors of Ray", ray)


def driver_mib(bench: Bench) -> Result:
    """The peak memory of the driver."""
    kib = max(answer["driver_kib"] for answer in answers(bench)["ray"])
    alone = max(answer["driver_kib"] for answer in answers(bench)["processes"])
    return at_most(256, kib / 1024, "MiB", "driver of processes", alone / 1024)


BENCHMARKS = {"ray.efficiency": efficiency, "ray.driver_mib": driver_mib}
