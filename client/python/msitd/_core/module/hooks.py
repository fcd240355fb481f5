"""The hooks on one torch model, as a handle for their user."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msitd._core.gradient.backward import Backward
from msitd._core.graph import compiled, graphs
from msitd._core.leaf.forms import PLAIN_FORM, Form
from msitd._core.leaf.leaves import LeafRecorder, Placements
from msitd._core.listening import safe_listener
from msitd._core.module import hooked_models, optimizers
from msitd._core.module.call_hooks import CallHooks
from msitd._core.module.context import ModelContext
from msitd._core.module.forward_requests import requests_of
from msitd._core.module.graph_hooks import GraphHooks
from msitd._core.module.hook_life import HookLife
from msitd._core.module.model_facts import ModelFacts
from msitd._core.module.model_hooks import ModelHooks
from msitd._core.module.native_calls import Progress
from msitd._core.module.op_names import recorded_op, recorded_token
from msitd._core.module.pass_hooks import PassHooks
from msitd._core.module.placed_hooks import PlacedHooks
from msitd._core.module.steps import Steps
from msitd._core.module.structure import Structure
from msitd._core.module.threads import Thread
from msitd._core.module.uncalled import Unseen
from msitd._core.module.wrappers import PLAIN, ModuleNames
from msitd._core.not_recorded import DOCUMENT_NAME as SKIPS_NAME
from msitd._core.patterns import compile_patterns
from msitd._core.skips import Skips
from msitd._core.tokens import references
from msitd._core.torch_version import require_torch

if TYPE_CHECKING:
    import torch

    from msitd._core.client import Client
    from msitd._core.listening import CallListener
    from msitd._core.module.options import HookOptions


class HookHandle(HookLife, GraphHooks):
    """The hooks of one call of `register_hook`. The model may run on any thread.

    Args:
        op_of: Maps the dotted name of a module, empty for the model, to its op.
            Default: see `register_hook`.
        names: Provides the dotted names of modules.
        listener: Receives the calls and chooses which of them are recorded.
        has_ties: Whether the gradient of a parameter that several modules share is
            recorded with each of them, not only with the first.
        placements: Provides the placement of a tensor that has none of its own.
        on_change: Called before `op_of` names the modules of a changed model.
        form: Names the leaves of calls.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        client: Client,
        options: HookOptions,
        *,
        op_of: Callable[[str], str] | None = None,
        names: ModuleNames = PLAIN,
        listener: CallListener | None = None,
        has_ties: bool = False,
        placements: Placements | None = None,
        on_change: Callable[[], None] = lambda: None,
        form: Form = PLAIN_FORM,
    ) -> None:
        require_torch()
        compiled.make_package_opaque()
        self._client = client
        self._options = options
        self.stack_level = options.stack
        self._names = names
        self._on_change = on_change
        self._matches = compile_patterns(options.op_pattern)
        self._skips = Skips(client)
        # `generate` and other methods of a wrapped model call the model inside the
        # wrapper.
        model = names.unwrap(model)
        self._claim, self._op_of = hooked_models.enter(
            model, client, options.name, op_of, self
        )
        # Not a method, which would keep the handle alive in a reference cycle.
        self._recorded_op_of = functools.partial(
            recorded_op, self._matches, self._op_of
        )
        context = self._context_of(model, listener, placements, has_ties, form)
        self._recording = client._recording
        self._leaves = context.leaves
        self._thread = context.thread
        self._progress = context.progress
        self._placed = context.placed
        self._steps = context.steps
        self._backward = context.backward
        self._calls = CallHooks(context)
        self._modules = self._modules_of(context)
        self._hooks = self._modules.by_op
        self._known_weights: set[tuple[str, str, int]] = set()
        self._structure = Structure(model)
        self._unseen = Unseen(
            model, client, self._skips, self._op_of, self._progress, names
        )
        optimizers.watch(self)
        try:
            client._at_close(self._stop)
            self._hook_modules(model)
            client._not_recorded.add_source(self._unseen.report)
        except BaseException:
            self.remove()
            raise

    def _context_of(
        self,
        model: torch.nn.Module,
        listener: CallListener | None,
        placements: Placements | None,
        has_ties: bool,
        form: Form,
    ) -> ModelContext:
        """Creates the recorders and the state that the hooks share."""
        client, options, skips = self._client, self._options, self._skips
        listener = safe_listener(listener, skips)
        tokens = references(client._native, client._numbering, options.tokens)
        leaves = LeafRecorder(
            client,
            skips,
            values=options.values,
            objects=options.objects,
            listener=listener,
            placements=placements,
            form=form,
        )
        has_no_note = options.gradients and compiled.compiles_backwards()
        note = None if has_no_note else graphs.note_of(self)
        thread, progress = Thread(), Progress()
        steps = Steps(client, model, options.time)
        backward: Backward | None = None
        if options.gradients:
            backward = Backward(
                model,
                client,
                leaves,
                skips,
                op_of=self._recorded_op_of,
                token=functools.partial(recorded_token, steps, tokens, progress),
                keeps_state=options.optimizer_state,
                thread=thread,
                has_ties=has_ties,
                names=self._names,
            )
        return ModelContext(
            client=client,
            options=options,
            tokens=tokens,
            skips=skips,
            thread=thread,
            progress=progress,
            placed=PlacedHooks(client, tokens),
            steps=steps,
            requests=requests_of(model, client, skips, options, self._op_of("")),
            leaves=leaves,
            listener=listener,
            backward=backward,
            note=note,
            is_tracing=compiled.tracing_test(note is not None),
        )

    def _modules_of(self, context: ModelContext) -> ModelHooks:
        root_op = self._op_of("")
        has_phase = self._options.values and bool(self._matches(root_op))
        return ModelHooks(
            context,
            self._names,
            self._op_of,
            self._matches,
            self._calls,
            PassHooks(context, root_op, has_phase),
        )

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

    def begin_call(
        self,
        path: str,
        module: torch.nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """Handles a call that torch began before the model had hooks.

        Args:
            path: Dotted name of the module, empty for the model.
        """
        hooks = self._hooks.get(self._op_of(path))
        if hooks is not None:
            hooks.before(module, args, kwargs)

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
        self._modules.remove()
        try:
            self._skips.tell(
                self._client, self._progress.uncalled if self._progress.begun else ()
            )
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skips.count_error(SKIPS_NAME, "", error)
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
            self._skips.count_error("optimizer", "", error)

    def _hook_modules(self, model: torch.nn.Module) -> None:
        """Records the current modules of the model, and puts hooks on them."""
        facts = ModelFacts(self._client, model, self._names, self._skips)
        facts.record_modules(self._op_of)
        if self._options.weights and not self._progress.is_over:
            facts.record_weights(
                self._leaves,
                self._recorded_op_of,
                self._calls.identities(),
                self._known_weights,
            )
        self._modules.update(model, self._follow_structure)

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
