"""One rank of a model that is sharded with DTensor, under hooks.

usage: dtensor_rank.py ENDPOINT RUN RANK WORLD_SIZE RENDEZVOUS_FILE
[TAMPERED_RANK]

A world of one rank runs the unchanged model. Two ranks use tensor parallelism,
four data and tensor parallelism.
"""

import sys

import msitd
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_tensor,
)

BATCH, WIDTH, HIDDEN = 6, 8, 12


class Gather(nn.Module):
    """Sums its input over the ranks, without waiting for the result."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not isinstance(x, DTensor):
            return x
        placements = [Replicate() if p.is_partial() else p for p in x.placements]
        return x.redistribute(placements=placements, async_op=True)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, HIDDEN)
        self.act = nn.ReLU()
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        self.gather = Gather()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.gather(self.down(self.act(self.up(x))))


def shard(model: Net, mesh: DeviceMesh) -> None:
    """Shards the rows of `up` and the columns of `down` over the last dimension."""
    rest: list[Placement] = [Replicate()] * (mesh.ndim - 1)
    for module, name, dim in (
        (model.up, "weight", 0),
        (model.up, "bias", 0),
        (model.down, "weight", 1),
    ):
        whole = getattr(module, name).data
        sharded = distribute_tensor(whole, mesh, [*rest, Shard(dim)])
        setattr(module, name, nn.Parameter(sharded))


def record_kinds(client: msitd.Client, whole: torch.Tensor, mesh: DeviceMesh) -> None:
    """Records one tensor in every placement of a one-dimensional mesh."""
    for op, placement in (
        ("kind.rows", Shard(0)),
        ("kind.columns", Shard(1)),
        ("kind.copies", Replicate()),
    ):
        client.record(distribute_tensor(whole, mesh, [placement]), op=op)
    share = whole * (0.25 if dist.get_rank() == 0 else 0.75 / (mesh.size() - 1))
    client.record(DTensor.from_local(share, mesh, [Partial()]), op="kind.terms")


def main() -> None:
    endpoint, run, rank, world_size, rendezvous = sys.argv[1:6]
    tampered = int(sys.argv[6]) if len(sys.argv) > 6 else -1
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = Net()
    x = torch.randn(BATCH, WIDTH)
    whole = torch.randn(5, 7)
    world = int(world_size)
    mesh = None
    if world > 1:
        dist.init_process_group(
            "gloo",
            init_method=f"file://{rendezvous}",
            rank=int(rank),
            world_size=world,
        )
        mesh = init_device_mesh("cpu", (world,) if world == 2 else (2, world // 2))
        shard(model, mesh)
        inputs = [Replicate()] if world == 2 else [Shard(0), Replicate()]
        x = distribute_tensor(x, mesh, inputs)
    with msitd.Client(run, int(rank), world, endpoint) as client:
        with msitd.register_hook(model, client, weights=True):
            if int(rank) == tampered:
                with torch.no_grad():
                    model.up.weight.to_local()[0, 0] += 5
            model(x)
        if mesh is None:
            for op in ("rows", "columns", "copies", "terms"):
                client.record(whole, op=f"kind.{op}")
        elif mesh.ndim == 1:
            record_kinds(client, whole, mesh)
        assert client.counters().invalid_count == 0
    if mesh is not None:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
