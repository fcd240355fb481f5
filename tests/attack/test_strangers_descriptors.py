"""Foreign clients that exhaust the daemon's descriptors."""

import re
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import grpc
import http2
import pytest
from chunk_bytes import Chunk, Record, float32
from wire import write

from daemon import BIN_DIR, Daemon

FILES_MAX = 1024
CONNECTIONS = 1100

RECORD = """
import sys
import msitd
import numpy as np

with msitd.Client(run=sys.argv[2], endpoint=sys.argv[1]) as client:
    for i in range(100):
        client.record(np.arange(1000, dtype=np.float32) + i, op=f"op{i}")
    client.flush()
"""


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    """Raises the limit: this process needs more descriptors than the daemon has."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] != resource.RLIM_INFINITY and before[1] < 2 * FILES_MAX:
        pytest.skip("too few descriptors to take all of the daemon's")
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.fixture
def few_files(new_daemon: Callable[[], Daemon]) -> Daemon:
    """A daemon with 1024 descriptors that cannot raise the limit."""
    if shutil.which("prlimit") is None:
        pytest.skip("no prlimit")
    daemon = new_daemon()
    daemon.prefix = ["prlimit", f"--nofile={FILES_MAX}:{FILES_MAX}"]
    daemon.start()
    return daemon


def connect(address: tuple[str, int] | str, preface: bytes) -> socket.socket | None:
    """Opens a connection that only sends `preface`; returns None if it is refused."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    sock = socket.socket(family)
    sock.settimeout(5)
    try:
        sock.connect(address)
        sock.sendall(preface)
    except OSError:
        sock.close()
        return None
    return sock


def tcp(daemon: Daemon) -> tuple[str, int]:
    host, port = daemon.endpoint.rsplit(":", 1)
    return host, int(port)


def local(daemon: Daemon) -> str:
    return f"unix:{daemon.socket_dir}/msitd.sock"


def status_over(daemon: Daemon, endpoint: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [BIN_DIR / "msitctl", "--endpoint", endpoint, "node", "status"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def check_it_works(daemon: Daemon, run: str) -> None:
    """Records over shared memory, and over gRPC on the Unix socket."""
    for endpoint in (str(daemon.socket_dir), local(daemon)):
        name = f"{run}-{'grpc' if endpoint.startswith('unix:') else 'shm'}"
        subprocess.run(
            [sys.executable, "-c", RECORD, endpoint, name],
            capture_output=True,
            timeout=60,
            check=True,
        )
    result = status_over(daemon, local(daemon))
    assert result.returncode == 0, result.stderr
    assert not re.search(r"\bfailed\b", result.stdout.lower())


HELLO = http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0)


@pytest.mark.parametrize("preface", [b"", HELLO], ids=["silent", "idle"])
def test_connections_over_tcp_leave_the_store_its_files(
    few_files: Daemon, preface: bytes
) -> None:
    daemon = few_files
    strangers = [connect(tcp(daemon), preface) for _ in range(CONNECTIONS)]
    check_it_works(daemon, "during")
    if not preface:
        # Clients that send requests are preferred to silent ones.
        assert status_over(daemon, daemon.endpoint).returncode == 0
    for stranger in strangers:
        if stranger is not None:
            stranger.close()
    deadline = time.monotonic() + 20
    while (result := status_over(daemon, daemon.endpoint)).returncode != 0:
        assert time.monotonic() < deadline, result.stderr
    check_it_works(daemon, "after")
    chunk = Chunk("tcp", [Record("op", float32(1), (1,))]).pack()
    write(daemon.channel(), "tcp", [chunk])


def test_connections_over_the_unix_socket(few_files: Daemon) -> None:
    daemon = few_files
    path = str(daemon.socket_dir / "msitd.sock")
    strangers = [connect(path, HELLO) for _ in range(CONNECTIONS)]
    with grpc.insecure_channel(daemon.endpoint) as channel:
        chunk = Chunk("during", [Record("op", float32(1), (1,))]).pack()
        write(channel, "during", [chunk])
    for stranger in strangers:
        if stranger is not None:
            stranger.close()
    deadline = time.monotonic() + 20
    while (result := status_over(daemon, local(daemon))).returncode != 0:
        assert time.monotonic() < deadline, result.stderr
    check_it_works(daemon, "after")


def test_silent_producers_leave_the_store_its_files(few_files: Daemon) -> None:
    daemon = few_files
    strangers = []
    for _ in range(CONNECTIONS):
        stranger = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stranger.setblocking(False)
        strangers.append(stranger)
        deadline = time.monotonic() + 5
        while stranger.connect_ex(str(daemon.socket_dir / "ingest.sock")) != 0:
            # The queue of waiting connections is full.
            if time.monotonic() > deadline:
                break
            time.sleep(0.001)
    with grpc.insecure_channel(daemon.endpoint) as channel:
        chunk = Chunk("during", [Record("op", float32(1), (1,))]).pack()
        write(channel, "during", [chunk])
    for stranger in strangers:
        stranger.close()
    check_it_works(daemon, "after")


def test_soft_limit_is_raised(new_daemon: Callable[[], Daemon]) -> None:
    daemon = new_daemon()
    if shutil.which("prlimit") is None:
        pytest.skip("no prlimit")
    daemon.prefix = ["prlimit", f"--nofile={FILES_MAX}:"]
    daemon.start()
    assert daemon.process is not None
    limits = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
    assert limits[0] == limits[1]
    assert f"files_max={limits[1]}" in daemon.log()
