"""Lets native code record calls of which only arguments and results are recorded."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from msitd import _msit
from msitd._core.call import Call
from msitd._core.leaf import memory

if TYPE_CHECKING:
    from msitd._core.client import Client
    from msitd._core.module.threads import Thread


class Progress:
    """The state of a model's ops, shared with native code."""

    def __init__(self) -> None:
        # Ops without a recorded call so far, and ops with some.
        self.uncalled: set[str] = set()
        self.begun: set[str] = set()
        # Ops that so far only ran in a backward, without a checkpoint that
        # repeats them.
        self.backward_ops: set[str] = set()
        # Whether calls that begin now are not recorded. Native code does not
        # read it.
        self.is_paused = False
        # Whether the client is closed. Nothing is recorded any more.
        self.is_over = False

    def has_run(self, op: str) -> bool:
        """Returns whether a call in a backward may repeat an earlier call."""
        if op in self.uncalled:
            self.backward_ops.add(op)
        return op not in self.backward_ops


class NativeCalls:
    """The native recorders of the ordinary calls of one model.

    Args:
        client: The client that records.
        thread: The state of each thread in the model.
        progress: See Progress.
        inputs: Records arguments, or None if they are not recorded.
        outputs: Records results, or None if they are not recorded.
        aliases: Whether tensors that were recorded before become aliases.
        tokens: The tokens to record, or None for all.
    """

    def __init__(
        self,
        client: Client,
        thread: Thread,
        progress: Progress,
        *,
        inputs: Any,
        outputs: Any,
        aliases: bool,
        tokens: Collection[int] | None,
    ) -> None:
        self._shared: _msit.SharedByCalls | None = None
        if memory.torch_reader() is None:
            return
        # torch is installed, since there is a model.
        import torch

        self._shared = _msit.SharedByCalls(
            client=client._native,
            thread=thread,
            input_side=inputs,
            output_side=outputs,
            has_aliases=aliases,
            tokens=tokens,
            begun=progress.begun,
            uncalled=progress.uncalled,
            backward_ops=progress.backward_ops,
            call_type=Call,
            backward_id=torch._C._current_graph_task_id,
        )

    def hooks_of(
        self, op: str, off: Call
    ) -> tuple[Callable[..., bool], Callable[..., bool]]:
        """Returns the functions that begin and end ordinary calls of `op`.

        Each of them returns False for a call that is not ordinary, and then has
        no effect.
        """
        if self._shared is None:
            return leave_to_python()
        recorder = _msit.CallRecorder(self._shared, op, off)
        return recorder.begin, recorder.end


def leave_to_python() -> tuple[Callable[..., bool], Callable[..., bool]]:
    """Returns such functions for hooks whose calls are never ordinary."""
    return _is_not_recorded, _is_not_recorded


def _is_not_recorded(*_: Any) -> bool:
    return False
