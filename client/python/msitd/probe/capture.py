"""Translates the level of detail that a task needs into rules of a capture policy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msitd.probe.settings import Settings

_FULL = "CAPTURE_LEVEL_FULL"
_SUMMARY = "CAPTURE_LEVEL_SUMMARY"
_DIRECTIONS = ("forward", "backward")


def keeps_bytes(settings: Settings) -> bool:
    """Returns whether the bytes of all tensors are needed."""
    return settings.task in ("tensor", "overflow_check") or (
        settings.summary_mode != "statistics"
    )


def capture_rules(settings: Settings) -> str:
    """Returns the rules as JSON; the first rule that selects a tensor decides.

    Tensors of `tensor_list` are identified by their ops, for every call and in
    both directions.
    """
    rules: list[dict[str, Any]] = []
    if not keeps_bytes(settings):
        patterns = [_pattern_of(name) for name in settings.tensor_names]
        if patterns:
            rules.append({"filter": {"op_patterns": patterns}, "level": _FULL})
        rules.append({"level": _SUMMARY})
    else:
        rules.append({"level": _FULL})
    return json.dumps(rules)


def _pattern_of(name: str) -> str:
    """Returns a pattern of the ops whose entries may have `name` in their names."""
    words = [word for word in name.split(".") if word not in _DIRECTIONS]
    while len(words) > 1 and words[-1].isdigit():
        words.pop()
    text = ".".join(words)
    return "*" + "".join("?" if char in "*?" else char for char in text) + "*"
