"""Determines the rank of a process."""

from __future__ import annotations

import os
import sys


def rank_of_group() -> tuple[int, int] | None:
    """Returns rank and world size of torch.distributed; None without a process
    group.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return None
    if not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def rank_of_process() -> tuple[int, int]:
    """Returns rank and world size from torch.distributed, or else from the launcher."""
    group = rank_of_group()
    if group is not None:
        return group
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
