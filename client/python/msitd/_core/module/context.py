"""The recorders and the state that the hooks of one model share."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msitd._core.client import Client
    from msitd._core.gradient.backward import Backward
    from msitd._core.graph.graphs import Note
    from msitd._core.leaf.leaves import LeafRecorder
    from msitd._core.listening import CallListener
    from msitd._core.module.forward_requests import ForwardRequests
    from msitd._core.module.native_calls import Progress
    from msitd._core.module.options import HookOptions
    from msitd._core.module.placed_hooks import PlacedHooks
    from msitd._core.module.steps import Steps
    from msitd._core.module.threads import Thread
    from msitd._core.skips import Skips


@dataclass(frozen=True, kw_only=True)
class ModelContext:
    """The recorders and the state of one hooked model.

    Hooks do not read it: the objects that make them bind each value once.

    Attributes:
        tokens: References to the tokens to record, or None for all.
        requests: Records the requests of forwards, or None.
        backward: None if gradients are not recorded.
        note: Records into a graph that Dynamo traces. None if graphs end at hooks.
        is_tracing: Returns whether Dynamo traces the caller into such a graph.
    """

    client: Client
    options: HookOptions
    tokens: Collection[int] | None
    skips: Skips
    thread: Thread
    progress: Progress
    placed: PlacedHooks
    steps: Steps
    requests: ForwardRequests | None
    leaves: LeafRecorder
    listener: CallListener | None
    backward: Backward | None
    note: Note | None
    is_tracing: Callable[[], bool]

    def sides_in_graphs(self) -> tuple[bool, bool]:
        """Returns whether graphs need the arguments, and whether the results."""
        needs_all = self.backward is not None
        return self.options.inputs or needs_all, self.options.outputs or needs_all
