"""Hooks on the parts of a model that a rank of Megatron-core holds.

from msitd.engines import megatron

model = get_model(...)  # One part, or a list with virtual pipeline stages.
with megatron.register_hook(model, client, gradients=True):
    train(model)
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msitd._core.module.hooks import HookHandle
from msitd._core.module.options import HookOptions
from msitd._core.module.wrappers import PLAIN
from msitd._core.removable import Removable
from msitd.engines.tensor_parallel import placements_of

if TYPE_CHECKING:
    import torch

    from msitd._core.client import Client

_ROOT = "root"
_LAYER = re.compile(r"(.*\blayers)\.\d+")
# Attribute in which wrappers such as DDP and Float16Module keep the model.
_INNER = "module"

_OPTIONS = frozenset(field.name for field in dataclasses.fields(HookOptions))


class PartHandles(Removable):
    """The hooks on all parts that a rank holds."""

    def __init__(self, handles: list[HookHandle]) -> None:
        self._handles = handles

    @property
    def skipped(self) -> dict[str, int]:
        """See `HookHandle.skipped`."""
        out: dict[str, int] = {}
        for handle in self._handles:
            for reason, count in handle.skipped.items():
                out[reason] = out.get(reason, 0) + count
        return out

    def step(self) -> None:
        """Ends a step; see `HookHandle.step`."""
        self._handles[0].step()

    def remove(self) -> None:
        """Removes the hooks. Further calls have no effect."""
        for handle in self._handles:
            handle.remove()


def register_hook(
    model: torch.nn.Module | Sequence[torch.nn.Module], client: Client, **options: Any
) -> PartHandles:
    """Records the inputs, outputs and gradients of the modules of one rank.

    Ops are those of `msitd.register_hook`, except that a layer has its number
    in the whole model: `root.decoder.layers.5` is the same layer on any stage
    of any pipeline. Wrappers around the model are not part of a name.

    With tensor parallelism, parameters are recorded with their placement on the
    ranks of their group, and so are the inputs and outputs of parallel layers.
    Comparisons assemble them. Tensors of gated layers and of experts have no
    placement.

    Args:
        model: The model, or the list of its parts with virtual pipeline stages.
        client: The client of the rank of torch.distributed.
        options: See `msitd.register_hook`.

    Raises:
        ValueError: The list has no model.
        TypeError: An option does not exist.
    """
    parts = list(model) if isinstance(model, (list, tuple)) else [model]
    if not parts:
        raise ValueError("the list has no model")
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        raise TypeError(f"{unknown[0]} is no option of register_hook")
    checked = HookOptions(**options)
    handles: list[HookHandle] = []
    try:
        for part in parts:
            inner = _unwrapped(part)
            op_of = _op_of(inner)
            handles.append(
                HookHandle(
                    inner,
                    client,
                    checked,
                    op_of=op_of,
                    placements=placements_of(inner, op_of),
                )
            )
    except BaseException:
        for handle in handles:
            handle.remove()
        raise
    return PartHandles(handles)


def _unwrapped(model: Any) -> Any:
    """Returns the model inside DDP, Float16Module and other wrappers."""
    model = PLAIN.unwrap(model)
    while not hasattr(model, "decoder") and hasattr(model, _INNER):
        model = PLAIN.unwrap(getattr(model, _INNER))
    return model


def _op_of(model: Any) -> Callable[[str], str]:
    """Returns a function that names the modules of a part."""
    renamed: dict[str, str] = {}
    for name, module in PLAIN.named_modules(model):
        number = getattr(module, "layer_number", None)
        found = _LAYER.fullmatch(name)
        if found is not None and isinstance(number, int):
            renamed[name] = f"{found.group(1)}.{number - 1}"

    def op_of(name: str) -> str:
        if not name:
            return _ROOT
        rest = ""
        head = name
        while head:
            if head in renamed:
                return f"{_ROOT}.{renamed[head]}{rest}"
            head, dot, tail = head.rpartition(".")
            rest = f"{dot}{tail}{rest}"
        return f"{_ROOT}.{name}"

    return op_of
