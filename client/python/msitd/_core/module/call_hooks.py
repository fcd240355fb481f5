"""Makes the hooks that record the calls of modules."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msitd._core.call import Call
from msitd._core.gradient.separation import Separation
from msitd._core.graph import compiled, graphs
from msitd._core.module.native_calls import NativeCalls, leave_to_python
from msitd._core.module.placed_hooks import ModuleHooks
from msitd._core.not_recorded import RECOMPUTED
from msitd._core.skips import is_in_backward
from msitd._core.vocabulary import IO_ANY, IO_NUMBERS

if TYPE_CHECKING:
    import torch

    from msitd._core.graph.graphs import HooksInGraph
    from msitd._core.module.context import ModelContext
    from msitd._core.module.threads import Forward
    from msitd._msit import Identities

_logger = logging.getLogger("msitd")


class CallHooks:
    """Records calls of the modules of one model, in Python or in native code."""

    def __init__(self, context: ModelContext) -> None:
        options = context.options
        self._recording = context.client._recording
        # Methods of the client would add frames.
        self._native = context.client._native
        self._inputs, self._outputs = options.inputs, options.outputs
        self._stack = options.stack
        self._aliases = options.aliases
        self._tokens = context.tokens
        self._skips = context.skips
        self._thread = context.thread
        self._progress = context.progress
        self._placed = context.placed
        self._steps = context.steps
        self._listener = context.listener
        self._backward = context.backward
        self._note = context.note
        self._sides_in_graphs = context.sides_in_graphs()
        self._is_tracing = context.is_tracing
        self._leaves = context.leaves
        self._input_side = context.leaves.side("input")
        self._output_side = context.leaves.side("output")
        self._shows_none = context.leaves.form.has_null_gradients
        self._separation: Separation | None = None
        if self._backward is not None and self._leaves.form.separates_arguments:
            self._separation = Separation()
        self._native_calls = self._native_calls_of(context)
        self._has_warned_of_graphs = False

    def _native_calls_of(self, context: ModelContext) -> NativeCalls | None:
        """Returns the native recorders; None if every call needs Python."""
        needs_python = self._backward is not None or self._stack != "none"
        if self._note is None or needs_python or not self._leaves.is_native:
            return None
        return NativeCalls(
            context.client,
            self._thread,
            self._progress,
            inputs=self._input_side if self._inputs else None,
            outputs=self._output_side if self._outputs else None,
            aliases=self._aliases,
            tokens=self._tokens,
        )

    def hooks_of(self, op: str) -> ModuleHooks:
        """Returns the hooks that record the calls of `op`.

        The hooks are closures over everything that they need. A call for which the
        capture policy selects nothing pays for each name that is looked up, and for
        each frame.
        """
        off = Call(op, 0, -1, None)
        begin, end = leave_to_python()
        if self._native_calls is not None:
            begin, end = self._native_calls.hooks_of(op, off)
        notes = graphs.hooks_of(op, self._note, *self._sides_in_graphs)
        before = self._before(op, off, begin, notes)
        if self._separation is not None:
            before = self._separated(op, off, before, self._separation)
        return ModuleHooks(before, self._after(op, off, end, notes))

    def _separated(
        self,
        op: str,
        off: Call,
        before: Callable[..., Any],
        separation: Separation,
    ) -> Callable[..., Any]:
        """Returns a hook that also gives each argument a gradient of its own."""
        thread, is_tracing = self._thread, self._is_tracing
        exporter, progress = compiled.exporter(), self._progress
        current_token, selects = self._native.token, self._native.selects
        count_error = self._skips.count_error

        def before_separately(
            module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> Any:
            if is_tracing() or exporter._is_exporting_flag:
                return before(module, args, kwargs)
            views = None
            try:
                forward = thread.forward
                token = forward.token if forward.depth else current_token()
                is_recorded = not progress.is_paused and bool(
                    selects(token, op, IO_NUMBERS["grad_input"])
                )
                views = separation.of_call(op, args, is_recorded)
            except Exception as error:  # noqa: BLE001 - never the model's problem
                count_error(op, "", error)
            before(module, args if views is None else views, kwargs)
            return None if views is None else (views, kwargs)

        return before_separately

    def _before(
        self, op: str, off: Call, begin: Callable[..., bool], notes: HooksInGraph
    ) -> Callable[..., None]:
        """Returns the hook before a call. Calls that are not recorded are `off`."""
        thread, placed, recording = self._thread, self._placed, self._recording
        current_token, selects = self._native.token, self._native.selects
        tokens = self._tokens
        is_tracing, exporter = self._is_tracing, compiled.exporter()
        progress = self._progress
        backward_ops = progress.backward_ops
        begin_call, begin_in_backward = self._begin, self._begin_in_backward
        count_error = self._skips.count_error

        def before(
            module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> None:
            if is_tracing() or exporter._is_exporting_flag:
                notes.before(module, args, kwargs)
                return
            # Not a GuardedHook, which would add a frame to each call.
            try:
                forward = thread.forward
                if progress.is_paused:
                    forward.calls.append(off)
                    return
                if begin(forward, args, kwargs):
                    return
                if forward.depth:
                    token = forward.token
                else:
                    token = current_token()
                    placed.stay()
                if (tokens is not None and token not in tokens) or not selects(
                    token, op, IO_ANY
                ):
                    forward.calls.append(off)
                elif is_in_backward():
                    begin_in_backward(module, forward, off, args, kwargs)
                else:
                    if backward_ops:
                        backward_ops.discard(op)
                    with recording:
                        begin_call(module, forward, op, token, args, kwargs)
            except Exception as error:  # noqa: BLE001 - never the model's problem
                count_error(op, "", error)

        return before

    def _after(
        self, op: str, off: Call, end: Callable[..., bool], notes: HooksInGraph
    ) -> Callable[..., Any]:
        """Returns the hook after a call."""
        thread, recording = self._thread, self._recording
        is_tracing, exporter = self._is_tracing, compiled.exporter()
        end_call = self._end
        count_error = self._skips.count_error

        def after(
            module: torch.nn.Module,
            args: tuple[Any, ...],
            kwargs: dict[str, Any],
            result: Any,
        ) -> Any:
            if is_tracing() or exporter._is_exporting_flag:
                notes.after(module, args, kwargs, result)
                return None
            try:
                forward = thread.forward
                if end(forward, result):
                    return None
                calls = forward.calls
                if result is not None and calls and calls[-1].op != op:
                    forward.forget_raised(op)
                if not calls:
                    return None
                call = calls[-1]
                if call is off:
                    calls.pop()
                # torch does not call both hooks for every call.
                elif call.op == op:
                    calls.pop()
                    with recording:
                        return end_call(call, result)
            except Exception as error:  # noqa: BLE001 - never the model's problem
                count_error(op, "", error)
            return None

        return after

    def _begin(
        self,
        module: torch.nn.Module,
        forward: Forward,
        op: str,
        token: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """Records the beginning of a call."""
        if self._note is None and not self._has_warned_of_graphs:
            self._warn_of_graphs(op)
        stack = self._thread.stack(self._stack)
        call = Call(op, token, self._leaves.begin_call(op, token), stack)
        if self._listener is not None:
            self._listener.module_begins(call)
        if self._backward is not None:
            call = self._backward.begin(
                module, call, args, kwargs, forward.has_gradients
            )
        forward.calls.append(call)
        self._progress.begun.add(op)
        self._progress.uncalled.discard(op)
        if self._inputs:
            try:
                identities = self.identities()
                self._input_side.record_arguments(args, kwargs, call, identities)
            except Exception as error:  # noqa: BLE001 - never the model's problem
                self._skips.count_error(op, "", error)

    def _begin_in_backward(
        self,
        module: torch.nn.Module,
        forward: Forward,
        off: Call,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """Handles a call in a backward, which usually repeats an earlier call."""
        op = off.op
        if not self._leaves.form.records_repeats and self._progress.has_run(op):
            with self._recording:
                call = self._begin_again(module, op, args, kwargs)
            forward.calls.append(call or off)
            return
        token = self._steps.token
        with self._recording:
            self._begin(module, forward, op, token, args, kwargs)

    def _begin_again(
        self, module: torch.nn.Module, op: str, args: Any, kwargs: Any
    ) -> Call | None:
        """Returns the call that is repeated, if its backward is recorded."""
        self._skips.count(op, "", RECOMPUTED)
        if self._backward is None:
            return None
        return self._backward.begin_again(module, op, args, kwargs)

    def _end(self, call: Call, result: Any) -> Any:
        """Records the end of a call. Returns a result for the caller if it differs."""
        if self._listener is not None and not call.is_again:
            self._listener.module_ends(call)
        # torch calls the hook without a result if the forward raised an exception.
        if result is None:
            if self._shows_none and not _is_raising():
                self._record_none(call)
            return None
        given = result
        if self._separation is not None and call.inputs is not None:
            try:
                result = self._separation.of_result(result)
            except Exception as error:  # noqa: BLE001 - never the model's problem
                self._skips.count_error(call.op, "", error)
        if self._outputs and not call.is_again:
            try:
                self._output_side.record_result(result, call, self.identities())
            except Exception as error:  # noqa: BLE001 - never the model's problem
                self._skips.count_error(call.op, "", error)
        if self._backward is not None and call.inputs is not None:
            self._backward.end(call, call.inputs, result)
        return None if result is given else result

    def _record_none(self, call: Call) -> None:
        try:
            if self._outputs and not call.is_again:
                self._output_side.record_result(None, call, None)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skips.count_error(call.op, "", error)

    def identities(self) -> Identities | None:
        """Returns the tensors that this thread has recorded; None without aliases."""
        return self._thread.identities() if self._aliases else None

    def _warn_of_graphs(self, op: str) -> None:
        """Logs once that a compiled model runs in smaller graphs with hooks."""
        if not compiled.is_running():
            return
        self._has_warned_of_graphs = True
        _logger.warning(
            "%s is compiled: its graphs end at every module that is recorded, "
            "so that it runs in smaller pieces than without hooks (said once)",
            op,
        )


def _is_raising() -> bool:
    """Returns whether the forward of a module has raised an exception, other than that
    which ends the repetition of a checkpoint early.
    """
    kind = sys.exc_info()[0]
    return kind is not None and kind.__name__ != "_StopRecomputationError"
