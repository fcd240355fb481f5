"""An ordinary user, with a home of their own, and the personal daemon of that user."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msitd

from daemon import BIN_DIR

# Any number that is not the one of a user of this machine.
UID = 54321
IDLE_EXIT_S = 2
WAIT_S = 30.0


class Person:
    """Runs programs as a user who is not root.

    A test that does not run as root runs them as its own user.
    """

    def __init__(self) -> None:
        # Sockets have short paths.
        self.folder = Path(tempfile.mkdtemp(prefix="msitd-p-", dir="/tmp"))
        self.home = self.folder / "home"
        self.runtime = self.folder / "run"
        self.state = self.home / ".local/state/msitd"
        for path in (self.home, self.runtime):
            path.mkdir(mode=0o700)
        self.is_other = os.geteuid() == 0
        self.environment = {
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.runtime),
            "PATH": f"{BIN_DIR}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(Path(msitd.__file__).parents[1]),
        }
        self.configure(f"idle_exit_s = {IDLE_EXIT_S}\n")
        self.own()

    def own(self) -> None:
        """Gives all files to the user."""
        if not self.is_other:
            return
        for path in (self.folder, *self.folder.rglob("*")):
            os.chown(path, UID, UID, follow_symlinks=False)

    def configure(self, text: str) -> None:
        """Writes the configuration of the personal daemon."""
        file = self.home / ".config/msitd/msitd.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.own()

    def start(self, *words: str, **options: Any) -> "subprocess.Popen[str]":
        """Starts a program."""
        variables = {**self.environment, **options.pop("variables", {})}
        user: dict[str, Any] = {}
        if self.is_other:
            user = {"user": UID, "group": UID, "extra_groups": []}
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.home,
            env={name: value for name, value in variables.items() if value},
            **user,
            **options,
        )

    def run(
        self, *words: str, expect: int = 0, **options: Any
    ) -> "subprocess.CompletedProcess[str]":
        """Runs a program, and checks its exit code."""
        process = self.start(*words, **options)
        out, err = process.communicate(timeout=120)
        assert process.returncode == expect, (words, out, err)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def python(self, text: str, **options: Any) -> "subprocess.CompletedProcess[str]":
        return self.run(sys.executable, "-c", text, **options)

    @property
    def socket(self) -> Path:
        return self.runtime / "msitd/msitd.sock"

    def daemons(self) -> list[int]:
        """Returns the process ids of the daemons of this user."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "environ").read_bytes().split(b"\0")
                name = (entry / "comm").read_text().strip()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            ours = f"XDG_RUNTIME_DIR={self.runtime}".encode()
            if name == "msitd" and ours in words and state != "Z":
                found.append(int(entry.name))
        return found

    def wait_for_end(self) -> None:
        """Waits until no daemon of this user runs."""
        deadline = time.monotonic() + WAIT_S
        while self.daemons():
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)

    def log(self) -> str:
        return (self.state / "msitd.log").read_text()

    def clean(self) -> None:
        """Ends the daemons, and removes the files."""
        for daemon in self.daemons():
            os.kill(daemon, signal.SIGKILL)
        self.wait_for_end()
        shutil.rmtree(self.folder, ignore_errors=True)


def make_person() -> Iterator[Person]:
    person = Person()
    yield person
    person.clean()
