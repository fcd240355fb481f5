"""The daemon of one worker, and the cleanup of folders of killed workers."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Sequence
from typing import IO

from msitd._core.daemon.private_daemon import PrivateDaemon

_PREFIX = "msitd-fleet-"
_LOCK = "lock"


class OwnDaemon:
    """A private daemon that may read from certain other daemons and archives.

    `config` has more configuration of msitd as TOML, such as the server of
    archives. The store is a folder in the temporary folder of the machine. If
    this process is killed, a later worker removes it.
    """

    def __init__(
        self, peers: Sequence[str], archives: Sequence[str], config: str = ""
    ) -> None:
        base = tempfile.gettempdir()
        _remove_left(base)
        self._folder, self._lock = _make_folder(base)
        flags: list[str] = []
        if config:
            file = os.path.join(self._folder, "msitd.toml")
            with open(file, "w", encoding="utf-8") as out:
                out.write(config)
            flags += ["--config", file]
        for peer in peers:
            flags += ["--peers", peer]
        for archive in archives:
            flags += ["--archives", archive]
        try:
            self._daemon = PrivateDaemon(self._folder, flags)
        except BaseException:
            self._lock.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    @property
    def endpoint(self) -> str:
        """The endpoint for gRPC clients."""
        return f"{self._daemon.endpoint}/msitd.sock"

    def stop(self) -> None:
        """Stops the daemon and removes its data."""
        self._daemon.stop()
        self._lock.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _make_folder(base: str) -> tuple[str, IO[bytes]]:
    """Creates a folder that is reserved as long as its lock is open."""
    while True:
        folder = tempfile.mkdtemp(prefix=_PREFIX, dir=base)
        path = os.path.join(folder, _LOCK)
        lock = open(path, "wb")  # noqa: SIM115
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another worker may just have removed it as an abandoned folder.
        if os.path.exists(path):
            return folder, lock
        lock.close()


def _remove_left(base: str) -> None:
    """Removes folders of this user that no process holds."""
    for entry in os.scandir(base):
        if not entry.name.startswith(_PREFIX):
            continue
        with contextlib.suppress(OSError):
            if entry.stat(follow_symlinks=False).st_uid != os.getuid():
                continue
            with open(os.path.join(entry.path, _LOCK), "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(entry.path, ignore_errors=True)
