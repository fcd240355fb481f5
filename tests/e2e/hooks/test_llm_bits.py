"""msitd.llm: a training computes the same bits while it is dumped."""

from pathlib import Path

import pytest
import torch
from msitd.llm import DumpConfig, register_hook
from torch import nn

pytestmark = pytest.mark.usefixtures("user_place")


def train(mode: list[str] | None) -> tuple[list[torch.Tensor], nn.Module]:
    """Returns the losses and the model after fifty steps, dumped if `mode` is given."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(4, 8), nn.GELU(), nn.Dropout(0.25), nn.LayerNorm(8), nn.Linear(8, 2)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    handle = None
    if mode is not None:
        config = DumpConfig(
            dump_path="dump", mode=mode, token_range=[3, 4], dump_weight=True
        )
        handle = register_hook(model, config)
    losses = []
    for _ in range(50):
        loss = model(torch.randn(3, 4)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    if handle is not None:
        handle.remove()
    return losses, model


@pytest.mark.parametrize("mode", [["module"], ["api"], ["module", "api"]], ids=str)
def test_fifty_steps_have_the_same_bits(mode: list[str]) -> None:
    expected, plain = train(None)
    losses, dumped = train(mode)
    assert all(map(torch.equal, losses, expected))
    pairs = zip(dumped.parameters(), plain.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    (device,) = Path("dump").glob("msit_dump_*/torch_tensors/*")
    assert {path.name for path in device.iterdir() if path.name.isdigit()} == {"3", "4"}
