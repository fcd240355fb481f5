"""Records what the autograd node of a function's result receives and returns.

Other tools call this the backward of a function. The node may have other inputs than
the function, in another order: that of `linear` has the bias first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msitd._core.gradient.gradients import PREFIX, Gradients
from msitd._core.gradient.inputs import Inputs
from msitd._core.not_recorded import reason_of

if TYPE_CHECKING:
    import torch

    from msitd._core.call import Call

_DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d")
_DROPOUT_DEFAULT = 0.5

# Maximum number of lists in lists in which the first tensor is searched.
_DEPTH_MAX = 64


class NodeGradients(Gradients):
    """Gradients of functions, by the node of their first result.

    `grad_output` has a leaf for each result of the node, and `grad_input` one for each
    gradient that it returns. They are None if the node has no such gradient.
    """

    def begin(
        self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Inputs | None:
        """See Gradients."""
        if call.number < 0 or _drops_nothing(call.op, args, kwargs):
            return None
        selects = self._client.selects
        try:
            is_wanted = selects(call.op, "grad_input", call.token) or selects(
                call.op, "grad_output", call.token
            )
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._count(call, "", error)
            return None
        return Inputs(0, [], {}) if is_wanted else None

    def end(self, call: Call, inputs: Inputs, result: Any) -> None:
        """See Gradients."""
        try:
            tensor = _first_tensor(result, self._tensor_type)
            if tensor is None or not tensor.requires_grad:
                return
            node = tensor.grad_fn
            if node is not None:
                hook = self._hook_of(call._replace(inputs=None))
                node.register_hook(self.skips.guarded(hook, call.op, what=PREFIX))
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._count(call, "", error)

    def _hook_of(self, call: Call) -> Callable[[Any, Any], None]:
        round = 0

        def hook(returned: Any, received: Any) -> None:
            nonlocal round
            self.arrive(self._torch._C._current_graph_task_id(), call)
            self._record_all(call, "grad_output", round, received)
            self._record_all(call, "grad_input", round, returned)
            round += 1

        return hook

    def _record_all(
        self, call: Call, io: str, round: int, gradients: tuple[torch.Tensor | None]
    ) -> None:
        prefix = f"again{round}." if round > 0 else ""
        leaves = [(f"{prefix}{i}", each) for i, each in enumerate(gradients)]
        if self._is_removed:
            if self._why_removed:
                for index, _ in leaves:
                    self.skips.count(call.op, index, self._why_removed)
            return
        try:
            if self._client.selects(call.op, io, call.token):
                self.leaves.record(leaves, io, call, None)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self.skips.count(call.op, "", PREFIX + reason_of(error))


def _drops_nothing(op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Returns whether a function is a dropout with the probability 0."""
    if op.rpartition(".")[2] not in _DROPOUTS:
        return False
    given = args[1] if len(args) > 1 else kwargs.get("p", _DROPOUT_DEFAULT)
    return isinstance(given, (int, float)) and given == 0


def _first_tensor(result: Any, tensor_type: type) -> Any:
    """Returns the first tensor in a result; None if it begins with another value."""
    for _ in range(_DEPTH_MAX):
        if isinstance(result, tensor_type):
            return result
        if isinstance(result, dict):
            tensors = (v for v in result.values() if isinstance(v, tensor_type))
            return next(tensors, None)
        if not isinstance(result, (list, tuple)) or not result:
            return None
        result = result[0]
    return None
