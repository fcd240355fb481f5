"""Makes the computations of a program reproducible."""

from __future__ import annotations

import os

from msitd._core.seeding import SEED_MAX, seed_generators

# Environment variables for collectives and kernels of Ascend.
_DETERMINISTIC = {
    "LCCL_DETERMINISTIC": "1",
    "HCCL_DETERMINISTIC": "true",
    "ATB_MATMUL_SHUFFLE_K_ENABLE": "0",
    "ATB_LLM_LCOC_ENABLE": "0",
}


def seed_all(seed: int = 2024) -> None:
    """Seeds random, NumPy and torch, and makes torch compute deterministically.

    torch then raises where an operator has no deterministic implementation.
    Sets the environment variables of Ascend, and `PYTHONHASHSEED` for processes
    that this one starts.

    Raises:
        ValueError: `seed` is not an integer that all of them accept.
    """
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise ValueError(f"seed is {seed!r}, and no int")  # noqa: TRY004 - as msit
    if not 0 <= seed <= SEED_MAX:
        raise ValueError(f"seed is {seed}, and not from 0 to {SEED_MAX}")
    os.environ.update(_DETERMINISTIC)
    seed_generators(seed)
    # torch is installed, since this module belongs to its interface.
    import torch

    torch.use_deterministic_algorithms(True)
