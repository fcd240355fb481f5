"""The daemon itself: status, capabilities and streams."""

from __future__ import annotations

from typing import cast

from msitd.query.connection import Caller
from msitd.query.listing import Listing
from msitd.query.messages import from_message, new
from msitd.query.node_types import NodeStatus, Stream
from msitd.query.types import Capabilities


class Node:
    """The operations of `msitctl node`. Every method may raise QueryError."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def status(self) -> NodeStatus:
        """Returns the state and the counters of the daemon."""
        answer = self._caller.unary(
            "NodeService/GetNodeStatus", new("GetNodeStatusRequest"), "NodeStatus"
        )
        return cast(NodeStatus, from_message(answer))

    def capabilities(self) -> Capabilities:
        """Returns the capabilities and the limits of the daemon."""
        answer = self._caller.unary(
            "NodeService/GetCapabilities", new("GetCapabilitiesRequest"), "Capabilities"
        )
        return cast(Capabilities, from_message(answer))

    def streams(self, *, limit: int | None = None) -> Listing[Stream]:
        """Lists the connected producers by run and rank.

        Args:
            limit: Maximum number of producers; None: all.
        """
        return Listing(
            self._caller, "NodeService/ListStreams", "streams", Stream, {}, limit
        )
