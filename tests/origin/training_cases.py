"""Training steps: gradients, optimizers, loss scales, checkpoints."""

from collections.abc import Callable
from typing import Any

import msitd
import torch
from case import INF, NOT_KNOWN, Fn, Origin, Recording, case, linear, noise
from torch import nn
from torch.utils.checkpoint import checkpoint


def train(
    recording: Recording,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Callable[[torch.Tensor], torch.Tensor],
    before_step: Callable[[], Any] = lambda: None,
    **options: Any,
) -> None:
    """Records three steps."""
    with recording.client() as client, msitd.register_hook(model, client, **options):
        for _ in range(3):
            loss(model(noise().to(next(model.parameters()).dtype))).backward()
            before_step()
            optimizer.step()
            optimizer.zero_grad()


def mean_square(out: torch.Tensor) -> torch.Tensor:
    return out.pow(2).mean()


def sgd(model: nn.Module, rate: float = 0.01) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=rate)


@case(Origin("root.1"))
def gradient_of_a_square_root_at_zero(recording: Recording) -> None:
    root = Fn(lambda x: torch.sqrt(x * 0))
    model = nn.Sequential(linear(), root, linear())
    train(recording, model, sgd(model), mean_square, gradients=True)


@case(Origin("root", "input"))
def loss_scale_overflows_float16(recording: Recording) -> None:
    model = nn.Sequential(linear(), nn.Tanh()).half()
    train(
        recording,
        model,
        sgd(model, 0.0),
        lambda out: out.float().mean() * 1e8,
        gradients=True,
    )


@case(Origin("root.0", "state"))
def gradient_that_code_changes_before_the_step(recording: Recording) -> None:
    model = nn.Sequential(linear(), nn.Tanh())

    def spoil() -> None:
        model[0].weight.grad.mul_(INF)

    train(recording, model, sgd(model), mean_square, spoil, gradients=True)


@case(NOT_KNOWN)
def optimizer_divides_by_zero(recording: Recording) -> None:
    model = nn.Sequential(linear(), nn.Tanh())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, eps=0.0)
    train(recording, model, optimizer, lambda out: out.sum() * 0, gradients=True)


@case(NOT_KNOWN)
def gradient_that_was_not_recorded(recording: Recording) -> None:
    root = Fn(lambda x: torch.sqrt(x * 0))
    model = nn.Sequential(linear(), root, linear())
    train(recording, model, sgd(model), mean_square)


@case(Origin("root.block.1"))
def block_that_is_checkpointed(recording: Recording) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = linear()
            self.block = nn.Sequential(linear(), Fn(torch.log), nn.Tanh())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.block, self.first(x), use_reentrant=False)

    model = Model()
    train(recording, model, sgd(model), mean_square, gradients=True)


@case(Origin("root.1", token=2))
def third_step(recording: Recording) -> None:
    steps = iter(range(3))

    def fails_late(x: torch.Tensor) -> torch.Tensor:
        return x / 0 * 0 if next(steps) == 2 else x * 1

    model = nn.Sequential(linear(), Fn(fails_late), nn.Tanh())
    train(recording, model, sgd(model), mean_square, gradients=True)
