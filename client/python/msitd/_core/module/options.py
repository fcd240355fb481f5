"""The options of `register_hook`, with their defaults and checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from msitd._core.leaf.options import RecordOptions
from msitd._core.module.hooked_models import check_name
from msitd._core.module.steps import TIMES

if TYPE_CHECKING:
    from msitd._core.requests import Requests


@dataclass(frozen=True, kw_only=True)
class HookOptions(RecordOptions):
    """The options of `register_hook`, which describes each of them.

    Raises:
        ValueError: An option is out of its range.
    """

    weights: bool = False
    optimizer_state: bool = False
    time: str = "auto"
    requests: Callable[[], Requests] | Literal[False] | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer_state and not self.gradients:
            raise ValueError("optimizer_state needs gradients=True")
        if self.time not in TIMES:
            raise ValueError(f"time {self.time!r} is none of {list(TIMES)}")
        is_set = self.requests is not None and self.requests is not False
        if is_set and not callable(self.requests):
            raise ValueError(f"requests {self.requests!r} is not a function, nor False")
        if self.name is not None:
            check_name(self.name)
