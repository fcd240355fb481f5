"""A connection to one daemon, with its queries by noun."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msitd.query.captures import Captures
from msitd.query.comparisons import Comparisons
from msitd.query.node import Node
from msitd.query.runs import Runs
from msitd.query.tensors import Tensors

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from msitd.query.connection import Caller


class Connection:
    """A connection to one daemon. Thread-safe.

    Nothing is sent before the first call. After a fork, the child must create
    its own connection.
    """

    runs: Runs
    tensors: Tensors
    comparisons: Comparisons
    captures: Captures
    node: Node

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.runs = Runs(caller)
        self.tensors = Tensors(caller)
        self.comparisons = Comparisons(caller)
        self.captures = Captures(caller)
        self.node = Node(caller)

    @property
    def daemon_id(self) -> str:
        """Id that the daemon reported in its last answer; empty before that.

        Connections with equal ids lead to the same daemon. A daemon has a new
        id after each start.
        """
        return self._caller.daemon_id

    def close(self) -> None:
        """Ends all calls. Further calls of `close` have no effect."""
        self._caller.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
