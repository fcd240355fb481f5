"""Level summary: ranks compute summaries and hashes themselves."""

import signal
import subprocess
import sys
from typing import Any

import msitd
import numpy as np
import pytest
import torch
from chunk_bytes import INT16, PART, Chunk, Record
from digests import DIGEST_BYTES, DIGEST_SPAN, HAS_DIGEST, SUMMARY_ONLY, digest
from wire import IngestStream, write

from daemon import BIN_DIR, Daemon


def tensors() -> dict[str, torch.Tensor]:
    """Returns tensors of every dtype of torch, with strides and boundary sizes."""
    torch.manual_seed(7)
    out = {"scalar": torch.tensor(2.5), "empty": torch.zeros(3, 0)}
    for size in (25, 26, 32, 33, 127, 128, 129, 5000):
        out[f"float32.{size}"] = torch.randn(size)
    for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.complex64):
        out[str(dtype)] = torch.randn(3001).to(dtype)
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8):
        out[str(dtype)] = torch.randint(0, 100, (3001,)).to(dtype)
    out["bool"] = torch.randn(3001) > 0
    out["e4m3"] = torch.randn(3001).to(torch.float8_e4m3fn)
    out["e5m2"] = torch.randn(3001).to(torch.float8_e5m2)
    base = torch.randn(300, 500)
    out["transposed"] = base.t()
    out["every other"] = base[:, ::2]
    out["expanded"] = base[:1].expand(40, 500)
    special = torch.randn(5000)
    special[::7], special[1::7], special[2::7] = torch.nan, torch.inf, -torch.inf
    out["special"] = special
    out["huge"] = torch.full((500,), 3e38)
    out["tiny"] = torch.full((500,), 1e-40)
    part = PART // 4
    for size in (part - 1, part, part + 1, 2 * part + 40):
        out[f"parts.{size}"] = torch.randn(size)
    out["large and strided"] = torch.randn(1200, 2000).t()
    return out


def record_all(endpoint: str, run: str, values: dict[str, torch.Tensor]) -> None:
    with msitd.Client(run, endpoint=endpoint) as client:
        for op, value in values.items():
            assert client.record(value, op=op), op


def listed(daemon: Daemon, run: str) -> dict[str, dict[str, Any]]:
    words = ("--run", run, "--limit", "0", "--allow-partial")
    answer = daemon.ctl_json("tensor", "list", *words)
    return {tensor["op"]: tensor for tensor in answer["tensors"]}


def verify(daemon: Daemon) -> str:
    return subprocess.run(
        [BIN_DIR / "msitd-inspect", "verify", "--data-dir", daemon.data_dir],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_they_have_the_bits_of_those_of_the_daemon(
    daemon: Daemon, transport: str
) -> None:
    endpoint = str(daemon.socket_dir) if transport == "shm" else daemon.endpoint
    values = tensors()
    daemon.ctl("capture", "set", "--run", "summary", "--level", "summary")
    record_all(endpoint, "full", values)
    record_all(endpoint, "summary", values)
    for _ in range(2):
        full, summary = listed(daemon, "full"), listed(daemon, "summary")
        assert full.keys() == summary.keys() == values.keys()
        for op, value in values.items():
            assert summary[op]["hash"] == full[op]["hash"], op
            assert summary[op]["summary"] == full[op]["summary"], op
            assert not summary[op].get("has_bytes"), op
            assert not full[op].get("claimed"), op
            if value.numel() * value.element_size() <= DIGEST_SPAN:
                assert not summary[op].get("claimed"), op
        claimed = [t for t in summary.values() if t.get("claimed")]
        assert len(claimed) > len(values) / 2
        (rank,) = daemon.ctl_json("capture", "coverage", "--run", "summary")["ranks"]
        assert int(rank["stored_count"]) == len(values)
        assert int(rank["claimed_count"]) > len(claimed)
        assert int(rank["checked_count"]) > 0
        assert "false_count" not in rank or int(rank["false_count"]) == 0
        # Frames are read back into the index.
        daemon.kill()
        daemon.start()
    assert daemon.ctl_json("run", "get", "summary")["counters"]["size_bytes"] == "0"
    daemon.ctl("compare", "run", "full", "summary")
    daemon.stop()
    assert " problems=0" in verify(daemon)


def test_an_alias_of_a_claimed_tensor_is_claimed(daemon: Daemon) -> None:
    daemon.ctl("capture", "set", "--run", "r", "--level", "summary")
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Identity())
    with msitd.Client("r", endpoint=str(daemon.socket_dir)) as client:
        # The first digest of a client is sent with its bytes.
        client.record(torch.randn(100), op="first")
        with msitd.register_hook(model, client, aliases=True):
            model(torch.randn(4, 64))
    found = daemon.ctl_json("tensor", "list", "--run", "r", "--limit", "0")["tensors"]
    aliases = [tensor for tensor in found if tensor.get("alias_of")]
    assert aliases
    assert all(tensor["claimed"] for tensor in aliases)


