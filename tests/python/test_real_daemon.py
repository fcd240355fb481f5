"""The package with a real daemon, if one was built."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msitd
import pytest
import torch
from fake_device import FakeDevice, on_device
from msitd import query
from msitd._core.devices import batch, streams

ROOT = Path(__file__).resolve().parents[2]
MSITD = Path(os.environ.get("MSITD_BIN_DIR", ROOT / "build/release/bin")) / "msitd"

pytestmark = pytest.mark.skipif(not MSITD.exists(), reason="no daemon is built")


@pytest.fixture
def endpoints(tmp_path):
    """Starts a daemon and returns its endpoints: a socket and a port."""
    with tempfile.TemporaryDirectory(prefix="msitd-") as sockets:
        process = subprocess.Popen(
            [
                MSITD,
                "--data-dir",
                tmp_path / "data",
                "--socket-dir",
                sockets,
                "--listen",
                "127.0.0.1:0",
                "--loopback-role",
                "admin",
            ]
        )
        file = Path(sockets) / "endpoint"
        deadline = time.monotonic() + 30
        while not (file.exists() and file.read_text().strip()):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield file.read_text().split()
        process.terminate()
        process.wait(60)


def test_every_endpoint_takes_records(endpoints):
    for rank, endpoint in enumerate(endpoints):
        with msitd.Client("run", rank, len(endpoints), endpoint) as client:
            for i in range(100):
                assert client.record(torch.full((1000,), float(i)), op=f"op{i}")
            assert client.record(torch.zeros(3_000_000), op="large")
        counters = client.counters()
        assert counters.acknowledged_count == 101
        assert counters.dropped_count == 0


def test_second_stream_of_a_rank_is_refused_while_the_first_is_open(endpoints):
    with (
        msitd.Client("run", 0, 1, endpoints[0]),
        pytest.raises(msitd.MsitError, match="RANK_BUSY"),
    ):
        msitd.Client("run", 0, 1, endpoints[0], open_timeout=0.3)


def test_rank_may_come_back_after_it_closed(endpoints):
    for token in range(3):
        with msitd.Client("run", 0, 1, endpoints[0], if_exists="append") as client:
            assert client.token == token
            client.record(torch.zeros(3), op="op", call=0)


def test_another_world_size_is_refused(endpoints):
    with msitd.Client("run", 0, 2, endpoints[0]):
        pass
    with pytest.raises(msitd.MsitError, match="RUN_EXISTS"):
        msitd.Client("run", 0, 3, endpoints[0])


@pytest.mark.parametrize("level", ["full", "summary"])
def test_tensors_of_devices_come_to_pinned_memory(endpoints, monkeypatch, level):
    device = FakeDevice()
    monkeypatch.setattr(batch, "COUNT_MAX", 1)
    monkeypatch.setitem(streams._by_type, "cuda", streams.Accelerator(torch, device))
    tensors = [torch.arange(size, dtype=torch.float32) for size in (5, 9_000, 2 << 20)]
    with query.connect(endpoints[0]) as daemon:
        daemon.captures.set("run", level=level)
        with msitd.Client("run", 0, 1, endpoints[0]) as client:
            for number, tensor in enumerate(tensors):
                assert client.record(on_device(tensor), op=f"op{number}")
            assert sum(device.pinned.values()) >= 32 << 20
            with pytest.raises(TimeoutError):
                client.flush(0.2)
            assert client.counters().acknowledged_count == 0
            device.run()
            client.flush()
            collector = client._copies.underway.collector
        collector.join(30)
        assert device.pinned == {}
        listed = {tensor.op: tensor for tensor in daemon.tensors.list("run")}
        assert len(listed) == len(tensors)
        for number, tensor in enumerate(tensors):
            found = listed[f"op{number}"]
            assert found.summary.max == tensor.max()
            assert found.device == "cuda:1"
            if level == "full":
                assert (daemon.tensors.read(found) == tensor.numpy()).all()


@pytest.mark.parametrize("level", ["full", "sample", "off", "summary"])
def test_a_device_reduces_what_is_summarized(endpoints, monkeypatch, level):
    device = FakeDevice()
    monkeypatch.setattr(batch, "COUNT_MAX", 1)
    monkeypatch.setitem(streams._by_type, "cuda", streams.Accelerator(torch, device))
    tensor = torch.arange(90_000, dtype=torch.float32)
    with query.connect(endpoints[0]) as daemon:
        daemon.captures.set("run", level=level)
        with msitd.Client("run", 0, 1, endpoints[0], reduce_on_device=True) as client:
            assert client.record(on_device(tensor), op="op")
            assert client.record(tensor, op="host")
            device.run()
        everything = query.select(kinds=("tensor", "statistics"))
        kinds = {t.op: t.kind for t in daemon.tensors.list("run", everything)}
    if level == "off":
        assert kinds == {}
    else:
        of_device = "statistics" if level == "summary" else "tensor"
        assert kinds == {"op": of_device, "host": "tensor"}


KILLED = """
import os, sys, torch, msitd
from fake_device import FakeDevice, on_device
from msitd._core.devices import streams

streams._by_type["cuda"] = streams.Accelerator(torch, FakeDevice())
client = msitd.Client("run", 0, 1, sys.argv[1], linger=60)
client.record(torch.ones(3), op="before")
client.record(on_device(torch.ones(3)), op="pending")
client.record(torch.ones(3), op="behind")
os._exit(0)
"""


def test_copies_that_are_pending_when_a_rank_dies_are_not_stored(endpoints):
    subprocess.run(
        [sys.executable, "-c", KILLED, endpoints[0]],
        cwd=Path(__file__).parent,
        check=True,
        timeout=120,
    )
    with query.connect(endpoints[0]) as daemon:
        deadline = time.monotonic() + 30
        while len(listed := [t.op for t in daemon.tensors.list("run")]) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert sorted(listed) == ["before", "behind"]


_MANY_STEPS = """
import os, sys
import msitd
import torch

def resident_mib():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)

torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)])
words = torch.randn(80, 64)
trains = sys.argv[2] == "trains"
with (
    torch.set_grad_enabled(trains),
    msitd.Client("run", endpoint=sys.argv[1], buffer_bytes=32 << 20) as client,
    msitd.register_hook(model, client, gradients=trains, aliases=not trains),
):
    for step in range(4000):
        if step == 1000:
            before = resident_mib()
        result = model(words)
        if trains:
            result.pow(2).mean().backward()
print(resident_mib() - before)
"""


@pytest.mark.parametrize("mode", ["trains", "infers"])
def test_rank_needs_no_more_memory_after_many_steps(endpoints, mode):
    """Small pieces of memory of each token would separate the tensors of the rank,
    and malloc could not use the space of a tensor again.
    """
    command = [sys.executable, "-c", _MANY_STEPS, endpoints[0], mode]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert float(out) < 25
