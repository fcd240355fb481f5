"""Helpers of engine tests that query runs and functions."""

import inspect
from collections.abc import Callable
from typing import Any

from executing import places

from daemon import Daemon

__all__ = ["places", "signature", "values"]


def signature(function: Callable[..., Any]) -> list[str]:
    """Returns the parameters in the format of the golden files of
    tests/golden/engines.
    """
    out = []
    has_star = False
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL:
            has_star = True
            name = f"*{name}"
        elif parameter.kind is parameter.VAR_KEYWORD:
            name = f"**{name}"
        elif parameter.kind is parameter.KEYWORD_ONLY and not has_star:
            has_star = True
            out.append("*")
        if parameter.default is not parameter.empty:
            name = f"{name}={parameter.default!r}"
        out.append(name)
    return out


def values(daemon: Daemon, run: str = "r", kind: str = "text") -> set[str]:
    """Returns the values of a run."""
    rows = daemon.ctl_json(
        "tensor", "list", "--run", run, "--kind", kind, "--limit", "0"
    )
    return {row["value"] for row in rows.get("tensors", [])}
