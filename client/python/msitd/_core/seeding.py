"""Seeds what a program draws random numbers from."""

from __future__ import annotations

import os
import random

# More is no seed of NumPy.
SEED_MAX = 2**32 - 1


def seed_generators(seed: int) -> None:
    """Seeds random, NumPy, torch and its accelerators.

    `PYTHONHASHSEED` is set for processes that this one starts.

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
    # The generators of all devices, but those of plugins of older versions.
    torch.manual_seed(seed)
    npu = getattr(torch, "npu", None)
    if npu is not None:
        npu.manual_seed_all(seed)
