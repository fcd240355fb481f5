"""Starts, stops and kills the real daemon, and runs the real CLI against it."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import grpc

ROOT = Path(__file__).resolve().parents[2]
BIN_DIR = Path(os.environ.get("MSITD_BIN_DIR", ROOT / "build/release/bin"))

START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 40


@cache
def help_of(*words: str) -> str:
    """Returns the output of `msitctl WORDS --help`."""
    result = subprocess.run(
        [BIN_DIR / "msitctl", *words, "--help"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert result.returncode == 0, (words, result.stderr)
    return result.stdout


class Daemon:
    """A private msitd. Its data outlives its processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        # The paths of Unix sockets must be short, and those of pytest are too
        # long.
        self.socket_dir = Path(tempfile.mkdtemp(prefix="msitd-"))
        self.process: subprocess.Popen[bytes] | None = None
        self._channels: list[grpc.Channel] = []
        # Variables that are added to those of this process.
        self.environment: dict[str, str] = {}
        # A command that runs the daemon, such as one that enters a namespace.
        self.prefix: list[str] = []

    def start(self, *flags: str) -> None:
        """Starts the daemon and waits until it is serving."""
        assert self.process is None
        endpoint_file = self.socket_dir / "endpoint"
        endpoint_file.unlink(missing_ok=True)
        self.process = self.spawn(*flags)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (endpoint_file.exists() and endpoint_file.read_text().strip()):
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.01)

    def spawn(self, *flags: str) -> "subprocess.Popen[bytes]":
        """Starts a daemon on this folder without waiting for it."""
        with open(self.folder / "msitd.log", "ab") as log:
            return subprocess.Popen(
                [
                    *self.prefix,
                    BIN_DIR / "msitd",
                    "--data-dir",
                    self.data_dir,
                    "--socket-dir",
                    self.socket_dir,
                    "--listen",
                    "127.0.0.1:0",
                    "--loopback-role",
                    "admin",
                    "--tls-role",
                    "admin",
                    *flags,
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **self.environment},
            )

    def stop(self) -> int:
        """Stops the daemon with SIGTERM and returns its exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kills the daemon with SIGKILL."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        assert self.process is not None
        for channel in self._channels:
            channel.close()
        self._channels.clear()
        self.process.send_signal(number)
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        finally:
            self.process.kill()
            self.process = None

    def clean(self) -> None:
        """Ends the process, if any, and removes temporary files of this class."""
        if self.process is not None:
            self.kill()
        shutil.rmtree(self.socket_dir, ignore_errors=True)

    @property
    def endpoint(self) -> str:
        """host:port of the current process."""
        lines = (self.socket_dir / "endpoint").read_text().split()
        return next(line for line in lines if not line.startswith("unix:"))

    def log(self) -> str:
        """Returns all output of the daemon."""
        return (self.folder / "msitd.log").read_text()

    def spoil(self, at_bytes: bytes) -> Path:
        """Flips one bit where `at_bytes` begins in a segment; returns the segment."""
        for segment in sorted((self.data_dir / "segments").glob("*.seg")):
            data = bytearray(segment.read_bytes())
            at = data.find(at_bytes)
            if at >= 0:
                data[at] ^= 1
                segment.write_bytes(data)
                return segment
        raise AssertionError("the bytes are in no segment")

    def channel(self) -> grpc.Channel:
        """Returns a channel that is closed when this process of the daemon ends."""
        channel = grpc.insecure_channel(
            self.endpoint, options=[("grpc.max_receive_message_length", -1)]
        )
        self._channels.append(channel)
        return channel

    def ctl(
        self, *args: str, expect: int | None = 0, binary: bool = False
    ) -> "subprocess.CompletedProcess[Any]":
        """Runs msitctl; checks its exit code unless `expect` is None."""
        result = subprocess.run(
            [BIN_DIR / "msitctl", *args],
            env={**os.environ, "MSITCTL_ENDPOINT": self.endpoint},
            capture_output=True,
            text=not binary,
            timeout=120,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if expect is not None:
            assert result.returncode == expect, (args, result.stdout, result.stderr)
        return result

    def ctl_json(self, *args: str, expect: int = 0) -> dict[str, Any]:
        """Runs msitctl -o json and returns its parsed output."""
        return json.loads(self.ctl("-o", "json", *args, expect=expect).stdout)


@contextmanager
def stopped(daemon: Daemon) -> Iterator[None]:
    """Stops the process of a daemon within the block, with SIGSTOP."""
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGSTOP)
    # Before that, a thread may still answer.
    os.waitpid(daemon.process.pid, os.WUNTRACED)
    try:
        yield
    finally:
        daemon.process.send_signal(signal.SIGCONT)
