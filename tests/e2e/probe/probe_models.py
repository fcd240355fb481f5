"""Small models whose steps two tools dump, and the leaves that they find.

As a program: `probe_models.py {msitd,msprobe} MODEL LEVEL FOLDER` dumps two
steps.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Made = tuple[nn.Module, Callable[[], torch.Tensor], torch.optim.Optimizer]


class Block(nn.Module):
    """Attention and a feed-forward part, with a mask as keyword argument."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.heads = heads

    def forward(self, x: torch.Tensor, *, mask: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        heads = [
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.attn(self.ln_1(x)).split(width, dim=2)
        ]
        score = heads[0] @ heads[1].transpose(-2, -1) / width**0.5
        score = score.masked_fill(mask == 0, float("-inf"))
        mixed = (torch.softmax(score, dim=-1) @ heads[2]).transpose(1, 2)
        x = x + self.proj(mixed.reshape(batch, length, width))
        hidden = functional.gelu(self.up(self.ln_2(x)), approximate="tanh")
        return x + self.down(hidden)


class Transformer(nn.Module):
    """One block, and a head that shares the weight of the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(17, 12)
        self.h = nn.ModuleList([Block(12, 3)])
        self.ln_f = nn.LayerNorm(12)
        self.head = nn.Linear(12, 17, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.wte(ids)
        mask = torch.ones(ids.shape[1], ids.shape[1]).tril()
        for block in self.h:
            x = block(x, mask=mask)
        return self.head(self.ln_f(x))


def transformer() -> Made:
    """Is trained with AdamW."""
    model = Transformer()
    ids = torch.randint(0, 17, (2, 5))

    def loss() -> torch.Tensor:
        return functional.cross_entropy(model(ids).view(-1, 17), ids.view(-1))

    return model, loss, torch.optim.AdamW(model.parameters(), lr=1e-3)


def conv() -> Made:
    """Has an in-place activation after a normalization."""
    model = nn.Sequential(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True)),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 5),
    )
    x = torch.randn(2, 3, 8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, lambda: model(x).square().mean(), optimizer


def mlp() -> Made:
    """Has a dropout with probability 0."""
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.0), nn.Linear(8, 2))
    x = torch.randn(3, 4)
    goal = torch.zeros(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, lambda: functional.mse_loss(model(x), goal), optimizer


MODELS: dict[str, Callable[[], Made]] = {
    "mlp": mlp,
    "conv": conv,
    "transformer": transformer,
}


def make(name: str) -> Made:
    """Returns a model, the function that computes its loss, and its optimizer."""
    torch.manual_seed(0)
    return MODELS[name]()


def train(debugger: Any, made: Made, level: str, steps: int) -> list[torch.Tensor]:
    """Dumps steps as the documentation of msprobe describes. Returns the losses."""
    model, loss_of, optimizer = made
    losses = []
    for _ in range(steps):
        if level == "L1":
            debugger.start()
        else:
            debugger.start(model)
        loss = loss_of()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        debugger.stop()
        debugger.step()
        losses.append(loss.detach())
    return losses


def leaves(value: Any, path: str = "") -> Iterator[str]:
    """Yields the contents of a record: path, type, dtype and shape of each leaf."""
    if isinstance(value, dict) and isinstance(value.get("type"), str):
        parts = [value["type"], value.get("dtype"), value.get("shape")]
        parts += [value.get("value"), value.get("requires_grad")]
        yield " ".join(
            [path, *(json.dumps(part) for part in parts if part is not None)]
        )
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(each, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from leaves(each, f"{path}.{index}")
    else:
        yield f"{path} {json.dumps(value)}"


def entries(folder: Path) -> dict[str, list[str]]:
    """Returns the leaves of each entry of a dump, in order."""
    data = json.loads((folder / "dump.json").read_text())["data"]
    return {entry: list(leaves(record)) for entry, record in data.items()}


if __name__ == "__main__":
    tool, model, level, folder = sys.argv[1:]
    if tool == "msprobe":
        from msprobe.pytorch import PrecisionDebugger
    else:
        from msitd.probe import PrecisionDebugger
    train(
        PrecisionDebugger(task="tensor", level=level, dump_path=folder),
        make(model),
        level,
        steps=1,
    )
