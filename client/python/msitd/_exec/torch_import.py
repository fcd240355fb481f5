"""Notices that a program has imported torch."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from msitd._exec import paths
from msitd._exec.settings import ExecSettings


class _Finder(importlib.abc.MetaPathFinder):
    """Lets others find torch, and calls `then` once it is whole."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._then)
        return spec


class _Loader(importlib.abc.Loader):
    """The loader of torch, with a step behind it."""

    def __init__(self, loader: Any, then: Callable[[], None]) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        # What asks torch for its loader gets its own.
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._then()


def install(settings: ExecSettings) -> None:
    """Has models recorded once torch is there."""

    def then() -> None:
        # They import torch.
        from msitd._exec import devices, recording

        try:
            devices.install(settings.devices)
            paths.install_in_torch(settings.paths)
            recording.install(settings)
        except Exception as error:  # noqa: BLE001 - never the program's problem
            sys.stderr.write(f"msitctl exec: nothing is recorded: {error}\n")

    if "torch" in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _Finder(then))
