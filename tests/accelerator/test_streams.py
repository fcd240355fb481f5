"""Tensors of a device are copied to the host without delaying the model."""

import json
import threading
import time

import msitd
import pytest
import torch
from conftest import leaves, no_waiting
from msitd import query
from msitd._core.devices import reductions
from torch import nn

# Clock cycles of the device: longer than the hooks of a test need.
LONG = 4_000_000_000


def model_of(width=512, depth=8, dtype=torch.float32):
    torch.manual_seed(0)
    blocks = [
        nn.Sequential(nn.Linear(width, width), nn.ReLU(inplace=True))
        for _ in range(depth)
    ]
    return nn.Sequential(*blocks).to("cuda", dtype)


def test_hooks_do_not_wait(open_client, daemon, run, capfd):
    model = model_of()
    x = torch.randn(64, 512, device="cuda")
    with torch.no_grad():
        expected = model(x).cpu()
    with open_client(run) as client, msitd.register_hook(model, client):
        # The first copy pins memory, which the device may wait for.
        model(x)
        client.flush()
        torch.cuda._sleep(LONG)
        begin = time.monotonic()
        with no_waiting(), torch.no_grad():
            model(x)
        took = time.monotonic() - begin
        assert not torch.cuda.current_stream().query(), "the device was idle"
        assert took < 1
    assert "pinned" not in capfd.readouterr().err
    found = leaves(daemon, run)
    output = found[(1, "root", 0, "output", "0")]
    assert output.device == "cuda:0"
    assert (daemon.tensors.read(output) == expected.numpy()).all()
    # The output of the linear layer before the activation changed it in place.
    assert daemon.tensors.read(found[(1, "root.0.0", 0, "output", "0")]).min() < 0
    assert daemon.tensors.read(found[(1, "root.0.1", 0, "output", "0")]).min() == 0


@pytest.mark.parametrize("level", ["full", "summary"])
def test_many_and_large_tensors(open_client, daemon, run, level):
    daemon.captures.set(run, level=level)
    sizes = [1, 5, 1000, 1 << 20, (8 << 20) + 3, 20 << 20]
    tensors = [torch.randn(size, device="cuda") for size in sizes * 20]
    extremes = [(t.min().item(), t.max().item()) for t in tensors]
    with open_client(run, max_block=20) as client:
        for number, tensor in enumerate(tensors):
            assert client.record(tensor, op=f"op{number}")
            tensor.zero_()
    assert client.counters().dropped_count == 0
    found = {t.op: t for t in daemon.tensors.list(run)}
    assert len(found) == len(tensors)
    for number, (low, high) in enumerate(extremes):
        summary = found[f"op{number}"].summary
        assert (summary.min, summary.max) == (low, high)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bfloat16,
        torch.float16,
        torch.float64,
        torch.int32,
        torch.bool,
        torch.complex64,
        torch.float8_e4m3fn,
    ],
)
def test_dtypes_and_views(open_client, daemon, run, dtype):
    whole = torch.randn(33, 65, device="cuda").to(dtype)
    view = whole.t()[1:, ::2]
    with open_client(run) as client:
        assert client.record(whole, op="whole")
        assert client.record(view, op="view")
    found = {t.op: t for t in daemon.tensors.list(run)}
    for op, tensor in (("whole", whole), ("view", view)):
        kept = daemon.tensors.read_torch(found[op])
        plain = tensor.cpu().contiguous()
        assert kept.dtype == plain.dtype
        assert torch.equal(kept.view(torch.uint8), plain.view(torch.uint8))


def test_streams_of_the_model(open_client, daemon, run):
    other = torch.cuda.Stream()
    with open_client(run) as client:
        with torch.cuda.stream(other):
            torch.cuda._sleep(LONG // 8)
            late = torch.full((1000,), 7.0, device="cuda")
            assert client.record(late, op="late")
        assert client.record(torch.full((5,), 1.0, device="cuda"), op="early")
    found = {t.op: t for t in daemon.tensors.list(run)}
    assert (daemon.tensors.read(found["late"]) == 7).all()
    assert (daemon.tensors.read(found["early"]) == 1).all()


def test_capture_beside_copies(open_client, daemon, run):
    """A graph is captured while earlier copies are under way."""
    with open_client(run) as client:
        static = torch.ones(1000, device="cuda")
        torch.cuda._sleep(LONG // 4)
        for number in range(20):
            assert client.record(static * number, op=f"op{number}")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(100):
                result = static * 2
                time.sleep(0.002)
        graph.replay()
        assert (result == 2).all()
    assert client.counters().dropped_count == 0
    assert len(list(daemon.tensors.list(run))) == 20


def test_threads(open_client, daemon, run):
    with open_client(run) as client:

        def work(number):
            for i in range(50):
                tensor = torch.full((257,), float(i), device="cuda")
                client.record(tensor, op=f"op{number}")

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for (_, _, call, _, _), tensor in leaves(daemon, run).items():
        assert (daemon.tensors.read(tensor) == call).all()


def test_the_device_reduces_without_waiting(open_client, daemon, run):
    daemon.captures.set(run, level="summary")
    model = model_of(dtype=torch.bfloat16)
    x = torch.randn(64, 512, device="cuda", dtype=torch.bfloat16)
    client = open_client(run, reduce_on_device=True)
    with msitd.register_hook(model, client), torch.no_grad():
        model(x)
        client.flush()
        torch.cuda._sleep(LONG)
        begin = time.monotonic()
        with no_waiting():
            output = model(x)
        took = time.monotonic() - begin
        assert not torch.cuda.current_stream().query(), "the device was idle"
        assert took < 1
    client.close()
    assert client.counters().dropped_count == 0
    kinds = query.select(kinds=("tensor", "statistics"))
    found = {(t.token, t.op, t.io): t for t in daemon.tensors.list(run, kinds)}
    assert {t.kind for t in found.values()} == {"statistics"}
    told = json.loads(found[1, "root", "output"].value)
    wide = output.double()
    assert (told["max"], told["min"]) == (wide.max().item(), wide.min().item())
    assert told["mean"] == pytest.approx(wide.mean().item(), rel=1e-9, abs=1e-12)
    assert told["l2_norm"] == pytest.approx(wide.norm().item(), rel=1e-9)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor([float("nan"), 1, float("inf"), -float("inf")]),
        torch.randn(1000).to(torch.float8_e4m3fn),
        torch.randn(1000).to(torch.float16),
        torch.randn(100_003),
        torch.randn(3_000_001, dtype=torch.float64),
        torch.randn(9000).to(torch.bfloat16)[::2],
        torch.randn(77, 5).t(),
        torch.arange(-5, 300, dtype=torch.int16),
        torch.tensor([True, False]),
        torch.tensor([2**31 - 1, -(2**31)], dtype=torch.int32),
    ],
    ids=lambda t: f"{t.dtype}-{t.numel()}",
)
def test_reductions_are_those_of_the_host(tensor):
    found = []
    for each in (tensor, tensor.cuda()):
        packed, told = reductions.reduce(torch, each)
        found.append(told.statistics(packed.cpu()))
    assert list(found[0]) == list(found[1])
    assert not reductions._triton[1]
    for name, value in found[0].items():
        assert found[1][name] == pytest.approx(value, rel=1e-5, nan_ok=True), name
