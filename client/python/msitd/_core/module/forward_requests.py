"""Chooses how the requests of a model's forwards become known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msitd._core.module import automatic_requests
from msitd._core.module.automatic_requests import AutomaticRequests
from msitd._core.module.batches import BatchReader
from msitd._core.module.given_requests import GivenRequests
from msitd._core.module.wrappers import PLAIN

if TYPE_CHECKING:
    import torch

    from msitd._core.client import Client
    from msitd._core.module.options import HookOptions
    from msitd._core.skips import Skips


class ForwardRequests(Protocol):
    """Records the requests of the forwards of one model."""

    def begin(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        token: int | None,
        *,
        is_root: bool,
        is_in_graph: bool,
    ) -> None:
        """Handles a forward that begins.

        Args:
            token: None if the forward is not recorded.
            is_root: Whether it is a forward of the model, not of its child.
            is_in_graph: Whether `kwargs` has the leaves of a call in a graph.
        """

    def end(self, result: Any) -> None:
        """Handles the end of a forward; `result` is None if it raised an exception."""

    def miss(self) -> None:
        """Handles a forward that begins during a pause."""


def requests_of(
    model: torch.nn.Module,
    client: Client,
    skips: Skips,
    options: HookOptions,
    op: str,
) -> ForwardRequests | None:
    """Returns what records the requests of a model; None if nothing does.

    Args:
        op: Op of the model.
    """
    if options.requests is False:
        return None
    is_pretrained = automatic_requests.can_record(model)
    if options.requests is None and not is_pretrained:
        return None
    reader = BatchReader(PLAIN.unwrap_copied(model), is_pretrained)
    if options.requests is None:
        return AutomaticRequests(client, skips, op, reader, options.objects)
    return GivenRequests(client, options.requests, reader)
