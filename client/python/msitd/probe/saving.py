"""Dumps values that a program passes by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msitd._core.call import Call
from msitd._core.leaf.leaves import LeafRecorder
from msitd._core.not_recorded import reason_of
from msitd._core.skips import Skips

if TYPE_CHECKING:
    from msitd.probe.recording import Recording

# Maximum number of nested containers.
_DEPTH_MAX = 32


class Saver:
    """Passes values to a recording, and counts the names of a step."""

    def __init__(self, recording: Recording) -> None:
        # torch is installed, since there are tensors.
        import torch

        self._tensor_type = torch.Tensor
        self._recording = recording
        self._skips = Skips(recording.client)
        self._leaves = LeafRecorder(
            recording.client, self._skips, values=True, objects=False
        )
        self._counts: dict[str, int] = {}

    def begin_step(self) -> None:
        """Counts names from 0 again."""
        self._counts.clear()

    def save(self, variable: Any, name: str, save_backward: bool) -> None:
        """See `PrecisionDebugger.save`. Raises nothing."""
        try:
            self._save(variable, name, save_backward)
        except Exception as error:  # noqa: BLE001 - never the program's problem
            self._skips.count(name, "", reason_of(error))

    def _save(self, variable: Any, name: str, save_backward: bool) -> None:
        count = self._counts.get(name, 0)
        self._counts[name] = count + 1
        step = self._recording.client.token
        leaves = list(_leaves_of(variable, "", 0))
        tensors = [leaf for _, leaf in leaves if isinstance(leaf, self._tensor_type)]
        has_backward = save_backward and any(each.requires_grad for each in tensors)
        for index, leaf in leaves:
            self._record(leaf, name, index, count, step)
            if not has_backward:
                continue
            if isinstance(leaf, self._tensor_type) and leaf.requires_grad:
                self._watch(leaf, f"{name}_grad", index, count, step)
            else:
                self._record(None, f"{name}_grad", index, count, step)

    def _watch(self, tensor: Any, op: str, index: str, count: int, step: int) -> None:
        def hook(gradient: Any) -> None:
            self._record(gradient, op, index, count, step)

        tensor.register_hook(self._skips.guarded(hook, op, index))

    def _record(self, leaf: Any, op: str, index: str, number: int, step: int) -> None:
        call = Call(op, step, number, None)
        self._leaves.record([(index, leaf)], "state", call, None)


def _leaves_of(value: Any, index: str, depth: int) -> Iterator[tuple[str, Any]]:
    items: Any = None
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    if items is None or depth >= _DEPTH_MAX:
        yield index, value
        return
    for key, each in items:
        yield from _leaves_of(each, f"{index}.{key}" if index else str(key), depth + 1)
