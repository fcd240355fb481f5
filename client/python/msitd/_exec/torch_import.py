"""Runs a step when a program has imported torch or certain other packages."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from msitd._exec import paths, telling
from msitd._exec.settings import ExecSettings


class _Finder(importlib.abc.MetaPathFinder):
    """Lets other finders find a package, and runs its step once the package is loaded.

    Programs query whether torch exists long before they import it, so each
    module spec that is returned includes the step.
    """

    def __init__(self, steps: dict[str, Callable[[], None]]) -> None:
        self._steps = steps

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._steps:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = None if find is None else find(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self._once)
                return spec
        return None

    def _once(self, name: str) -> None:
        step = self._steps.pop(name, None)
        if step is None:
            return
        try:
            step()
        except Exception as error:  # noqa: BLE001 - never the program's problem
            sys.stderr.write(f"msitctl exec: {name}: {error}\n")


class _Loader(importlib.abc.Loader):
    """The loader of a package, followed by a step."""

    def __init__(self, loader: Any, then: Callable[[str], None]) -> None:
        self._loader = loader
        self._then = then

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        # Code that reads the loader of the package gets the original one.
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._then(module.__name__)


def install(settings: ExecSettings) -> None:
    """Starts recording models once torch is loaded."""

    def begin() -> None:
        # These modules import torch.
        from msitd._exec import devices, recording, variations

        try:
            changed = functools.partial(telling.vary, settings.folder)
            varied = variations.devices_of(settings.variation)
            devices.install(settings.devices + varied, changed if varied else None)
            variations.change_process(settings.variation, changed)
            paths.install_in_torch(settings.paths)
            recording.install(settings)
        except Exception as error:  # noqa: BLE001 - never the program's problem
            telling.fail(settings.folder, f"nothing is recorded: {error}")

    steps: dict[str, Callable[[], None]] = {"torch": begin}
    if settings.paths:
        steps["safetensors"] = lambda: paths.install_in_safetensors(settings.paths)
        steps["tokenizers"] = lambda: paths.install_in_tokenizers(settings.paths)
    for name in list(steps):
        if name in sys.modules:
            steps.pop(name)()
    if steps:
        sys.meta_path.insert(0, _Finder(steps))
