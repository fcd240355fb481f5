"""Formats statistics of a tensor that another tool computed."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any


def text_of(statistics: Mapping[str, Any]) -> str:
    """Returns the text of a record of kind statistics.

    The native client checks names and texts.

    Raises:
        TypeError: A value is not a number, bool or str.
    """
    parts = (f'"{name}": {_scalar(name, value)}' for name, value in statistics.items())
    return "{" + ", ".join(parts) + "}"


def _scalar(name: str, value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    # Scalars of numpy and torch.
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f'"{value}"'
    try:
        return str(operator.index(value))
    except TypeError:
        raise TypeError(
            f"{name} is of type {type(value).__name__}, not a number, bool or str"
        ) from None
