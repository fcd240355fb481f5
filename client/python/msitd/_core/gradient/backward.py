"""Records what a backward computes for one hooked model."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msitd._core.gradient.gradients import Gradients
from msitd._core.gradient.graph_gradients import GraphGradients
from msitd._core.gradient.inputs import Inputs
from msitd._core.gradient.parameters import Parameters
from msitd._core.gradient.recomputation import FirstRuns

if TYPE_CHECKING:
    import torch

    from msitd._core.call import Call
    from msitd._core.client import Client
    from msitd._core.leaf.leaves import LeafRecorder
    from msitd._core.module.threads import Thread
    from msitd._core.module.wrappers import ModuleNames
    from msitd._core.skips import Skips

_UNKNOWN_FIRST = (
    "gradients: a forward runs again, and it is not known which one was the first"
)


class Backward:
    """Gradients of calls and of parameters. Any thread may use it; nothing raises.

    Args:
        op_of: See Parameters.
        token: See Parameters.
        keeps_state: Whether to record the state of optimizers.
        thread: The state of each thread in the model.
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
        # torch is installed, since there is a module.
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

        # Not a method, which would keep this object alive in a reference cycle.
        def token_of_backward() -> int | None:
            of_call = gradients.token_of_backward()
            if of_call is None:
                in_graphs.count_if_compiled()
                return token()
            return of_call

        self._watches_all = not leaves.form.has_accumulated_gradients
        self._parameters = Parameters(
            client, leaves, skips, op_of, token, token_of_backward, has_ties, names
        )

    def follow(self, model: torch.nn.Module) -> None:
        """Handles a change of the model's modules."""
        self._modules = self._modules_of(model)
        # A parameter may now belong to another op.
        self._parameters.follow(model)

    def _modules_of(
        self, model: torch.nn.Module
    ) -> dict[str, weakref.ref[torch.nn.Module]]:
        """Returns modules by op, for calls in graphs, which do not provide
        their modules.
        """
        return {
            op: weakref.ref(module)
            for name, module in self._names.named_modules(model)
            if (op := self._op_of(name)) is not None
        }

    def begin_pass(self, has_gradients: bool) -> None:
        """Handles the beginning of a pass, with whether gradients are enabled."""
        model = self._model()
        # Otherwise, each call watches the parameters of its module.
        if model is not None and has_gradients and self._watches_all:
            self._parameters.watch(model)

    def begin(
        self,
        module: torch.nn.Module | None,
        call: Call,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        has_gradients: bool,
    ) -> Call:
        """Returns `call` with the state that `end` needs, if the call has a backward.

        Args:
            module: None in a graph.
            has_gradients: See `begin_pass`; that of the pass that contains the
                call.
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
        """Returns the first run of a repeated call, if the repetition has its
        gradients.
        """
        call = self._first_runs.take(op)
        if call is None:
            if self._first_runs.is_lost():
                self._skips.count(op, "", _UNKNOWN_FIRST)
            return None
        inputs = None
        if self._is_enabled():
            inputs = self._gradients.begin(call, args, kwargs)
        elif not self._is_enabled_around():
            # A nested checkpoint repeats the call once more.
            self._first_runs.add(call)
            return None
        self._watch_own(module, op)
        return call._replace(inputs=inputs, is_again=True)

    def _is_enabled_around(self) -> bool:
        """Returns whether gradients are enabled around the graph that is running.

        An autograd function runs the graph, so they are disabled inside it.
        """
        caller = self._thread.caller
        return caller is not None and caller.is_grad_enabled

    def _watch_own(self, module: torch.nn.Module | None, op: str) -> None:
        if module is None:
            module = self._modules[op]()
        if module is not None:
            self._parameters.watch_own(module, op)

    def end(self, call: Call, inputs: Inputs, result: Any) -> None:
        """Handles the result of a call."""
        self._gradients.end(call, inputs, result)

    def end_in_graph(self, call: Call) -> None:
        """Ends the last call of this thread, which is in a graph."""
        caller = self._thread.caller
        if caller is not None and caller.is_grad_enabled and not self._is_enabled():
            self.in_graphs.end(call._replace(inputs=None), caller.number)

    def record_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Records the gradients that an optimizer step used."""
        model = self._model()
        if model is not None:
            self._parameters.record_step(model, optimizer, self._keeps_state)

    def remove(self, reason: str = "") -> None:
        """Removes all hooks.

        Args:
            reason: See Gradients.remove.
        """
        self._parameters.remove()
        self._gradients.remove(reason)
