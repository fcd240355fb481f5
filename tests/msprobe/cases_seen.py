"""Cases for the development of msitd; see cases.py."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, namedtuple
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

SEEN: dict[str, Any] = {}


def case(function: Any) -> Any:
    """Registers a case by its name."""
    SEEN[function.__name__] = function
    return function


class ModelOutput(OrderedDict[str, Any]):
    """Has fields and keys, as the results of transformers."""

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(cls)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __getitem__(self, key: Any) -> Any:
        return (
            list(self.values())[key]
            if isinstance(key, int)
            else super().__getitem__(key)
        )


class LmOutput(ModelOutput):
    """Has one field that is None, and a tuple."""

    loss: Any = None
    logits: Any = None
    past_key_values: Any = None
    hidden_states: Any = None


@dataclasses.dataclass
class Pair:
    """A result that is a plain dataclass."""

    first: Any
    second: Any = None


Named = namedtuple("Named", ["value", "weight"])


def train(
    model: nn.Module, steps: Any, loss_of: Any, count: int = 1, **more: Any
) -> None:
    """Trains with SGD."""
    optimizer = torch.optim.SGD(
        [p for p in model.parameters() if p.requires_grad], lr=0.1, **more
    )
    for _ in steps(model, count):
        loss_of().backward()
        optimizer.step()
        optimizer.zero_grad()


@case
def mlp(steps: Any) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    x = torch.randn(3, 4)
    train(model, steps, lambda: functional.mse_loss(model(x), torch.zeros(3, 2)), 2)


@case
def conv(steps: Any) -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.GELU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 5),
    )
    x = torch.randn(2, 3, 8, 8)
    train(model, steps, lambda: model(x).square().mean(), 2, momentum=0.9)


@case
def model_output(steps: Any) -> None:
    class Lm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 6)
            self.norm = nn.LayerNorm(6)
            self.head = nn.Linear(6, 11, bias=False)

        def forward(self, ids: Any, labels: Any = None) -> Any:
            hidden = self.norm(self.embed(ids))
            logits = self.head(hidden)
            loss = functional.cross_entropy(logits.view(-1, 11), labels.view(-1))
            return LmOutput(
                loss=loss, logits=logits, hidden_states=(hidden, hidden * 2)
            )

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lm = Lm()

        def forward(self, ids: Any) -> Any:
            return self.lm(ids, labels=ids)

    model = Outer()
    ids = torch.randint(0, 11, (2, 5))
    train(model, steps, lambda: model(ids).loss)


class Results(nn.Module):
    """Returns the result of a function."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.make = make

    def forward(self, x: Any) -> Any:
        return self.make(self.fc(x))


def results(steps: Any, make: Any, loss_of: Any) -> None:
    """Has one module with some kind of result."""
    inner = Results(make)
    model = nn.ModuleDict({"inner": inner})
    x = torch.randn(2, 3)
    train(model, steps, lambda: loss_of(inner(x)))


@case
def dict_result(steps: Any) -> None:
    results(steps, lambda y: {"a": y, "b": [y * 2, None, 3]}, lambda r: r["b"][0].sum())


@case
def dataclass_result(steps: Any) -> None:
    results(steps, lambda y: Pair(y, None), lambda r: r.first.sum())


@case
def namedtuple_result(steps: Any) -> None:
    results(steps, lambda y: Named(y, y.exp()), lambda r: r.weight.sum())


@case
def list_result(steps: Any) -> None:
    results(steps, lambda y: [y, (y.exp(), 1.5)], lambda r: r[1][0].sum())


@case
def tuple_result(steps: Any) -> None:
    results(steps, lambda y: (y, None, {"k": y + 1}, []), lambda r: r[2]["k"].sum())


@case
def scalar_results(steps: Any) -> None:
    results(
        steps, lambda y: (y.sum(), 7, "text", True, None, 2.5, object()), lambda r: r[0]
    )


@case
def attention(steps: Any) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 8)
            self.attn = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x: Any) -> Any:
            x = self.fc(x)
            return x + self.attn(x, x, x)[0]

    model = Net()
    x = torch.randn(2, 4, 8)
    train(model, steps, lambda: model(x).square().mean())


