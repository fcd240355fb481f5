"""Ranks that are faster than the real daemon, with each overflow behavior."""

import threading
import time
from collections import Counter
from typing import Any

import msitd
import numpy as np
import pytest
from names import tensor_name

from daemon import Daemon, stopped

# Longer than any of these tests takes, so that no waiting record is given up.
MAX_BLOCK_S = 60
CHUNK_BYTES = 9 << 19
SLOTS = 8
EXPIRED_EXIT = 64 + 9


def connect(daemon: Daemon, transport: str, overflow: str) -> msitd.Client:
    """Returns a client of eight slots that sends full chunks, and whose stream
    is open.
    """
    client = msitd.Client(
        "r",
        endpoint=str(daemon.socket_dir) if transport == "shm" else daemon.endpoint,
        max_block=MAX_BLOCK_S,
        buffer_bytes=SLOTS * CHUNK_BYTES,
        linger=MAX_BLOCK_S,
        overflow=overflow,
    )
    assert client.record(np.zeros(3), op="first")
    client.flush()
    return client


def value(i: int) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    """Returns 1 MiB; four of these fill a chunk."""
    return np.full(1 << 18, i, np.float32)


def tensors(daemon: Daemon) -> list[dict[str, Any]]:
    listed = daemon.ctl_json("tensor", "list", "--run", "r", "--limit", "0")
    return [t for t in listed["tensors"] if t["op"] != "first"]


def coverage(daemon: Daemon) -> dict[str, int]:
    (rank,) = daemon.ctl_json("capture", "coverage", "r")["ranks"]
    return {
        name.removesuffix("_count"): int(count)
        for name, count in rank.items()
        if name.endswith("_count")
    }


@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_degrade_keeps_every_summary_and_the_bytes_that_had_room(
    daemon: Daemon, transport: str
) -> None:
    client = connect(daemon, transport, "degrade")
    with stopped(daemon):
        # All slots but one have bytes, and the last one has summaries.
        for i in range(28):
            assert client.record(value(i), op=f"op.{i}")
    client.flush(MAX_BLOCK_S)
    assert client.record(value(28), op="op.28")
    client.close()
    degraded = client.counters().degraded_count
    assert 1 <= degraded <= 4

    kept = {t["op"]: t for t in tensors(daemon)}
    assert kept.keys() == {f"op.{i}" for i in range(29)}
    for i in range(29):
        summary = kept[f"op.{i}"]["summary"]
        assert summary["min"] == summary["max"] == i
    without_bytes = {op for op, t in kept.items() if not t.get("has_bytes")}
    assert without_bytes == {f"op.{i}" for i in range(28 - degraded, 28)}
    for i in (0, 27 - degraded, 28 - degraded, 28):
        name = tensor_name("r", f"op.{i}")
        args = ("tensor", "read", name, "--out", "-", "--format", "raw")
        is_whole = f"op.{i}" not in without_bytes
        read = daemon.ctl(*args, expect=0 if is_whole else EXPIRED_EXIT, binary=True)
        assert read.stdout == (value(i).tobytes() if is_whole else b"")

    counts = coverage(daemon)
    assert counts["asked"] == counts["stored"] == 30
    assert counts["dropped"] == counts["truncated"] == 0
    assert counts["degraded"] == degraded
    csv = daemon.ctl("capture", "coverage", "r", "-o", "csv").stdout.splitlines()
    assert len(csv) == 2
    assert csv[1].startswith(f"0,1,30,0,30,30,0,0,{degraded},")
    # The counts are stored with the run.
    daemon.kill()
    daemon.start()
    assert coverage(daemon) == counts


def test_degrade_goes_on_as_long_as_the_daemon_does(daemon: Daemon) -> None:
    """If a daemon stops and continues, only bytes are lost, no records."""
    client = connect(daemon, "shm", "degrade")

    def record(thread: int) -> None:
        for i in range(60):
            assert client.record(value(i), op=f"{thread}.{i}")

    threads = [threading.Thread(target=record, args=(thread,)) for thread in (0, 1)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        with stopped(daemon):
            time.sleep(0.05)
        time.sleep(0.02)
    for thread in threads:
        thread.join()
    client.close()
    counters = client.counters()
    assert counters.acknowledged_count == 121
    assert counters.dropped_count == counters.truncated_count == 0
    kept = tensors(daemon)
    assert len(kept) == 120
    assert sum(not t.get("has_bytes") for t in kept) == counters.degraded_count
    assert coverage(daemon)["degraded"] == counters.degraded_count


@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_drop_oldest_token_keeps_the_newest_ones_without_waiting(
    daemon: Daemon, transport: str
) -> None:
    client = connect(daemon, transport, "drop-oldest-token")
    with stopped(daemon):
        start = time.monotonic()
        for token in range(1, 31):
            for i in range(2):
                assert client.record(value(token), op=f"op.{i}", token=token)
        assert time.monotonic() - start < MAX_BLOCK_S / 2
    lost_count = client.flush(MAX_BLOCK_S, check=False)
    client.close()
    assert lost_count == client.counters().dropped_count
    kept = Counter(int(t["token"]) for t in tensors(daemon))
    assert set(kept.values()) == {2}, "no token is there in part"
    assert {27, 28, 29, 30} <= kept.keys()
    assert len(kept) <= SLOTS, "half of them on their way, the others newest"

    counters = client.counters()
    assert counters.dropped_count == 60 - 2 * len(kept)
    assert counters.acknowledged_count == 2 * len(kept) + 1
    counts = coverage(daemon)
    assert counts["asked"] == 61
    assert counts["stored"] == 2 * len(kept) + 1
    assert counts["dropped"] == counters.dropped_count
    assert counts["truncated"] == counts["degraded"] == 0


def test_drop_newest_never_waits(daemon: Daemon) -> None:
    client = connect(daemon, "shm", "drop-newest")
    with stopped(daemon):
        start = time.monotonic()
        taken = [client.record(value(i), op=f"op.{i}") for i in range(60)]
        assert time.monotonic() - start < MAX_BLOCK_S / 2
    assert client.flush(MAX_BLOCK_S, check=False) == 60 - sum(taken)
    client.close()
    assert taken == sorted(taken, reverse=True), "what came first is kept"
    assert {t["op"] for t in tensors(daemon)} == {f"op.{i}" for i in range(sum(taken))}
    assert coverage(daemon)["dropped"] == 60 - sum(taken) > 0
