"""A daemon for one program, used if none is running."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence

from msitd._core.installed import find_program

# A daemon that exits is detected at once, so a slow start is waited for.
_START_MAX_S = 60.0
_STOP_MAX_S = 30.0
_POLL_S = 0.05
_LAST_WORDS_BYTES = 2048


class PrivateDaemon:
    """A daemon that listens only on its own Unix socket.

    It ends with `stop`. If the system has `setpriv` and the main thread starts
    it, it also ends with this process. Its store is a hidden folder in
    `folder`. `flags` are additional flags of msitd.

    Raises:
        FileNotFoundError: The program `msitd` is not installed.
        RuntimeError: The daemon did not start. The text has its last output.
    """

    def __init__(self, folder: str, flags: Sequence[str] = ()) -> None:
        program = find_program("msitd")
        self._flags = list(flags)
        self._data_dir = tempfile.mkdtemp(prefix=".msitd-", dir=folder)
        # In /tmp, because the path of a Unix socket has at most 107 bytes.
        self._socket_dir = tempfile.mkdtemp(prefix="msitd-", dir="/tmp")
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._start(program)
        except BaseException:
            self.stop()
            raise

    @property
    def endpoint(self) -> str:
        """The value for `msitd.Client`."""
        return f"unix:{self._socket_dir}"

    @property
    def store(self) -> str:
        """The folder of the store, for `msitd --data-dir`."""
        return os.path.join(self._data_dir, "data")

    def stop(self, keeps_store: bool = False) -> None:
        """Stops the daemon, and removes its store unless `keeps_store` is set."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(_STOP_MAX_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self._socket_dir, ignore_errors=True)
        if not keeps_store:
            shutil.rmtree(self._data_dir, ignore_errors=True)

    def _start(self, program: str) -> None:
        command = [program, "--data-dir", os.path.join(self._data_dir, "data")]
        command += ["--socket-dir", self._socket_dir, "--listen", "none"]
        # The store is removed with the daemon.
        command += ["--durable", "false", "--share-equal-bytes", "false"]
        command += self._flags
        setpriv = shutil.which("setpriv")
        # Otherwise the daemon would end with the thread that started it.
        is_main = threading.current_thread() is threading.main_thread()
        if setpriv is not None and is_main:
            command = [setpriv, "--pdeathsig", "TERM", *command]
        # Without the variables of a service that this program may be part of.
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("WATCHDOG_", "LISTEN_"))
        }
        path = os.path.join(self._socket_dir, "ready")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind(path)
            ready.settimeout(_POLL_S)
            with open(self._log, "ab") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**environment, "NOTIFY_SOCKET": path},
                    # Ctrl-C is for the program, which still writes its data
                    # then.
                    start_new_session=True,
                )
            self._wait_until_ready(ready)

    def _wait_until_ready(self, ready: socket.socket) -> None:
        deadline = time.monotonic() + _START_MAX_S
        while time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError):
                if b"READY=1" in ready.recv(256):
                    return
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(
                    f"the private daemon exited immediately: {self._last_words()}"
                )
        raise RuntimeError(
            f"the private daemon has not started after {_START_MAX_S:.0f} s: "
            f"{self._last_words()}"
        )

    @property
    def _log(self) -> str:
        return os.path.join(self._socket_dir, "log")

    def _last_words(self) -> str:
        with open(self._log, "rb") as log:
            lines = (
                log.read()[-_LAST_WORDS_BYTES:].decode(errors="replace").splitlines()
            )
        return lines[-1] if lines else "its log is empty"
