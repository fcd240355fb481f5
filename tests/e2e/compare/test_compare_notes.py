"""The notes of a comparison in addition to its verdict: its subject, and oddities."""

import numpy as np
import pytest
from chunk_bytes import Chunk, Record, float32
from wire import write

from daemon import Daemon

FAILED = 1


def record(daemon: Daemon, run: str, ops: dict[str, bytes], **world: int) -> None:
    records = [
        Record(op, data, [len(data) // 4], sequence=i)
        for i, (op, data) in enumerate(ops.items())
    ]
    chunk = Chunk(run, records, rank=world.get("rank", 0)).pack()
    write(daemon.channel(), run, [chunk], **world)


@pytest.fixture
def equal(daemon: Daemon) -> Daemon:
    nan = np.array([1, np.nan], np.float32).tobytes()
    for run in ("g", "t"):
        record(daemon, run, {"root.head": float32(1), "root.mask": nan})
    return daemon


def test_rules_for_other_names_are_told(equal: Daemon) -> None:
    rules = ("--rule", "head: nl2 <= 1e-9", "--rule", "*.head: nl2 <= 1e-9")
    rest = ("--allow-unmatched", "drop", "--rewrite", "^model=>root")
    result = equal.ctl("compare", "run", "g", "t", *rules, *rest)
    notes = result.stderr.splitlines()
    assert notes[:-1] == [
        "msitctl: note: --rule 'head: nl2 <= 1e-9' matched no op",
        "msitctl: note: --rewrite '^model=>root' matched no op",
        "msitctl: note: --allow-unmatched 'drop' matched no op",
    ]
    assert "To match all names that end in head, use '*head'" in notes[-1]
    comparison = equal.ctl_json("compare", "get", "c-000001")
    assert comparison["idle_rules"][0] == "--rule 'head: nl2 <= 1e-9'"
    assert equal.ctl("compare", "run", "g", "t", *rules[2:]).stderr == ""


def test_nan_in_both_runs_is_told(equal: Daemon) -> None:
    out = equal.ctl("compare", "run", "g", "t").stdout
    assert "NaN/Inf in both   1 row, first root.mask output/0, rank 0" in out


def test_verdict_says_what_was_not_compared(daemon: Daemon) -> None:
    layout = ("--target-layout", "b=concat(7)")
    for run in ("g", "t"):
        record(daemon, run, {"a": float32(1), "b": float32(2)})
    out = daemon.ctl("compare", "run", "g", "t", *layout, expect=FAILED).stdout
    assert "shape [1] has no dimension 7" in out
    assert "cause  " not in out


def test_layouts_are_suggested_to_followers_too(daemon: Daemon) -> None:
    whole = float32(1) + float32(2)
    record(daemon, "g", {"up": whole}, rank=0, world_size=1)
    for rank, piece in enumerate((float32(1), float32(2))):
        record(daemon, "t", {"up": piece}, rank=rank, world_size=2)
    for run in ("g", "t"):
        daemon.ctl("run", "seal", run)
    result = daemon.ctl("compare", "run", "g", "t", "--follow", expect=FAILED)
    assert "1 rows have the shapes of a whole tensor and of its pieces" in result.stderr
    assert "--target-layout 'up@output/0=concat(-1)'" in result.stderr
