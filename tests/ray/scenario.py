"""One comparison on Ray, and the same by one daemon: FOLDER/answer.json has both.

test_ray.py starts it in its own namespaces, because Ray listens on all
addresses.

usage: scenario.py whole|kill_worker|kill_node FOLDER
"""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import msitd
import numpy as np
import pyarrow.compute as pc
import ray
from msitd import fleet, query

RANKS, TOKENS, OPS = 4, 60, 40
TASK_GROUPS = 4


@contextmanager
def daemon(folder: Path) -> Iterator[str]:
    """Starts a daemon; yields the folder of its socket."""
    sockets = tempfile.mkdtemp(prefix="msitd-")
    words = ["msitd", "--data-dir", str(folder / "data"), "--socket-dir", sockets]
    process = subprocess.Popen([*words, "--listen", "none"])
    socket = Path(sockets) / "msitd.sock"
    deadline = time.monotonic() + 30
    while not socket.exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    yield sockets
    process.terminate()
    process.wait(60)


def record(sockets: str) -> None:
    """Records two runs that differ from token 7 on, in two ranks."""
    tensor = np.arange(64, dtype=np.float32)
    for run in ("g", "t"):
        for rank in range(RANKS):
            with msitd.Client(
                run, rank=rank, world_size=RANKS, endpoint=f"unix:{sockets}"
            ) as client:
                for token in range(TOKENS):
                    for op in range(OPS):
                        added = run == "t" and rank > 1 and token > 6 and op == 5
                        value = tensor + rank + token + op + (0.5 if added else 0)
                        client.record(value, op=f"layers.{op}", token=token, call=0)


def processes(name: str) -> list[int]:
    """Returns the processes of this namespace whose command starts with `name`."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            words = Path(f"/proc/{entry}/cmdline").read_bytes()
        except (OSError, NotADirectoryError):
            continue
        if entry.isdecimal() and words.startswith(name.encode()):
            found.append(int(entry))
    return found


class Killer:
    """Kills once, in the middle of the comparison."""

    def __init__(self, kill: Callable[[], None] | None) -> None:
        self._kill = kill
        self.killed = 0

    def __call__(self, progress: fleet.Progress) -> None:
        if self._kill is not None and progress.done >= 5 and not self.killed:
            self.killed = 1
            self._kill()


def kill_worker() -> None:
    """Kills an actor that has a task."""
    os.kill(processes("ray::_Actor")[0], signal.SIGKILL)


def killer_of(what: str) -> Killer:
    """Starts what the scenario needs, and returns what kills a part of it."""
    if what == "kill_worker":
        return Killer(kill_worker)
    if what != "kill_node":
        return Killer(None)
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False},
    )
    node = cluster.add_node(num_cpus=2)
    ray.init(address=cluster.address, log_to_driver=False)

    def kill() -> None:
        cluster.add_node(num_cpus=2)
        cluster.remove_node(node, allow_graceful=False)

    return Killer(kill)


def main(what: str, folder: Path) -> None:
    killer = killer_of(what)
    with daemon(folder) as sockets:
        record(sockets)
        endpoint = f"unix:{sockets}/msitd.sock"
        with query.connect(endpoint) as asked:
            whole = asked.comparisons.run("g", "t")
            rows = asked.comparisons.rows(whole).to_arrow(all_columns=True)
        done = fleet.compare(
            golden="g",
            target="t",
            engine="ray",
            workers=2,
            endpoint=endpoint,
            out=str(folder / "out"),
            task_groups=TASK_GROUPS,
            on_progress=killer,
        )
    cut = fleet.read_rows(done.folder).select(rows.column_names)
    out = done.folder
    by_sql = duckdb.sql(
        f"""
        select g.first_row + r.row_in_group as row, r.op
        from '{out}/rows/*.parquet' r, '{out}/groups.parquet' g
        where r.group_token = g.token and r.group_rank = g.rank and r.verdict = 'fail'
        order by row
        """
    ).fetchall()
    failing = rows.filter(pc.equal(rows["verdict"], "fail"))
    (folder / "answer.json").write_text(
        json.dumps(
            {
                "rows": rows.num_rows,
                "equal_rows": cut.to_pylist() == rows.to_pylist(),
                "equal_header": plain(done.comparison) == plain(whole),
                "by_sql": by_sql
                == list(
                    zip(
                        failing["row"].to_pylist(),
                        failing["op"].to_pylist(),
                        strict=True,
                    )
                ),
                "fail_count": done.comparison.fail_count,
                "killed": killer.killed,
                "lost": len(done.lost_workers),
                "tasks": len(done.tasks),
                "attempts": max(task["attempt"] for task in done.tasks),
            }
        )
    )


def plain(comparison: query.Comparison) -> query.Comparison:
    """Returns the fields that are equal for one daemon and for many workers."""
    return dataclasses.replace(
        comparison, name="", create_time=None, end_time=None, owner=""
    )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
