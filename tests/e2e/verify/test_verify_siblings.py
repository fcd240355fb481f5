"""`msitctl verify` reports modules that are unlike their siblings, without a verdict."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import msitd
import torch
from torch import nn
from verifying import verify

from daemon import Daemon

X = torch.linspace(-2, 3, 64).reshape(4, 16)
MASK = torch.linspace(0, 1, 32)
OTHER_MASK = MASK.flip(0)


class Block(nn.Module):
    """A part of a model, with a residual."""

    def __init__(self, eps: float = 1e-5, skips: bool = False) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16, eps=eps)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)
        self.skips = skips

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Returns the result for a batch."""
        hidden = self.up(self.norm(x)) * mask
        if not self.skips:
            hidden = nn.functional.gelu(hidden)
        return x + self.down(hidden)


class Model(nn.Module):
    """Four blocks that share a mask."""

    def __init__(self, blocks: list[Block], wrong: int | None = None) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.wrong = wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the result of the last block."""
        for number, block in enumerate(self.blocks):
            x = block(x, OTHER_MASK if number == self.wrong else MASK)
        return x


@contextmanager
def recording(daemon: Daemon, model: nn.Module, run: str = "r") -> Iterator[None]:
    with (
        msitd.Client(run, endpoint=daemon.endpoint) as client,
        msitd.register_hook(model, client),
        msitd.register_api(client),
        torch.no_grad(),
    ):
        yield


def lines(text: str) -> list[str]:
    """Returns the observations."""
    head = "unlike siblings   "
    return [each[len(head) :] for each in text.splitlines() if each.startswith(head)]


def test_equal_blocks_are_not_named(daemon: Daemon) -> None:
    torch.manual_seed(0)
    model = Model([Block() for _ in range(4)])
    with recording(daemon, model):
        model(X)
    done = verify(daemon, "r")
    assert "siblings          16 calls compared" in done.stdout
    assert "; 0 differences" in done.stdout
    assert lines(done.stdout) == []


def test_another_argument_call_and_input_are_named_and_the_run_passes(
    daemon: Daemon,
) -> None:
    torch.manual_seed(0)
    blocks = [Block(), Block(eps=0.01), Block(), Block(skips=True)]
    model = Model(blocks, wrong=2)
    with recording(daemon, model):
        model(X)
        model(X + 1)
    done = verify(daemon, "r")
    assert "PASS" in done.stdout
    found = lines(done.stdout)
    assert found[0].startswith(
        "Functional.layer_norm call 1 in root.blocks.1.norm, input/4, rank 0, "
        "token 0: 0.01, in 2 siblings 1e-05 (and 1 more times)"
    )
    assert found[1].startswith(
        "code of root call 0 after root.blocks.1 before root.blocks.2, rank 0, "
        "token 0: input/1 of root.blocks.2: hash "
    )
    assert found[2].startswith(
        "code of root.blocks.3 call 0 after root.blocks.3.up before root.blocks.3.down, "
    )
    assert any(each.startswith("root.blocks.1.norm, rank 0: eps") for each in found)


def test_observations_of_a_selection_and_of_json(daemon: Daemon) -> None:
    torch.manual_seed(0)
    model = Model([Block(), Block(eps=0.01), Block()])
    with recording(daemon, model):
        model(X)
    done = verify(daemon, "r", "-o", "json")
    json.loads(done.stdout)
    assert lines(done.stderr)
    part = verify(daemon, "r", "--as", "part", "--ops", "Functional.*")
    assert "1 only some ops were selected" in part.stdout
    assert lines(part.stdout) == []


def test_a_run_without_siblings(daemon: Daemon) -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.GELU())
    with recording(daemon, model):
        model(X)
    done = verify(daemon, "r")
    assert "siblings          none: the run has no 3 modules" in done.stdout
