"""One rank of a training, under hooks.

usage: train_rank.py ENDPOINT RUN RANK WORLD_SIZE RENDEZVOUS_FILE WAY

WAY is `whole`, `ddp` or `fsdp`. The ranks share the rows of each batch.
"""

import sys

import msitd
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

ROWS, WIDTH, STEPS = 4, 6, 2


def main() -> None:
    endpoint, run, rank, world_size, rendezvous, way = sys.argv[1:7]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(WIDTH, 8), nn.Tanh(), nn.Linear(8, 2))
    batches = torch.randn(STEPS, 2, ROWS, WIDTH)
    forward: nn.Module = model
    share = slice(None)
    if way != "whole":
        dist.init_process_group(
            "gloo",
            init_method=f"file://{rendezvous}",
            rank=int(rank),
            world_size=int(world_size),
        )
        share = slice(int(rank), None, int(world_size))
    if way == "ddp":
        forward = DistributedDataParallel(model)
    elif way == "fsdp":
        mesh = dist.init_device_mesh("cpu", (int(world_size),))
        fully_shard(model[0], mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    with (
        msitd.Client(run, int(rank), int(world_size), endpoint) as client,
        msitd.register_hook(model, client, gradients=True) as handle,
    ):
        for step in batches:
            for batch in step:
                forward(batch[share]).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        assert client.token == STEPS
        assert handle.skipped == {}, handle.skipped
    if way != "whole":
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
