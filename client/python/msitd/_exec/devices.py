"""Redirects a program that uses an unavailable device to another device."""

from __future__ import annotations

import functools
import importlib
import inspect
import threading
from typing import TYPE_CHECKING, Any

from msitd._exec import torchair
from msitd._exec.stand_ins import Nothing, at_import, stand_in
from msitd._exec.wrapping import with_mapped

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

# Device types that torch can parse; others use the type that torch reserves for
# them.
_KNOWN = frozenset(("cpu", "cuda", "xpu", "mps", "meta", "hpu", "xla"))

# Communication backends of the ranks on a type of device.
_BACKENDS = {"cpu": "gloo", "cuda": "nccl", "npu": "hccl", "xpu": "xccl"}

# Functions of torch.cuda and similar modules that mean nothing on another
# device.
_NO_OPS = ("set_device", "synchronize", "reset_peak_memory_stats")

# Before the functions of torch that also read device names.
_RESTORE_PRIORITY = 5


class _Types:
    """Maps types of devices."""

    def __init__(
        self, types: dict[str, str], mapped: Callable[[], object] | None
    ) -> None:
        # The program has imported torch.
        import torch

        self._device = torch.device
        self._types = types
        # Called for the first device that is mapped.
        self._mapped = mapped

    def add(self, old: str, new: str) -> None:
        self._types.setdefault(old, new)

    def method(self, name: str) -> str | None:
        """Returns the device to which the method of a type, such as `cuda`,
        moves a tensor.
        """
        return self.noted(self._types.get(name))

    def of(self, value: Any) -> Any:
        """Returns the new device for a mapped device, and any other value unchanged."""
        if isinstance(value, self._device):
            new = self.noted(self._types.get(value.type))
            return value if new is None else self._numbered(new, value.index)
        if isinstance(value, str):
            kind, colon, number = value.partition(":")
            new = self._types.get(kind)
            if new is not None and (not colon or number.isdigit()):
                self.noted(new)
                return self._numbered(new, int(number) if colon else None)
        return value

    def noted(self, new: str | None) -> str | None:
        """Returns `new`, and reports that the program uses it unless it is None."""
        if new is not None and self._mapped is not None:
            self._mapped()
            self._mapped = None
        return new

    def type_of(self, kind: Any) -> Any:
        """Returns the new type for a mapped type, and any other type unchanged."""
        return self._types.get(kind, kind) if isinstance(kind, str) else kind

    def backend_of(self, backend: Any) -> Any:
        """Returns the communication backend for `hccl` or `cpu:gloo,npu:hccl`."""
        if not isinstance(backend, str):
            return backend
        names = {
            _BACKENDS[old]: _BACKENDS[new]
            for old, new in self._types.items()
            if old in _BACKENDS and new in _BACKENDS
        }
        if ":" not in backend:
            return names.get(backend, backend)
        parts = dict(part.split(":", 1) for part in backend.split(","))
        mapped = {
            self._types.get(kind, kind): names.get(name, name)
            for kind, name in parts.items()
        }
        if len(set(mapped.values())) == 1:
            return next(iter(mapped.values()))
        return ",".join(f"{kind}:{name}" for kind, name in mapped.items())

    def _numbered(self, kind: str, number: int | None) -> torch.device:
        if kind == "cpu":
            return self._device(kind)
        return self._device(kind, number or 0)


def _mode(types: _Types) -> Any:
    """Returns a mode that maps the device arguments of functions in one thread."""
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


def install(
    pairs: tuple[tuple[str, str], ...], mapped: Callable[[], object] | None = None
) -> None:
    """Maps types of devices, and provides modules and methods of unavailable types.

    Args:
        pairs: The types: old, new.
        mapped: Called for the first device of the program that is mapped.

    Raises:
        ValueError: torch does not accept one of the types.
    """
    if not pairs:
        return
    # The program has imported torch.
    import torch

    types = _Types(dict(pairs), mapped)
    for old, new in pairs:
        try:
            torch.device(new)
        except RuntimeError as error:
            raise ValueError(f"--map-device: {error}") from None
        if old in _KNOWN:
            _quiet(old)
            continue
        try:
            torch.utils.rename_privateuse1_backend(old)
        except RuntimeError as error:
            raise ValueError(f"--map-device {old}: {error}") from None
        _stand_in_for(old, new, types)
    _map_mixed_precision(types)
    _map_ranks(types)
    _map_checkpoints(types)
    _map_generators(types)
    _map_later_threads(types)
    _map_replicas(types)
    _mode(types).__enter__()


