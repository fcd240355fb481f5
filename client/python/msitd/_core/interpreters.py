"""Refuses interpreters in which nothing of this package works."""

from __future__ import annotations

import importlib
from typing import Any


def require_main_interpreter() -> None:
    """Checks that this is no subinterpreter.

    The library has one state for each process, and so have torch and numpy.

    Raises:
        ImportError: It is one.
    """
    # Their names until Python 3.12, and from 3.13 on.
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
