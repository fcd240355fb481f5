"""Selects the forwards and the rows of a batch to dump."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msitd._core.guard import Failures

if TYPE_CHECKING:
    import torch

    from msitd.probe.recording import Recording

_logger = logging.getLogger("msitd")

_failures = Failures("token_range is not followed")


class TokenWindow:
    """Records only forwards of a model whose number, counted from 0, is in a range.

    Raises:
        ValueError: The range is invalid.
    """

    def __init__(
        self, model: torch.nn.Module, token_range: Sequence[int], recording: Recording
    ) -> None:
        given = list(token_range)
        is_right = len(given) == 2 and all(
            isinstance(each, int) and not isinstance(each, bool) for each in given
        )
        if not is_right or not 0 <= given[0] <= given[1]:
            raise ValueError(f"token_range is {token_range!r}, and not [first, last]")
        self._first, self._last = given
        self._recording = recording
        self._count = 0
        # Runs before the hooks that record, which must be on when the model
        # begins.
        self._handle = model.register_forward_pre_hook(
            _failures.guarded(self._begin), prepend=True
        )

    def remove(self) -> None:
        """Stops counting forwards."""
        self._handle.remove()

    def _begin(self, *_: Any) -> None:
        number, self._count = self._count, self._count + 1
        if self._first <= number <= self._last:
            self._recording.resume()
        else:
            self._recording.pause()


def rows_of(
    request: str, scheduled: Mapping[str, int] | None
) -> tuple[int, int] | None:
    """Returns the rows of a request: the first row, and the end after the last one.

    Returns None for all rows if the rows of requests are unknown, and `(0, 0)`
    if the request does not exist.
    """
    if scheduled is None:
        return None
    is_right = isinstance(scheduled, Mapping) and all(
        isinstance(name, str)
        and isinstance(count, int)
        and not isinstance(count, bool)
        and count >= 0
        for name, count in scheduled.items()
    )
    if not is_right:
        _logger.warning(
            "scheduled_tokens is %r, and no mapping of requests to numbers of rows: "
            "all rows are dumped",
            scheduled,
        )
        return None
    first = 0
    for name, count in scheduled.items():
        if name == request:
            return (first, first + count) if count else (0, 0)
        first += count
    return 0, 0
