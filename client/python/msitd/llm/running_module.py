"""Determines which module of a model is running."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

    import torch


class RunningModule:
    """Maps the modules of a model to names. Any thread may call it.

    It inspects the calls of modules on the Python stack, so the model is not
    changed, and exceptions leave no state. Modules inside a graph of
    torch.compile are not on the stack; the result is then the module that calls
    the graph.
    """

    def __init__(self, names: dict[torch.nn.Module, str]) -> None:
        import torch

        self._names = weakref.WeakKeyDictionary(names)
        self._code = torch.nn.Module._call_impl.__code__

    def name(self) -> str | None:
        """Returns the name of the innermost running module of this thread; None
        if none runs.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code is self._code:
                name = self._names.get(frame.f_locals["self"])
                if name is not None:
                    return name
            frame = frame.f_back
        return None
