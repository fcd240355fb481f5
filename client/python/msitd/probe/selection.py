"""Selects the entries of a dump that are written, by their names."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from msitd.probe.functions import is_dumped
from msitd.probe.settings import name_tests

if TYPE_CHECKING:
    from msitd._core.call import Call
    from msitd.probe.settings import Settings

# The direction and the side that an io means in a call. The gradient of an
# output is an input of the backward.
_PARTS = {
    "input": ("forward", ("input",)),
    "output": ("forward", ("output",)),
    "weight": ("forward", ("input", "output")),
    "grad_output": ("backward", ("input",)),
    "grad_input": ("backward", ("output",)),
    "grad_weight": ("backward", ("input", "output")),
}
# Maximum number of decisions of one step; beyond it the earliest are forgotten.
_DECISIONS_MAX = 1 << 20


def is_module(op: str) -> bool:
    """Returns whether an op is that of a module."""
    return op.startswith("Module.")


def entry_of(op: str, number: int, direction: str) -> str:
    """Returns the name of a call in msprobe, forward or backward."""
    if is_module(op):
        return f"{op}.{direction}.{number}"
    return f"{op}.{number}.{direction}"


class Selection:
    """Decides once for each entry, when it begins. Any thread may call it.

    `scope` extends from the beginning of one entry to the end of another, in
    the order in which they run. `list` selects by name only. At level mix,
    calls inside a module of the list are also selected. Where neither is given,
    the risk level selects functions.
    """

    def __init__(self, settings: Settings) -> None:
        self._scope = settings.scope
        self._names = settings.names
        self._has_name = name_tests(settings.names)
        self._is_mix = settings.level == "mix"
        self._risk_level = settings.risk_level
        self._modes = frozenset(settings.data_mode)
        self._lock = threading.Lock()
        self._is_in_scope = False
        self._decisions: dict[str, bool] = {}
        # Entries whose backward is selected because of an enclosing module.
        self._inherited: set[str] = set()
        # Functions that a file has added to those of msprobe.
        self._added: frozenset[str] = frozenset()

    def add_functions(self, ops: frozenset[str]) -> None:
        """Adds the functions of a file."""
        self._added = ops

    def reset(self) -> None:
        """Forgets the calls of a step."""
        with self._lock:
            self._is_in_scope = False
            self._decisions.clear()
            self._inherited.clear()

    def begin(self, call: Call, around: list[Call]) -> bool:
        """Decides on the forward of a call.

        Args:
            around: Calls of the enclosing modules, outermost first.
        """
        entry = entry_of(call.op, call.number, "forward")
        with self._lock:
            is_inherited = self._is_mix and any(
                self._has_name(entry_of(each.op, each.number, "forward"))
                for each in around
            )
            if is_inherited:
                self._inherited.add(entry_of(call.op, call.number, "backward"))
            return self._decide(call, entry, is_inherited)

    def end(self, call: Call) -> None:
        """Handles the end of a module's forward."""
        entry = entry_of(call.op, call.number, "forward")
        if self._scope and entry == self._scope[1]:
            self._is_in_scope = False

    def accepts(self, call: Call, io: str) -> bool:
        """Returns whether a side of a call is written."""
        part = _PARTS.get(io)
        if part is None:
            return False
        direction, sides = part
        if direction not in self._modes or not self._modes.intersection(sides):
            return False
        if io == "grad_weight":
            return self._accepts_parameters(call)
        entry = entry_of(call.op, call.number, direction)
        with self._lock:
            is_chosen = self._decisions.get(entry)
            if is_chosen is None:
                is_chosen = self._decide(call, entry, entry in self._inherited)
            if io == "grad_input" and self._scope and entry == self._scope[1]:
                self._is_in_scope = False
        return is_chosen

    def _decide(self, call: Call, entry: str, is_inherited: bool) -> bool:
        scope = self._scope
        if scope and entry == scope[0]:
            self._is_in_scope = True
        if not scope and not self._names:
            is_chosen = is_module(call.op) or is_dumped(
                call.op, self._risk_level, call.op in self._added
            )
        else:
            is_named = not self._names or is_inherited or self._has_name(entry)
            is_chosen = (not scope or self._is_in_scope) and is_named
        # A module continues until its forward ends.
        if scope and entry == scope[1] and not is_module(call.op):
            self._is_in_scope = False
        if len(self._decisions) >= _DECISIONS_MAX:
            del self._decisions[next(iter(self._decisions))]
        self._decisions[entry] = is_chosen
        return is_chosen

    def _accepts_parameters(self, call: Call) -> bool:
        if not self._scope and not self._names:
            return True
        with self._lock:
            is_named = not self._names or self._has_name(f"{call.op}.parameters_grad")
            return (not self._scope or self._is_in_scope) and is_named
