"""Watches the steps of torch optimizers, and finds the models that they train."""

from __future__ import annotations

import enum
import gc
import sys
import threading
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from msitd._core.graph import compiled
from msitd._core.guard import Failures, report_safely

if TYPE_CHECKING:
    import torch

# Optimizers of these libraries hold copies of the parameters, or parts of many
# parameters in one tensor.
_COPYING_LIBRARIES = frozenset(("deepspeed", "megatron.core", "apex"))


class Hold(enum.IntEnum):
    """How much of a model an optimizer holds; a larger value means more."""

    NOTHING = 0
    # As far as can be determined.
    COPIES = 1
    PARAMETERS = 2


class Watcher(Protocol):
    """An object that is called for each step."""

    def optimizer_stepped(self, optimizer: torch.optim.Optimizer) -> None:
        """Called after each step, in the thread that made it. Raises nothing."""


# Not a GuardedHook: Dynamo must know the function that it may not trace.
_failures = Failures("a step of an optimizer is not recorded")

_lock = threading.Lock()
_watchers: weakref.WeakSet[Any] = weakref.WeakSet()
_torch_handle: Any = None


def watch(watcher: Watcher) -> None:
    """Calls `watcher` for all steps in the process, until `unwatch`."""
    global _torch_handle
    from torch.optim.optimizer import register_optimizer_step_post_hook

    with _lock:
        _watchers.add(watcher)
        if _torch_handle is None:
            compiled.make_opaque(_tell)
            _torch_handle = register_optimizer_step_post_hook(_tell)


def unwatch(watcher: Watcher) -> None:
    """Ends `watch`. Further calls have no effect."""
    global _torch_handle
    with _lock:
        _watchers.discard(watcher)
        if not _watchers and _torch_handle is not None:
            _torch_handle.remove()
            _torch_handle = None


def _tell(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    with _lock:
        watchers = list(_watchers)
    for watcher in watchers:
        try:
            watcher.optimizer_stepped(optimizer)
        except Exception as error:  # noqa: BLE001 - never the program's problem
            report_safely(_failures.count, error)


def hold_of(
    optimizer: torch.optim.Optimizer, parameters: Iterable[torch.nn.Parameter]
) -> Hold:
    """Returns how much an optimizer holds of a model with these parameters."""
    # No generator expressions here, because Dynamo would trace them.
    ours = set(map(id, parameters))
    for group in optimizer.param_groups:
        if not ours.isdisjoint(map(id, group["params"])):
            return Hold.PARAMETERS
    copies = not _COPYING_LIBRARIES.isdisjoint(sys.modules)
    return Hold.COPIES if copies else Hold.NOTHING


def search(parameters: Iterable[torch.nn.Parameter]) -> Hold:
    """Returns the most that any optimizer of the process holds of the model.

    If the process has created any optimizer, all Python objects are searched,
    which takes about 30 ms in a large process.
    """
    import torch

    kind = torch.optim.Optimizer
    if not _may_have_any(kind):
        return Hold.NOTHING
    objects = gc.get_objects()
    # The class that an object claims to have may be wrong and slow to query.
    kinds = {each for each in set(map(type, objects)) if issubclass(each, kind)}
    if not kinds:
        return Hold.NOTHING
    parameters = list(parameters)
    most = Hold.NOTHING
    for candidate in objects:
        # The optimizer may still be under construction.
        if type(candidate) in kinds and hasattr(candidate, "param_groups"):
            most = max(most, hold_of(candidate, parameters))
    return most


def _may_have_any(kind: type) -> bool:
    """Returns whether the process may have created an optimizer.

    The first optimizer of a class marks the `step` of its class as `hooked`.
    """
    if not hasattr(kind, "_patch_step_function"):
        return True
    waiting, seen = [kind], {kind}
    while waiting:
        each = waiting.pop()
        if getattr(each.__dict__.get("step"), "hooked", False):
            return True
        found = set(type.__subclasses__(each)) - seen
        seen |= found
        waiting += found
    return False