@case
def encoder_layer(steps: Any) -> None:
    model = nn.Sequential(
        nn.Linear(8, 8),
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
    )
    x = torch.randn(2, 4, 8)
    train(model, steps, lambda: model(x).square().mean())


@case
def twice_given(steps: Any) -> None:
    class Twice(nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            return a * b.exp()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.twice = Twice()

        def forward(self, x: Any) -> Any:
            y = self.fc(x)
            return self.twice(y, y)

    model = Net()
    x = torch.randn(2, 4)
    train(model, steps, lambda: model(x).sum())


@case
def accumulation(steps: Any) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    xs = [torch.randn(3, 4) for _ in range(3)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in steps(model, 2):
        for x in xs:
            model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@case
def frozen(steps: Any) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 2))
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    model[2].weight.requires_grad_(False)
    x = torch.randn(3, 4)
    train(model, steps, lambda: model(x).sum())


@case
def without_grad(steps: Any) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Softmax(dim=-1))
    x = torch.randn(3, 4)
    for _ in steps(model, 2):
        with torch.no_grad():
            model(x)
        with torch.inference_mode():
            model(x)


@case
def keywords(steps: Any) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(
            self, x: Any, *, mask: Any = None, scale: float = 1.0, extra: Any = None
        ) -> Any:
            return self.fc(input=x) * mask * scale

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()
            self.net2 = Net()

        def forward(self, x: Any) -> Any:
            x = self.net(
                x, mask=torch.ones(4), scale=2.0, extra={"t": x, "n": None, "l": [1, x]}
            )
            return self.net2(x=x, mask=x.sigmoid(), extra=torch.float32)

    model = Outer()
    x = torch.randn(3, 4)
    train(model, steps, lambda: model(x).sum())


@case
def checkpointed(steps: Any) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(4, 4)
            self.b = nn.Sequential(nn.Linear(4, 4), nn.Tanh())

        def forward(self, x: Any) -> Any:
            return checkpoint(self.b, self.a(x), use_reentrant=False)

    model = Net()
    x = torch.randn(3, 4)
    train(model, steps, lambda: model(x).sum())


@case
def shared(steps: Any) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.again = self.fc

        def forward(self, x: Any) -> Any:
            for _ in range(3):
                x = torch.tanh(self.fc(x))
            return self.again(x)

    model = Net()
    x = torch.randn(3, 4)
    train(model, steps, lambda: model(x).sum(), 2)


@case
def in_place(steps: Any) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4))
    x = torch.randn(3, 4)

    def loss() -> Any:
        y = model(x)
        y.add_(1.0).mul_(2.0)
        y[0] = 0.0
        return y.clamp_(max=3.0).sum()

    train(model, steps, loss)


@case
def amp(steps: Any) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 2))
    x = torch.randn(3, 4)

    def loss() -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return functional.cross_entropy(model(x), torch.tensor([0, 1, 1]))

    train(model, steps, loss)


@case
def losses(steps: Any) -> None:
    x = torch.randn(4, 5, requires_grad=True)
    w = torch.randn(5, requires_grad=True)
    goal = torch.tensor([0, 1, 2, 4])
    for _ in steps(nn.Identity()):
        functional.cross_entropy(
            x, goal, weight=torch.ones(5), label_smoothing=0.1
        ).backward()
        functional.nll_loss(functional.log_softmax(x, dim=-1), goal).backward()
        functional.smooth_l1_loss(x, w.expand(4, 5)).backward()
        functional.binary_cross_entropy_with_logits(x, torch.ones(4, 5)).backward()
        functional.kl_div(
            x.log_softmax(-1), torch.softmax(x, -1), reduction="batchmean"
        ).backward()


