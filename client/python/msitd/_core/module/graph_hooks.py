"""The functions of a hooked model that graphs of torch.compile call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msitd._core.graph.sites import BEFORE, Caller
from msitd._core.removable import Removable

if TYPE_CHECKING:
    from msitd._core.gradient.backward import Backward
    from msitd._core.gradient.graph_gradients import GraphGradients
    from msitd._core.module.native_calls import Progress
    from msitd._core.module.placed_hooks import ModuleHooks, PlacedHooks
    from msitd._core.module.threads import Thread
    from msitd._core.skips import Skips


class GraphHooks(Removable):
    """The part of HookHandle that is a graphs.Recorder."""

    _backward: Backward | None
    _hooks: dict[str, ModuleHooks]
    _placed: PlacedHooks
    _progress: Progress
    _skips: Skips
    _thread: Thread

    @property
    def graph_gradients(self) -> GraphGradients | None:
        """See graphs.Recorder."""
        if self._backward is None or not self._hooks or self._progress.is_over:
            return None
        return self._backward.in_graphs

    def count_in_graph(self, op: str, reason: str) -> None:
        """See graphs.Recorder."""
        if self._hooks:
            self._progress.begun.add(op)
            self._progress.uncalled.discard(op)
            self._skips.count(op, "", reason)

    def run_in_graph(
        self, side: str, op: str, leaves: dict[str, Any], caller: Caller
    ) -> None:
        """See graphs.Recorder."""
        if not self._hooks:
            return
        # Recompiling the graph for each change of the policy would cost more.
        self._placed.stay()
        hooks = self._hooks.get(op)
        if hooks is None:
            return
        thread = self._thread
        thread.is_in_graph = True
        thread.caller = caller
        try:
            if side == BEFORE:
                hooks.before(None, (), leaves)
            else:
                thread.forward.forget_raised(op)
                calls = thread.forward.calls
                if self._backward is not None and calls and calls[-1].op == op:
                    self._backward.end_in_graph(calls[-1])
                hooks.after(None, (), {}, leaves or None)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skips.count_error(op, "", error)
        finally:
            thread.is_in_graph, thread.caller = False, None
