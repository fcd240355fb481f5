"""The options of `register_api`, with their defaults and checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from msitd._core.api.targets import GROUPS, check_groups
from msitd._core.leaf.options import RecordOptions


@dataclass(frozen=True, kw_only=True)
class ApiOptions(RecordOptions):
    """The options of `register_api`, which describes each of them.

    Raises:
        ValueError: An option is out of its range.
    """

    groups: Iterable[str] = GROUPS
    imported: bool = False
    operators: bool = False
    nested: bool = False
    name_of: Callable[[str], str | None] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        groups = tuple(self.groups)
        check_groups(groups)
        object.__setattr__(self, "groups", groups)
