"""Records the inputs and outputs of the modules of a torch model."""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

from msitd._core.call import Call
from msitd._core.gradient.backward import Backward
from msitd._core.graph import compiled, graphs
from msitd._core.leaf.leaves import LeafRecorder, Placements
from msitd._core.leaf.stacks import STACK_LEVELS
from msitd._core.listening import safe_listener
from msitd._core.module import fast_paths, hooked_models, optimizers
from msitd._core.module.graph_hooks import GraphHooks
from msitd._core.module.hook_life import HookLife
from msitd._core.module.model_facts import ModelFacts
from msitd._core.module.module_tree import outermost_modules
from msitd._core.module.native_calls import NativeCalls, Progress, leave_to_python
from msitd._core.module.op_names import recorded_op, recorded_token
from msitd._core.module.phases import record_phase
from msitd._core.module.placed_hooks import ModuleHooks, PlacedHooks
from msitd._core.module.steps import Steps
from msitd._core.module.structure import Structure
from msitd._core.module.threads import Forward, Thread, is_replica
from msitd._core.module.uncalled import Unseen
from msitd._core.module.wrappers import PLAIN, ModuleNames
from msitd._core.not_recorded import DOCUMENT_NAME as SKIPS_NAME
from msitd._core.not_recorded import RECOMPUTED, REPLICA, reason_of
from msitd._core.patterns import compile_patterns
from msitd._core.skips import Skips, is_in_backward
from msitd._core.tokens import references
from msitd._core.torch_version import require_torch
from msitd._core.vocabulary import IO_ANY

if TYPE_CHECKING:
    import torch

    from msitd._core.client import Client
    from msitd._core.leaf.identities import Identities
    from msitd._core.listening import CallListener
    from msitd._core.requests import Requests

_logger = logging.getLogger("msitd")


