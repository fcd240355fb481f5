"""What `msitctl exec` was asked for, as client/ctl/command/exec_command.cc writes it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

VARIABLE = "MSITD_EXEC"


@dataclass(frozen=True)
class ExecSettings:
    """Flags of exec, and its folder, in which it is told things."""

    folder: str

    level: str
    stack: str
    weights: bool
    gradients: bool
    aliases: bool
    # The runs whose tensors modules are given; empty for none.
    inject: tuple[str, ...]
    # "inputs" or "outputs".
    inject_what: str
    # Of those runs; None for that of this process.
    inject_rank: int | None
    # Empty for all.
    ops: tuple[str, ...]
    # What is looked for where: old, new.
    paths: tuple[tuple[str, str], ...]
    devices: tuple[tuple[str, str], ...]


def read_settings() -> ExecSettings | None:
    """Returns what the environment says; None if this is no part of an exec.

    Raises:
        ValueError: It says what exec does not write.
    """
    text = os.environ.get(VARIABLE)
    if not text:
        return None
    try:
        said = json.loads(text)
        return ExecSettings(
            folder=said["folder"],
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
