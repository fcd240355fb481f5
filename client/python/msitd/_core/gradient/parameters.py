"""Records the gradients of parameters, and the optimizer's state for them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from msitd._core.call import Call
from msitd._core.leaf.leaves import LeafRecorder
from msitd._core.leaf.walk import walk_result
from msitd._core.not_recorded import reason_of

if TYPE_CHECKING:
    import torch

    from msitd._core.client import Client
    from msitd._core.module.wrappers import ModuleNames
    from msitd._core.skips import Skips


_SWAPPED = "gradients: torch has swapped a parameter that has hooks of others"

# Maximum number of tokens whose backwards alternate.
_TOKENS_MAX = 64


class _Watched(NamedTuple):
    """A parameter that has a hook.

    It has no weak reference to the parameter, because torch would then refuse
    to swap the parameter's memory with another tensor.
    """

    hook: Callable[[torch.Tensor], None]
    torch_handle: Any
    # Address of the object whose memory torch swaps.
    address: int
    # The ops and names of the parameter.
    places: list[tuple[str, str]]


class _CallNumbers:
    """Numbers the calls of each token that one client has recorded.

    Any thread may use it.

    Models that are hooked one after the other may be recorded at the same
    tokens, so the numbers belong to the client and not to the hooks of a model.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By op, index and io: the numbers of the last calls, by token.
        self._last: dict[tuple[str, str, str], dict[int, int]] = {}

    def next(self, place: tuple[str, str, str], token: int) -> int:
        """Returns the number of a call that begins for an op, index and io."""
        with self._lock:
            numbers = self._last.setdefault(place, {})
            number = numbers.pop(token, -1) + 1
            numbers[token] = number
            if len(numbers) > _TOKENS_MAX:
                del numbers[next(iter(numbers))]
        return number


_all_numbers: weakref.WeakKeyDictionary[Client, _CallNumbers] = (
    weakref.WeakKeyDictionary()
)
_all_numbers_lock = threading.Lock()


def _numbers_of(client: Client) -> _CallNumbers:
    with _all_numbers_lock:
        return _all_numbers.setdefault(client, _CallNumbers())


