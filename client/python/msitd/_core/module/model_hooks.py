"""Decides which modules of a model have hooks, and which ones."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msitd._core.graph import compiled
from msitd._core.module import fast_paths
from msitd._core.module.module_tree import outermost_modules

if TYPE_CHECKING:
    import torch

    from msitd._core.module.call_hooks import CallHooks
    from msitd._core.module.context import ModelContext
    from msitd._core.module.pass_hooks import PassHooks
    from msitd._core.module.placed_hooks import ModuleHooks
    from msitd._core.module.wrappers import ModuleNames


class ModelHooks:
    """The hooks of the modules that a model has now.

    Args:
        names: Provides the dotted names of modules.
        op_of: Maps the dotted name of a module to its op.
        matches: Returns whether an op is recorded.
    """

    def __init__(
        self,
        context: ModelContext,
        names: ModuleNames,
        op_of: Callable[[str], str],
        matches: Callable[[str], Any],
        calls: CallHooks,
        passes: PassHooks,
    ) -> None:
        # torch is installed, since there is a module.
        import torch

        self._no_forward = torch.nn.Module.forward
        self._placed = context.placed
        self._progress = context.progress
        self._skips = context.skips
        self._is_tracing = context.is_tracing
        self._is_in_graphs = context.note is not None
        self._names = names
        self._op_of = op_of
        self._matches = matches
        self._calls = calls
        self._passes = passes
        # By op. Empty when the hooks have been removed.
        self.by_op: dict[str, ModuleHooks] = {}

    def update(self, model: torch.nn.Module, follow: Callable[[], None]) -> None:
        """Puts hooks on the modules of the model that have none.

        Args:
            follow: See PassHooks.
        """
        fixed = {id(model), *map(id, outermost_modules(model, self._names))}
        modules = [
            (self._op_of(path), each) for path, each in self._names.named_modules(model)
        ]
        kept = self._placed.keep(
            {id(each): (op, id(each) in fixed) for op, each in modules}
        )
        ops = {op for op, _ in modules}
        for op in self.by_op.keys() - ops:
            del self.by_op[op]
        self._progress.uncalled.intersection_update(ops)
        for op, module in modules:
            if id(module) in kept:
                continue
            hooks = self._recording_hooks(op, module)
            is_fixed = id(module) in fixed
            if is_fixed:
                hooks = self._passes.hooks_of(
                    op, weakref.ref(module), module is model, hooks, follow
                )
            if hooks is not None:
                self._add(op, module, hooks, is_fixed)
        # Existing graphs do not contain the new hooks.
        compiled.forget_graphs()

    def remove(self) -> None:
        """Takes all hooks off permanently."""
        self._placed.remove()
        # The hooks keep their handle alive.
        self.by_op.clear()

    def _recording_hooks(self, op: str, module: torch.nn.Module) -> ModuleHooks | None:
        """Returns the hooks that record a module; None if it is not recorded."""
        if not self._matches(op):
            return None
        hooks = self._calls.hooks_of(op)
        if not fast_paths.may_have_one(module):
            return hooks
        self._keep_out_of_graphs(hooks)
        return fast_paths.counting(hooks, op, self._skips, self._is_tracing)

    def _add(
        self, op: str, module: torch.nn.Module, hooks: ModuleHooks, is_fixed: bool
    ) -> None:
        self.by_op[op] = hooks
        self._placed.add(op, module, hooks, is_fixed)
        # Containers have no forward.
        if type(module).forward is not self._no_forward and self._matches(op):
            self._progress.uncalled.add(op)
        self._keep_out_of_graphs(hooks)

    def _keep_out_of_graphs(self, hooks: ModuleHooks) -> None:
        for hook in hooks:
            if self._is_in_graphs:
                compiled.make_no_frame(hook)
            else:
                compiled.make_opaque(hook)
