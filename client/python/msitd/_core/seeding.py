"""Seeds the random number generators of a program."""

from __future__ import annotations

import os
import random

# NumPy accepts no larger seed.
SEED_MAX = 2**32 - 1


def seed_generators(seed: int) -> None:
    """Seeds random, NumPy, torch and its accelerators.

    Sets `PYTHONHASHSEED` for the processes that this process starts.

    Args:
        seed: 0 to SEED_MAX.
    """
    import torch

    os.environ["PYTHONHASHSEED"] = str(seed)
    random.seed(seed)
    try:
        import numpy as np
    except ImportError:
        pass
    else:
        np.random.seed(seed)
    # Seeds the generators of all devices, except those of older plugins.
    torch.manual_seed(seed)
    npu = getattr(torch, "npu", None)
    if npu is not None:
        npu.manual_seed_all(seed)
