"""Maps names of dumps to ops and to file names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SEPARATOR = "___"
_GRAD = "grad__"
PARAMETER = "param"
_HOOKS = "non_intrusive__"

# Tags that describe the file and the rank that wrote it.
_PLACE = ("step", "rank", "dump_index", "name")
_RANKS = ("pp_rank", "tp_rank", "cp_rank", "ep_rank", "etp_rank")
_STATUS = "recompute_status"
_RECOMPUTED = "recompute"


@dataclass(frozen=True)
class Place:
    """Position of a dump in a run."""

    op: str
    io: str
    index: str


def op_of(name: str, tags: Mapping[str, Any]) -> str:
    """Returns `name___tag=value`, with tags sorted by name.

    The first forward of a checkpoint is named like one without a checkpoint;
    only the second has the tag.
    """
    kept = {
        key: value
        for key, value in tags.items()
        if key not in _PLACE
        and key not in _RANKS
        and (key != _STATUS or value == _RECOMPUTED)
    }
    parts = [str(name), *(f"{key}={kept[key]}" for key in sorted(kept))]
    # Characters that UTF-8 cannot encode are escaped.
    return _SEPARATOR.join(parts).encode(errors="backslashreplace").decode()


def place_of(name: str, tags: Mapping[str, Any]) -> Place:
    """Returns the position of a file's dump, as msitd would have recorded it."""
    is_gradient = name.startswith(_GRAD)
    name = name.removeprefix(_GRAD)
    if name.startswith(f"{PARAMETER}__"):
        return Place(op_of(name, tags), "grad_weight" if is_gradient else "weight", "0")
    if name.startswith(_HOOKS):
        found = _of_module(name.removeprefix(_HOOKS))
        if found is not None:
            io = f"grad_{found.io}" if is_gradient else found.io
            return Place(found.op, io, found.index)
    return Place(op_of(name, tags), "grad_output" if is_gradient else "output", "0")


def module_name(module: str, side: str) -> str:
    """Returns SGLang's name for a side of a module: `inputs.0` or `output`."""
    return _HOOKS + ".".join(part for part in (module, side) if part)


def file_name(tags: Mapping[str, Any]) -> str:
    """Returns the name of the file of a dump."""
    return _SEPARATOR.join(f"{key}={value}" for key, value in tags.items()) + ".pt"


def tags_of_file(path: str) -> dict[str, str]:
    """Returns the tags in the name of a file."""
    stem = os.path.basename(path).removesuffix(".pt")
    pairs = (part.partition("=") for part in stem.split(_SEPARATOR))
    return {key: value for key, equals, value in pairs if equals}


def _of_module(text: str) -> Place | None:
    parts = text.split(".")
    for at in range(len(parts) - 1, -1, -1):
        if parts[at] in ("inputs", "output"):
            op = ".".join(["root", *parts[:at]])
            io = "input" if parts[at] == "inputs" else "output"
            return Place(op, io, ".".join(parts[at + 1 :]) or "0")
    return None
