"""Says which module of a model runs now."""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

    import torch


class RunningModule:
    """Knows the modules of a model by name. Any thread may ask.

    It looks at the calls of modules that are on the stack, so nothing of the model
    changes, and what raises leaves nothing behind. Modules in a graph of
    torch.compile are not on it: there, the module that calls the graph is the one.
    """

    def __init__(self, names: dict[torch.nn.Module, str]) -> None:
        import torch

        self._names = weakref.WeakKeyDictionary(names)
        self._code = torch.nn.Module._call_impl.__code__

    def name(self) -> str | None:
        """Returns the name of the innermost one in this thread; None if none runs."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code is self._code:
                name = self._names.get(frame.f_locals["self"])
                if name is not None:
                    return name
            frame = frame.f_back
        return None
