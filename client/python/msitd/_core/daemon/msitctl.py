"""Runs msitctl for a face."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from msitd._core.daemon.programs import find_program, query_endpoint, query_environment

# Where a path is that the program has named. exec may map it, and msitctl is no Python.
mapped_paths: list[Callable[[str], str]] = []

# What msitctl exits with if some of what was asked for is not there.
_EXIT_PARTIAL = 4
_MESSAGE_CHARS = 2000


def _mapped(word: str) -> str:
    for each in mapped_paths:
        word = each(word)
    return word


@dataclass(frozen=True)
class Answer:
    """What msitctl has printed."""

    text: str
    # What is lacking; empty if nothing is.
    lack: str


class Msitctl:
    """The program, and the daemon that it asks. Any thread may use it.

    Args:
        endpoint: As `msitd.Client` takes it.

    Raises:
        FileNotFoundError: It is not installed.
    """

    def __init__(self, endpoint: str | None) -> None:
        self._command = [find_program("msitctl")]
        where = query_endpoint(endpoint)
        if where is not None:
            self._command += ["--endpoint", where]

    def run(self, words: list[str]) -> Answer:
        """Runs one command.

        Raises:
            RuntimeError: It failed; the text has what it said last.
        """
        done = subprocess.run(
            [*self._command, *map(_mapped, words)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=query_environment(),
            check=False,
            # Ctrl-C is for the program, whose end still writes what it has.
            start_new_session=True,
        )
        said = done.stderr.strip()[-_MESSAGE_CHARS:]
        if done.returncode not in (0, _EXIT_PARTIAL):
            raise RuntimeError(said or f"msitctl has ended with {done.returncode}")
        return Answer(done.stdout, said if done.returncode == _EXIT_PARTIAL else "")
