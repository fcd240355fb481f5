"""Runs msitctl for the interfaces of other tools."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msitd._core.daemon.programs import query_endpoint, query_environment
from msitd._core.installed import find_program

# Functions that map a path of the program to its real location. `msitctl exec`
# may map paths, and msitctl is not a Python program that it could patch.
mapped_paths: list[Callable[[str], str]] = []

# Exit code of msitctl if some of the requested data is missing.
_EXIT_PARTIAL = 4
_MESSAGE_CHARS = 2000
_PIECE_BYTES = 1 << 16
# An idle msitctl process ends at once.
_END_MAX_S = 5.0


def _mapped(word: str) -> str:
    for each in mapped_paths:
        word = each(word)
    return word


@dataclass(frozen=True)
class Answer:
    """The output of msitctl."""

    text: str
    # The missing part, or "" if the answer is complete.
    lack: str


class Msitctl:
    """The program, and the daemon that it queries. Any thread may use it.

    One process runs all commands, from `begin` or the first command until
    `close`.

    Args:
        endpoint: The value for `msitd.Client`.

    Raises:
        FileNotFoundError: msitctl is not installed.
    """

    def __init__(self, endpoint: str | None) -> None:
        self._program = find_program("msitctl")
        where = query_endpoint(endpoint)
        self._flags = [] if where is None else ["--endpoint", where]
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = ""
        _all.add(self)

    def begin(self) -> None:
        """Starts the process, so that the first command does not wait for it."""
        with self._lock:
            self._running()

    def run(self, words: list[str]) -> Answer:
        """Runs one command.

        Raises:
            RuntimeError: The command failed. The text has its last output.
        """
        line = json.dumps([*self._flags, *map(_mapped, words)])
        with self._lock:
            answer = self._ask(line)
        said = answer["stderr"].strip()[-_MESSAGE_CHARS:]
        code = answer["exit_code"]
        if code not in (0, _EXIT_PARTIAL):
            raise RuntimeError(said or f"msitctl has ended with {code}")
        return Answer(answer["stdout"], said if code == _EXIT_PARTIAL else "")

    def close(self) -> None:
        """Ends the process. A later command starts another one."""
        with self._lock:
            self._end()

    def forget(self) -> None:
        """Forgets the process in a forked child, because it belongs to the parent."""
        process, self._process = self._process, None
        self._lock = threading.Lock()
        if process is None:
            return
        _close_pipes(process)
        # Prevents a wait for a process that is not a child.
        process.returncode = 0

    def _ask(self, line: str) -> dict[str, Any]:
        process = self._running()
        try:
            said = _exchange(process, line.encode() + b"\n")
        except OSError:
            said = b""
        if said:
            answer: dict[str, Any] = json.loads(said.decode(errors="replace"))
            return answer
        self._process = None
        process.kill()
        code = process.wait()
        assert process.stderr is not None
        why = (process.stderr.read() or b"").decode(errors="replace").strip()
        _close_pipes(process)
        raise RuntimeError(why[-_MESSAGE_CHARS:] or f"msitctl has ended with {code}")

    def _running(self) -> subprocess.Popen[bytes]:
        """Returns the process, which has the working directory of this process."""
        folder = os.getcwd()
        if self._process is not None and self._folder != folder:
            self._end()
        if self._process is None:
            self._folder = folder
            self._process = subprocess.Popen(
                [self._program, "batch"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Unbuffered: a forked child closes the pipes and must have
                # nothing to flush.
                bufsize=0,
                env=query_environment(),
                # Ctrl-C is for the program, which still writes its data when it
                # ends.
                start_new_session=True,
            )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        try:
            process.stdin.close()
            process.wait(_END_MAX_S)
        except (OSError, subprocess.TimeoutExpired):
            process.kill()
            process.wait()
        _close_pipes(process)


def _exchange(process: subprocess.Popen[bytes], line: bytes) -> bytes:
    """Returns the line that answers a command; nothing if the process has ended."""
    assert process.stdin is not None
    assert process.stdout is not None
    while line:
        line = line[os.write(process.stdin.fileno(), line) :]
    said = bytearray()
    while not said.endswith(b"\n"):
        piece = os.read(process.stdout.fileno(), _PIECE_BYTES)
        if not piece:
            return b""
        said += piece
    return bytes(said)


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()


_all: weakref.WeakSet[Msitctl] = weakref.WeakSet()


def _forget_all() -> None:
    for each in list(_all):
        each.forget()


# A surviving child would keep the pipe open, whose end is the signal to exit.
os.register_at_fork(after_in_child=_forget_all)
