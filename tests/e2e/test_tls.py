"""TLS between the real daemon, its command line tool and its ranks."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import trustme

from daemon import BIN_DIR, Daemon

RECORD = """
import sys
import msitd
import numpy as np

endpoint, open_timeout = sys.argv[1], float(sys.argv[2])
with msitd.Client(run="secret", endpoint=endpoint, open_timeout=open_timeout) as client:
    client.record(np.arange(8, dtype=np.float32), op="op")
    client.flush()
"""


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files of an authority, a daemon, a client, and another authority."""
    folder = tmp_path_factory.mktemp("pem")
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    stranger.cert_pem.write_to_path(folder / "stranger.pem")
    for who, identity in (("daemon", "127.0.0.1"), ("client", "rank@example.org")):
        issued = authority.issue_cert(identity)
        issued.cert_chain_pems[0].write_to_path(folder / f"{who}.pem")
        issued.private_key_pem.write_to_path(folder / f"{who}.key")
    return {path.name: str(path) for path in folder.iterdir()}


def record(
    daemon: Daemon, open_timeout: float = 20, **variables: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", RECORD, daemon.endpoint, str(open_timeout)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def ctl(daemon: Daemon, *flags: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [BIN_DIR / "msitctl", "--endpoint", daemon.endpoint, *flags]
        + ["run", "list", "-o", "name"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_rank_and_tool_speak_tls(
    new_daemon: Callable[[], Daemon], pem: dict[str, str]
) -> None:
    daemon = new_daemon()
    daemon.start("--tls-cert", pem["daemon.pem"], "--tls-key", pem["daemon.key"])
    result = record(daemon, MSITD_CA_FILE=pem["ca.pem"])
    assert result.returncode == 0, result.stderr
    assert ctl(daemon, "--ca-file", pem["ca.pem"]).stdout == "secret\n"

    for variables in ({}, {"MSITD_CA_FILE": pem["stranger.pem"]}):
        result = record(daemon, open_timeout=1, **variables)
        assert result.returncode != 0
        assert "MsitError" in result.stderr
    assert ctl(daemon).returncode == 64 + 14
    assert ctl(daemon, "--ca-file", pem["stranger.pem"]).returncode == 64 + 14


def test_daemon_can_ask_for_certificates(
    new_daemon: Callable[[], Daemon], pem: dict[str, str]
) -> None:
    daemon = new_daemon()
    daemon.start(
        *("--tls-cert", pem["daemon.pem"], "--tls-key", pem["daemon.key"]),
        *("--tls-client-ca", pem["ca.pem"]),
    )
    own = {
        "MSITD_CA_FILE": pem["ca.pem"],
        "MSITD_CERT_FILE": pem["client.pem"],
        "MSITD_KEY_FILE": pem["client.key"],
    }
    anonymous = record(daemon, open_timeout=1, MSITD_CA_FILE=pem["ca.pem"])
    assert anonymous.returncode != 0
    result = record(daemon, **own)
    assert result.returncode == 0, result.stderr
    assert ctl(daemon, "--ca-file", pem["ca.pem"]).returncode == 64 + 14
    flags = ("--ca-file", pem["ca.pem"], "--cert-file", pem["client.pem"])
    assert ctl(daemon, *flags, "--key-file", pem["client.key"]).stdout == "secret\n"


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"MSITD_CA_FILE": "/nonexistent/ca.pem"}, "/nonexistent/ca.pem"),
        ({"MSITD_CERT_FILE": "cert.pem"}, "MSITD_KEY_FILE go together"),
    ],
)
def test_bad_setting_is_named(
    daemon: Daemon, variables: dict[str, str], words: str
) -> None:
    result = record(daemon, **variables)
    assert result.returncode != 0
    assert words in result.stderr
