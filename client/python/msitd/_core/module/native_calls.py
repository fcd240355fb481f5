"""Lets native code record the calls of which arguments and results alone are recorded."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from msitd import _msit
from msitd._core.leaf import memory
from msitd._core.leaf.leaves import Call

if TYPE_CHECKING:
    from msitd._core.module.threads import Thread
    from msitd._core.recorder import Client


class Progress:
    """What the hooks of a model have seen of its ops. It is shared with native code."""

    def __init__(self) -> None:
        # Ops of which no call was recorded yet, and those of which some were.
        self.uncalled: set[str] = set()
        self.begun: set[str] = set()
        # Ops that only ran in a backward until now, where no checkpoint runs them.
        self.backward_ops: set[str] = set()
        # Whether no call is recorded that begins now. Native code does not look at it.
        self.is_paused = False
        # Whether the client is closed. Nothing is recorded any more.
        self.is_over = False

    def has_run(self, op: str) -> bool:
        """Returns whether a call in a backward may be the second run of another."""
        if op in self.uncalled:
            self.backward_ops.add(op)
        return op not in self.backward_ops


class NativeCalls:
    """The recorders of the ordinary calls of one model.

    Args:
        client: Where to record.
        thread: Where each thread is in the model.
        progress: See Progress.
        inputs: Records arguments; None if they are not recorded.
        outputs: The same of results.
        aliases: Whether tensors that are known become aliases.
        tokens: The tokens to record; None for all.
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
        # A caller with a model has torch.
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
        """Returns what begins and ends ordinary calls of `op`.

        Each returns False where a call is not ordinary, and then has done nothing.
        """
        if self._shared is None:
            return leave_to_python()
        recorder = _msit.CallRecorder(self._shared, op, off)
        return recorder.begin, recorder.end


def leave_to_python() -> tuple[Callable[..., bool], Callable[..., bool]]:
    """Returns the same for hooks whose calls are never ordinary."""
    return _is_not_recorded, _is_not_recorded


def _is_not_recorded(*_: Any) -> bool:
    return False
