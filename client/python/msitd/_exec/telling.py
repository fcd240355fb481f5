"""Reports events of a Python process to exec, which waits for the command."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

# The functions of the system, before the program or `paths` replaces them.
_open, _write, _close = os.open, os.write, os.close


def _append(folder: str, name: str, text: str) -> None:
    try:
        file = _open(
            os.path.join(folder, name), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600
        )
    except OSError:
        # The folder does not exist in this container, or exec has ended.
        return
    # In one write, so that the lines of several processes do not mix.
    _write(file, text.encode())
    _close(file)


def teller_of_runs(folder: str) -> Callable[[str, str | None, str], None]:
    """Returns the function to call for each client that opens: see openings.opened."""

    def tell(asked: str, endpoint: str | None, run: str) -> None:
        # Other runs belong to the program.
        if asked != os.environ.get("MSITD_RUN"):
            return
        if endpoint in (None, os.environ.get("MSITD_ENDPOINT")):
            _append(folder, "runs", run + "\0")

    return tell


def vary(folder: str) -> None:
    """Reports that the variation of this run has been applied in this process."""
    _append(folder, "varied", "\0")


def fail(folder: str, text: str) -> None:
    """Reports that this process records nothing, or nothing more."""
    _append(folder, "failed", text + "\0")
    sys.stderr.write(f"msitctl exec: {text}\n")
