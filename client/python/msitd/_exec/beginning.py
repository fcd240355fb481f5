"""Prepares a Python process of a command before its program runs."""

from __future__ import annotations

import sys

from msitd._core import installed, openings
from msitd._exec import names, paths, telling, torch_import
from msitd._exec.program_folder import program_folder
from msitd._exec.settings import read_settings


def begin() -> None:
    """Applies the settings of exec to this process. Raises nothing."""
    try:
        settings = read_settings()
        if settings is None:
            return
        openings.opened.append(telling.teller_of_runs(settings.folder))
        folder = program_folder()
        if folder is not None:
            installed.add_folder(folder)
        names.install()
        paths.install(settings.paths)
        torch_import.install(settings)
    except Exception as error:  # noqa: BLE001 - never the program's problem
        sys.stderr.write(f"msitctl exec: nothing is recorded: {error}\n")