class HookHandle(HookLife, GraphHooks):
    """The hooks of one call of `register_hook`. The model may run on any thread.

    Args:
        op_of: Maps the dotted name of a module, empty for the model, to its op.
            Default: see `register_hook`.
        name: The op of the model, if there is no `op_of`. Default: see `register_hook`.
        names: Provides the dotted names of modules.
        listener: Receives the calls and chooses which of them are recorded.
        has_ties: Whether the gradient of a parameter that several modules share is
            recorded with each of them, not only with the first.
        placements: Provides the placement of a tensor that has none of its own.
        on_change: Called before `op_of` names the modules of a changed model.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        client: Client,
        *,
        inputs: bool,
        outputs: bool,
        weights: bool,
        values: bool,
        stack: str,
        aliases: bool,
        objects: bool,
        gradients: bool,
        optimizer_state: bool,
        op_pattern: str | Iterable[str] | None,
        tokens: Collection[int] | None,
        time: str,
        requests: Callable[[], Requests] | None,
        op_of: Callable[[str], str] | None = None,
        name: str | None = None,
        names: ModuleNames = PLAIN,
        listener: CallListener | None = None,
        has_ties: bool = False,
        placements: Placements | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        require_torch()
        if stack not in STACK_LEVELS:
            raise ValueError(f"stack {stack!r} is none of {list(STACK_LEVELS)}")
        if optimizer_state and not gradients:
            raise ValueError("optimizer_state needs gradients=True")
        # torch is installed, since there is a module. The package itself does not
        # import it.
        import torch

        compiled.make_package_opaque()
        self._is_grad_enabled = torch.is_grad_enabled
        self._client = client
        self._recording = client._recording
        self._inputs, self._outputs = inputs, outputs
        self.stack_level = stack
        self._aliases = aliases
        self._tokens = tokens = references(client._native, client._numbering, tokens)
        self._requests = requests
        self._matches = compile_patterns(op_pattern)
        self._thread = Thread()
        self._skips = Skips(client)
        # `generate` and other methods of a wrapped model call the model inside the
        # wrapper.
        model = names.unwrap(model)
        self._claim, op_of = hooked_models.enter(model, client, name, op_of, self)
        self._op_of, self._on_change = op_of, on_change
        self._root_op = op_of("")
        # Not a method, which would keep the handle alive in a reference cycle.
        self._recorded_op_of = functools.partial(recorded_op, self._matches, op_of)
        self._listener = listener = safe_listener(listener, self._skips)
        self._leaves = LeafRecorder(
            client,
            self._skips,
            values=values,
            objects=objects,
            listener=listener,
            placements=placements,
        )
        self._input_side = self._leaves.side("input")
        self._output_side = self._leaves.side("output")
        self._has_told_of_graphs = False
        self._hooks: dict[str, ModuleHooks] = {}
        self._placed = PlacedHooks(client, tokens)
        self._no_forward = torch.nn.Module.forward
        self._progress = Progress()
        has_no_note = gradients and compiled.compiles_backwards()
        self._note = None if has_no_note else graphs.note_of(self)
        self._is_tracing = compiled.tracing_test(self._note is not None)
        is_told = listener is not None or placements is not None
        needs_python = gradients or is_told or stack != "none"
        self._native_calls: NativeCalls | None = None
        if self._note is not None and not needs_python:
            self._native_calls = NativeCalls(
                client,
                self._thread,
                self._progress,
                inputs=self._input_side if inputs else None,
                outputs=self._output_side if outputs else None,
                aliases=aliases,
                tokens=tokens,
            )
        self._steps = Steps(client, model, time)
        self._tells_phase = values and self._matches(self._root_op)
        optimizers.watch(self)
        self._backward: Backward | None = None
        if gradients:
            self._backward = Backward(
                model,
                client,
                self._leaves,
                self._skips,
                op_of=self._recorded_op_of,
                token=functools.partial(
                    recorded_token, self._steps, tokens, self._progress
                ),
                keeps_state=optimizer_state,
                thread=self._thread,
                has_ties=has_ties,
                names=names,
            )
        self._names = names
        self._weights = weights
        self._known_weights: set[tuple[str, str, int]] = set()
        self._structure = Structure(model)
        self._unseen = Unseen(model, client, self._skips, op_of, self._progress, names)
        try:
            client._at_close(self._stop)
            self._hook_modules(model)
            client._not_recorded.add_source(self._unseen.report)
        except BaseException:
            self.remove()
            raise

    @property
    def skipped_count(self) -> int:
        """Number of leaves and calls that could not be recorded, such as tensors on
        `meta`.
        """
        return self._skips.lost_count() + sum(self._unseen.counts().values())

    @property
    def skipped(self) -> dict[str, int]:
        """Number of leaves and calls that were not recorded, by reason.

        This includes calls that checkpointing repeats, which are recorded the first
        time, and modules that hooks have not seen so far although the module around
        them ran.
        """
        return {**self._skips.by_reason(), **self._unseen.counts()}

    def step(self) -> None:
        """Ends a step: the token advances, unless it has advanced since the last pass.

        From now on, nothing else advances it.
        """
        self._steps.end_by_user()

    def begin_call_of_model(
        self, model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Handles a call of the model that torch began before the model had hooks."""
        self._hooks[self._root_op].before(model, args, kwargs)

    def remove(self) -> None:
        """Removes the hooks. Further calls have no effect.

        Reports to the daemon what was not recorded, including ops for which no call was
        seen: their modules did not run, or something called their `forward` or used
        their parameters directly.
        """
        optimizers.unwatch(self)
        hooked_models.leave(self._claim)
        if not self._hooks:
            return
        self._steps.end()
        self._unseen.report()
        if self._backward is not None:
            self._backward.remove()
        self._placed.remove()
        # The hooks keep the handle alive.
        self._hooks.clear()
        try:
            self._skips.tell(
                self._client, self._progress.uncalled if self._progress.begun else ()
            )
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skip(SKIPS_NAME, "", error)
        compiled.forget_graphs()

    def optimizer_stepped(self, optimizer: torch.optim.Optimizer) -> None:
        """See optimizers.Watcher."""
        if self._progress.is_over:
            return
        try:
            with self._recording:
                if self._backward is not None:
                    self._backward.record_step(optimizer)
                self._steps.end_by_optimizer(optimizer)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skip("optimizer", "", error)

    def _hook_modules(self, model: torch.nn.Module) -> None:
        """Puts hooks on the current modules of the model, and records the list of
        modules.
        """
        names, op_of = self._names, self._op_of
        facts = ModelFacts(self._client, model, names, self._skip)
        facts.record_modules(op_of)
        if self._weights and not self._progress.is_over:
            facts.record_weights(
                self._leaves,
                self._recorded_op_of,
                self._identities(),
                self._known_weights,
            )
        fixed = {id(model), *map(id, outermost_modules(model, names))}
        modules = [(op_of(path), each) for path, each in names.named_modules(model)]
        kept = self._placed.keep(
            {id(each): (op, id(each) in fixed) for op, each in modules}
        )
        ops = {op for op, _ in modules}
        for op in self._hooks.keys() - ops:
            del self._hooks[op]
        self._progress.uncalled.intersection_update(ops)
        for op, module in modules:
            if id(module) not in kept:
                self._hook_module(module, op, module is model, id(module) in fixed)
        # Existing graphs do not contain the new hooks.
        compiled.forget_graphs()

    def _follow_structure(self) -> None:
        """Puts hooks on modules that were added to the model since the last pass."""
        model = self._structure.changed()
        if model is None:
            return
        self._on_change()
        self._hook_modules(model)
        self._progress.uncalled.difference_update(self._progress.begun)
        if self._backward is not None:
            self._backward.follow(model)

    def _hook_module(
        self, module: torch.nn.Module, op: str, is_root: bool, is_fixed: bool
    ) -> None:
        hooks = self._recording_hooks(op) if self._matches(op) else None
        if hooks is not None and fast_paths.may_have_one(module):
            self._keep_out_of_graphs(hooks)
            hooks = fast_paths.counting(hooks, op, self._skips, self._is_tracing)
        if is_fixed:
            hooks = self._pass_hooks(op, weakref.ref(module), is_root, hooks)
        if hooks is None:
            return
        self._hooks[op] = hooks
        self._placed.add(op, module, hooks, is_fixed)
        # Containers have no forward.
        if type(module).forward is not self._no_forward and self._matches(op):
            self._progress.uncalled.add(op)
        self._keep_out_of_graphs(hooks)

    def _keep_out_of_graphs(self, hooks: ModuleHooks) -> None:
        for hook in hooks:
            if self._note is None:
                compiled.make_opaque(hook)
            else:
                compiled.make_no_frame(hook)

    def _recording_hooks(self, op: str) -> ModuleHooks:
        """Returns the hooks that record the calls of `op`.

        The hooks are closures over everything that they need. A call for which the
        capture policy selects nothing pays for each name that is looked up, and for
        each frame.
        """
        thread = self._thread
        native = self._client._native  # Methods of the client would add frames.
        current_token = native.token
        selects = native.selects
        tokens = self._tokens
        placed = self._placed
        off = Call(op, 0, -1, None)
        is_tracing = self._is_tracing
        exporter = compiled.exporter()
        progress = self._progress
        backward_ops = progress.backward_ops
        notes = graphs.hooks_of(op, self._note, *self._sides())
        recording = self._recording
        begin, end = leave_to_python()
        if self._native_calls is not None:
            begin, end = self._native_calls.hooks_of(op, off)

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
                elif not is_in_backward():
                    if backward_ops:
                        backward_ops.discard(op)
                    with recording:
                        self._begin(module, forward, op, token, args, kwargs)
                elif self._progress.has_run(op):
                    with recording:
                        call = self._begin_again(module, op, args, kwargs)
                    forward.calls.append(call or off)
                else:
                    token = self._steps.token
                    with recording:
                        self._begin(module, forward, op, token, args, kwargs)
            except Exception as error:  # noqa: BLE001 - never the model's problem
                self._skip(op, "", error)

        def after(
            module: torch.nn.Module,
            args: tuple[Any, ...],
            kwargs: dict[str, Any],
            result: Any,
        ) -> None:
            if is_tracing() or exporter._is_exporting_flag:
                notes.after(module, args, kwargs, result)
                return
            try:
                forward = thread.forward
                if end(forward, result):
                    return
                calls = forward.calls
                if result is not None and calls and calls[-1].op != op:
                    forward.forget_raised(op)
                if not calls:
                    return
                call = calls[-1]
                if call is off:
                    calls.pop()
                # torch does not call both hooks for every call.
                elif call.op == op:
                    calls.pop()
                    with recording:
                        self._end(call, result)
            except Exception as error:  # noqa: BLE001 - never the model's problem
                self._skip(op, "", error)

        return ModuleHooks(before, after)

    def _pass_hooks(
        self,
        op: str,
        reference: weakref.ref[torch.nn.Module],
        is_root: bool,
        inner: ModuleHooks | None,
    ) -> ModuleHooks:
        """Returns the hooks of a module whose call may be a pass; see Steps."""
        thread = self._thread
        steps = self._steps
        is_tracing = self._is_tracing
        exporter = compiled.exporter()
        sides = [inner is not None and side for side in self._sides()]
        notes = graphs.hooks_of(op, self._note, *sides)

        def before(
            module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> None:
            if is_tracing() or exporter._is_exporting_flag:
                notes.before(module, args, kwargs)
                return
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
                        self._skips.count(op, "", REPLICA)
                # A checkpoint repeats parts of the model.
                elif not is_in_backward():
                    self._begin_pass(forward, op, is_root, kwargs)
            except Exception as error:  # noqa: BLE001 - never the model's problem
                self._skip(op, "", error)
            if inner is not None:
                inner.before(module, args, kwargs)

        def after(
            module: torch.nn.Module,
            args: tuple[Any, ...],
            kwargs: dict[str, Any],
            result: Any,
        ) -> None:
            if is_tracing() or exporter._is_exporting_flag:
                notes.after(module, args, kwargs, result)
                return
            if inner is not None:
                inner.after(module, args, kwargs, result)
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
                            self._end_pass(forward, is_root, result)
            except Exception as error:  # noqa: BLE001 - never the model's problem
                self._skip(op, "", error)

        return ModuleHooks(before, after)

    def _sides(self) -> tuple[bool, bool]:
        """Returns whether graphs need the arguments, and whether the results."""
        needs_all = self._backward is not None
        return self._inputs or needs_all, self._outputs or needs_all

    def _begin_pass(
        self, forward: Forward, op: str, is_root: bool, kwargs: dict[str, Any]
    ) -> None:
        forward.depth = 1
        forward.op = op
        if self._counts_as_closed(op):
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
                self._follow_structure()
            if self._backward is not None:
                self._backward.begin_pass(forward.has_gradients)
            self._placed.follow(forward.token)
            if self._progress.is_paused:
                return
            if self._requests is not None and (
                self._tokens is None or forward.token in self._tokens
            ):
                self._client.record_requests(self._requests(), forward.token)
            if self._tells_phase and is_root and kwargs:
                record_phase(self._client, op, forward.token, kwargs)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skip(op, "", error)
        finally:
            self._recording.leave()

    def _end_pass(self, forward: Forward, is_root: bool, result: Any) -> None:
        if self._progress.is_over:
            return
        try:
            with self._recording:
                self._steps.end_pass(forward.token, is_root, result)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skip(self._root_op, "", error)

    def _begin(
        self,
        module: torch.nn.Module,
        forward: Forward,
        op: str,
        token: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        is_cut = self._note is None and not self._has_told_of_graphs
        if is_cut and compiled.is_running():
            self._has_told_of_graphs = True
            _logger.warning(
                "%s is compiled: its graphs end at every module that is recorded, "
                "so that it runs in smaller pieces than without hooks (said once)",
                op,
            )
        stack = self._thread.stack(self.stack_level)
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
                identities = self._identities()
                self._input_side.record_arguments(args, kwargs, call, identities)
            except Exception as error:  # noqa: BLE001 - never the model's problem
                self._skip(op, "", error)

    def _begin_again(
        self, module: torch.nn.Module, op: str, args: Any, kwargs: Any
    ) -> Call | None:
        """Returns the call that is repeated, if its backward is recorded."""
        self._skips.count(op, "", RECOMPUTED)
        if self._backward is None:
            return None
        return self._backward.begin_again(module, op, args, kwargs)

    def _end(self, call: Call, result: Any) -> None:
        if self._listener is not None and not call.is_again:
            self._listener.module_ends(call)
        # torch calls the hook without a result if the forward raised an exception.
        if result is None:
            return
        if self._outputs and not call.is_again:
            try:
                self._output_side.record_result(result, call, self._identities())
            except Exception as error:  # noqa: BLE001 - never the model's problem
                self._skip(call.op, "", error)
        if self._backward is not None and call.inputs is not None:
            self._backward.end(call, call.inputs, result)

    def _identities(self) -> Identities | None:
        return self._thread.identities() if self._aliases else None

    def _skip(self, op: str, index: str, error: Exception) -> None:
        self._skips.count(op, index, reason_of(error))
