"""Says at once which version of torch is too old."""

from __future__ import annotations

import re

# The first one that has all that is used here without a question.
_TORCH_MIN = (2, 1)


def require_torch() -> None:
    """Imports torch.

    Raises:
        RuntimeError: It is too old for hooks.
    """
    import torch

    text = str(torch.__version__)
    numbers = tuple(int(number) for number in re.findall(r"\d+", text)[:2])
    if numbers < _TORCH_MIN:
        wanted = ".".join(map(str, _TORCH_MIN))
        raise RuntimeError(
            f"msitd records torch {wanted} and newer, and this is torch {text}"
        )
