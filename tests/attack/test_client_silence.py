"""libmsit prints nothing in its host process."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from daemon import Daemon

# A client whose daemon uses another protocol, and that prints the error it
# received.
RANK = """
import sys
import time
import msitd

client = msitd.Client("run", endpoint=sys.argv[1], open_timeout=0, close_timeout=0.1)
deadline = time.monotonic() + 20
while not client.stream_error() and time.monotonic() < deadline:
    time.sleep(0.01)
print(client.stream_error())
"""


def run_rank(daemon: Daemon, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Runs the rank to its end."""
    environment = {**os.environ, **variables}
    if not variables.get("GRPC_VERBOSITY"):
        environment.pop("GRPC_VERBOSITY", None)
    return subprocess.run(
        [sys.executable, "-c", RANK, daemon.endpoint],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


@pytest.fixture
def certificates(tmp_path: Path) -> dict[str, str]:
    """Files of an authority and of a daemon."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    paths = {name: str(tmp_path / name) for name in ("ca", "cert", "key")}
    authority.cert_pem.write_to_path(paths["ca"])
    issued.cert_chain_pems[0].write_to_path(paths["cert"])
    issued.private_key_pem.write_to_path(paths["key"])
    return paths


def test_tls_client_of_a_plain_port_is_silent(
    daemon: Daemon, certificates: dict[str, str]
) -> None:
    result = run_rank(daemon, MSITD_CA_FILE=certificates["ca"])
    assert result.stdout.startswith("UNAVAILABLE"), "the status says it"
    assert result.stderr == ""


def test_plain_client_of_a_tls_port_is_silent(
    new_daemon: Callable[[], Daemon], certificates: dict[str, str]
) -> None:
    daemon = new_daemon()
    daemon.start("--tls-cert", certificates["cert"], "--tls-key", certificates["key"])
    result = run_rank(daemon)
    assert result.stdout.startswith("UNAVAILABLE"), "the status says it"
    assert result.stderr == ""


@pytest.mark.parametrize("verbosity", ["", "error"])
def test_handshake_that_fails_is_heard_by_who_asks_alone(
    new_daemon: Callable[[], Daemon],
    certificates: dict[str, str],
    tmp_path: Path,
    verbosity: str,
) -> None:
    daemon = new_daemon()
    daemon.start("--tls-cert", certificates["cert"], "--tls-key", certificates["key"])
    stranger = str(tmp_path / "stranger")
    trustme.CA().cert_pem.write_to_path(stranger)
    result = run_rank(daemon, MSITD_CA_FILE=stranger, GRPC_VERBOSITY=verbosity)
    assert result.stdout.startswith("UNAVAILABLE"), "the status says it"
    assert ("ssl" in result.stderr.lower()) == bool(verbosity)
    assert bool(result.stderr) == bool(verbosity)
