"""The settings of SGLang's dumper, under its own names."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from msitd.engines.sglang.filters import Filter

_logger = logging.getLogger("msitd")

_ENV_PREFIX = "DUMPER_"
_MODES = ("core", "all", "off")
_TRUE = ("true", "1")

# Settings that are not supported, and their alternatives.
REFUSED = {
    "source_patcher_config": "call dumper.dump where the patch would",
    "grafter_enable": "msitd.inject gives modules what a run has",
}


@dataclass(frozen=True)
class DumperConfig:
    """How a dumper records. Each field is an environment variable `DUMPER_<FIELD>`.

    Attributes:
        enable: Whether it records.
        filter: An expression over the tags of a dump, such as `layer_id in [0,
            3]` or `search("attn", name)`. Dumps for which it is false are
            skipped.
        dir: A folder for files in SGLang's format, in addition to the run.
        enable_output_file: Whether values are kept at all: in the run, and in
            `dir`.
        enable_output_console: Whether a line is printed for each dump.
        enable_value: Whether `dump` keeps the value.
        enable_grad: Whether `dump` also keeps the gradient.
        enable_model_value: Whether `dump_model` keeps the parameters.
        enable_model_grad: Whether `dump_model` keeps their gradients.
        exp_name: The run. Default: MSITD_RUN, or `dump`. If the run exists, the
            name gets a number.
        cleanup_previous: Whether an existing run of that name is deleted first.
        server_port: With `reuse` or a number, the dumper may be enabled later.
        non_intrusive_mode: The records of hooks on the model. `core` records
            the batch of each forward, `all` every module as well, and `off`
            nothing.
    """

    enable: bool = False
    filter: str | None = None
    dir: str | None = None
    enable_output_file: bool = True
    enable_output_console: bool = False
    enable_value: bool = True
    enable_grad: bool = False
    enable_model_value: bool = False
    enable_model_grad: bool = False
    exp_name: str | None = None
    cleanup_previous: bool = False
    server_port: str = "-1"
    non_intrusive_mode: str = "core"

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            kind = bool if isinstance(each.default, bool) else str
            if not isinstance(value, kind) and (value is not None or each.default):
                raise TypeError(
                    f"{each.name}: {value!r} is no {kind.__name__} of a dumper"
                )
        if self.non_intrusive_mode not in _MODES:
            raise ValueError(
                f"non_intrusive_mode {self.non_intrusive_mode!r} is none of {_MODES}"
            )
        if self.filter is not None:
            Filter(self.filter)
        if self.server_port != "reuse":
            int(self.server_port)

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None) -> DumperConfig:
        """Returns the configuration from the environment; warns of unsupported
        settings.
        """
        env = os.environ if environment is None else environment
        for name, instead in REFUSED.items():
            text = env.get(_ENV_PREFIX + name.upper(), "").strip().lower()
            if text not in ("", "0", "false"):
                _logger.warning(
                    "%s%s has no effect here: %s", _ENV_PREFIX, name.upper(), instead
                )
        found = {}
        for each in fields(cls):
            text = env.get(_ENV_PREFIX + each.name.upper(), "")
            if text.strip():
                found[each.name] = _parsed(text, each.default)
        return cls(**found)

    @property
    def may_be_enabled(self) -> bool:
        """Whether it records now, or can be enabled."""
        return self.enable or self.server_port == "reuse" or int(self.server_port) > 0

    def changed(self, changes: Mapping[str, Any]) -> DumperConfig:
        """Returns a copy with other values.

        Raises:
            ValueError: A field does not exist or is not supported.
            TypeError: A value has another type.
        """
        for name in changes:
            if name in REFUSED:
                raise ValueError(f"{name} has no effect here: {REFUSED[name]}")
            if name not in _NAMES:
                raise ValueError(f"{name} is none of {sorted(_NAMES)}")
        return replace(self, **changes)

    def with_defaults(self, defaults: Mapping[str, Any]) -> DumperConfig:
        """Returns a copy with other values where the environment has none."""
        return self.changed(
            {
                name: value
                for name, value in defaults.items()
                if os.environ.get(_ENV_PREFIX + name.upper()) is None
            }
        )


def _parsed(text: str, default: Any) -> Any:
    return text.strip().lower() in _TRUE if isinstance(default, bool) else text


_NAMES = {each.name for each in fields(DumperConfig)}
