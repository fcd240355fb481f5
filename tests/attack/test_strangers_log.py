"""Foreign clients that try to flood the log."""

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from daemon import Daemon

CONNECTIONS = 1000
# Lines that one kind of problem may write in 10 s, for some of these periods.
LINES_MAX = 5 * 64
# The line that the daemon writes for suppressed lines in such a period.
MORE = "lines were too many suppressed="


@pytest.fixture
def over_tls(new_daemon: Callable[[], Daemon], tmp_path: Path) -> Daemon:
    """A daemon with TLS."""
    issued = trustme.CA().issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    daemon = new_daemon()
    daemon.start(
        *("--tls-cert", str(tmp_path / "cert.pem")),
        *("--tls-key", str(tmp_path / "key.pem")),
    )
    return daemon


def shout(daemon: Daemon, data: bytes) -> None:
    """Sends `data` on many connections, each of which the daemon closes."""
    host, port = daemon.endpoint.rsplit(":", 1)
    for _ in range(CONNECTIONS):
        with socket.create_connection((host, int(port)), timeout=10) as stranger:
            stranger.settimeout(10)
            stranger.sendall(data)
            try:
                while stranger.recv(4096):
                    pass
            except ConnectionResetError:
                pass


def new_lines(daemon: Daemon, before: str) -> list[str]:
    """Returns the lines that the daemon has logged since then, in its own format."""
    lines = daemon.log()[len(before) :].splitlines()
    raw = [line for line in lines if re.match(r"[DIE]\d{4} ", line)]
    assert not raw, raw[:3]
    return [line for line in lines if MORE not in line]


def test_plain_connections_to_tls(over_tls: Daemon) -> None:
    before = over_tls.log()
    shout(over_tls, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    lines = new_lines(over_tls, before)
    assert 1 <= len(lines) <= LINES_MAX
    for line in lines:
        assert re.search(r"peer=127\.0\.0\.1:\d+ reason='speaks no TLS'", line), line


def test_broken_handshakes(over_tls: Daemon) -> None:
    before = over_tls.log()
    shout(over_tls, b"\x16\x03\x01\x00\x05nonsense")
    lines = new_lines(over_tls, before)
    assert 1 <= len(lines) <= LINES_MAX
    assert all(" grpc: " in line and "suppressed=" in line for line in lines)


def test_other_protocols_on_a_plain_port(daemon: Daemon) -> None:
    before = daemon.log()
    shout(daemon, b"\x16\x03\x01\x00\x05nonsense")
    lines = new_lines(daemon, before)
    assert 1 <= len(lines) <= LINES_MAX
    assert all("peer=127.0.0.1:" in line for line in lines)
