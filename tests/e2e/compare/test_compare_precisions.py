"""Differences of correct runs: precisions, closed rows, memory that was not written."""

from collections.abc import Callable
from typing import Any

import msitd
import pytest
import torch
from torch import nn
from torch.nn import functional

from daemon import Daemon

WORDS = torch.randint(0, 97, (24,), generator=torch.Generator().manual_seed(3))
LOSSES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "cross entropy": lambda y: functional.cross_entropy(y.float(), WORDS),
    "after a cast": lambda y: functional.mse_loss(y.to(torch.float32) * 1.0, 0 * y),
    "probabilities": lambda y: functional.nll_loss(
        torch.log(functional.softmax(y, -1, dtype=torch.float32)), WORDS
    ),
}


class Norm(nn.Module):
    """Computes in float32, as the norms of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = Norm()
        self.fc = nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.fc(self.norm(x))


def record(
    daemon: Daemon,
    run: str,
    dtype: torch.dtype,
    loss: Callable[[torch.Tensor], torch.Tensor],
    *blocks: type[nn.Module],
) -> None:
    torch.manual_seed(0)
    layers = [block() for block in blocks] or [nn.Linear(32, 64), nn.GELU()]
    model = nn.Sequential(*layers, nn.Linear(32 if blocks else 64, 97)).to(dtype)
    x = torch.randn(24, 32).to(dtype)
    with (
        msitd.Client(run, endpoint=f"unix:{daemon.socket_dir}") as client,
        msitd.register_hook(model, client, gradients=True),
        msitd.register_api(client, gradients=True),
    ):
        loss(model(x)).backward()


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_in_float32_agrees(daemon: Daemon, name: str) -> None:
    record(daemon, "g", torch.float32, LOSSES[name])
    record(daemon, "t", torch.bfloat16, LOSSES[name])
    daemon.ctl("compare", "run", "g", "t")


class Doubled(torch.autograd.Function):
    """Has a wrong backward."""

    @staticmethod
    def forward(_: object, x: torch.Tensor) -> torch.Tensor:
        return x * 1.0

    @staticmethod
    def backward(_: object, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 2.0


class Head(nn.Module):
    def __init__(self, is_wrong: bool) -> None:
        super().__init__()
        self.is_wrong = is_wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Doubled.apply(x) if self.is_wrong else x * 1.0


def test_a_wrong_gradient_of_such_a_loss_is_still_named(daemon: Daemon) -> None:
    for run, dtype in (("g", torch.float32), ("t", torch.bfloat16)):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(32, 97), Head(run == "t")).to(dtype)
        x = torch.randn(24, 32).to(dtype)
        with (
            msitd.Client(run, endpoint=f"unix:{daemon.socket_dir}") as client,
            msitd.register_hook(model, client, gradients=True),
        ):
            functional.cross_entropy(model(x).float(), WORDS).backward()
    answer = daemon.ctl_json("compare", "run", "g", "t", "--rows", "none", expect=1)
    (maker,) = answer["comparison"]["makers"]
    assert (maker["kind"], maker["op"]) == ("OP", "root.1")
    assert maker["row"]["io"] == "IO_GRAD_INPUT"


def test_gradients_of_casts_that_one_run_makes_are_counted(daemon: Daemon) -> None:
    loss = LOSSES["cross entropy"]
    record(daemon, "g", torch.float32, loss, Block, Block)
    record(daemon, "t", torch.bfloat16, loss, Block, Block)
    answer = daemon.ctl_json("compare", "run", "g", "t", "--rows", "none", expect=4)
    assert not answer["comparison"].get("makers"), answer["comparison"]["makers"]
    words = ("compare", "rows", "latest", "--verdict", "skipped")
    rows = daemon.ctl_json(*words, expect=4)["rows"]
    assert {row["op"] for row in rows} == {"Tensor.float"}
    assert all("only the target converts" in row["reason"] for row in rows)
    assert 2 <= len(rows) <= 4


def attention(x: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
    """Attention of a padded batch, whose mask closes positions with -1e4."""
    x = x.reshape(2, 8, 16)
    is_open = torch.ones(8, 8).tril().bool().expand(2, 8, 8).clone()
    is_open[0, :, :4] = False
    mask = torch.where(is_open, 0.0, -1e4).to(x.dtype)
    weights = functional.softmax(x @ x.transpose(1, 2) * factor + mask, -1)
    return weights @ x


def record_attention(
    daemon: Daemon, run: str, dtype: torch.dtype, scale: float
) -> None:
    torch.manual_seed(0)
    x = torch.randn(16, 16).to(dtype)
    with (
        msitd.Client(run, endpoint=f"unix:{daemon.socket_dir}") as client,
        msitd.register_api(client),
    ):
        attention(x, scale)


def test_a_correct_softmax_of_closed_rows_is_not_named(daemon: Daemon) -> None:
    record_attention(daemon, "g", torch.float32, 0.5)
    record_attention(daemon, "t", torch.bfloat16, 0.5)
    answer = daemon.ctl_json("compare", "run", "g", "t", "--rows", "none", expect=1)
    (maker,) = answer["comparison"]["makers"]
    assert maker["kind"] == "NOT_KNOWN"
    assert "each run has the softmax of its own scores" in maker["note"]


def test_a_wrong_softmax_of_closed_rows_is_named(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_attention(daemon, "g", torch.float32, 0.5)
    correct = functional.softmax

    def softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
        return correct(x * 0.5, dim)

    monkeypatch.setattr(functional, "softmax", softmax)
    record_attention(daemon, "t", torch.bfloat16, 0.5)
    answer = daemon.ctl_json("compare", "run", "g", "t", "--rows", "none", expect=1)
    (maker,) = answer["comparison"]["makers"]
    assert (maker["kind"], maker["op"]) == ("OP", "Functional.softmax")


def test_memory_that_nothing_has_written_is_not_a_cause(daemon: Daemon) -> None:
    for run in ("g", "t"):
        # Its content is arbitrary, as that of torch.empty.
        made = torch.randn(16, generator=torch.Generator().manual_seed(ord(run)))
        places = torch.arange(15, -1, -1)
        with (
            msitd.Client(run, endpoint=f"unix:{daemon.socket_dir}") as client,
            msitd.register_api(client),
        ):
            made[places] = torch.linspace(0, 1, 16)
            torch.exp(made)
    for preset in ((), ("--preset", "bitwise")):
        flags = ("--rows", "none", *preset)
        answer = daemon.ctl_json("compare", "run", "g", "t", *flags, expect=4)
        assert not answer["comparison"].get("makers")
    words = ("compare", "rows", "latest", "--verdict", "skipped")
    (row,) = daemon.ctl_json(*words, expect=4)["rows"]
    assert (row["op"], row["io"]) == ("Tensor.__setitem__", "IO_INPUT")
    assert "has written this memory" in row["reason"]


class ShiftedRelu(torch.autograd.Function):
    """A ReLU whose backward also ignores small numbers."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = context.saved_tensors
        return torch.where(x > 0.05, gradient, 0)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.query(x), self.key(x), self.value(x)
        return x + torch.softmax(query @ key.T / 32**0.5, -1) @ value


