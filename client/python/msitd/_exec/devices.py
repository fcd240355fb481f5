"""Has a program that asks for a device that is not here take another one."""

from __future__ import annotations

import functools
import importlib.machinery
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# Types that torch reads in a device; others get the place that it keeps for one.
_KNOWN = frozenset(("cpu", "cuda", "xpu", "mps", "meta", "hpu", "xla"))


class _Types:
    """Which type of device another one becomes."""

    def __init__(self, types: dict[str, str]) -> None:
        # The program has imported it.
        import torch

        self._device = torch.device
        self._types = types

    def method(self, name: str) -> str | None:
        """Returns what the method of a type, such as `cuda`, brings a tensor to."""
        return self._types.get(name)

    def of(self, value: Any) -> Any:
        """Returns another device for one that is mapped; all else as it is."""
        if isinstance(value, self._device):
            new = self._types.get(value.type)
            return value if new is None else self._numbered(new, value.index)
        if isinstance(value, str):
            kind, colon, number = value.partition(":")
            new = self._types.get(kind)
            if new is not None and (not colon or number.isdigit()):
                return self._numbered(new, int(number) if colon else None)
        return value

    def _numbered(self, kind: str, number: int | None) -> torch.device:
        if kind == "cpu":
            return self._device(kind)
        return self._device(kind, number or 0)


def _mode(types: _Types) -> Any:
    """Returns a mode that changes devices that functions are given, in a thread."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Devices(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, _: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if function is torch.device:
                return types.of(function(*args, **(kwargs or {})))
            changed = tuple(types.of(each) for each in args)
            named = {name: types.of(each) for name, each in (kwargs or {}).items()}
            new = types.method(getattr(function, "__name__", ""))
            if new is not None and changed:
                return changed[0].to(new)
            return function(*changed, **named)

    return Devices()


class _StandIn(ModuleType):
    """Stands for `torch.npu`, `torch_npu` and their kind: most of it does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _do_nothing


def _do_nothing(*_: Any, **__: Any) -> None:
    return None


def install(pairs: tuple[tuple[str, str], ...]) -> None:
    """Maps types of devices, and has modules and methods of those that are not here.

    Raises:
        ValueError: Torch does not take one of them.
    """
    if not pairs:
        return
    # The program has imported it.
    import torch

    types = dict(pairs)
    for new in types.values():
        try:
            torch.device(new)
        except RuntimeError as error:
            raise ValueError(f"--map-device: {error}") from None
    for old, new in types.items():
        if old in _KNOWN:
            continue
        try:
            torch.utils.rename_privateuse1_backend(old)
        except RuntimeError as error:
            raise ValueError(f"--map-device {old}: {error}") from None
        _stand_in(f"torch.{old}", new)
        _stand_in(f"torch_{old}", new)
        setattr(torch, old, sys.modules[f"torch.{old}"])
        for kind in (torch.Tensor, torch.nn.Module):
            setattr(kind, old, functools.partialmethod(_to, new))
    _mode(_Types(types)).__enter__()


def _stand_in(name: str, new: str) -> None:
    module = _StandIn(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    module.__path__ = []
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "memory_allocated": lambda *_: 0,
        "max_memory_allocated": lambda *_: 0,
        "get_device_name": lambda *_: new,
    }
    for key, value in answers.items():
        setattr(module, key, value)
    sys.modules.setdefault(name, module)


def _to(self: Any, new: str, *_: Any, **__: Any) -> Any:
    return self.to(new)
