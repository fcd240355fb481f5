"""The arguments of a debugger, in the order of early or of current releases."""

from __future__ import annotations

import os
import sys
from typing import Any


class Given:
    """The arguments of a debugger, in the order of early or of current releases."""

    def __init__(
        self, config_path: str | None, arguments: dict[str, Any], model: Any
    ) -> None:
        self.config_path = config_path
        self.arguments = arguments
        self.model = model
        self.key = repr((config_path, sorted(arguments.items())))

    @classmethod
    def of(
        cls,
        config_path: Any = None,
        task: Any = None,
        dump_path: Any = None,
        level: Any = None,
        *rest: Any,
        model: Any = None,
        step: Any = None,
    ) -> Given:
        if len(rest) > 2:
            raise TypeError(
                f"PrecisionDebugger takes 6 arguments, and not {4 + len(rest)}"
            )
        for each in rest:
            if each is None:
                continue
            if _is_model(each):
                model = each
            else:
                step = each
        if config_path is not None:
            config_path = os.fspath(config_path)
        arguments = {"task": task, "dump_path": dump_path, "level": level, "step": step}
        return cls(config_path, arguments, model)


def _is_model(value: Any) -> bool:
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    if isinstance(value, (list, tuple)):
        return bool(value) and isinstance(value[0], torch.nn.Module)
    return isinstance(value, torch.nn.Module)
