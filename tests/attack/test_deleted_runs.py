"""What deleted runs leave in the index."""

import time
from collections.abc import Callable

from chunk_bytes import Chunk, Record, float32
from wire import write

from daemon import Daemon

CHUNKS = 40
RECORDS = 500
WAIT_S = 30


def record_run(daemon: Daemon, run: str, value: float) -> None:
    """Records 20,000 tensors, each of an op of its own."""
    chunks = []
    for i in range(CHUNKS):
        records = [
            Record(f"{run}.layer.{i}.op.{j}", float32(value, j), [2], dtype=12)
            for j in range(RECORDS)
        ]
        chunks.append(Chunk(run, records, sequence=i).pack())
    write(daemon.channel(), run, chunks)


def index_bytes(daemon: Daemon) -> int:
    """Size of the index tables; the index log shrinks when they are written."""
    return sum(f.stat().st_size for f in (daemon.data_dir / "index").glob("*.sst"))


def restart(daemon: Daemon) -> None:
    assert daemon.stop() == 0
    daemon.start()


def await_below(limit: int, value: Callable[[], int]) -> int:
    deadline = time.monotonic() + WAIT_S
    while (now := value()) > limit and time.monotonic() < deadline:
        time.sleep(0.2)
    return now


def test_the_index_forgets_runs_that_were_deleted(daemon: Daemon) -> None:
    for run, value in (("g", 1.0), ("t", 2.0)):
        record_run(daemon, run, value)
    daemon.ctl("compare", "run", "g", "t", expect=None)
    restart(daemon)
    full = index_bytes(daemon)
    assert full > 1 << 20
    for run in ("g", "t"):
        daemon.ctl("run", "delete", run, "--yes")
    # Names and comparisons are deleted from the tables in memory onward,
    # entries from those on disk.
    await_below(full // 2, lambda: index_bytes(daemon))
    # A later start completes an unfinished deletion.
    daemon.kill()
    daemon.start()
    await_below(full // 20, lambda: index_bytes(daemon))
    restart(daemon)
    left = await_below(full // 20, lambda: index_bytes(daemon))
    print(f"index: {full >> 10} KiB before, {left >> 10} KiB after")
    assert left <= full // 10
    assert daemon.ctl_json("compare", "list").get("comparisons", []) == []
