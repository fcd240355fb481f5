"""What each thread that runs a hooked model has for itself."""

from __future__ import annotations

import threading

from msitd._core.identities import Identities
from msitd._core.leaves import Call


class Forward:
    """Where the forward of one thread is."""

    __slots__ = ("calls", "depth", "token", "trains")

    def __init__(self) -> None:
        # How many calls that could be passes are nested now. The outermost is one: its
        # token, and whether it trains.
        self.depth = 0
        self.token = 0
        self.trains = False
        # Calls that have not ended.
        self.calls: list[Call] = []


class Thread(threading.local):
    """Where a thread is, and which tensors it knows."""

    def __init__(self) -> None:
        self.forward = Forward()
        self.known: Identities | None = None
        # Torch does not count what the kernels of a graph change.
        self.is_in_graph = False

    def identities(self) -> Identities | None:
        """Returns which tensors have not changed; None if nothing can tell."""
        if self.is_in_graph:
            return None
        if self.known is None:
            self.known = Identities()
        return self.known
