"""Decides when the token of a client advances while a model runs."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msitd._core.guard import GuardedHook
from msitd._core.leaf.walk import tensors_returned
from msitd._core.module import optimizers
from msitd._core.module.optimizers import Hold

if TYPE_CHECKING:
    import torch

    from msitd._core.client import Client

TIMES = ("auto", "forward", "optimizer", "step")

# Maximum number of tensors of a result that are watched to detect a backward. A
# single one would be enough if it were the right one.
_WATCHED_MAX = 16


def _ignore(_: Exception) -> None:
    pass


class Steps:
    """The steps of one model, each of which is a token of the client.

    A *pass* is a forward of the model or, where nothing calls the model itself,
    of one of its children. A step consists of one or more passes and everything
    that belongs to them. Any thread may call.

    If the token of the client has advanced since the step began, a step does
    not advance it again: other models, or the user, may have advanced it.
    """

    def __init__(self, client: Client, model: torch.nn.Module, time: str) -> None:
        self._client = client
        self._model = weakref.ref(model)
        self._time = time
        self._lock = threading.RLock()
        # The most that a known optimizer holds of the model.
        self._hold = Hold.NOTHING
        # Number of searches for an optimizer that found none.
        self._asked_count = 0
        # Number of forwards of the model that have begun and not ended.
        self._running_count = 0
        # Token of the last pass, as a reference; -1 before the first. See
        # `_core.tokens`.
        self._token = -1
        self._begin_step(-1)

    @property
    def token(self) -> int:
        """The token of the last pass, to which its backward belongs."""
        return self._client._native.token() if self._token < 0 else self._token

    def is_training(self, is_grad_enabled: bool) -> bool:
        """Returns whether a forward that begins now will be followed by a backward.

        Args:
            is_grad_enabled: Whether gradients are enabled around the forward. A
                graph of torch.compile disables them inside.
        """
        model = self._model()
        if model is None or not model.training:
            return False
        if not is_grad_enabled:
            return False
        # No generator expression, because Dynamo would trace it.
        for parameter in model.parameters():
            if parameter.requires_grad:
                return True
        return False

    def begin_pass(self, op: str, is_root: bool, is_training: bool) -> int:
        """Returns the token of a pass that begins.

        Args:
            op: Op of the model or the child.
            is_root: Whether the pass is a forward of the model itself.
            is_training: See `is_training`.
        """
        with self._lock:
            token = self._client._native.token()
            if (
                token == self._token
                and self._time == "auto"
                and self._is_over(op, is_root)
            ):
                token = self._client._advance()
            if token != self._token:
                self._begin_step(token)
            self._ops.add(op)
            if is_root:
                self._has_root = True
                self._running_count += 1
            self._trains = self._trains or is_training
            return token

    def end_pass(self, token: int, is_root: bool, result: Any) -> None:
        """Ends a pass. `result` is None if it raised an exception."""
        with self._lock:
            if is_root:
                self._running_count -= 1
            ends = self._time == "forward" or (
                self._time == "auto" and not self._trains
            )
            if is_root and ends:
                self._advance_from(token)
            if self._trains and self._time == "auto":
                self._await_backward(result)

    def abandon_pass(self) -> None:
        """Handles a forward of the model that has ended without `end_pass`."""
        with self._lock:
            self._running_count = max(0, self._running_count - 1)
            if self._time in ("auto", "forward"):
                self._advance_from(self._token)

    def end_by_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Handles a step of any optimizer of the process, after the step."""
        if self._time not in ("auto", "optimizer"):
            return
        with self._lock:
            hold = optimizers.hold_of(optimizer, self._parameters())
            # If some optimizers hold the parameters, others do not hold copies
            # of them.
            if hold == Hold.NOTHING or hold < self._hold:
                return
            self._hold = hold
            self._advance_from(self._token)

    def end_by_user(self) -> None:
        """Ends the step. From now on, only the user ends steps."""
        with self._lock:
            if self._time == "step":
                self._client._advance()
            else:
                self._time = "step"
                # An automatic rule may already have ended this step.
                self._advance_from(self._token)

    def end(self) -> None:
        """Ends a step that is still waiting for an optimizer."""
        with self._lock:
            if self._time == "auto" and self._trains and self._has_root:
                self._advance_from(self._token)

    def _begin_step(self, token: int) -> None:
        self._token = token
        # Ops that had a pass in this step.
        self._ops: set[str] = set()
        self._has_root = False
        self._trains = False
        self._has_backward = False

    def _await_backward(self, result: Any) -> None:
        import torch

        def note(gradients: Any) -> None:
            self._has_backward = True

        leaves = tensors_returned(result, torch.Tensor)
        for _, tensor in itertools.islice(leaves, _WATCHED_MAX):
            # A hook on the tensor itself would break torch.save.
            if tensor.grad_fn is not None:
                # The hook can only fail if the interpreter does.
                tensor.grad_fn.register_prehook(GuardedHook(note, _ignore))

    def _advance_from(self, token: int) -> None:
        if token >= 0 and token == self._client._native.token():
            self._client._advance()

    def _is_over(self, op: str, is_root: bool) -> bool:
        """Returns whether a pass that begins belongs to the next step."""
        # A forward may call children in other threads.
        if self._running_count > 0 and not is_root:
            return False
        if not self._trains:
            return op in self._ops
        if not (is_root or op in self._ops):
            return False
        if not self._waits_for_optimizer():
            return True
        # Libraries that make copies remove the gradients of the parameters.
        if not self._has_backward or self._hold == Hold.COPIES:
            return False
        for parameter in self._parameters():
            if parameter.grad is not None:
                return False
        # Gradients that were discarded are never used by an optimizer: a
        # gradient scaler has skipped its step.
        return True

    def _waits_for_optimizer(self) -> bool:
        if self._hold == Hold.NOTHING:
            self._asked_count += 1
            # The search takes long, so it runs only at powers of two.
            if self._asked_count & (self._asked_count - 1) == 0:
                self._hold = optimizers.search(self._parameters())
        return self._hold != Hold.NOTHING

    def _parameters(self) -> Iterator[Any]:
        model = self._model()
        return iter(()) if model is None else model.parameters()