def test_a_rank_that_is_killed_loses_none(daemon: Daemon) -> None:
    daemon.ctl("capture", "set", "--run", "killed", "--level", "summary")
    program = (
        "import msitd, numpy as np, os, signal, sys\n"
        f"client = msitd.Client('killed', endpoint={str(daemon.socket_dir)!r})\n"
        "for i in range(100):\n"
        "    client.record(np.full(1000, i, np.float32), op=f'op.{i}')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    # Reopening the rank waits for the data that the first process left.
    with msitd.Client("killed", endpoint=str(daemon.socket_dir), if_exists="append"):
        pass
    found = listed(daemon, "killed")
    assert len(found) == 100
    for i in range(100):
        assert found[f"op.{i}"]["summary"]["sum"] == 1000.0 * i


def crafted(
    values: "np.ndarray[Any, Any]", total: float, op: str, sent: bool
) -> Record:
    data = digest(values, total)
    assert len(data) == DIGEST_BYTES
    if sent:
        data = data.ljust(DIGEST_SPAN, b"\0") + values.tobytes()
    return Record(
        op,
        data,
        values.shape,
        INT16,
        tensor_bytes=values.nbytes,
        flags=HAS_DIGEST,
    )


def test_a_rank_that_says_what_is_not_true_is_named(daemon: Daemon) -> None:
    values = np.arange(-30, 50, dtype=np.int16)
    records = [
        crafted(values, float(values.sum()), "claimed", sent=False),
        crafted(values, float(values.sum()), "lie", sent=True),
    ]
    chunk = Chunk("r", records, rank=3, version=4, flags=SUMMARY_ONLY)
    write(daemon.channel(), "r", [chunk.pack()], rank=3, world_size=4)
    found = listed(daemon, "r")
    assert found["claimed"]["claimed"]
    assert found["claimed"]["hash"] == bytes(range(16))[::-1].hex()
    assert not found["lie"].get("claimed")
    assert found["lie"]["hash"] != found["claimed"]["hash"]
    assert found["lie"]["summary"]["sum"] == float(values.sum())
    result = daemon.ctl("capture", "coverage", "--run", "r", "--allow-partial")
    assert "rank 3 sent wrong summaries: 1 of 1" in (result.stderr)
    assert "its 2 tensors" in result.stderr
    status = daemon.ctl_json("node", "status")
    assert status["checked_digest_count"] == "1"
    assert status["false_digest_count"] == "1"
    assert "a rank makes summaries that are not those of the bytes run='r' rank=3" in (
        daemon.log()
    )


@pytest.mark.parametrize(
    ("total", "cut", "reason"),
    [(float("nan"), 0, "CHUNK_MALFORMED"), (0.0, 1, "PART_MISPLACED")],
)
def test_what_no_tensor_can_have_is_refused(
    daemon: Daemon, total: float, cut: int, reason: str
) -> None:
    values = np.arange(-30, 50, dtype=np.int16)
    record = crafted(values, total, "op", sent=False)
    record.data = record.data[: DIGEST_BYTES - cut]
    chunk = Chunk("r", [record], version=4, flags=SUMMARY_ONLY)
    stream = IngestStream(daemon.channel(), "r")
    stream.opened()
    stream.send_chunk(chunk.pack())
    assert stream.refused().reason == reason
