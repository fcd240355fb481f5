"""Decides for each call of a step what is dumped, and records which module calls it."""

from __future__ import annotations

import json
import os
import threading
import weakref
from typing import TYPE_CHECKING

from msitd.probe.frames import frames_of
from msitd.probe.selection import Selection, entry_of, is_module

if TYPE_CHECKING:
    import torch

    from msitd._core.call import Call
    from msitd._core.client import Client
    from msitd.probe.settings import Settings

# The name that msprobe reports as the caller of functions outside modules, by
# the file of the caller.
_CALLERS = {
    "optimizer": f"{os.sep}torch{os.sep}optim{os.sep}",
    "clip_grad": f"{os.sep}torch{os.sep}nn{os.sep}utils{os.sep}clip_grad.py:",
}

# Maximum number of entries in construct.json, the same as of records in a dump.
_ENTRIES_MAX = 1 << 20


class _Thread(threading.local):
    def __init__(self) -> None:
        # Calls of modules that are running, outermost first.
        self.modules: list[Call] = []
        # The step of these calls.
        self.step = -1


class StepListener:
    """Receives the calls of all hooks of one debugger. Any thread may call it."""

    def __init__(self, settings: Settings, client: Client) -> None:
        # torch is installed, since there are hooks.
        import torch

        self._no_grad = torch.no_grad
        self._client = client
        self.selection = Selection(settings)
        self._slices = settings.slices
        self._is_mix = settings.level == "mix"
        self._keeps_nothing = settings.task == "structure"
        self._modules: dict[str, weakref.ref[torch.nn.Module]] = {}
        self._thread = _Thread()
        self._lock = threading.Lock()
        self._step = 0
        self._parents: dict[str, str | None] = {}
        # Forward entries by their stacks, of which there are few.
        self._stacks: dict[str, list[str]] = {}
        # The rows of a batch that are recorded; None for all.
        self.rows: tuple[int, int] | None = None

    def add_modules(self, modules: dict[str, torch.nn.Module]) -> None:
        """Adds modules by their ops."""
        self._modules |= {op: weakref.ref(each) for op, each in modules.items()}

    def begin_step(self) -> None:
        """Forgets the calls of the step before."""
        with self._lock:
            self._step += 1
            self._parents.clear()
            self._stacks.clear()
        self.selection.reset()

    def construct(self) -> str:
        """Returns construct.json of the step."""
        with self._lock:
            return json.dumps(self._parents, indent=1)

    def stacks(self) -> str:
        """Returns stack.json of the step, with the source lines."""
        with self._lock:
            groups = [
                [entries, frames_of(stack)] for stack, entries in self._stacks.items()
            ]
        return json.dumps({str(i): group for i, group in enumerate(groups)}, indent=1)

    def module_begins(self, call: Call) -> None:
        """See CallListener."""
        around = self._around()
        self._begin(call, around)
        around.append(call)

    def module_ends(self, call: Call) -> None:
        """See CallListener."""
        around = self._around()
        while around:
            known = around.pop()
            # The other calls have ended without a notification.
            if known.op == call.op and known.number == call.number:
                break
        self.selection.end(call)
        if self.accepts(call, "weight"):
            self._record_parameters(call)

    def function_begins(self, call: Call) -> None:
        """See CallListener."""
        self._begin(call, self._around())

    def accepts(self, call: Call, io: str) -> bool:
        """See CallListener."""
        is_chosen = self.selection.accepts(call, io)
        if is_chosen and io in ("grad_output", "grad_input"):
            self._add_backward(call)
        return is_chosen and not self._keeps_nothing

    def cut(self, tensor: torch.Tensor) -> torch.Tensor:
        """See CallListener."""
        if self.rows is not None and tensor.dim() > 0:
            tensor = tensor[self.rows[0] : self.rows[1]]
        if not self._slices:
            return tensor
        shape = tuple(tensor.shape)
        for each in self._slices:
            if each.dim < len(shape) and shape[each.dim] == each.size:
                whole = [slice(None)] * len(shape)
                whole[each.dim] = slice(each.begin, each.end)
                tensor = tensor[tuple(whole)]
        return tensor

    def _around(self) -> list[Call]:
        thread = self._thread
        if thread.step != self._step:
            thread.step = self._step
            thread.modules = []
        return thread.modules

    def _begin(self, call: Call, around: list[Call]) -> None:
        is_chosen = self.selection.begin(call, around)
        parent = None
        if around:
            parent = entry_of(around[-1].op, around[-1].number, "forward")
        entry = entry_of(call.op, call.number, "forward")
        if parent is None and self._is_mix:
            parent = _caller_of(call.stack or "")
        with self._lock:
            if parent in _CALLERS:
                self._parents.setdefault(parent, None)
            if len(self._parents) < _ENTRIES_MAX and (self._is_mix or is_module(entry)):
                self._parents[entry] = parent
            if call.stack is not None and is_chosen:
                self._stacks.setdefault(call.stack, []).append(entry)

    def _add_backward(self, call: Call) -> None:
        """Adds the backward of a call below that of the enclosing module."""
        forward = entry_of(call.op, call.number, "forward")
        with self._lock:
            if forward not in self._parents or len(self._parents) >= _ENTRIES_MAX:
                return
            parent = self._parents[forward]
            if parent is not None and parent not in _CALLERS:
                op, _, number = parent.rsplit(".", 2)
                parent = f"{op}.backward.{number}"
            self._parents[entry_of(call.op, call.number, "backward")] = parent

    def _record_parameters(self, call: Call) -> None:
        reference = self._modules.get(call.op)
        module = None if reference is None else reference()
        if module is None:
            return
        for name, parameter in module._parameters.items():
            if parameter is None:
                continue
            with self._no_grad():
                self._client.record(
                    self.cut(parameter),
                    op=call.op,
                    io="weight",
                    index=name,
                    token=call.token,
                    call=call.number,
                    stack=call.stack,
                )


def _caller_of(stack: str) -> str | None:
    for name, file in _CALLERS.items():
        if file in stack:
            return name
    return None
