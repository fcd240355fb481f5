"""The settings of `msitctl exec`, written by client/msitctl/exec/recorded_command.cc."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

VARIABLE = "MSITD_EXEC"


@dataclass(frozen=True)
class ExecSettings:
    """Flags of exec, and the folder through which processes report to it."""

    folder: str

    # See variations.py; empty: the model computes as usual.
    variation: str
    level: str
    stack: str
    weights: bool
    gradients: bool
    aliases: bool
    # The runs whose tensors replace those of modules; empty: no injection.
    inject: tuple[str, ...]
    # "inputs" or "outputs".
    inject_what: str
    # Rank of those runs; None: the rank of this process.
    inject_rank: int | None
    # Patterns of ops; empty: all.
    ops: tuple[str, ...]
    # Mapped path prefixes: old, new.
    paths: tuple[tuple[str, str], ...]
    devices: tuple[tuple[str, str], ...]


def read_settings() -> ExecSettings | None:
    """Returns the settings in the environment; None if exec did not start this process.

    Raises:
        ValueError: The environment has a value that exec does not write.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    try:
        said = json.loads(text)
        return ExecSettings(
            folder=said["folder"],
            variation=said["variation"],
            level=said["level"],
            stack=said["stack"],
            weights=said["weights"],
            gradients=said["gradients"],
            aliases=said["aliases"],
            inject=tuple(said["inject"]),
            inject_what=said["inject_what"],
            inject_rank=None if said["inject_rank"] < 0 else said["inject_rank"],
            ops=tuple(said["ops"]),
            paths=tuple(_pair(each) for each in said["map_path"]),
            devices=tuple(_pair(each) for each in said["map_device"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"{VARIABLE} is not as exec writes it: {error!r}") from None


def _pair(text: str) -> tuple[str, str]:
    old, _, new = text.partition("=")
    return old, new
