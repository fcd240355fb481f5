"""Compares tiny tensors on Ray and in plain processes, in turns.

usage: bench_scenario.py turns FOLDER ROWS TURNS   writes FOLDER/answer.json
       bench_scenario.py one ENGINE FOLDER ENDPOINT GROUPS
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import msitd
import numpy as np
from msitd import fleet, query
from scenario import daemon

RANKS, OPS = 2, 1000


def record(sockets: str, rows: int) -> None:
    """Records two runs of tensors of 64 bytes; one in a thousand differs."""
    tensor = np.arange(16, dtype=np.float32)
    ops = [f"op.{op}" for op in range(OPS)]
    for run in ("g", "t"):
        for rank in range(RANKS):
            with msitd.Client(
                run,
                rank=rank,
                world_size=RANKS,
                endpoint=f"unix:{sockets}",
                max_block=60,
            ) as client:
                for i in range(rows // RANKS):
                    token, op = divmod(i, OPS)
                    value = tensor + 1 if run == "t" and op == 7 else tensor
                    client.record(value, op=ops[op], token=token, call=0)
                client.flush(600)
        with query.connect(f"unix:{sockets}/msitd.sock") as asked:
            asked.runs.seal(run)


def one(engine: str, folder: str, endpoint: str, groups: int) -> None:
    """Compares once; reports seconds, and the peak memory of this process in KiB."""
    if engine == "ray":
        import ray

        # Users have a running Ray as well.
        ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    start = time.perf_counter()
    done = fleet.compare(
        golden="g",
        target="t",
        golden_source=endpoint,
        target_source=endpoint,
        engine=engine,  # type: ignore[arg-type]
        workers=2,
        out=f"{folder}/out-{engine}",
        task_groups=groups,
    )
    seconds = time.perf_counter() - start
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(line for line in status if line.startswith("VmHWM"))
    print(
        json.dumps(
            {
                "seconds": seconds,
                "driver_kib": int(peak.split()[1]),
                "rows": sum(task["row_count"] for task in done.tasks),
                "task_seconds": [task["seconds"] for task in done.tasks],
            }
        )
    )


def turns(folder: Path, rows: int, count: int) -> None:
    """Runs both engines in turns, each with the same two halves."""
    groups = rows // OPS // 2
    answers: dict[str, list[object]] = {"processes": [], "ray": []}
    with daemon(folder) as sockets:
        record(sockets, rows)
        for _ in range(count):
            for engine, list_of_engine in answers.items():
                words = [engine, str(folder), f"unix:{sockets}/msitd.sock", str(groups)]
                done = subprocess.run(
                    [sys.executable, __file__, "one", *words],
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
                list_of_engine.append(json.loads(done.stdout.splitlines()[-1]))
    (folder / "answer.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    if sys.argv[1] == "one":
        one(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
    else:
        turns(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
