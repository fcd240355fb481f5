"""Puts hooks on the modules of a model and preserves their order among other hooks.

Hooks run in the order in which they were registered. If the hooks of a module
were removed and registered again, they would run after the hooks of others, and
would record a result that one of those has changed. Hooks therefore stay on a
module as long as it keeps its op, and hooks that are put back return to their
old position.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from msitd._core.graph import compiled
from msitd._core.guard import FirstHook
from msitd._core.module.copies import UncopiedHook
from msitd._core.vocabulary import IO_ANY

if TYPE_CHECKING:
    import torch

    from msitd._core.client import Client


class ModuleHooks(NamedTuple):
    """The two hooks of one module, with the signatures that torch expects."""

    before: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
    after: Callable[[Any, tuple[Any, ...], dict[str, Any], Any], Any]

    def put_on(self, module: torch.nn.Module) -> list[Any]:
        """Registers the hooks. Returns the torch handles that remove them."""
        return [
            module.register_forward_pre_hook(
                UncopiedHook(self.before), with_kwargs=True
            ),
            module.register_forward_hook(
                UncopiedHook(self.after), with_kwargs=True, always_call=True
            ),
        ]


@dataclass
class _Place:
    op: str
    module: weakref.ref[torch.nn.Module]
    hooks: ModuleHooks
    # Whether the hooks stay on for every capture policy.
    is_fixed: bool = False
    # Empty while the hooks are off.
    handles: list[Any] = field(default_factory=list)
    # For each of our hooks, the hooks of others that ran before it when it was
    # taken off.
    earlier: list[set[int]] = field(default_factory=list)

    def put_on(self, module: torch.nn.Module) -> None:
        """Puts the hooks back at their position among the hooks of others."""
        self.handles = self.hooks.put_on(module)
        for handle, earlier in zip(self.handles, self.earlier, strict=False):
            hooks = handle.hooks_dict_ref()
            for key, hook in list(hooks.items()):
                is_before = key in earlier or isinstance(hook, FirstHook)
                if key != handle.id and not is_before:
                    hooks.move_to_end(key)

    def take_off(self) -> None:
        """Takes the hooks off."""
        self.earlier = [_earlier_than(handle) for handle in self.handles]
        for handle in self.handles:
            handle.remove()
        self.handles = []


def _earlier_than(handle: Any) -> set[int]:
    hooks = handle.hooks_dict_ref() or ()
    return set(itertools.takewhile(lambda key: key != handle.id, hooks))


class PlacedHooks:
    """The hooks of the modules of a model.

    A module without hooks adds no cost to a forward. When a pass begins, hooks
    are therefore put on or taken off, as the capture policy selects their ops
    from that token on. Hooks stay on where they could not be put back in time.
    Any thread may call.

    Args:
        client: Provides the capture policy.
        tokens: The only tokens to record, or None for all.
    """

    def __init__(self, client: Client, tokens: Collection[int] | None) -> None:
        self._native = client._native
        self._tokens = tokens
        self._lock = threading.Lock()
        self._places: list[_Place] = []
        # By the id of a module: the position that it had before its op changed.
        self._moved: dict[int, _Place] = {}
        # State for which the hooks were last put on: the selection of the
        # policy, and whether the token is to be recorded.
        self._known: tuple[int, bool] | None = None
        self._must_stay = False
        self._is_paused = False

    def keep(self, wanted: Mapping[int, tuple[str, bool]]) -> set[int]:
        """Takes the hooks off all modules except those that remain unchanged.

        Args:
            wanted: The op of each current module of the model and whether its
                hooks are fixed, by the id of the module.

        Returns:
            The ids of the modules whose hooks stay.
        """
        kept: list[_Place] = []
        with self._lock:
            self._moved.clear()
            for place in self._places:
                module = place.module()
                if wanted.get(id(module)) == (place.op, place.is_fixed):
                    kept.append(place)
                    continue
                self._set(place, False)
                if module is not None:
                    self._moved[id(module)] = place
            self._places[:] = kept
        return {id(place.module()) for place in kept}

    def add(
        self,
        op: str,
        module: torch.nn.Module,
        hooks: ModuleHooks,
        is_fixed: bool = False,
    ) -> None:
        """Puts the hooks of `op` on its module.

        Args:
            is_fixed: Whether the hooks stay on for every capture policy.
        """
        place = _Place(op, weakref.ref(module), hooks, is_fixed)
        with self._lock:
            moved = self._moved.pop(id(module), None)
            if moved is not None and moved.module() is module:
                place.earlier = moved.earlier
            place.put_on(module)
            self._places.append(place)
            # The policy may not select the op.
            self._known = None

    def stay(self) -> None:
        """Leaves all hooks on from the next pass on.

        Called where a module runs outside a pass, or in a graph of
        torch.compile: its next run may begin without a pass.
        """
        if not self._must_stay:
            self._must_stay = True
            self._known = None

    def pause(self, is_paused: bool) -> None:
        """Takes the hooks off from the next pass on, as if the policy selected
        nothing.
        """
        self._is_paused = is_paused

    def follow(self, token: int) -> None:
        """Puts on the hooks that record at `token`, before the modules run."""
        is_compiled = compiled.is_running()
        if is_compiled:
            self.stay()
        is_asked_for = self._tokens is None or token in self._tokens
        is_asked_for = is_asked_for and not self._is_paused
        known = (self._native.selection(token), is_asked_for)
        if known == self._known:
            return
        with self._lock:
            self._known = known
            has_new = False
            for place in self._places:
                is_always_on = self._must_stay or place.is_fixed
                is_on = is_always_on or (
                    is_asked_for and self._native.selects(token, place.op, IO_ANY)
                )
                has_new |= self._set(place, is_on)
        # Graphs that were compiled in the meantime do not contain the hooks.
        # The code that runs now is not such a graph, whose first run has left
        # the hooks on.
        if has_new and not is_compiled:
            compiled.forget_graphs()

    def remove(self) -> None:
        """Takes all hooks off permanently."""
        with self._lock:
            for place in self._places:
                self._set(place, False)
            self._places.clear()
            self._moved.clear()

    @staticmethod
    def _set(place: _Place, is_on: bool) -> bool:
        """Returns whether hooks were put on."""
        module = place.module()
        if is_on and not place.handles and module is not None:
            place.put_on(module)
            return True
        if not is_on and place.handles:
            place.take_off()
        return False
