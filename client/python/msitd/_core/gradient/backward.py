"""Records what a backward computes for one hooked model."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msitd._core.gradient.gradients import Gradients, Inputs
from msitd._core.gradient.graph_gradients import GraphGradients
from msitd._core.gradient.parameters import Parameters
from msitd._core.module.recomputation import FirstRuns

if TYPE_CHECKING:
    import torch

    from msitd._core.leaf.leaves import Call, LeafRecorder
    from msitd._core.module.threads import Thread
    from msitd._core.module.wrappers import ModuleNames
    from msitd._core.recorder import Client
    from msitd._core.skips import Skips

_UNKNOWN_FIRST = (
    "gradients: a forward runs again, and it is not known which one was the first"
)


class Backward:
    """Gradients of calls and of parameters. Any thread may use it; nothing raises.

    Args:
        op_of: See Parameters.
        token: See Parameters.
        keeps_state: Whether to record what optimizers keep.
        thread: Where each thread is.
        has_ties: See Parameters.
        names: See Parameters.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        client: Client,
        leaves: LeafRecorder,
        skips: Skips,
        *,
        op_of: Callable[[str], str | None],
        token: Callable[[], int | None],
        keeps_state: bool,
        thread: Thread,
        has_ties: bool,
        names: ModuleNames,
    ) -> None:
        # A caller with a module has torch.
        import torch

        self._is_enabled = torch.is_grad_enabled
        self._model = weakref.ref(model)
        self._keeps_state = keeps_state
        self._skips = skips
        self._first_runs = FirstRuns()
        self._gradients = Gradients(client, leaves, skips)
        self.in_graphs = GraphGradients(self._gradients, client, skips)
        self._thread = thread
        self._op_of = op_of
        self._names = names
        self._modules = self._modules_of(model)
        self._token = token
        gradients, in_graphs = self._gradients, self.in_graphs

        # No method: it would hold this object in a circle.
        def token_of_backward() -> int | None:
            of_call = gradients.token_of_backward()
            if of_call is None:
                in_graphs.count_if_compiled()
                return token()
            return of_call

        self._parameters = Parameters(
            client, leaves, skips, op_of, token, token_of_backward, has_ties, names
        )

    def follow(self, model: torch.nn.Module) -> None:
        """Is told that the model has other modules now."""
        self._modules = self._modules_of(model)
        # A parameter may have moved to another op.
        self._parameters.follow(model)

    def _modules_of(
        self, model: torch.nn.Module
    ) -> dict[str, weakref.ref[torch.nn.Module]]:
        """Returns modules by op, for calls in graphs, which do not tell theirs."""
        return {
            op: weakref.ref(module)
            for name, module in self._names.named_modules(model)
            if (op := self._op_of(name)) is not None
        }

    def begin_pass(self, has_gradients: bool) -> None:
        """Is told that a pass begins, and whether gradients are enabled there."""
        model = self._model()
        if model is not None and has_gradients:
            self._parameters.watch(model)

    def begin(
        self,
        module: torch.nn.Module | None,
        call: Call,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        has_gradients: bool,
    ) -> Call:
        """Returns `call`, with what `end` needs, if it has a backward.

        Args:
            module: None in a graph.
            has_gradients: See `begin_pass`, of the pass that it is part of.
        """
        if self._is_enabled():
            self._watch_own(module, call.op)
            return call._replace(inputs=self._gradients.begin(call, args, kwargs))
        if self._is_enabled_around():
            self._watch_own(module, call.op)
        elif has_gradients:
            self._first_runs.add(call)
        return call

    def begin_again(
        self,
        module: torch.nn.Module | None,
        op: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Call | None:
        """Returns the first run of a call, if this one has its gradients."""
        call = self._first_runs.take(op)
        if call is None:
            if self._first_runs.is_lost():
                self._skips.count(op, "", _UNKNOWN_FIRST)
            return None
        inputs = None
        if self._is_enabled():
            inputs = self._gradients.begin(call, args, kwargs)
        elif not self._is_enabled_around():
            # A checkpoint in a checkpoint runs it once more.
            self._first_runs.add(call)
            return None
        self._watch_own(module, op)
        return call._replace(inputs=inputs, is_again=True)

    def _is_enabled_around(self) -> bool:
        """Returns whether gradients are enabled around the graph that runs.

        A function of autograd runs it, so they are not inside.
        """
        caller = self._thread.caller
        return caller is not None and caller.is_grad_enabled

    def _watch_own(self, module: torch.nn.Module | None, op: str) -> None:
        if module is None:
            module = self._modules[op]()
        if module is not None:
            self._parameters.watch_own(module, op)

    def end(self, call: Call, inputs: Inputs, result: Any) -> None:
        """Is told what a call has given. The call of a graph must not hold it."""
        self._gradients.end(call._replace(inputs=None), inputs, result)

    def end_in_graph(self, call: Call) -> None:
        """Is told that the last call of this thread ends, which is in a graph."""
        caller = self._thread.caller
        if caller is not None and caller.is_grad_enabled and not self._is_enabled():
            self.in_graphs.end(call._replace(inputs=None), caller.number)

    def record_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Records what a step of an optimizer has used."""
        model = self._model()
        if model is not None:
            self._parameters.record_step(model, optimizer, self._keeps_state)

    def remove(self, reason: str = "") -> None:
        """Takes all hooks away.

        Args:
            reason: See Gradients.remove.
        """
        self._parameters.remove()
        self._gradients.remove(reason)
