"""The options that recordings of modules and of functions have in common."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from msitd._core.leaf.stacks import STACK_LEVELS


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """The parts of each call that are recorded; see `register_hook`.

    Raises:
        ValueError: An option is out of its range.
    """

    inputs: bool = True
    outputs: bool = True
    values: bool = True
    stack: str = "none"
    aliases: bool = False
    objects: bool = False
    gradients: bool = False
    op_pattern: str | Iterable[str] | None = None
    tokens: Collection[int] | None = None

    def __post_init__(self) -> None:
        if self.stack not in STACK_LEVELS:
            raise ValueError(f"stack {self.stack!r} is none of {list(STACK_LEVELS)}")
        if self.op_pattern is not None and not isinstance(self.op_pattern, str):
            # The models of one registration all read the patterns.
            object.__setattr__(self, "op_pattern", tuple(self.op_pattern))
