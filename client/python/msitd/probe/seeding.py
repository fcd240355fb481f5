"""Makes the computations of a program reproducible, as msprobe does."""

from __future__ import annotations

import os

from msitd._core.seeding import SEED_MAX, seed_generators

# Environment variables for collectives of Ascend and for cuBLAS.
_DETERMINISTIC = {"HCCL_DETERMINISTIC": "True", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


def seed_all(
    seed: int = 1234,
    mode: bool = False,
    rm_dropout: bool = False,
    is_enhanced: bool = False,
) -> None:
    """Seeds random, NumPy and torch.

    Args:
        seed: 0 to 2^32 - 1.
        mode: Whether torch computes deterministically, and raises where an
            operator has no deterministic implementation.
        rm_dropout: Whether dropout is disabled from now on, in the whole
            process.
        is_enhanced: Not supported, because each call would then draw the same
            numbers.

    Raises:
        ValueError: An argument is out of its range, or is_enhanced is true.
    """
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= SEED_MAX:
        raise ValueError(f"seed is {seed!r}, and no whole number to {SEED_MAX}")
    for name, value in (("mode", mode), ("rm_dropout", rm_dropout)):
        if not isinstance(value, bool):
            raise ValueError(f"{name} is {value!r}, and no bool")  # noqa: TRY004 - as msprobe
    if is_enhanced:
        raise ValueError(
            "is_enhanced is not done here: seed the program at each step instead"
        )
    # torch is installed, since this module belongs to its interface.
    import torch

    seed_generators(seed)
    torch.use_deterministic_algorithms(mode)
    if mode:
        os.environ.update(_DETERMINISTIC)
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
    if rm_dropout:
        _remove_dropout()


def _remove_dropout() -> None:
    from torch import nn

    def forward(self: nn.Module, input: object) -> object:
        return input

    for kind in (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d):
        kind.forward = forward  # type: ignore[assignment, method-assign]
