"""Two small models of different structure, with a place for every kind of fault.

`Encoder` is a transformer encoder with LayerNorm after its residuals. `Decoder`
is a decoder-only model with RMSNorm before them, a gated MLP and a cache of
keys and values. A module whose `fault` is set does one thing wrong.
"""

import threading
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

DIM, HEADS, VOCABULARY, LAYERS = 32, 4, 64, 3


class Faulty(nn.Module):
    """A module whose `fault` a test may set."""

    fault = ""


class Linear(nn.Linear, Faulty):
    """A Linear that may compute in another dtype."""

    def forward(self, x: Tensor) -> Tensor:
        if self.fault == "computes in bfloat16":
            return functional.linear(
                x.bfloat16(), self.weight.bfloat16(), self.bias.bfloat16()
            ).float()
        if self.fault == "returns bfloat16":
            return functional.linear(x, self.weight, self.bias).bfloat16()
        if self.fault == "overflows":
            return functional.linear(x, self.weight, self.bias) * 1e38 * 10
        y = functional.linear(x.to(self.weight.dtype), self.weight, self.bias)
        # Other kernels round at other places.
        if self.fault == "rounds elsewhere":
            noise = torch.Generator().manual_seed(y.numel())
            y = y * (1 + 3e-7 * torch.randn(y.shape, generator=noise))
        return y


