"""Makes a program compute the same each time."""

from __future__ import annotations

import os
import random

# What collectives and kernels of Ascend look at.
_DETERMINISTIC = {
    "LCCL_DETERMINISTIC": "1",
    "HCCL_DETERMINISTIC": "true",
    "ATB_MATMUL_SHUFFLE_K_ENABLE": "0",
    "ATB_LLM_LCOC_ENABLE": "0",
}

# More is no seed of NumPy.
_SEED_MAX = 2**32 - 1


def seed_all(seed: int = 2024) -> None:
    """Seeds random, NumPy and torch, and has torch compute deterministically.

    Torch then raises where an operator has no deterministic form. The variables
    that Ascend looks at are set, and `PYTHONHASHSEED` for processes that this one
    starts.

    Raises:
        ValueError: `seed` is no whole number that all of them take.
    """
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise ValueError(f"seed is {seed!r}, and no int")  # noqa: TRY004 - as msit
    if not 0 <= seed <= _SEED_MAX:
        raise ValueError(f"seed is {seed}, and not from 0 to {_SEED_MAX}")
    # It is a face of torch: who asks for it has torch.
    import torch

    os.environ.update(_DETERMINISTIC, PYTHONHASHSEED=str(seed))
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
    torch.use_deterministic_algorithms(True)
