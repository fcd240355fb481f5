"""The daemon itself."""

from __future__ import annotations

from typing import cast

from msitd.query.connection import Caller
from msitd.query.messages import from_message, new
from msitd.query.types import Capabilities, NodeStatus


class Node:
    """What `msitctl node` does. Every method may raise QueryError."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def status(self) -> NodeStatus:
        """Returns the state and the counters of the daemon."""
        answer = self._caller.unary(
            "NodeService/GetNodeStatus", new("GetNodeStatusRequest"), "NodeStatus"
        )
        return cast(NodeStatus, from_message(answer))

    def capabilities(self) -> Capabilities:
        """Returns what the daemon can do, and its limits."""
        answer = self._caller.unary(
            "NodeService/GetCapabilities", new("GetCapabilitiesRequest"), "Capabilities"
        )
        return cast(Capabilities, from_message(answer))
