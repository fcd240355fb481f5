"""Makes a program compute the same each time."""

from __future__ import annotations

import os

from msitd._core.seeding import SEED_MAX, seed_generators

# What collectives and kernels of Ascend look at.
_DETERMINISTIC = {
    "LCCL_DETERMINISTIC": "1",
    "HCCL_DETERMINISTIC": "true",
    "ATB_MATMUL_SHUFFLE_K_ENABLE": "0",
    "ATB_LLM_LCOC_ENABLE": "0",
}


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
    if not 0 <= seed <= SEED_MAX:
        raise ValueError(f"seed is {seed}, and not from 0 to {SEED_MAX}")
    os.environ.update(_DETERMINISTIC)
    seed_generators(seed)
    # It is a face of torch: who asks for it has torch.
    import torch

    torch.use_deterministic_algorithms(True)
