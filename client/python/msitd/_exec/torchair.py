"""A stand-in for TorchAir, which compiles for devices that are not available."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from msitd._exec.stand_ins import at_import, stand_in


class _Options:
    """Options of TorchAir, of any name; groups of options are created on access."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        options = _Options()
        setattr(self, name, options)
        return options


class CompilerConfig(_Options):
    """Accepts every option, without effect."""


def get_npu_backend(*_: Any, **__: Any) -> Callable[..., Any]:
    """Returns a backend that runs graphs unchanged."""
    has_told = False

    def run_as_it_is(gm: Any, example_inputs: Any, **_: Any) -> Any:
        nonlocal has_told
        if not has_told:
            has_told = True
            sys.stderr.write(
                "msitctl exec: TorchAir needs a device: graphs run as torch has them, "
                "and it dumps nothing\n"
            )
        return gm.forward

    return run_as_it_is


def install(package: str) -> None:
    """Makes the stand-in importable, both directly and below `package`: torch_npu."""
    answers = {"CompilerConfig": CompilerConfig, "get_npu_backend": get_npu_backend}
    module = stand_in("torchair", answers)
    inner = f"{package}.dynamo"
    sys.modules.setdefault(f"{inner}.torchair", module)

    def add() -> None:
        setattr(sys.modules[inner], "torchair", module)  # noqa: B010 - no attribute of modules

    at_import(inner, add)
