"""The configuration of a debugger, under the names that msprobe has for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
        self.data_mode = list(settings.data_mode)
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
