"""Notices when modules are added to a model, replaced or taken out of it."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    # A module, and its children by name.
    _Children = dict[str, weakref.ref[torch.nn.Module]]


class Structure:
    """The modules that a model had when it was looked at last. Any thread may use it.

    Libraries such as PEFT put other modules into a model after hooks were put on it, and
    some write into `_modules`, of which torch tells nobody. So each pass looks: that takes
    less than a microsecond for a module. Nothing here keeps a module alive.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = weakref.ref(model)
        self._known: list[tuple[weakref.ref[torch.nn.Module], _Children]] = []
        self._lock = threading.Lock()
        self._look()

    def changed(self) -> torch.nn.Module | None:
        """Returns the model if it has other modules than before, to one thread.

        None if it has not, or is gone.
        """
        if not self._has_changed():
            return None
        with self._lock:
            # Another thread may have been faster.
            if not self._has_changed():
                return None
            self._look()
        return self._model()

    def _look(self) -> None:
        model = self._model()
        self._known = []
        for module in () if model is None else model.modules():
            # A name may stand for no module.
            children = {
                name: weakref.ref(child)
                for name, child in module._modules.items()
                if child is not None
            }
            self._known.append((weakref.ref(module), children))

    def _has_changed(self) -> bool:
        for reference, known in self._known:
            module = reference()
            # One that is gone is missed by the module that had it.
            if module is None:
                continue
            count = 0
            for name, child in module._modules.items():
                if child is None:
                    continue
                expected = known.get(name)
                if expected is None or expected() is not child:
                    return True
                count += 1
            if count != len(known):
                return True
        return False
