"""Programs of one and of two ranks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RANK = Path(__file__).parent / "rank.py"
TIMEOUT_S = 300
WAYS = (
    *(("zero-0", 1), ("zero-1", 1), ("zero-2", 1)),
    *(("zero-0", 2), ("zero-1", 2), ("zero-2", 2), ("zero-3", 2)),
    *(("fsdp", 2), ("fsdp-compiled", 2)),
    *(("tensor-parallel", 2), ("tensor-parallel-compiled", 2)),
    *(("megatron", 1), ("megatron", 2)),
)


@pytest.mark.parametrize(("way", "world_size"), WAYS)
def test_each_rank_has_what_plain_hooks_see(
    way: str, world_size: int, tmp_path: Path
) -> None:
    ranks = [
        subprocess.Popen(
            [sys.executable, RANK, way, str(rank), str(world_size), tmp_path / "meet"],
            env={
                **os.environ,
                "GLOO_SOCKET_IFNAME": "lo",
                # Read by deepspeed.
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(world_size),
                "DS_ACCELERATOR": "cpu",
            },
        )
        for rank in range(world_size)
    ]
    try:
        assert [rank.wait(TIMEOUT_S) for rank in ranks] == [0] * world_size
    finally:
        for rank in ranks:
            rank.kill()
