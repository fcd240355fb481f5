"""Records the gradients of what the modules of a torch model get and give.

Nothing is added to the graph of autograd, so the backward computes what it computes
without: a hook looks at the gradient of each output, and hooks of the nodes that have
used an input look at what they add to its gradient.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from msitd._core.walk import tensors_given, tensors_returned

if TYPE_CHECKING:
    import torch

    from msitd._core.leaves import Call, LeafRecorder
    from msitd._core.recorder import Client
    from msitd._core.skips import Skips

# The input of a node of a graph: the node that made it, and which of its results it is.
_Edge = tuple[Any, int]

_LEAF = "the gradient of a result that no operation has made"


class Inputs(NamedTuple):
    """What autograd knows of the tensors that a call gets."""

    # Nodes that the call makes have this number or a higher one.
    first_number: int
    # Indexes of the tensors that an edge stands for.
    indexes: dict[_Edge, list[str]]


class Gradients:
    """Records `grad_output` and `grad_input` of calls. Any thread may use it.

    Autograd calls it in threads of its own, after the call.

    Args:
        on_arrival: Is called when a gradient of an output arrives.
    """

    def __init__(
        self,
        client: Client,
        leaves: LeafRecorder,
        skips: Skips,
        on_arrival: Callable[[], None],
    ) -> None:
        # A caller with a module has torch.
        import torch

        self._tensor_type = torch.Tensor
        self._next_number = torch._C._autograd._get_sequence_nr
        self._client = client
        self._leaves = leaves
        self._skips = skips
        self._on_arrival = on_arrival
        self._is_removed = False

    def remove(self) -> None:
        """Records nothing from now on. The hooks end with the graphs they are in."""
        self._is_removed = True

    def begin(
        self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Inputs | None:
        """Returns what `end` needs; None if there is nothing to record."""
        if call.number < 0:
            return None
        selects = self._client.selects
        try:
            is_wanted = selects(call.op, "grad_input", call.token)
            if not is_wanted and not selects(call.op, "grad_output", call.token):
                return None
            indexes: dict[_Edge, list[str]] = {}
            if is_wanted:
                given = tensors_given(args, kwargs, self._tensor_type)
                for index, tensor in given:
                    if tensor.requires_grad:
                        indexes.setdefault(_edge_of(tensor), []).append(index)
            return Inputs(self._next_number(), indexes)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._count(call, "", error)
            return None

    def end(self, call: Call, inputs: Inputs, result: Any) -> None:
        """Watches the graph that a call has made. Raises nothing."""
        try:
            made = []
            for index, tensor in tensors_returned(result, self._tensor_type):
                if not tensor.requires_grad:
                    continue
                node = tensor.grad_fn
                # A hook of such a tensor would stay when the graph ends.
                if node is None:
                    self._skips.count(call.op, index, _LEAF)
                    continue
                made.append(node)
                # What a module gets it may give, as it is.
                given = inputs.indexes.pop((node, tensor.output_nr), [])
                _watch(tensor, self._hook_of_output(call, index, given))
            self._watch_uses(call, inputs, made)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._count(call, "", error)

    def record(
        self, call: Call, io: str, indexes: Iterable[str], round: int, gradient: Any
    ) -> None:
        """Records one gradient, of the backward number `round` through the call."""
        if self._is_removed or gradient is None:
            return
        try:
            if self._client.selects(call.op, io, call.token):
                prefix = f"again{round}." if round > 0 else ""
                leaves = [(prefix + index, gradient) for index in indexes]
                self._leaves.record(leaves, io, call, None)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._count(call, "", error)

    def _hook_of_output(
        self, call: Call, index: str, given: list[str]
    ) -> Callable[[torch.Tensor], None]:
        rounds = itertools.count()

        def hook(gradient: torch.Tensor) -> None:
            self._on_arrival()
            round = next(rounds)
            self.record(call, "grad_output", [index], round, gradient)
            self.record(call, "grad_input", given, round, gradient)

        return hook

    def _watch_uses(self, call: Call, inputs: Inputs, made: list[Any]) -> None:
        """Puts hooks on the nodes of the call that have used its inputs."""
        sums = {
            edge: _Sum(self, call, indexes) for edge, indexes in inputs.indexes.items()
        }
        if not sums:
            return
        seen = set()
        while made:
            node = made.pop()
            if node in seen or node._sequence_nr() < inputs.first_number:
                continue
            seen.add(node)
            uses = []
            for position, edge in enumerate(node.next_functions):
                if edge in sums:
                    uses.append((position, sums[edge]))
                    sums[edge].share_count += 1
                elif edge[0] is not None:
                    made.append(edge[0])
            if uses:
                node.register_hook(_hook_of_node(uses))

    def _count(self, call: Call, index: str, error: Exception) -> None:
        reason = f"gradients: {error or type(error).__name__}"
        self._skips.count(call.op, index, reason)


def _edge_of(tensor: torch.Tensor) -> _Edge:
    """Returns where the gradient of a tensor goes. torch 2.1 has no function for it."""
    node = tensor.grad_fn
    if node is None:
        # A leaf does not tell its node, but what uses it does.
        node = tensor.view_as(tensor).grad_fn.next_functions[0][0]
    return node, tensor.output_nr


def _watch(tensor: torch.Tensor, hook: Callable[[torch.Tensor], None]) -> None:
    """Puts a hook on a tensor, before those of the modules inside."""
    handle = tensor.register_hook(hook)
    hooks = tensor._backward_hooks or {}
    # Hooks of others may change the gradient: what they give is looked at.
    others = [known for known in hooks.values() if known.__module__ != __name__]
    if not others and len(hooks) > 1:
        # Autograd does not see the order that `move_to_end` makes.
        inner = [(key, known) for key, known in hooks.items() if key != handle.id]
        hooks.clear()
        hooks[handle.id] = hook
        hooks.update(inner)


def _hook_of_node(uses: list[tuple[int, _Sum]]) -> Callable[[Any, Any], None]:
    def hook(gradients: Any, _: Any) -> None:
        for position, total in uses:
            total.add(gradients[position])

    return hook


class _Sum:
    """The gradient of one input of a call, of which each use adds a share."""

    def __init__(self, gradients: Gradients, call: Call, indexes: list[str]) -> None:
        import torch

        self._torch = torch
        self._gradients = gradients
        self._call = call
        self._indexes = indexes
        self.share_count = 0
        self._round = 0
        # The backward that the shares so far are of.
        self._task = -1
        self._arrived_count = 0
        self._total: Any = None

    def add(self, share: Any) -> None:
        """Is given the share of one use, None for nothing."""
        task = self._torch._C._current_graph_task_id()
        if task != self._task:
            # A backward may have ended by an exception.
            self._task, self._arrived_count, self._total = task, 0, None
        if self._arrived_count == 0 and self.share_count > 1:
            # A backward of a part of the graph does not come to all uses.
            engine = self._torch.autograd.Variable._execution_engine
            engine.queue_callback(self._end)
        self._arrived_count += 1
        if self._total is None:
            self._total = share
        elif share is not None:
            # In the order in which autograd adds them.
            with self._torch.no_grad():
                self._total = self._total + share
        if self._arrived_count == self.share_count:
            self._end()

    def _end(self) -> None:
        if self._arrived_count == 0:
            return
        total, self._total, self._arrived_count = self._total, None, 0
        self._gradients.record(
            self._call, "grad_input", self._indexes, self._round, total
        )
        self._round += 1