@case
def orders(steps: Any) -> None:
    a = torch.randn(3, 4, requires_grad=True)
    b = torch.randn(4, 5, requires_grad=True)
    c = torch.randn(3, 5, requires_grad=True)
    for _ in steps(nn.Identity()):
        functional.linear(a, b.t(), torch.zeros(5, requires_grad=True)).sum().backward()
        torch.where(c > 0, c, c * 2).sum().backward()
        torch.einsum("ij,jk->ik", a, b).sum().backward()
        torch.addmm(c, a, b).sum().backward()
        torch.matmul(a, b).sum().backward()
        functional.layer_norm(
            a, (4,), torch.ones(4, requires_grad=True)
        ).sum().backward()
        functional.group_norm(
            a[None], 3, torch.ones(3, requires_grad=True)
        ).sum().backward()
        functional.rms_norm(a, (4,), torch.ones(4, requires_grad=True)).sum().backward()
        torch.linalg.norm(a).backward()
        torch.norm(b, dim=0).sum().backward()
        torch.cat([a, a * 2]).sum().backward()
        torch.stack([a, a]).sum().backward()
        for part in torch.split(a, 2, dim=1):
            part.sum().backward()
        torch.max(a, dim=1).values.sum().backward()
        torch.topk(a, 2).values.sum().backward()


@case
def embeddings(steps: Any) -> None:
    table = nn.Embedding(7, 3, padding_idx=0)
    bag = nn.EmbeddingBag(7, 3, mode="mean")
    model = nn.ModuleList([table, bag])
    ids = torch.tensor([[0, 1, 2], [3, 3, 6]])
    train(model, steps, lambda: table(ids).sum() + bag(ids).square().sum())


@case
def recurrent(steps: Any) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.LSTM(4, 5, batch_first=True)
            self.head = nn.Linear(5, 2)

        def forward(self, x: Any) -> Any:
            y, (_, c) = self.rnn(x)
            return self.head(y[:, -1]) + c.sum()

    model = Net()
    x = torch.randn(2, 3, 4)
    train(model, steps, lambda: model(x).sum())


@case
def values_of_functions(steps: Any) -> None:
    x = torch.randn(4, 6)
    for _ in steps(nn.Identity()):
        x.to(torch.float64)
        x.to(dtype=torch.float16)
        torch.zeros(2, device="cpu", dtype=torch.int32)
        torch.sum(x, dim=(0, 1), keepdim=True)
        x.reshape(torch.Size([6, 4]))
        x.clone(memory_format=torch.contiguous_format)
        x[1:3, ..., None]
        torch.full((2,), 1.5)
        torch.tensor([1, 2]).add(3)
        torch.max(x)
        torch.sort(x, dim=0)
        torch.clamp(x, min=None, max=1)
        torch.exp(torch.tensor(-2.0))
        torch.exp(torch.empty(0))
        torch.abs(torch.tensor([1 + 2j, 3j]))
        torch.logical_not(x > 0)


@case
def dtypes(steps: Any) -> None:
    for _ in steps(nn.Identity()):
        for dtype in (torch.float16, torch.bfloat16, torch.float64):
            torch.exp(torch.linspace(-3, 3, 17).to(dtype))
            torch.exp(torch.tensor(1.5).to(dtype))
        for dtype in (torch.int8, torch.uint8, torch.int32, torch.int64, torch.int16):
            torch.abs(torch.arange(1, 9).to(dtype))
            torch.abs(torch.tensor(5).to(dtype))
        torch.logical_and(torch.tensor([True, False]), torch.tensor(True))
        torch.exp(torch.tensor([1.0, float("nan"), float("inf")]))
        torch.abs(torch.tensor([-float("inf"), 1.0]))


@case
def retained(steps: Any) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 1))
    x = torch.randn(2, 3)
    for _ in steps(model):
        y = model(x)
        y[0].sum().backward(retain_graph=True)
        y[1].sum().backward()


@case
def input_grads(steps: Any) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)
            self.mix = Mix()

        def forward(self, x: Any, m: Any) -> Any:
            return self.mix(m, [self.fc(x), x], {"k": x * 2}, 5)

    class Mix(nn.Module):
        def forward(self, m: Any, pair: Any, named: Any, n: int) -> Any:
            return m * pair[0] * n + named["k"] + pair[1]

    model = Net()
    x = torch.randn(2, 3, requires_grad=True)
    train(model, steps, lambda: model(x, torch.ones(2, 3)).sum())
