"""Refuses interpreters in which this package cannot work."""

from __future__ import annotations

import importlib
from typing import Any


def require_main_interpreter() -> None:
    """Checks that the caller does not run in a subinterpreter.

    The native library has one state per process, as torch and numpy do.

    Raises:
        ImportError: This is a subinterpreter.
    """
    # The name of the module until Python 3.12, and from 3.13 on.
    for name in ("_xxsubinterpreters", "_interpreters"):
        try:
            interpreters: Any = importlib.import_module(name)
        except ImportError:
            continue
        if interpreters.get_current() != interpreters.get_main():
            raise ImportError(
                "msitd cannot be imported in a subinterpreter: it works in the main "
                "interpreter of a process alone",
                name="msitd",
            )