def _stand_in_for(old: str, new: str, types: _Types) -> None:
    import torch

    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "is_bf16_supported": lambda *_: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda *_: new,
        "memory_allocated": lambda *_: 0,
        "memory_reserved": lambda *_: 0,
        "max_memory_allocated": lambda *_: 0,
        "mem_get_info": lambda *_: (0, 0),
    }
    module = stand_in(f"torch.{old}", answers)
    amp: dict[str, Any] = {
        "autocast": functools.partial(torch.autocast, new),
        "GradScaler": functools.partial(torch.amp.GradScaler, new),
    }
    module.amp = stand_in(f"torch.{old}.amp", amp)  # type: ignore[attr-defined]
    setattr(torch, old, module)
    # Compilers query this, and then the library of the device.
    torch.accelerator.is_available = lambda: False
    package = {
        old: module,
        "npu_format_cast": lambda tensor, *_: tensor,
        "npu_format_cast_": lambda tensor, *_: tensor,
    }
    stand_in(f"torch_{old}", package)
    if old == "npu":
        torchair.install(f"torch_{old}")
    # A package of Ascend, whose import makes CUDA mean NPU.
    at_import(f"torch_{old}.contrib.transfer_to_{old}", lambda: _add_cuda(new, types))

    def move(value: Any, *_: Any, **__: Any) -> Any:
        return value.to(types.noted(new))

    for kind in (torch.Tensor, torch.nn.Module):
        setattr(kind, old, move)
    setattr(torch.Tensor, f"is_{old}", property(lambda _: False))


def _add_cuda(new: str, types: _Types) -> None:
    if new != "cuda":
        types.add("cuda", new)
        _quiet("cuda")


def _quiet(old: str) -> None:
    module = importlib.import_module(f"torch.{old}")
    for name in _NO_OPS:
        if hasattr(module, name):
            setattr(module, name, Nothing())


def _map_mixed_precision(types: _Types) -> None:
    import torch

    for kind, name in (
        (torch.autocast, "device_type"),
        (torch.amp.GradScaler, "device"),
    ):
        # The first argument is the object itself.
        call = with_mapped(kind.__init__, 1, name, types.type_of)
        kind.__init__ = call


def _map_ranks(types: _Types) -> None:
    from torch import distributed

    if not distributed.is_available():
        return
    from torch.distributed import distributed_c10d

    for name, place in (("init_process_group", 0), ("new_group", 2)):
        call = with_mapped(
            getattr(distributed, name), place, "backend", types.backend_of
        )
        for module in (distributed, distributed_c10d):
            setattr(module, name, call)


def _map_checkpoints(types: _Types) -> None:
    import torch

    def restore(storage: Any, location: str) -> Any:
        new = types.of(location)
        if new is location:
            return None
        return torch.serialization.default_restore_location(storage, str(new))

    torch.serialization.register_package(_RESTORE_PRIORITY, lambda _: None, restore)


def _map_replicas(types: _Types) -> None:
    """Makes DataParallel run its module directly if its devices are mapped to
    the CPU.
    """
    from torch.nn import parallel

    # The package has a function of the same name.
    module = importlib.import_module("torch.nn.parallel.data_parallel")
    find = module._get_available_device_type
    function = module.data_parallel

    def find_here() -> str | None:
        kind = find()
        # Numbers of mapped devices do not exist on the CPU.
        return None if types.type_of(kind) == "cpu" else kind

    @functools.wraps(function)
    def data_parallel(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if find_here() is not None:
            return function(model, inputs, *args, **kwargs)
        given = inspect.signature(function).bind(model, inputs, *args, **kwargs)
        # The same as in the original.
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        return model(*inputs, **(given.arguments.get("module_kwargs") or {}))

    module._get_available_device_type = find_here
    module.data_parallel = parallel.data_parallel = data_parallel


def _map_later_threads(types: _Types) -> None:
    # A mode belongs to one thread, and a program may begin a thread with any
    # call.
    inner = getattr(threading.Thread, "_bootstrap_inner", None)
    if inner is None:
        return

    @functools.wraps(inner)
    def call(self: threading.Thread) -> None:
        with _mode(types):
            inner(self)

    threading.Thread._bootstrap_inner = call  # type: ignore[attr-defined]


def _map_generators(types: _Types) -> None:
    import torch

    generator = torch.Generator

    class Kind(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, generator)

    class Generator(metaclass=Kind):
        def __new__(cls, device: Any = "cpu") -> Any:
            return generator(types.of(device))

    torch.Generator = Generator
