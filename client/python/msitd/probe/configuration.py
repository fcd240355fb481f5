"""The attributes of a debugger that programs use in msprobe beside its methods."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msitd.probe.refused import note_once

if TYPE_CHECKING:
    from msitd.probe.settings import Settings


class Configuration:
    """The values in effect that programs read in `debugger.config`.

    The names are those of msprobe 26.2.0. An inference engine looks up the
    level, for example, because only modules need a model.
    """

    framework = "pytorch"
    async_dump = False

    def __init__(self, settings: Settings) -> None:
        self.task = settings.task
        self.level = settings.level
        self.dump_path = settings.dump_path
        self.rank = list(settings.ranks)
        self.step = list(settings.steps)
        self.scope = list(settings.scope)
        self.tensor_list = list(settings.tensor_names)
        sides = list(settings.data_mode)
        self.data_mode = ["all"] if len(sides) == 4 else sides
        self.list = list(settings.names)
        self.summary_mode = settings.summary_mode
        self.risk_level = settings.risk_level
        self.request_id = settings.request_id
        self.dump_enable = settings.is_enabled
        self.extra_info = settings.has_extra_info
        self.precision = "low" if settings.has_norms else "high"

    def __repr__(self) -> str:
        values: dict[str, Any] = vars(self)
        return f"Configuration({', '.join(f'{k}={v!r}' for k, v in values.items())})"


class Service:
    """The part of `debugger.service` that training frameworks use.

    They dump each phase of a step into a folder of its own: they set
    `service.config.dump_path` before the phase, and call `reset_status` after it.

    Args:
        config: The configuration of the debugger.
        move: Called with a new `dump_path`.
        begin_again: Counts the steps from the first one.
    """

    def __init__(
        self,
        config: Configuration,
        move: Callable[[str], None],
        begin_again: Callable[[], None],
    ) -> None:
        self.config = _Movable(config, move)
        self.reset_status = begin_again
        self._reset_status = begin_again


class _Movable:
    """A configuration whose `dump_path` can be set."""

    def __init__(self, config: Configuration, move: Callable[[str], None]) -> None:
        vars(self).update(_config=config, _move=move)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_config"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "dump_path":
            note_once(f"service.config.{name} cannot be set: it keeps its value")
            return
        vars(self)["_config"].dump_path = os.fspath(value)
        vars(self)["_move"](os.fspath(value))
