"""Sockets that a service manager opens and passes to the daemon."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import grpc
import msitd
import numpy as np
import pytest

from daemon import Daemon

# What systemd does for a service, in its process: it passes descriptors from 3
# on, with their number, to this process only.
PASS = (
    "import os, sys\n"
    "fds = [int(fd) for fd in sys.argv[1].split(',')]\n"
    "high = [os.dup2(fd, 100 + at) for at, fd in enumerate(fds)]\n"
    "for fd in [*fds, *high]: os.set_inheritable(fd, False)\n"
    "for at, fd in enumerate(high): os.dup2(fd, 3 + at)\n"
    "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(fds)))\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)


class Manager:
    """Opens sockets for a daemon, and starts the daemon with them."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.sockets: list[socket.socket] = []
        self.listen("msitd.sock", socket.SOCK_STREAM)
        self.listen("ingest.sock", socket.SOCK_SEQPACKET)

    def listen(self, name: str, kind: socket.SocketKind) -> Path:
        path = self.daemon.socket_dir / name
        listener = socket.socket(socket.AF_UNIX, kind)
        listener.bind(str(path))
        listener.listen(64)
        listener.set_inheritable(True)
        self.sockets.append(listener)
        return path

    def start(self, *flags: str) -> None:
        fds = ",".join(str(s.fileno()) for s in self.sockets)
        self.daemon.prefix = [sys.executable, "-c", PASS, fds]
        # The daemon inherits the descriptors of this process, as those of
        # systemd.
        popen = subprocess.Popen

        def keeping(*args: object, **kwargs: object) -> "subprocess.Popen[bytes]":
            return popen(*args, **kwargs, close_fds=False)  # type: ignore[call-overload,no-any-return]

        subprocess.Popen = keeping  # type: ignore[assignment,misc]
        try:
            self.daemon.start(*flags)
        finally:
            subprocess.Popen = popen  # type: ignore[misc]

    def close(self) -> None:
        for listener in self.sockets:
            listener.close()


@pytest.fixture
def manager(new_daemon: Callable[[], Daemon]) -> Iterator[Manager]:
    out = Manager(new_daemon())
    yield out
    out.close()


def ask(endpoint: str, answers: list[bytes]) -> None:
    """Requests the health of the daemon and waits for the answer."""
    with grpc.insecure_channel(endpoint) as channel:
        call = channel.unary_unary(
            "/grpc.health.v1.Health/Check", lambda b: b, lambda b: b
        )
        answers.append(call(b"", timeout=60, wait_for_ready=True))


def record(manager: Manager, run: str) -> None:
    endpoint = str(manager.daemon.socket_dir)
    with msitd.Client(run=run, rank=0, world_size=1, endpoint=endpoint) as client:
        client.record(np.ones(4, np.float32), op="op")


def test_who_comes_before_the_daemon_is_answered(manager: Manager) -> None:
    grpc_socket = manager.daemon.socket_dir / "msitd.sock"
    answers: list[bytes] = []
    caller = Thread(target=ask, args=(f"unix:{grpc_socket}", answers))
    # Another client is connected, and sends nothing.
    early = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    early.connect(str(manager.daemon.socket_dir / "ingest.sock"))
    caller.start()
    manager.start()
    caller.join(60)
    assert answers == [b"\x08\x01"]
    early.close()
    record(manager, "r")
    listed = manager.daemon.ctl_json("tensor", "list", "--run", "r")
    assert len(listed["tensors"]) == 1


def test_files_of_passed_sockets_outlive_the_daemon(manager: Manager) -> None:
    folder = manager.daemon.socket_dir
    before = {s: os.stat(folder / s).st_ino for s in ("msitd.sock", "ingest.sock")}
    for start in range(3):
        manager.start()
        record(manager, f"r{start}")
        if start == 1:
            manager.daemon.kill()
        else:
            assert manager.daemon.stop() == 0
        # No connection is refused while no daemon is running.
        waiting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        waiting.connect(str(folder / "msitd.sock"))
        waiting.close()
    after = {s: os.stat(folder / s).st_ino for s in before}
    assert after == before
    manager.start()
    listed = manager.daemon.ctl_json("run", "list")
    assert [run["name"] for run in listed["runs"]] == ["r0", "r1", "r2"]


def test_other_sockets_are_closed_and_named(manager: Manager) -> None:
    other = manager.listen("other.sock", socket.SOCK_STREAM)
    manager.start()
    assert f"path:{other}" in manager.daemon.log()
    assert manager.daemon.process is not None
    # The daemon has closed its copy, so closing this one removes the last
    # listener.
    manager.sockets.pop().close()
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with pytest.raises(ConnectionRefusedError):
        client.connect(str(other))
    record(manager, "r")


def test_memory_that_is_not_shared_is_not_promised(manager: Manager) -> None:
    with pytest.raises(AssertionError, match="take it out of msitd.socket"):
        manager.start("--shared-memory", "false")


def test_environment_of_another_process_is_ignored(
    new_daemon: Callable[[], Daemon],
) -> None:
    daemon = new_daemon()
    daemon.environment = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "9"}
    daemon.start()
    assert "passed socket" not in daemon.log()
    assert (daemon.socket_dir / "msitd.sock").is_socket()


def test_environment_that_promises_too_much_is_ignored(
    new_daemon: Callable[[], Daemon],
) -> None:
    daemon = new_daemon()
    promise = "import os,sys; os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='50'); os.execv(sys.argv[1], sys.argv[1:])"
    daemon.prefix = [sys.executable, "-c", promise]
    daemon.start()
    assert daemon.stop() == 0
