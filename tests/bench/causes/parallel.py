"""Tensor parallelism on two ranks, with the parts that inference engines have."""

import torch
import torch.distributed as dist
from subjects import Setup
from torch import Tensor, nn
from torch.nn import functional


class RowParallelLinear(nn.Module):
    """Has some of the columns of a weight, and adds the results of all ranks."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        parts = linear.weight.data.chunk(dist.get_world_size(), 1)
        self.weight = nn.Parameter(parts[dist.get_rank()].clone())
        self.bias: nn.Parameter | None = None

    def reduce(self, y: Tensor) -> Tensor:
        dist.all_reduce(y)
        return y

    def forward(self, x: Tensor) -> Tensor:
        y = self.reduce(functional.linear(x, self.weight))
        return y if self.bias is None else y + self.bias


class GatheredLinear(nn.Module):
    """Has some of the rows of a weight, and joins the results of all ranks."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        parts = linear.weight.data.chunk(dist.get_world_size(), 0)
        self.weight = nn.Parameter(parts[dist.get_rank()].clone())

    def join(self, pieces: list[Tensor]) -> Tensor:
        return torch.cat(pieces, dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.linear(x, self.weight)
        pieces = [torch.zeros_like(y) for _ in range(dist.get_world_size())]
        dist.all_gather(pieces, y)
        return self.join(pieces)


def split(setup: Setup) -> None:
    """Keeps the part of the model that this rank computes."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for layer in setup.model.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        columns = (attention.q_proj, attention.k_proj, attention.v_proj)
        for part in (*columns, mlp.gate_proj, mlp.up_proj):
            part.weight.data = part.weight.data.chunk(ranks, 0)[rank].clone()
        attention.o_proj = RowParallelLinear(attention.o_proj)
        mlp.down_proj = RowParallelLinear(mlp.down_proj)
    setup.model.lm_head = GatheredLinear(setup.model.lm_head)


def add_biases(setup: Setup) -> None:
    """Gives the results of each layer a bias, which is added once."""
    generator = torch.Generator().manual_seed(5)
    for layer in setup.model.model.layers:
        part = layer.mlp.down_proj
        size = part.weight.shape[0]
        part.bias = nn.Parameter(0.3 * torch.randn(size, generator=generator))
