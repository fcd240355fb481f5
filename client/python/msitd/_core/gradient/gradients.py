"""Records the gradients of the inputs and outputs of the modules of a torch model.

Nothing is added to the autograd graph, so the backward computes the same as
without recording. A hook reads the gradient of each output, and hooks of the
nodes that have used an input read what they add to its gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msitd._core.gradient.inputs import Inputs, View, add_input, view_of
from msitd._core.gradient.nulls import Nulls
from msitd._core.not_recorded import reason_of

if TYPE_CHECKING:
    import torch

    from msitd._core.call import Call
    from msitd._core.client import Client
    from msitd._core.leaf.leaves import LeafRecorder
    from msitd._core.skips import Skips

# Maximum number of backwards that run at once, nested or in several threads.
_TASKS_MAX = 256

PREFIX = "gradients: "

_LEAF = "the gradient of a result that no operation has made"


class Gradients:
    """Records `grad_output` and `grad_input` of calls. Any thread may use it.

    Autograd calls it in its own threads, after the call.
    """

    def __init__(
        self,
        client: Client,
        leaves: LeafRecorder,
        skips: Skips,
    ) -> None:
        # torch is installed, since there is a module.
        import torch

        self._torch = torch
        self._tensor_type = torch.Tensor
        self._next_number = torch._C._autograd._get_sequence_nr
        self._client = client
        self.leaves = leaves
        self.skips = skips
        self._is_removed = False
        self._why_removed = ""
        # Tokens, by the id of the backward.
        self._tokens: dict[int, int] = {}

    def remove(self, reason: str = "") -> None:
        """Records nothing from now on. The hooks end with the graphs that contain them.

        Args:
            reason: Reason under which gradients that arrive later are counted
                as not recorded; empty: they are not counted.
        """
        self._why_removed = reason
        self._is_removed = True

    def token_of_backward(self) -> int | None:
        """Returns the token of the first call that the backward of this thread reached.

        Returns None if the backward has not reached a call with recorded
        gradients yet.
        """
        return self._tokens.get(self._torch._C._current_graph_task_id())

    def arrive(self, task: int, call: Call) -> None:
        """Handles the arrival of an output's gradient in the backward `task`."""
        if task not in self._tokens:
            for old in list(self._tokens)[: 1 - _TASKS_MAX]:
                self._tokens.pop(old, None)
            self._tokens[task] = call.token

    def begin(
        self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Inputs | None:
        """Returns the state that `end` needs; None if there is nothing to record."""
        if call.number < 0:
            return None
        selects = self._client.selects
        try:
            is_wanted = selects(call.op, "grad_input", call.token)
            if not is_wanted and not selects(call.op, "grad_output", call.token):
                return None
            given = self.leaves.form.tensors_given(args, kwargs)
            return self.inputs_of(given if is_wanted else ())
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._count(call, "", error)
            return None

    def inputs_of(self, given: Iterable[tuple[str, torch.Tensor]]) -> Inputs:
        """Finds the input tensors of a call that begins now in the graph of autograd."""
        inputs = Inputs(0, [], {})
        for index, tensor in given:
            if tensor.requires_grad:
                add_input(inputs, index, tensor)
        return inputs._replace(first_number=self._next_number())

    def end(self, call: Call, inputs: Inputs, result: Any) -> None:
        """Watches the graph that a call has created. Raises nothing."""
        # The hooks keep the call, which must not keep the graph alive.
        call = call._replace(inputs=None)
        self.watch(call, inputs, self.leaves.form.tensors_returned(result))

    def watch(
        self,
        call: Call,
        inputs: Inputs,
        returned: Iterable[tuple[str, torch.Tensor]],
    ) -> None:
        """Watches the graph for the tensors that the call returns, by index."""
        try:
            made = []
            bases = set()
            returned = list(returned)
            nulls = self._nulls_of(call, inputs, returned)
            # Such a result is a view of a tensor that the module has computed.
            is_separate = self.leaves.form.separates_arguments and len(returned) > 1
            for index, tensor in returned:
                if not tensor.requires_grad:
                    continue
                node = tensor.grad_fn
                # A hook on such a tensor would outlive the graph.
                if node is None:
                    self.skips.count(call.op, index, _LEAF)
                    continue
                made.append(node)
                # A module may return an input unchanged.
                given = []
                for position, view in inputs.edges.get((node, tensor.output_nr), ()):
                    if view is None:
                        given += inputs.indexes[position]
                        inputs.indexes[position] = []
                hook = _OutputHook(self, call, index, tuple(given), nulls)
                _watch(tensor, hook)
                base = tensor._base
                base_node = None if base is None else base.grad_fn
                if base_node is None or base_node in bases or is_separate:
                    continue
                bases.add(base_node)
                if base_node._sequence_nr() >= inputs.first_number:
                    hook.watch_base(base_node, base.output_nr, view_of(tensor, base))
            self._watch_uses(call, inputs, made, nulls)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._count(call, "", error)

    def record(
        self, call: Call, io: str, indexes: Iterable[str], round: int, gradient: Any
    ) -> None:
        """Records one gradient of pass number `round` of a backward through the
        call.
        """
        if gradient is None:
            return
        if self._is_removed:
            if self._why_removed:
                for index in indexes:
                    self.skips.count(call.op, index, self._why_removed)
            return
        try:
            if self._client.selects(call.op, io, call.token):
                prefix = f"again{round}." if round > 0 else ""
                leaves = [(prefix + index, gradient) for index in indexes]
                self.leaves.record(leaves, io, call, None)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._count(call, "", error)

    def sum(self, call: Call, total: torch.Tensor, share: torch.Tensor) -> Any:
        """Adds in the order of autograd; None if the two tensors cannot be added."""
        try:
            with self._torch.no_grad():
                # A sparse tensor can only be added to a dense one.
                if total.layout != share.layout and share.layout is self._torch.strided:
                    return share + total
                return total + share
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._count(call, "", error)
            return None

    def _watch_uses(
        self, call: Call, inputs: Inputs, made: list[Any], nulls: Nulls | None
    ) -> None:
        """Puts hooks on the nodes of the call that have used its inputs."""
        if not any(inputs.indexes):
            return
        sums = [_Sum(self, call, tuple(each), nulls) for each in inputs.indexes]
        seen = set()
        while made:
            node = made.pop()
            if node in seen or node._sequence_nr() < inputs.first_number:
                continue
            seen.add(node)
            uses = []
            for place, edge in enumerate(node.next_functions):
                if edge in inputs.edges:
                    for position, view in inputs.edges[edge]:
                        uses.append((place, sums[position], view))
                        sums[position].share_count += 1
                elif edge[0] is not None:
                    made.append(edge[0])
            if uses:
                hook = self.skips.guarded(_UsesHook(uses), call.op, what=PREFIX)
                node.register_hook(hook)

    def _nulls_of(
        self, call: Call, inputs: Inputs, returned: list[tuple[str, torch.Tensor]]
    ) -> Nulls | None:
        """Returns what records None for missing gradients, if the form has these."""
        if not self.leaves.form.has_null_gradients:
            return None
        expected = [("grad_output", index) for index, _ in returned]
        given = [index for indexes in inputs.indexes for index in indexes]
        expected += [("grad_input", index) for index in given]

        def record(io: str, index: str) -> None:
            if not self._is_removed and self._client.selects(call.op, io, call.token):
                self.leaves.record([(index, None)], io, call, None)

        guarded = functools.partial(self.skips.guarded, op=call.op, what=PREFIX)
        return Nulls(expected, record, guarded)

    def _count(self, call: Call, index: str, error: Exception) -> None:
        self.skips.count(call.op, index, PREFIX + reason_of(error))


def _watch(tensor: torch.Tensor, hook: _OutputHook) -> None:
    """Puts a hook on a tensor, before the hooks of the modules inside."""
    handle = tensor.register_hook(hook)
    hooks = tensor._backward_hooks or {}
    # Hooks of others may change the gradient, so it is read after them.
    others = [known for known in hooks.values() if not isinstance(known, _OutputHook)]
    if not others and len(hooks) > 1:
        # Autograd ignores the order that `move_to_end` creates.
        inner = [(key, known) for key, known in hooks.items() if key != handle.id]
        hooks.clear()
        hooks[handle.id] = hook
        hooks.update(inner)


# The hooks below exist for each call until its backward. They have slots and are
# not closures, because the garbage collector visits each function, its cells and
# their tuple.


class _UsesHook:
    """Adds the gradients of one node to those of the inputs that it has used."""

    __slots__ = ("_uses",)

    def __init__(self, uses: list[tuple[int, _Sum, View | None]]) -> None:
        self._uses = uses

    def __call__(self, gradients: Any, _: Any) -> None:
        for place, total, view in self._uses:
            total.add(gradients[place], view)


class _BaseHook:
    """Records the gradient of an output that arrives only through its base."""

    __slots__ = ("_output", "_output_nr", "_view")

    def __init__(self, output: _OutputHook, output_nr: int, view: View) -> None:
        self._output = output
        self._output_nr = output_nr
        self._view = view

    def __call__(self, gradients: Any) -> None:
        gradient = gradients[self._output_nr]
        if gradient is not None and not self._output.has_arrived():
            self._output(self._view.of(gradient))


class _OutputHook:
    """Records the gradient of one output of a call."""

    __slots__ = (
        "_call",
        "_given",
        "_gradients",
        "_index",
        "_last_task",
        "_nulls",
        "_round",
        "_task",
    )

    def __init__(
        self,
        gradients: Gradients,
        call: Call,
        index: str,
        given: tuple[str, ...],
        nulls: Nulls | None,
    ) -> None:
        import torch

        self._task = torch._C._current_graph_task_id
        self._gradients = gradients
        self._call = call
        self._index = index
        self._given = given
        self._nulls = nulls
        self._round = 0
        self._last_task = -1

    def __call__(self, gradient: torch.Tensor) -> None:
        # Not a GuardedHook, because other code recognizes it by its class.
        try:
            self._record(gradient)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            reason = PREFIX + reason_of(error)
            self._gradients.skips.count(self._call.op, self._index, reason)

    def _record(self, gradient: torch.Tensor) -> None:
        self._last_task = self._task()
        self._gradients.arrive(self._last_task, self._call)
        round, self._round = self._round, self._round + 1
        record = self._gradients.record
        record(self._call, "grad_output", (self._index,), round, gradient)
        record(self._call, "grad_input", self._given, round, gradient)
        if self._nulls is not None:
            self._nulls.arrive(self._last_task, "grad_output", (self._index,))
            self._nulls.arrive(self._last_task, "grad_input", self._given)

    def watch_base(self, node: Any, output_nr: int, view: View) -> None:
        """Watches the base of an output that is a view.

        If the view is changed in place later, its gradient arrives only through
        the base.
        """
        hook = _BaseHook(self, output_nr, view)
        guarded = self._gradients.skips.guarded
        node.register_prehook(guarded(hook, self._call.op, self._index, PREFIX))

    def has_arrived(self) -> bool:
        """Returns whether the gradient has arrived in the backward of this thread."""
        return self._last_task == self._task()


class _Sum:
    """The gradient of one input of a call, to which each use adds a share."""

    __slots__ = (
        "_arrived_count",
        "_call",
        "_gradients",
        "_indexes",
        "_nulls",
        "_round",
        "_task",
        "_torch",
        "_total",
        "share_count",
    )

    def __init__(
        self,
        gradients: Gradients,
        call: Call,
        indexes: tuple[str, ...],
        nulls: Nulls | None,
    ) -> None:
        import torch

        self._torch = torch
        self._gradients = gradients
        self._call = call
        self._indexes = indexes
        self._nulls = nulls
        self.share_count = 0
        self._round = 0
        # The backward to which the shares so far belong.
        self._task = -1
        self._arrived_count = 0
        self._total: Any = None

    def add(self, share: Any, view: View | None) -> None:
        """Adds the share of one use, or None for no share.

        Args:
            view: Position of the input in the tensor of the share.
        """
        if view is not None and share is not None:
            share = view.of(share)
        task = self._torch._C._current_graph_task_id()
        if task != self._task:
            # An earlier backward may have ended with an exception.
            self._task, self._arrived_count, self._total = task, 0, None
        if self._arrived_count == 0 and self.share_count > 1:
            # A backward of a part of the graph does not reach all uses.
            engine = self._torch.autograd.Variable._execution_engine
            guarded = self._gradients.skips.guarded
            engine.queue_callback(guarded(self._end, self._call.op, what=PREFIX))
        self._arrived_count += 1
        if self._total is None:
            self._total = share
        elif share is not None:
            self._total = self._gradients.sum(self._call, self._total, share)
        if self._arrived_count == self.share_count:
            self._end()

    def _end(self) -> None:
        if self._arrived_count == 0:
            return
        total, self._total, self._arrived_count = self._total, None, 0
        self._gradients.record(
            self._call, "grad_input", self._indexes, self._round, total
        )
        if total is not None and self._nulls is not None:
            self._nulls.arrive(self._task, "grad_input", self._indexes)
        self._round += 1
