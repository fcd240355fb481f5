"""Equal bytes of a run take the space of one copy, without any visible difference."""

import subprocess
import time
from collections.abc import Callable

from chunk_bytes import WEIGHT, Chunk, Record
from names import tensor_name
from wire import write

from daemon import BIN_DIR, Daemon

MIB = 1 << 20
TOKENS = 12
LAYERS = 4
WAIT_S = 60
SEGMENTS = ("--segment-bytes", str(16 * MIB))


def weights(layer: int) -> bytes:
    return bytes([layer + 1]) * (MIB - 1) + b"\0"


def output(token: int) -> bytes:
    return bytes([100 + token]) * MIB


def fill(daemon: Daemon, run: str, rank: int = 0) -> None:
    """Writes the same weights at every token, and an output that differs."""
    chunks = []
    for token in range(TOKENS):
        data = [(f"layer.{i}", WEIGHT, weights(i)) for i in range(LAYERS)]
        data.append(("layer.0", 2, output(token)))
        for i, (op, io, payload) in enumerate(data):
            record = Record(op, payload, [MIB // 4], token=token, io=io, sequence=i)
            chunks.append(Chunk(run, [record], rank=rank, sequence=len(chunks)).pack())
    write(daemon.channel(), run, chunks)


def status_of(daemon: Daemon, field: str) -> int:
    return int(daemon.ctl_json("node", "status").get(field, 0))


def wait_until(daemon: Daemon, is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < deadline, daemon.log()
        time.sleep(0.05)


def expired(daemon: Daemon, run: str) -> int:
    counters = daemon.ctl_json("run", "get", run)["counters"]
    return int(counters.get("expired_size_bytes", 0))


def expect_tensors(daemon: Daemon, run: str) -> None:
    """Reads tensors of the first, middle and last tokens."""
    for token in (0, TOKENS // 2, TOKENS - 1):
        for layer in range(LAYERS):
            name = tensor_name(run, f"layer.{layer}", token=token, io="weight")
            read = daemon.ctl(
                *("tensor", "read", name, "--out", "-", "--format", "raw"),
                binary=True,
            )
            assert read.stdout == weights(layer), name
        name = tensor_name(run, "layer.0", token=token)
        read = daemon.ctl(
            *("tensor", "read", name, "--out", "-", "--format", "raw"), binary=True
        )
        assert read.stdout == output(token), name


def verify(daemon: Daemon) -> str:
    result = subprocess.run(
        [BIN_DIR / "msitd-inspect", "--data-dir", daemon.data_dir, "verify"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_weights_of_all_tokens_take_the_room_of_one_copy(daemon: Daemon) -> None:
    assert daemon.stop() == 0
    daemon.start(*SEGMENTS)
    fill(daemon, "r")
    before = status_of(daemon, "segment_size_bytes")
    wait_until(daemon, lambda: status_of(daemon, "shared_size_bytes") >= 8 * MIB)
    expect_tensors(daemon, "r")
    assert "problems=0 live" in verify(daemon)
    shown = daemon.ctl("node", "status").stdout
    assert "shared_size_bytes" in shown
    daemon.kill()
    daemon.start(*SEGMENTS)
    # The last segment accepts no more chunks now. Everything may be shared
    # already.
    after = before - (TOKENS - 1) * LAYERS * MIB + MIB
    wait_until(daemon, lambda: status_of(daemon, "segment_size_bytes") <= after)
    expect_tensors(daemon, "r")
    counters = daemon.ctl_json("run", "get", "r")["counters"]
    assert int(counters["size_bytes"]) == TOKENS * (LAYERS + 1) * MIB
    assert int(counters.get("expired_size_bytes", 0)) == 0
    assert daemon.stop() == 0
    assert f"shared={(TOKENS - 1) * LAYERS} " in verify(daemon)


def test_nothing_is_shared_if_it_is_turned_off(daemon: Daemon) -> None:
    assert daemon.stop() == 0
    daemon.start(*SEGMENTS, "--share-equal-bytes", "false")
    fill(daemon, "r")
    # Shared bytes would already be shared before the second deletion.
    for limit, gone in (("50MB", 10 * MIB), ("45MB", 15 * MIB)):
        daemon.ctl("run", "retain", "r", "--bytes", limit)
        wait_until(daemon, lambda gone=gone: expired(daemon, "r") >= gone)
    assert status_of(daemon, "shared_size_bytes") == 0
    assert daemon.stop() == 0
    assert "shared=0 " in verify(daemon)
