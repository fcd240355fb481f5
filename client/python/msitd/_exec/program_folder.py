"""Finds the programs that belong to the running exec."""

from __future__ import annotations

import os

_PROGRAM = "msitctl"
# Maximum number of processes between exec and this one.
_DEPTH_MAX = 64


def program_folder() -> str | None:
    """Returns the folder of the msitctl that started this process, directly or not.

    Interfaces that write folders need msitctl, which may be neither in PATH nor
    next to Python. Returns None in a container in which exec is not visible.
    """
    pid = os.getppid()
    for _ in range(_DEPTH_MAX):
        if pid <= 1:
            return None
        try:
            program = os.readlink(f"/proc/{pid}/exe")
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                # The process name, in parentheses, may contain spaces.
                parent = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return None
        if os.path.basename(program) == _PROGRAM:
            return os.path.dirname(program)
        pid = parent
    return None
