"""Refuses versions of torch that are too old, with a clear error."""

from __future__ import annotations

import re

# The first version that has everything that this package uses unconditionally.
_TORCH_MIN = (2, 1)


def require_torch() -> None:
    """Imports torch.

    Raises:
        RuntimeError: This version of torch is too old for hooks.
    """
    import torch

    text = str(torch.__version__)
    numbers = tuple(int(number) for number in re.findall(r"\d+", text)[:2])
    if numbers < _TORCH_MIN:
        wanted = ".".join(map(str, _TORCH_MIN))
        raise RuntimeError(
            f"msitd records torch {wanted} and newer, and this is torch {text}"
        )