class Act(nn.Module):
    def __init__(self, is_wrong: bool) -> None:
        super().__init__()
        self.is_wrong = is_wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ShiftedRelu.apply(x) if self.is_wrong else torch.relu(x)


def train(daemon: Daemon, run: str, dtype: torch.dtype, wrong: str = "") -> None:
    torch.manual_seed(1)
    layers: list[nn.Module] = []
    for number in range(2):
        is_wrong = wrong == f"act {number}"
        layers += [Attention(), nn.Linear(32, 256), Act(is_wrong), nn.Linear(256, 32)]
    model = nn.Sequential(*layers, nn.Linear(32, 97)).to(dtype)
    x = torch.randn(24, 32).to(dtype)
    if wrong == "bias":
        layers[0].key.bias.register_hook(lambda gradient: gradient + 1e-3)  # type: ignore[union-attr,operator]
    with (
        msitd.Client(run, endpoint=f"unix:{daemon.socket_dir}") as client,
        msitd.register_hook(model, client, gradients=True),
    ):
        functional.cross_entropy(model(x).float(), WORDS).backward()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_signs_that_change_and_sums_that_cancel_agree(
    daemon: Daemon, dtype: torch.dtype
) -> None:
    train(daemon, "g", torch.float32)
    train(daemon, "t", dtype)
    daemon.ctl("compare", "run", "g", "t")
    rows = daemon.ctl_json("compare", "rows", "latest")["rows"]
    reasons = " ".join(row.get("reason", "") for row in rows)
    assert "the rows of the gradient cancel" in reasons


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("wrong", ["act 1", "bias"])
def test_wrong_gradients_of_these_are_named(
    daemon: Daemon, dtype: torch.dtype, wrong: str
) -> None:
    train(daemon, "g", torch.float32)
    train(daemon, "t", dtype, wrong)
    answer = daemon.ctl_json("compare", "run", "g", "t", "--rows", "none", expect=1)
    maker = answer["comparison"]["makers"][0]
    assert maker["op"] == {"act 1": "root.6", "bias": "root.0.key"}[wrong]
