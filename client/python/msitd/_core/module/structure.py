"""Detects modules that are added to a model, replaced or removed."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    # A module, and its children by name.
    _Children = dict[str, weakref.ref[torch.nn.Module]]


class Structure:
    """The modules of a model at the last check. Any thread may use it.

    Libraries such as PEFT replace modules of a model after hooks were put on
    it, and some write into `_modules`, which torch does not report. Each pass
    therefore checks the structure, which takes less than a microsecond per
    module. Nothing here keeps a module alive.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = weakref.ref(model)
        self._known: list[tuple[weakref.ref[torch.nn.Module], _Children]] = []
        self._lock = threading.Lock()
        self._look()

    def changed(self) -> torch.nn.Module | None:
        """Returns the model, to only one thread, if its modules have changed.

        Returns None if they have not, or if the model no longer exists.
        """
        if not self._has_changed():
            return None
        with self._lock:
            # Another thread may have handled the change.
            if not self._has_changed():
                return None
            self._look()
        return self._model()

    def _look(self) -> None:
        model = self._model()
        self._known = []
        for module in () if model is None else model.modules():
            # A name may be bound to None.
            children = {
                name: weakref.ref(child)
                for name, child in module._modules.items()
                if child is not None
            }
            self._known.append((weakref.ref(module), children))

    def _has_changed(self) -> bool:
        for reference, known in self._known:
            module = reference()
            # The parent of a removed module detects the removal.
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
