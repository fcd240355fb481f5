"""Models on a device: compiled, in graphs of the device, trained."""

import msitd
import pytest
import torch
from conftest import leaves
from torch import nn


class Block(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model().to("cuda")


@pytest.fixture
def x():
    torch.manual_seed(1)
    return torch.randn(8, 256, device="cuda")


@pytest.mark.parametrize(
    "options",
    [
        {"backend": "eager"},
        {"backend": "aot_eager"},
        {},
        {"fullgraph": True},
        {"mode": "reduce-overhead"},
        {"mode": "reduce-overhead", "fullgraph": True},
    ],
    ids=str,
)
def test_compiled_records_what_eager_does(open_client, daemon, run, model, x, options):
    with torch.no_grad():
        with (
            open_client(run + "-eager") as client,
            msitd.register_hook(model, client),
        ):
            for step in range(5):
                model(x + step)
        torch._dynamo.utils.counters.clear()
        with open_client(run) as client, msitd.register_hook(model, client) as handle:
            compiled = torch.compile(model, **options)
            for step in range(5):
                compiled(x + step)
        assert handle.skipped == {}
    assert not torch._dynamo.utils.counters["graph_break"]
    eager, found = leaves(daemon, run + "-eager"), leaves(daemon, run)
    assert set(found) == set(eager)
    for key, tensor in found.items():
        a, b = daemon.tensors.read(tensor), daemon.tensors.read(eager[key])
        assert abs(a - b).max() < 1e-4, key


def warm_up(model, x):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(2):
            model(x)
    torch.cuda.current_stream().wait_stream(side)


def test_graphs_of_the_device_are_counted(open_client, daemon, run, model, x):
    warm_up(model, x)
    with open_client(run) as client, msitd.register_hook(model, client) as handle:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph), torch.no_grad():
            model(x)
        for _ in range(3):
            graph.replay()
        ((reason, count),) = handle.skipped.items()
        assert "a replay runs no Python" in reason
        assert count == 2 * len(list(model.modules())) - 2
        # Without the graph, it continues.
        with torch.no_grad():
            model(x)
    found = leaves(daemon, run)
    assert {key[0] for key in found} == {1}
    assert (1, "root", 0, "output", "0") in found


def test_training_computes_the_same_bits(open_client, daemon, run, x):
    def train(client):
        torch.manual_seed(0)
        model = Model().to("cuda")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        losses = []
        handle = client and msitd.register_hook(
            model, client, gradients=True, optimizer_state=True
        )
        for step in range(50):
            loss = model(x + step).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        if handle:
            handle.remove()
            assert handle.skipped == {}
        return losses, [p.detach().clone() for p in model.parameters()]

    torch.use_deterministic_algorithms(True)
    try:
        losses, parameters = train(None)
        with open_client(run) as client:
            recorded_losses, recorded = train(client)
    finally:
        torch.use_deterministic_algorithms(False)
    assert losses == recorded_losses
    assert all(map(torch.equal, parameters, recorded))
    found = leaves(daemon, run)
    assert {key[0] for key in found} == set(range(50))
    assert any(key[3] == "grad_weight" for key in found)
