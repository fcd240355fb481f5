"""Listeners that are called for each call, and choose what is recorded of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from msitd._core.not_recorded import reason_of

if TYPE_CHECKING:
    import torch

    from msitd._core.call import Call
    from msitd._core.skips import Skips


class CallListener(Protocol):
    """Receives each call that hooks or wrapped functions would record.

    Any thread may call it, including those of autograd. An exception of a
    listener is counted, and the call that it was asked about is not recorded.
    """

    def module_begins(self, call: Call) -> None:
        """Called when a call of a module has its number."""

    def module_ends(self, call: Call) -> None:
        """Called when the call has ended, even with an exception."""

    def function_begins(self, call: Call) -> None:
        """Called when a call of a function has its number."""

    def accepts(self, call: Call, io: str) -> bool:
        """Returns whether one side of a call is recorded."""

    def cut(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the part of a tensor that is recorded: all of it, or a slice."""


def safe_listener(listener: CallListener | None, skips: Skips) -> CallListener | None:
    """Returns a listener that raises nothing and counts the exceptions of
    `listener`.
    """
    return None if listener is None else _SafeListener(listener, skips)


class _SafeListener:
    def __init__(self, listener: CallListener, skips: Skips) -> None:
        self._listener = listener
        self._skips = skips

    def module_begins(self, call: Call) -> None:
        self._tell(self._listener.module_begins, call)

    def module_ends(self, call: Call) -> None:
        self._tell(self._listener.module_ends, call)

    def function_begins(self, call: Call) -> None:
        self._tell(self._listener.function_begins, call)

    def accepts(self, call: Call, io: str) -> bool:
        try:
            return self._listener.accepts(call, io)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skips.count(call.op, "", reason_of(error))
            return False

    def cut(self, tensor: torch.Tensor) -> torch.Tensor:
        # The code that records the tensor counts the exceptions of this call.
        return self._listener.cut(tensor)

    def _tell(self, listener: Callable[[Call], None], call: Call) -> None:
        try:
            listener(call)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._skips.count(call.op, "", reason_of(error))
