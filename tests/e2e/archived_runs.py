"""Random runs for archives, and rows that do not depend on the store."""

import random

from chunk_bytes import Chunk, Record, float32
from wire import write

from daemon import Daemon


def record(
    daemon: Daemon, run: str, seed: int, ranks: int = 3, held: range = range(1024)
) -> None:
    """Records a random run, which is the same for every seed except for a few values.

    The daemon gets only the ranks in `held`.
    """
    names = random.Random(7)
    values = random.Random(seed)
    for rank in range(ranks):
        records = []
        for token in range(4):
            for op in range(12):
                size = names.randrange(1, 60)
                floats = [names.uniform(-1, 1) for _ in range(size)]
                if values.random() < 0.2:
                    floats[values.randrange(size)] += values.uniform(-1, 1)
                records.append(
                    Record(
                        f"layer.{(op * 5) % 12}",
                        float32(*floats),
                        [size],
                        token=token,
                        sequence=len(records),
                    )
                )
            first = records[-1]
            records.append(
                Record(
                    "view",
                    b"",
                    first.shape,
                    token=token,
                    sequence=len(records),
                    tensor_bytes=len(first.data),
                    alias_of=(str(first.op), 0, first.io, "0"),
                )
            )
        if rank not in held:
            continue
        chunk = Chunk(run, records, rank=rank, version=2).pack()
        write(daemon.channel(), run, [chunk], rank=rank, world_size=ranks)
    daemon.ctl("run", "seal", run)


# Fields that differ between any two comparisons.
OWN = (
    "name",
    "create_time",
    "start_time",
    "end_time",
    "golden_run",
    "target_run",
    "golden_source",
    "target_source",
    "golden_run_id",
    "target_run_id",
    "stored_size_bytes",
)


def rows_of(daemon: Daemon, golden: str, target: str) -> tuple[list[dict], dict]:
    """Compares; returns all rows, and the comparison without such fields."""
    done = daemon.ctl("compare", "run", golden, target, "--rows", "none", expect=None)
    assert done.returncode in (0, 1, 4), done.stderr
    comparison = daemon.ctl_json("compare", "list")["comparisons"][-1]
    name, code = comparison["name"], done.returncode if done.returncode == 4 else 0
    comparison = daemon.ctl_json("compare", "get", name, expect=code)
    rows = daemon.ctl_json("compare", "rows", name, expect=code)["rows"]
    for row in rows:
        row.pop("comparison", None)
    for key in (*OWN, "duration", "read_bytes"):
        comparison.pop(key, None)
    return rows, comparison
