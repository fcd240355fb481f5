"""One call of a module or function that is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from msitd._core.gradient.inputs import Inputs


class Call(NamedTuple):
    """A call that has begun."""

    op: str
    token: int
    # -1 if the call is not recorded.
    number: int
    # The stack of the caller, if it is recorded.
    stack: str | None
    # State for the backward of the call, if it is recorded.
    inputs: Inputs | None = None
    # Whether a checkpoint repeats the call.
    is_again: bool = False
