"""Who is told of calls, and chooses what is recorded of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

    from msitd._core.leaf.leaves import Call


class CallListener(Protocol):
    """Looks at each call that hooks or wrapped functions would record.

    Any thread may call it, autograd's among them. What it raises is counted, and
    the call is not recorded.
    """

    def module_begins(self, call: Call) -> None:
        """Is told that a call of a module has its number."""

    def module_ends(self, call: Call) -> None:
        """Is told that it has ended, also by an exception."""

    def function_begins(self, call: Call) -> None:
        """Is told that a call of a function has its number."""

    def accepts(self, call: Call, io: str) -> bool:
        """Returns whether a side of a call is recorded."""

    def cut(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns what is recorded of a tensor: all of it, or a part."""
