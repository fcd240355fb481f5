"""Makes the hooks that detect where a pass of a model begins and ends."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msitd._core.graph import compiled, graphs
from msitd._core.module.phases import record_phase
from msitd._core.module.placed_hooks import ModuleHooks
from msitd._core.module.threads import Forward, is_replica
from msitd._core.not_recorded import CLOSED, REPLICA
from msitd._core.skips import is_in_backward

if TYPE_CHECKING:
    import torch

    from msitd._core.graph.graphs import HooksInGraph
    from msitd._core.module.context import ModelContext


class PassHooks:
    """Begins and ends the passes of one model; see Steps.

    Args:
        root_op: The op of the model.
        has_phase: Whether to record which phase of inference a pass belongs to.
    """

    def __init__(self, context: ModelContext, root_op: str, has_phase: bool) -> None:
        # torch is installed, since there is a module.
        import torch

        self._is_grad_enabled = torch.is_grad_enabled
        self._client = context.client
        self._recording = context.client._recording
        self._requests = context.requests
        self._tokens = context.tokens
        self._skips = context.skips
        self._thread = context.thread
        self._progress = context.progress
        self._placed = context.placed
        self._steps = context.steps
        self._backward = context.backward
        self._note = context.note
        self._sides_in_graphs = context.sides_in_graphs()
        self._is_tracing = context.is_tracing
        self._root_op = root_op
        self._has_phase = has_phase

    def hooks_of(
        self,
        op: str,
        module: weakref.ref[torch.nn.Module],
        is_root: bool,
        inner: ModuleHooks | None,
        follow: Callable[[], None],
    ) -> ModuleHooks:
        """Returns the hooks of a module whose call may be a pass.

        Args:
            module: The module.
            is_root: Whether the module is the model.
            inner: The hooks that record its calls, or None if they are not
                recorded.
            follow: Called when a pass begins, with the hooks of modules that were
                added to the model. The hooks keep the function alive.
        """
        sides = [inner is not None and side for side in self._sides_in_graphs]
        notes = graphs.hooks_of(op, self._note, *sides)
        return ModuleHooks(
            self._before(op, module, is_root, inner, follow, notes),
            self._after(op, module, is_root, inner, notes),
        )

    def _before(
        self,
        op: str,
        reference: weakref.ref[torch.nn.Module],
        is_root: bool,
        inner: ModuleHooks | None,
        follow: Callable[[], None],
        notes: HooksInGraph,
    ) -> Callable[..., Any]:
        thread, steps, skips = self._thread, self._steps, self._skips
        is_tracing, exporter = self._is_tracing, compiled.exporter()
        begin_pass = self._begin_pass

        def before(
            module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> Any:
            if is_tracing() or exporter._is_exporting_flag:
                notes.before(module, args, kwargs)
                return None
            try:
                forward = thread.forward
                if (
                    forward.depth > 0
                    and forward.op == op
                    and thread.is_outermost(reference)
                ):
                    forward.abandon()
                    if is_root:
                        steps.abandon_pass()
                if forward.depth > 0:
                    forward.depth += 1
                elif is_replica(module):
                    forward.depth = 1
                    forward.op = op
                    forward.token = steps.token
                    if is_root:
                        skips.count(op, "", REPLICA)
                # A checkpoint repeats parts of the model.
                elif not is_in_backward():
                    begin_pass(forward, op, is_root, args, kwargs, follow)
            except Exception as error:  # noqa: BLE001 - never the model's problem
                skips.count_error(op, "", error)
            if inner is not None:
                return inner.before(module, args, kwargs)
            return None

        return before

    def _after(
        self,
        op: str,
        reference: weakref.ref[torch.nn.Module],
        is_root: bool,
        inner: ModuleHooks | None,
        notes: HooksInGraph,
    ) -> Callable[..., Any]:
        thread, skips = self._thread, self._skips
        is_tracing, exporter = self._is_tracing, compiled.exporter()
        end_pass = self._end_pass

        def after(
            module: torch.nn.Module,
            args: tuple[Any, ...],
            kwargs: dict[str, Any],
            result: Any,
        ) -> Any:
            if is_tracing() or exporter._is_exporting_flag:
                notes.after(module, args, kwargs, result)
                return None
            made = None
            if inner is not None:
                made = inner.after(module, args, kwargs, result)
            try:
                forward = thread.forward
                if (
                    forward.depth > 1
                    and forward.op == op
                    and thread.is_outermost(reference)
                ):
                    # Calls inside it that raised an exception have not ended.
                    forward.depth = 1
                if forward.depth > 0:
                    forward.depth -= 1
                    if forward.depth == 0:
                        forward.calls.clear()
                        if thread.known is not None:
                            thread.known.clear()
                        if not is_replica(module):
                            end_pass(forward, is_root, result)
            except Exception as error:  # noqa: BLE001 - never the model's problem
                skips.count_error(op, "", error)
            return made

        return after

    def _begin_pass(
        self,
        forward: Forward,
        op: str,
        is_root: bool,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        follow: Callable[[], None],
    ) -> None:
        forward.depth = 1
        forward.op = op
        if self._progress.is_over:
            # The pass is lost.
            self._skips.count(op, "", CLOSED)
            return
        self._recording.enter()
        try:
            caller = self._thread.caller
            forward.has_gradients = (
                self._is_grad_enabled() if caller is None else caller.is_grad_enabled
            )
            forward.trains = self._steps.is_training(forward.has_gradients)
            forward.token = self._steps.begin_pass(op, is_root, forward.trains)
            if caller is None:
                follow()
            if self._backward is not None:
                self._backward.begin_pass(forward.has_gradients)
            try:
                # The capture policy may select tokens by their requests.
                if self._requests is not None:
                    self._begin_requests(forward.token, is_root, args, kwargs)
            finally:
                self._placed.follow(forward.token)
            if self._progress.is_paused:
                return
            if self._has_phase and is_root and kwargs:
                record_phase(self._client, op, forward.token, kwargs)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skips.count_error(op, "", error)
        finally:
            self._recording.leave()

    def _begin_requests(
        self, token: int, is_root: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        requests = self._requests
        if requests is None:
            return
        if self._progress.is_paused:
            requests.miss()
            return
        is_recorded = self._tokens is None or token in self._tokens
        requests.begin(
            args,
            kwargs,
            token if is_recorded else None,
            is_root=is_root,
            is_in_graph=self._thread.is_in_graph,
        )

    def _end_pass(self, forward: Forward, is_root: bool, result: Any) -> None:
        if self._progress.is_over:
            return
        try:
            with self._recording:
                if self._requests is not None:
                    self._requests.end(result)
                self._steps.end_pass(forward.token, is_root, result)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skips.count_error(self._root_op, "", error)