class RmsNorm(nn.Module):
    """RMSNorm with a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(DIM))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class LayerNorm(nn.LayerNorm, Faulty):
    """A LayerNorm that may compute in float16."""

    def forward(self, x: Tensor) -> Tensor:
        if self.fault == "computes in float16":
            return super().forward(x.half().float()).half().float()
        return super().forward(x.to(self.weight.dtype))


class Attention(Faulty):
    """Attention, written as the module's own code between four Linears."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (Linear(DIM, DIM) for _ in range(4))
        self.scale = (DIM // HEADS) ** -0.5
        self.causal = causal
        self.cache: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.q(x), self.k(x), self.v(x)
        if self.fault == "values are keys":
            v = k
        if self.causal and self.cache is not None:
            keys, values = self.cache
            if self.fault == "stale cache" and keys.shape[1] == 6:
                values = values.roll(1, 1)
            k, v = torch.cat([keys, k], 1), torch.cat([values, v], 1)
        if self.causal:
            self.cache = k, v
        q, k, v = (
            t.unflatten(-1, (HEADS, DIM // HEADS)).transpose(1, 2) for t in (q, k, v)
        )
        scores = q @ k.transpose(-1, -2) * self.scale
        if self.causal:
            ahead = 1 if self.fault == "mask is off by one" else 0
            last = k.shape[2] - q.shape[2] + ahead
            mask = torch.ones(q.shape[2], k.shape[2]).tril(last) == 0
            scores = scores.masked_fill(mask, float("-inf"))
        elif self.fault == "mask is off by one":
            scores[..., 0] = float("-inf")
        if self.fault == "masks all":
            scores[:, :, -1, :] = float("-inf")
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Mix(nn.Module):
    """A residual as a module with two inputs of different kinds."""

    def forward(self, x: Tensor, change: Tensor) -> Tensor:
        return x + 0.7 * change


class Mlp(Faulty):
    """Two or three Linears with a choice of activation."""

    def __init__(self, gated: bool) -> None:
        super().__init__()
        self.gate = Linear(DIM, 2 * DIM) if gated else None
        self.up = Linear(DIM, 2 * DIM)
        self.act = nn.SiLU() if gated else nn.GELU()
        self.other_act = nn.ReLU()
        self.down = Linear(2 * DIM, DIM)

    def forward(self, x: Tensor) -> Tensor:
        if self.fault == "gives bfloat16 to its parts":
            x = x.bfloat16()
        act = self.other_act if self.fault == "takes the other act" else self.act
        if self.gate is None:
            return self.down(act(self.up(x)))
        return self.down(self.up(x) * act(self.gate(x)))


class EncoderLayer(Faulty):
    """A layer with norms after the residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.attn = Attention(causal=False)
        self.mix = Mix()
        self.norm1, self.norm2 = LayerNorm(DIM), LayerNorm(DIM)
        self.mlp = Mlp(gated=False)
        self.extra = nn.Tanh()

    def forward(self, x: Tensor) -> Tensor:
        change = self.attn(x)
        mixed = self.mix(change, x) if self.fault == "swaps" else self.mix(x, change)
        x = mixed if self.fault == "skips norm" else self.norm1(mixed)
        if self.fault == "calls extra":
            x = self.extra(x)
        scale = 0.9 if self.fault == "scales residual" else 1.0
        x = self.norm2(x + scale * self.mlp(x))
        return x * 1.01 if self.fault == "scales its end" else x


class DecoderLayer(Faulty):
    """A layer with norms before the residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = RmsNorm(), RmsNorm()
        self.attn = Attention(causal=True)
        self.mlp = Mlp(gated=True)
        self.mix = Mix()
        self.extra = nn.Tanh()

    def forward(self, x: Tensor) -> Tensor:
        scale = 0.9 if self.fault == "scales residual" else 1.0
        x = x + scale * self.attn(self.norm1(x))
        normed = x if self.fault == "skips norm" else self.norm2(x)
        if self.fault == "calls extra":
            normed = self.extra(normed)
        change = self.mlp(normed)
        x = self.mix(change, x) if self.fault == "swaps" else self.mix(x, change)
        return x * 1.01 if self.fault == "scales its end" else x


class Positions(nn.Module):
    """A module that receives no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, DIM))

    def forward(self, begin: int, end: int) -> Tensor:
        return self.weight[begin:end]


class Memory(Faulty):
    """A module that keeps a state from token to token."""

    def __init__(self) -> None:
        super().__init__()
        self.state = torch.zeros(DIM)
        self.count = 0

    def forward(self, x: Tensor) -> Tensor:
        self.state = 0.5 * self.state + x.detach().mean((0, 1))
        self.count += 1
        if self.fault == "forgets" and self.count == 3:
            self.state = torch.zeros(DIM)
        return x + 0.1 * self.state


class Model(Faulty):
    """Embeddings, layers, a memory, a norm and a head."""

    def __init__(self, layer: Callable[[], Faulty], norm: Callable[[], nn.Module]):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, DIM)
        self.positions = Positions()
        self.layers = nn.ModuleList(layer() for _ in range(LAYERS))
        self.memory = Memory()
        self.norm = norm()
        self.shared = nn.Softsign()
        self.head = Linear(DIM, VOCABULARY)
        self.position = 0

    def forward(self, ids: Tensor, context: Tensor) -> Tensor:
        end = self.position + ids.shape[1]
        x = self.embed(ids) + self.positions(self.position, end) + context
        self.position = end if isinstance(self.layers[0], DecoderLayer) else 0
        if self.fault == "scales embeddings":
            x = 1.03 * x
        for layer in self.layers:
            x = layer(x)
        x = x + self.shared(self.memory(x))
        normed = self.norm(x)
        return self.head(x if self.fault == "forgets norm" else normed)


class Twice(Faulty):
    """A part that is called twice and may be wrong in one call."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model
        self.shared = Counted()

    def forward(self, ids: Tensor, context: Tensor) -> Tensor:
        return self.shared(self.model(ids, self.shared(context)))


class Counted(Faulty):
    """A part that counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Softsign()
        self.count = 0

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        if self.fault == "second call" and self.count % 2 == 0:
            x = 1.1 * x
        return self.part(x)


def encoder() -> Model:
    torch.manual_seed(1)
    return Model(EncoderLayer, lambda: LayerNorm(DIM)).eval()


def decoder() -> Model:
    torch.manual_seed(2)
    return Model(DecoderLayer, RmsNorm).eval()


class Stage(nn.Module):
    """Some layers of a model, as in a stage of a pipeline."""

    def __init__(self, model: Model, first: int, end: int) -> None:
        super().__init__()
        self.begin = [model.embed] if first == 0 else []
        if first == 0:
            self.embed = model.embed
        # Each stage counts from 0, as in some frameworks.
        self.layers = nn.ModuleList(model.layers[first:end])
        self.last = end == LAYERS
        if self.last:
            self.norm, self.head = model.norm, model.head

    def forward(self, x: Tensor) -> Tensor:
        if self.begin:
            x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)) if self.last else x


class Group:
    """Ranks that run as threads, with sums over all of them."""

    def __init__(self, size: int) -> None:
        self.terms: list[Tensor] = [torch.empty(0)] * size
        self.barrier = threading.Barrier(size, timeout=60)

    def sum(self, rank: int, term: Tensor) -> Tensor:
        self.terms[rank] = term
        self.barrier.wait()
        total = torch.stack(self.terms).sum(0)
        self.barrier.wait()
        return total


class RowLinear(nn.Module):
    """Half the columns of a weight. Its results are summed over the ranks."""

    def __init__(self, group: Group, rank: int) -> None:
        super().__init__()
        self.group, self.rank = group, rank
        self.weight = nn.Parameter(torch.randn(DIM, DIM) / DIM**0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.group.sum(self.rank, x @ self.weight.T)


class ShardedLayer(nn.Module):
    """Half of an MLP on each rank; the last rank also has a monitor."""

    def __init__(self, group: Group, rank: int) -> None:
        super().__init__()
        self.norm = RmsNorm()
        torch.manual_seed(100 + rank)
        self.up = Linear(DIM, DIM)
        self.down = RowLinear(group, rank)
        monitors = 6 if rank == 1 else 0
        self.monitors = nn.ModuleList(nn.Softsign() for _ in range(monitors))

    def forward(self, x: Tensor) -> Tensor:
        normed = self.norm(x)
        for monitor in self.monitors:
            monitor(normed)
        return x + self.down(functional.silu(self.up(normed)))


class ExpertLayer(nn.Module):
    """One expert on each rank, each with its own name."""

    def __init__(self, group: Group, rank: int) -> None:
        super().__init__()
        self.group, self.rank = group, rank
        self.norm = RmsNorm()
        torch.manual_seed(200 + rank)
        self.experts = nn.ModuleDict({str(rank): Linear(DIM, DIM)})
        # The expert of rank 1 has more layers.
        self.deep = nn.ModuleList(Linear(DIM, DIM) for _ in range(3 * rank))

    def forward(self, x: Tensor) -> Tensor:
        y = self.experts[str(self.rank)](self.norm(x))
        for part in self.deep:
            y = functional.silu(part(y))
        return x + self.group.sum(self.rank, y)


class ShardedModel(nn.Module):
    """A model of two equal layers."""

    def __init__(
        self, layer: Callable[[Group, int], nn.Module], group: Group, rank: int
    ) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed = nn.Embedding(VOCABULARY, DIM)
        self.layers = nn.ModuleList(layer(group, rank) for _ in range(2))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for part in self.layers:
            x = part(x)
        return x


def sharded(kind: str) -> Sequence[ShardedModel]:
    """Returns the models of all ranks of a "tensor" or "expert" parallel model,
    in order.
    """
    group = Group(2)
    layer = ShardedLayer if kind == "tensor" else ExpertLayer
    return [ShardedModel(layer, group, rank).eval() for rank in range(2)]
