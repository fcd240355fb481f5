"""Tells exec, which waits for the command, what one of its Pythons has done."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

# Those of the system, whatever the program or `paths` makes of the names.
_open, _write, _close = os.open, os.write, os.close


def _append(folder: str, name: str, text: str) -> None:
    try:
        file = _open(
            os.path.join(folder, name), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600
        )
    except OSError:
        # The folder is not in this container, or exec has ended.
        return
    # At once, so that processes do not mix.
    _write(file, text.encode())
    _close(file)


def teller_of_runs(folder: str) -> Callable[[str, str | None, str], None]:
    """Returns what is to be told of each client that opens: see openings.opened."""

    def tell(asked: str, endpoint: str | None, run: str) -> None:
        # Others are the program's own.
        if asked != os.environ.get("MSITD_RUN"):
            return
        if endpoint in (None, os.environ.get("MSITD_ENDPOINT")):
            _append(folder, "runs", run + "\0")

    return tell


def fail(folder: str, text: str) -> None:
    """Says that this process records nothing, or nothing more."""
    _append(folder, "failed", text + "\0")
    sys.stderr.write(f"msitctl exec: {text}\n")
