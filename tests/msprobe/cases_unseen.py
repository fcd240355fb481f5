"""Cases whose results are only counted while msitd is changed; see cases.py."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import torch
from cases_seen import LmOutput, ModelOutput, Named, Pair, train
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

UNSEEN: dict[str, Any] = {}


def case(function: Any) -> Any:
    """Registers a case by its name."""
    UNSEEN[function.__name__] = function
    return function


class Cache:
    """An object of a class that neither tool knows."""

    def __init__(self, key: Any) -> None:
        self.key = key


class Block(nn.Module):
    """A block of a decoder that returns a tuple."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)
        )
        self.heads = heads

    def forward(self, x: Any, mask: Any = None, cache: Any = None) -> Any:
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (
            part.reshape(batch, length, self.heads, -1).transpose(1, 2)
            for part in (q, k, v)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(x), Cache(k)


class Decoder(nn.Module):
    """Returns a ModelOutput with a cache of an unknown class."""

    def __init__(self, gradient_checkpointing: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(13, 8)
        self.blocks = nn.ModuleList([Block(8, 2), Block(8, 2)])
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 13, bias=False)
        self.head.weight = self.embed.weight
        self.gradient_checkpointing = gradient_checkpointing

    def forward(
        self, input_ids: Any, labels: Any = None, use_cache: bool = True
    ) -> Any:
        x = self.embed(input_ids)
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        caches = []
        for block in self.blocks:
            if self.gradient_checkpointing:
                x, cache = checkpoint(block, x, mask, use_reentrant=False)
            else:
                x, cache = block(x, mask=mask, cache=None)
            caches.append(cache)
        logits = self.head(self.norm(x))
        loss = None
        if labels is not None:
            loss = functional.cross_entropy(
                logits[:, :-1].reshape(-1, 13), labels[:, 1:].reshape(-1)
            )
        return LmOutput(
            loss=loss, logits=logits, past_key_values=caches if use_cache else None
        )


class Wrapped(nn.Module):
    """Contains a model, because the root is not dumped."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.inner(*args, **kwargs)


@case
def decoder(steps: Any) -> None:
    model = Wrapped(Decoder())
    ids = torch.randint(0, 13, (2, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in steps(model, 2):
        model(input_ids=ids, labels=ids).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


@case
def decoder_checkpointing(steps: Any) -> None:
    model = Wrapped(Decoder(gradient_checkpointing=True))
    ids = torch.randint(0, 13, (2, 6))
    train(model, steps, lambda: model(ids, labels=ids).loss)


@case
def generation(steps: Any) -> None:
    model = Wrapped(Decoder())
    ids = torch.randint(0, 13, (1, 3))
    for _ in steps(model, 3):
        with torch.no_grad():
            ids = torch.cat([ids, model(ids).logits[:, -1:].argmax(-1)], dim=1)


@case
def reentrant_checkpoint(steps: Any) -> None:
    model = nn.Sequential(
        nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 1)
    )
    x = torch.randn(3, 4, requires_grad=True)
    train(
        model,
        steps,
        lambda: model[2](checkpoint(model[1], model[0](x), use_reentrant=True)).sum(),
    )


@case
def sequential_checkpoint(steps: Any) -> None:
    inner = nn.Sequential(
        *(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(4))
    )
    model = nn.Sequential(inner)
    x = torch.randn(3, 4, requires_grad=True)
    train(
        model,
        steps,
        lambda: checkpoint_sequential(inner, 2, x, use_reentrant=False).sum(),
    )


@case
def residual_conv(steps: Any) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 3, padding=1)
            self.norm = nn.GroupNorm(3, 3)
            self.down = nn.Conv2d(3, 6, 1, stride=2, bias=False)
            self.pool = nn.AdaptiveAvgPool2d(1)

        def forward(self, x: Any) -> Any:
            x = x + functional.relu(self.norm(self.conv(x)))
            return self.pool(self.down(x)).flatten(1)

    model = Net()
    x = torch.randn(2, 3, 6, 6)
    train(model, steps, lambda: model(x).square().sum(), 2, weight_decay=0.1)


@case
def transposed_conv(steps: Any) -> None:
    model = nn.Sequential(
        nn.ConvTranspose2d(2, 3, 2),
        nn.InstanceNorm2d(3, affine=True),
        nn.LeakyReLU(0.2),
        nn.Upsample(scale_factor=2),
    )
    x = torch.randn(1, 2, 3, 3)
    train(model, steps, lambda: model(x).mean())


@case
def cross_attention(steps: Any) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 4)
            self.attn = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x: Any, memory: Any) -> Any:
            memory = self.fc(memory)
            return self.attn(
                query=self.fc(x), key=memory, value=memory, need_weights=True
            )

    model = Wrapped(Net())
    x, memory = torch.randn(1, 3, 4), torch.randn(1, 5, 4)
    train(model, steps, lambda: sum(r.sum() for r in model(x, memory)))


@case
def decoder_layer(steps: Any) -> None:
    model = nn.ModuleList(
        [
            nn.Linear(4, 4),
            nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
        ]
    )
    x, memory = torch.randn(1, 3, 4), torch.randn(1, 5, 4)
    train(model, steps, lambda: model[1](model[0](x), memory).sum())


@case
def nested_output(steps: Any) -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            y = self.fc(x)
            return LmOutput(
                logits=y,
                hidden_states=(y, Named(y + 1, None)),
                past_key_values={"k": [y], "n": Pair(y)},
            )

    class Middle(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Any) -> Any:
            out = self.inner(x)
            return {"out": out, "first": out[0]}

    model = Wrapped(Middle())
    x = torch.randn(2, 3)
    train(
        model,
        steps,
        lambda: model(x)["first"].sum() + model(x)["out"].hidden_states[1].value.sum(),
    )


@case
def output_as_input(steps: Any) -> None:
    class Head(nn.Module):
        def forward(self, output: Any, pair: Any) -> Any:
            return output.logits * pair.value

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)
            self.head = Head()

        def forward(self, x: Any) -> Any:
            y = self.fc(x)
            return self.head(LmOutput(logits=y), Named(y.exp(), 2))

    model = Wrapped(Net())
    x = torch.randn(2, 3)
    train(model, steps, lambda: model(x).sum())


@case
def kept_gradients(steps: Any) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), nn.Linear(4, 1))
    x = torch.randn(3, 4)
    # The gradients add up over the steps.
    for _ in steps(model, 3):
        model(x).sum().backward()


@case
def two_losses(steps: Any) -> None:
    trunk, left, right = nn.Linear(4, 4), nn.Linear(4, 2), nn.Linear(4, 3)
    model = nn.ModuleDict({"trunk": trunk, "left": left, "right": right})
    x = torch.randn(3, 4)

    def loss() -> Any:
        y = trunk(x).relu()
        return left(y).sum() + 0.5 * right(y).square().sum() + left(y.detach()).sum()

    train(model, steps, loss)


@case
def partly_without_grad(steps: Any) -> None:
    model = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1)])
    x = torch.randn(3, 4)

    def loss() -> Any:
        with torch.no_grad():
            y = model[0](x)
        return model[2](model[1](y)).sum()

    train(model, steps, loss)


@case
def mixed_precision_model(steps: Any) -> None:
    model = nn.Sequential(
        nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(approximate="tanh"), nn.Linear(8, 2)
    ).bfloat16()
    x = torch.randn(3, 4, dtype=torch.bfloat16)
    train(model, steps, lambda: model(x).float().square().mean(), 2)


@case
def double_precision(steps: Any) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Softplus(), nn.Linear(8, 2)).double()
    x = torch.randn(3, 4, dtype=torch.float64)
    train(model, steps, lambda: model(x).square().mean())


@case
def optimizers(steps: Any) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    x = torch.randn(2, 3)
    kinds = (torch.optim.Adam, torch.optim.RMSprop, torch.optim.Adagrad)
    made = [kind(model.parameters(), lr=0.01) for kind in kinds]
    for step in steps(model, 3):
        model(x).sum().backward()
        made[step].step()
        made[step].zero_grad()


@case
def scaler(steps: Any) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    x = torch.randn(2, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in steps(model, 2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(x).square().mean()
        (loss * 128).backward()
        for parameter in model.parameters():
            parameter.grad.div_(128)
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)


@case
def recurrent_gru(steps: Any) -> None:
    model = nn.ModuleDict(
        {
            "gru": nn.GRU(3, 4, num_layers=2, bidirectional=True),
            "cell": nn.LSTMCell(8, 3),
        }
    )
    x = torch.randn(5, 2, 3)

    def loss() -> Any:
        y, _ = model["gru"](x)
        h, c = model["cell"](y[-1])
        return (h * c).sum()

    train(model, steps, loss)


@case
def reshapes(steps: Any) -> None:
    x = torch.randn(2, 3, 4, requires_grad=True)
    for _ in steps(nn.Identity()):
        y = x.permute(2, 0, 1).contiguous().reshape(4, 6).unsqueeze(0).expand(2, 4, 6)
        y = torch.roll(y, 1, dims=-1).masked_fill(y > 1, 0.5)
        y = torch.gather(y, 1, torch.zeros(2, 1, 6, dtype=torch.long))
        y = y.index_select(2, torch.tensor([0, 2])).repeat(1, 2, 1)
        torch.cumsum(y, dim=1).flip(0).squeeze().sum().backward()


@case
def reductions(steps: Any) -> None:
    x = torch.randn(3, 4, requires_grad=True)
    for _ in steps(nn.Identity()):
        (
            x.mean()
            + x.var()
            + x.std(dim=0).sum()
            + x.norm()
            + torch.logsumexp(x, 0).sum()
        ).backward()
        (x.min(dim=0)[0].sum() + x.prod() + x.abs().amax() + torch.median(x)).backward()
        x.sum(dim=-1, keepdim=True).square().mean().backward()


@case
def arithmetic(steps: Any) -> None:
    x = torch.rand(3, 4, requires_grad=True)
    y = torch.rand(4, requires_grad=True)
    for _ in steps(nn.Identity()):
        ((x + y) * 2 - y / x).sum().backward()
        (x**2 @ y).sum().backward()
        torch.bmm(x[None], y[None, :, None]).sum().backward()
        torch.lerp(x, y.expand(3, 4), 0.3).sum().backward()
        torch.addcmul(x, x, y, value=0.5).sum().backward()
        torch.rsub((2 - x).pow(3), 1).sum().backward()
        torch.baddbmm(torch.zeros(1, 3, 1), x[None], y[None, :, None]).sum().backward()
        torch.outer(y, y).sum().backward()


@case
def functional_forms(steps: Any) -> None:
    x = torch.randn(2, 3, 8, requires_grad=True)
    w = torch.randn(4, 3, 3, requires_grad=True)
    for _ in steps(nn.Identity()):
        y = functional.conv1d(x, w, bias=torch.zeros(4), padding=1)
        y = functional.batch_norm(y, torch.zeros(4), torch.ones(4), training=True)
        y = functional.pad(functional.avg_pool1d(y, 2), (1, 1))
        y = functional.normalize(functional.hardswish(y), dim=1)
        functional.cosine_similarity(y, y.detach() + 1, dim=1).sum().backward()
        functional.one_hot(torch.tensor([0, 2]), num_classes=3)
        functional.interpolate(x, scale_factor=2).sum().backward()
        functional.embedding(torch.tensor([1, 0]), w[:, :, 0]).sum().backward()
        functional.dropout(x, p=0.0)


@case
def unfinished(steps: Any) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    x = torch.randn(2, 3)
    # One forward without a backward, and one whose module raises.
    for _ in steps(model, 2):
        model(x)
        with contextlib.suppress(RuntimeError):
            model(torch.randn(2, 5))
        model(x).sum().backward()


@case
def generators(steps: Any) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, parts: Any, key: Any = None, when: Any = None) -> Any:
            return {"sum": self.fc(sum(parts["x"])), 3: key, "when": when}

    model = Wrapped(Net())
    x = torch.randn(2, 3)
    train(
        model,
        steps,
        lambda: model({"x": (x, x), "y": {1, 2}}, key=range(3), when=b"raw")[
            "sum"
        ].sum(),
    )


@dataclasses.dataclass
class Config:
    """An argument without tensors."""

    width: int = 3
    name: str = "n"
    inner: Any = None


@case
def dataclass_argument(steps: Any) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x: Any, config: Any, output: Any = None) -> Any:
            return Pair(self.fc(x) * config.width, output)

    model = Wrapped(Net())
    x = torch.randn(2, 3)

    class Small(ModelOutput):
        states: Any = None

    train(
        model,
        steps,
        lambda: model(x, Config(inner=x), output=Small(states=x)).first.sum(),
    )
