"""Training with hooks computes the same bits as without."""

import contextlib
import functools

import msitd
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

STEPS = 50


class Attention(nn.Module):
    """Uses its input three times, as do other modules."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x, memory, *, scale):
        weights = torch.softmax(self.query(x) @ self.key(memory).mT * scale, dim=-1)
        return weights @ self.value(memory)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.itself, self.other = Attention(), Attention()
        self.norm = nn.LayerNorm(8)
        self.act = nn.LeakyReLU(inplace=True)
        self.linear = nn.Linear(8, 8)
        self.drop = nn.Dropout(0.1)

    def forward(self, x, memory):
        x = x + self.itself(self.norm(x), x, scale=0.3)
        x = self.drop(self.other(x, memory, scale=0.5)).add_(x)
        return self.linear(self.act(self.norm(x))).add_(x)


class Model(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.table = nn.Embedding(16, 8)
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.head = nn.Linear(8, 16, bias=False)
        self.head.weight = self.table.weight
        self.mode = mode

    def forward(self, ids):
        x = memory = self.table(ids)
        for layer in self.layers:
            if self.mode == "none":
                x = layer(x, memory)
            else:
                x = checkpoint(layer, x, memory, use_reentrant=self.mode == "reentrant")
        return self.head(x)


def train(mode, backend, hooks):
    """Returns the bits of all losses, gradients and parameters."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = Model(mode)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    seen = []
    with hooks(model):
        run = model
        if backend:
            run = torch.compile(model, backend=backend, fullgraph=True)
        for step in range(STEPS):
            ids = torch.randint(16, (2, 6))
            optimizer.zero_grad(set_to_none=step % 2 == 0)
            for part in ids.split(1):
                loss = nn.functional.cross_entropy(run(part)[0], part[0].roll(1))
                loss.backward()
                seen.append(loss.detach().clone())
            seen += [p.grad.clone() for p in model.parameters()]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            seen += [p.detach().clone() for p in model.parameters()]
    return seen


@functools.cache
def undisturbed(mode, backend):
    return train(mode, backend, lambda model: contextlib.nullcontext())


ALL = {
    "gradients": True,
    "optimizer_state": True,
    "aliases": True,
    "weights": True,
    "stack": "caller",
}


@pytest.mark.parametrize("mode", ["none", "reentrant", "plain"])
@pytest.mark.parametrize("options", [{}, ALL], ids=["forward", "all"])
def test_fifty_steps_have_the_same_bits(client, mode, options):
    expected = undisturbed(mode, None)
    got = train(mode, None, lambda m: msitd.register_hook(m, client, **options))
    assert len(got) == len(expected)
    assert all(map(torch.equal, got, expected))
    client.flush()
    assert client.token == STEPS
    assert client.counters().dropped_count == 0


@pytest.mark.parametrize("mode", ["none", "plain"])
@pytest.mark.parametrize("options", [{}, ALL], ids=["forward", "all"])
def test_compiled_steps_have_the_same_bits(client, mode, options):
    expected = undisturbed(mode, "aot_eager")
    got = train(mode, "aot_eager", lambda m: msitd.register_hook(m, client, **options))
    assert len(got) == len(expected)
    assert all(map(torch.equal, got, expected))
    client.flush()
    assert client.token == STEPS
    assert client.counters().dropped_count == 0
