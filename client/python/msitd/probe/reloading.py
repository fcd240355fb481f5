"""Reads the configuration file again while the program runs."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import Any

from msitd.probe.settings import Settings, read_settings

_logger = logging.getLogger("msitd")

# Intervals as in msprobe: checks are rarer while nothing is dumped.
_ENABLED_S = 0.5
_DISABLED_S = 3.0


class Reloading:
    """Reads a file again once it has changed, if it has the key `dump_enable`."""

    def __init__(
        self, config_path: str | None, arguments: Mapping[str, Any], settings: Settings
    ) -> None:
        self._path = config_path
        self._arguments = arguments
        self._is_on = config_path is not None and settings.is_enabled is not None
        self._known = self._signature() if self._is_on else None
        self._looked = time.monotonic()

    def look(self, settings: Settings) -> Settings | None:
        """Returns the new contents of the file; None if nothing has changed.

        A file that cannot be read changes nothing, which is logged once. If the
        file no longer has `dump_enable`, the earlier value stays.
        """
        if not self._is_on:
            return None
        now = time.monotonic()
        if now - self._looked < (_ENABLED_S if settings.is_enabled else _DISABLED_S):
            return None
        self._looked = now
        signature = self._signature()
        if signature is None or signature == self._known:
            return None
        self._known = signature
        try:
            found = read_settings(self._path, self._arguments)
        except (OSError, ValueError) as error:
            _logger.warning("the configuration stays as it was: %s", error)
            return None
        if found.dump_path != settings.dump_path:
            _logger.warning(
                "dump_path stays %s until the program ends", settings.dump_path
            )
        is_enabled = found.is_enabled
        if is_enabled is None:
            is_enabled = settings.is_enabled
        kept = {"dump_path": settings.dump_path, "is_enabled": is_enabled}
        return Settings(**{**vars(found), **kept})

    def _signature(self) -> tuple[int, int] | None:
        assert self._path is not None
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size