class Parameters:
    """Records the parameters of one model. Any thread may use it.

    `grad_weight` is what one backward adds to a gradient, read before it is
    added, or the sum, if the form of the leaves has accumulated gradients. These
    records are numbered as calls of the token. At an optimizer
    step, `state` with the index `NAME.grad` is the gradient that the step used,
    and `NAME.KEY` is the optimizer's state.

    Args:
        op_of: Maps the dotted name of a module to its op, or to None if it is
            not recorded.
        token: Returns the token of the last pass.
        token_of_backward: Returns the token of the backward of this thread.
        has_ties: Whether a parameter that several modules share is recorded
            with each of them, not only with the first.
        names: Provides the dotted names of modules.
    """

    def __init__(
        self,
        client: Client,
        leaves: LeafRecorder,
        skips: Skips,
        op_of: Callable[[str], str | None],
        token: Callable[[], int | None],
        token_of_backward: Callable[[], int | None],
        has_ties: bool,
        names: ModuleNames,
    ) -> None:
        # torch is installed, since there is a module.
        import torch

        self._tensor_type = torch.Tensor
        self._client = client
        self._leaves = leaves
        self._skips = skips
        self._op_of = op_of
        self._token = token
        self._token_of_backward = token_of_backward
        self._has_ties = has_ties
        self._names = names
        # By id, which another parameter may have later.
        self._watched: dict[int, _Watched] = {}
        # Number of entries when those of deleted parameters were last removed.
        self._kept_count = 0
        self._numbers = _numbers_of(client)
        self._is_accumulated = leaves.form.has_accumulated_gradients

    def watch(self, model: torch.nn.Module) -> None:
        """Puts hooks on all parameters without hooks. Raises nothing."""
        for parameter, op, name in self._named(model):
            self._watch_one(parameter, op, name)
        if len(self._watched) > 2 * self._kept_count:
            self._forget_gone()

    def watch_own(self, module: torch.nn.Module, op: str) -> None:
        """Puts hooks on the parameters that a module has while it runs.

        FSDP replaces shards by whole parameters during that time.
        """
        for name, parameter in module._parameters.items():
            if parameter is not None:
                self._watch_one(parameter, op, name)

    def _named(self, model: torch.nn.Module) -> Iterator[tuple[Any, str, str]]:
        """Yields the parameters that are recorded, each with its op and name."""
        found = self._names.named_parameters(model, has_ties=self._has_ties)
        for module, name, parameter in found:
            op = self._op_of(module)
            if op is not None:
                yield parameter, op, name

    def _watch_one(self, parameter: torch.nn.Parameter, op: str, name: str) -> None:
        key = id(parameter)
        known = self._watched.get(key)
        if known is not None:
            hooks = self._hooks_on(parameter) or {}
            if hooks.get(known.torch_handle.id) is known.hook:
                if known.address == parameter._cdata:
                    if self._has_ties and (op, name) not in known.places:
                        known.places.append((op, name))
                    return
                # After a swap, torch does not know the hooks and would not add
                # new ones.
                known.torch_handle.remove()
                if hooks:
                    self._skips.count(op, name, _SWAPPED)
                    return
                self._forget_hooks(parameter)
        if not parameter.requires_grad:
            return
        try:
            places = [(op, name)]
            hook = self._skips.guarded(self._hook(places), op, name)
            if self._is_accumulated:
                handle = parameter.register_post_accumulate_grad_hook(hook)
            else:
                handle = parameter.register_hook(hook)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skips.count(op, name, reason_of(error))
            return
        self._watched[key] = _Watched(hook, handle, parameter._cdata, places)

    def _hooks_on(self, parameter: torch.nn.Parameter) -> dict[int, Any] | None:
        """Returns the hooks of the kind that this object puts on parameters."""
        if self._is_accumulated:
            return parameter._post_accumulate_grad_hooks
        return parameter._backward_hooks

    def _forget_hooks(self, parameter: torch.nn.Parameter) -> None:
        if self._is_accumulated:
            parameter._post_accumulate_grad_hooks = None
        else:
            parameter._backward_hooks = None

    def follow(self, model: torch.nn.Module) -> None:
        """Assigns the current ops to the parameters. Raises nothing.

        A hook keeps its position among other hooks. Parameters that have left
        the model lose their hooks, and the next pass watches new ones.
        """
        places: dict[int, list[tuple[str, str]]] = {}
        for parameter, op, name in self._named(model):
            places.setdefault(id(parameter), []).append((op, name))
        for key, watched in list(self._watched.items()):
            if key in places:
                watched.places[:] = places[key]
            else:
                watched.torch_handle.remove()
                del self._watched[key]

    def remove(self) -> None:
        """Removes the hooks."""
        for watched in list(self._watched.values()):
            watched.torch_handle.remove()
        self._watched.clear()

    def record_step(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        keeps_state: bool,
    ) -> None:
        """Records the gradients that an optimizer step used, and its state if
        `keeps_state`.
        """
        names = {id(p): (op, name) for p, op, name in self._named(model)}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) not in names:
                    continue
                op, name = names[id(parameter)]
                leaves = []
                if parameter.grad is not None:
                    leaves.append((f"{name}.grad", parameter.grad))
                if keeps_state:
                    kept = optimizer.state.get(parameter) or {}
                    leaves += [
                        (f"{name}.{key}", value)
                        for key, value in walk_result(kept, self._tensor_type, True)
                    ]
                self._record(op, name, "state", self._token(), leaves)

    def _forget_gone(self) -> None:
        for key, watched in list(self._watched.items()):
            # The hooks of a parameter are deleted with it.
            if watched.torch_handle.hooks_dict_ref() is None:
                self._watched.pop(key, None)
        self._kept_count = len(self._watched)

    def _hook(self, places: list[tuple[str, str]]) -> Callable[[torch.Tensor], None]:
        def hook(given: torch.Tensor) -> None:
            token = self._token_of_backward()
            gradient = _accumulated(given) if self._is_accumulated else given
            if gradient is None:
                return
            for op, name in places:
                self._record(op, name, "grad_weight", token, [(name, gradient)])

        return hook

    def _record(
        self,
        op: str,
        name: str,
        io: str,
        token: int | None,
        leaves: list[tuple[str, Any]],
    ) -> None:
        try:
            if token is None or not leaves or not self._client.selects(op, io, token):
                return
            number = self._numbers.next((op, name, io), token)
            self._leaves.record(leaves, io, Call(op, token, number, None), None)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skips.count(op, name, reason_of(error))


def _accumulated(parameter: torch.Tensor) -> torch.Tensor | None:
    """Returns the gradient of a parameter, which Megatron keeps in a place of its own."""
    main: torch.Tensor | None = getattr(parameter, "main_grad", None)
    return parameter.grad if main is None else main
