"""Stand-ins for the modules of an unavailable device type, such as torch.npu
and torch_npu.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


# Functions to call when a module is imported.
_steps: dict[str, Callable[[], None]] = {}


class Nothing:
    """Result of stand-ins that accepts calls, attributes and `with`, without
    any effect.
    """

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Nothing:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __call__(self, *_: Any, **__: Any) -> Nothing:
        return Nothing()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __float__(self) -> float:
        return 0.0

    def __int__(self) -> int:
        return 0


class _StandIn(ModuleType):
    """A stand-in for a module.

    Functions that would compute raise; others have no effect.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        # The attribute may be a submodule.
        whole = f"{self.__name__}.{name}"
        if whole in _steps:
            return importlib.import_module(whole)
        if name.startswith("npu_") or name.endswith("Tensor"):
            return _refuse(whole)
        if name[0].isupper():
            return type(name, (Nothing,), {"__module__": self.__name__})
        return Nothing()


def _refuse(name: str) -> Callable[..., Any]:
    def call(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(
            f"{name} is not here: --map-device has stand-ins for devices, not for "
            "what they compute"
        )

    return call


class _Finder(importlib.abc.MetaPathFinder):
    """Finds all modules below stand-ins."""

    def __init__(self) -> None:
        self.roots: set[str] = set()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if not any(fullname.startswith(f"{root}.") for root in self.roots):
            return None
        return importlib.machinery.ModuleSpec(fullname, _Loader(), is_package=True)


class _Loader(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        step = _steps.get(module.__name__)
        if step is not None:
            step()


_finder = _Finder()


def stand_in(name: str, answers: dict[str, Any]) -> ModuleType:
    """Returns a module of that name with the attributes `answers`.

    An existing one stays.
    """
    there = sys.modules.get(name)
    if there is not None:
        return there
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.roots.add(name)
    module = _StandIn(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    module.__path__ = []
    for key, value in answers.items():
        setattr(module, key, value)
    sys.modules[name] = module
    return module


def at_import(name: str, step: Callable[[], None]) -> None:
    """Calls `step` when a module below a stand-in is imported."""
    _steps[name] = step
