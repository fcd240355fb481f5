"""One rank whose torch functions are recorded.

usage: api_rank.py ENDPOINT RUN RANK WORLD_SIZE RENDEZVOUS_FILE
"""

import sys

import msitd
import torch
import torch.distributed as dist
import torch.nn.functional as F


def step(rank: int, world: int) -> None:
    """Computes a little, and transfers the result between the ranks in every way."""
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3) + rank
    total = F.relu(torch.matmul(x, x.T) - 3)
    total.mul_(2)
    work = dist.all_reduce(total, async_op=True)
    work.wait()
    from_left = torch.empty(2, 3)
    ops = [
        dist.P2POp(dist.isend, x, (rank + 1) % world),
        dist.P2POp(dist.irecv, from_left, (rank - 1) % world),
    ]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    parts = [torch.empty(2, 3) for _ in range(world)]
    dist.all_gather(parts, from_left)
    assert torch.equal(parts[rank], from_left)


def main() -> None:
    endpoint, run, rank, world, rendezvous = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{rendezvous}",
        rank=int(rank),
        world_size=int(world),
    )
    with (
        msitd.Client(run, int(rank), int(world), endpoint) as client,
        msitd.register_api(client) as handle,
    ):
        for _ in range(2):
            step(int(rank), int(world))
            client.next_token()
        assert handle.skipped == {}
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
