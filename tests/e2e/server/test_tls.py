"""TLS between the real daemon, its command line tool and its ranks."""

import contextlib
import datetime
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import grpc
import pytest
import trustme

from daemon import BIN_DIR, Daemon

RECORD = """
import sys
import time
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


class Strangers:
    """Connections from one address that send the same bytes, and no more."""

    def __init__(self, daemon: Daemon, source: str, count: int, greeting: bytes):
        host, port = daemon.endpoint.rsplit(":", 1)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = max(soft, min(hard, count + 1024))
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        if wanted < count + 256:
            pytest.skip("too few descriptors")
        self.sockets = []
        for _ in range(count):
            stranger = socket.socket()
            stranger.bind((source, 0))
            stranger.connect((host, int(port)))
            self.sockets.append(stranger)
            with contextlib.suppress(OSError):
                stranger.send(greeting)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stranger in self.sockets:
            stranger.close()


@pytest.mark.parametrize(
    ("source", "greeting", "seconds"),
    [
        ("127.0.0.2", b"\x16\x03\x01", 4),
        ("127.0.0.1", b"", 4),
        # Clients with the same address wait for free handshake slots.
        ("127.0.0.1", b"\x16\x03\x01", 9),
    ],
    ids=["other address", "silent", "same address"],
)
def test_handshakes_that_do_not_end_keep_nobody_out(
    new_daemon: Callable[[], Daemon],
    pem: dict[str, str],
    source: str,
    greeting: bytes,
    seconds: float,
) -> None:
    daemon = new_daemon()
    daemon.start("--tls-cert", pem["daemon.pem"], "--tls-key", pem["daemon.key"])
    # More connections than the daemon accepts.
    with Strangers(daemon, source, 2600, greeting):
        begin = time.monotonic()
        done = ctl(daemon, "--ca-file", pem["ca.pem"])
        taken = time.monotonic() - begin
        assert done.returncode == 0, done.stderr
        assert taken < seconds


def test_an_address_has_many_clients_at_once(
    new_daemon: Callable[[], Daemon], pem: dict[str, str]
) -> None:
    """Finished handshakes free their slots at once for others with the same address."""
    daemon = new_daemon()
    daemon.start("--tls-cert", pem["daemon.pem"], "--tls-key", pem["daemon.key"])
    credentials = grpc.ssl_channel_credentials(Path(pem["ca.pem"]).read_bytes())
    begin = time.monotonic()
    channels = [
        grpc.secure_channel(
            daemon.endpoint, credentials, [("grpc.use_local_subchannel_pool", 1)]
        )
        for _ in range(300)
    ]
    ready = [grpc.channel_ready_future(channel) for channel in channels]
    for one in ready:
        one.result(timeout=20)
    taken = time.monotonic() - begin
    for channel in channels:
        channel.close()
    assert taken < 10


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
        ({"MSITD_CERT_FILE": "cert.pem"}, "MSITD_KEY_FILE must be set together"),
    ],
)
def test_bad_setting_is_named(
    daemon: Daemon, variables: dict[str, str], words: str
) -> None:
    result = record(daemon, **variables)
    assert result.returncode != 0
    assert words in result.stderr


LOCAL_FILE, USAGE, UNAVAILABLE = 3, 2, 64 + 14
PAST = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
PLAIN = ("--connect-timeout", "10s")


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Files of an authority, and invalid certificates that it signed."""
    folder = tmp_path_factory.mktemp("odd")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    for who, identity, dates in (
        ("good", "127.0.0.1", {}),
        ("elsewhere", "node7.example.org", {}),
        ("expired", "127.0.0.1", {"not_before": PAST, "not_after": PAST}),
    ):
        issued = authority.issue_cert(identity, **dates)
        issued.cert_chain_pems[0].write_to_path(folder / f"{who}.pem")
        issued.private_key_pem.write_to_path(folder / f"{who}.key")
    (folder / "text.pem").write_text("no certificate\n")
    return {path.name: str(path) for path in folder.iterdir()}


def serve(daemon: Daemon, files: dict[str, str], who: str, *flags: str) -> None:
    own = ("--tls-cert", files[f"{who}.pem"], "--tls-key", files[f"{who}.key"])
    daemon.start(*own, *flags)


@pytest.mark.parametrize(
    ("who", "words"),
    [
        ("expired", "is not valid: certificate has expired"),
        ("elsewhere", "is for DNS:node7.example.org, and not for 127.0.0.1"),
    ],
)
def test_daemon_that_cannot_be_trusted_is_told_why(
    new_daemon: Callable[[], Daemon], odd: dict[str, str], who: str, words: str
) -> None:
    daemon = new_daemon()
    serve(daemon, odd, who)
    result = ctl(daemon, "--ca-file", odd["ca.pem"])
    assert result.returncode == UNAVAILABLE
    assert words in result.stderr
    assert f"cannot reach {daemon.endpoint}" in result.stderr


def test_authority_that_is_another_is_named(
    new_daemon: Callable[[], Daemon], odd: dict[str, str], pem: dict[str, str]
) -> None:
    daemon = new_daemon()
    serve(daemon, odd, "good")
    result = ctl(daemon, "--ca-file", pem["stranger.pem"])
    assert result.returncode == UNAVAILABLE
    assert f"was not signed by a CA in {pem['stranger.pem']}" in result.stderr
    result = ctl(daemon, "--tls")
    assert result.returncode == UNAVAILABLE
    assert "the system does not trust" in result.stderr
    assert "--ca-file" in result.stderr


def test_plain_text_and_tls_do_not_mix(
    new_daemon: Callable[[], Daemon], odd: dict[str, str]
) -> None:
    encrypted = new_daemon()
    serve(encrypted, odd, "good")
    result = ctl(encrypted, *PLAIN)
    assert result.returncode == UNAVAILABLE
    assert "the daemon requires TLS: use --ca-file" in result.stderr
    plain = new_daemon()
    plain.start()
    result = ctl(plain, "--ca-file", odd["ca.pem"], *PLAIN)
    assert result.returncode == UNAVAILABLE
    assert "no TLS answer" in result.stderr
    # Errors never recommend less security.
    assert "leave" not in result.stderr


@pytest.mark.parametrize(
    ("who", "words"),
    [
        (None, "requires a certificate: use --cert-file and --key-file"),
        ("client", "signed by a CA in tls_client_ca"),
    ],
)
def test_daemon_that_does_not_trust_says_why(
    new_daemon: Callable[[], Daemon],
    odd: dict[str, str],
    pem: dict[str, str],
    who: str | None,
    words: str,
) -> None:
    daemon = new_daemon()
    serve(daemon, odd, "good", "--tls-client-ca", odd["ca.pem"])
    files = {**pem, **odd}
    own: tuple[str, ...] = ()
    if who is not None:
        own = ("--cert-file", files[f"{who}.pem"], "--key-file", files[f"{who}.key"])
    result = ctl(daemon, "--ca-file", odd["ca.pem"], *own)
    assert result.returncode == UNAVAILABLE
    assert words in result.stderr
    if who is not None:
        assert files[f"{who}.pem"] in result.stderr


@pytest.mark.parametrize(
    ("flags", "names", "words"),
    [
        (("--ca-file", "text.pem"), ["text.pem"], "no PEM certificate"),
        (("--ca-file", "good.key"), ["good.key"], "no PEM certificate"),
        (
            ("--cert-file", "text.pem", "--key-file", "good.key"),
            ["text.pem"],
            "no PEM certificate",
        ),
        (
            ("--cert-file", "good.pem", "--key-file", "text.pem"),
            ["text.pem"],
            "no PEM private key",
        ),
        (
            ("--cert-file", "good.pem", "--key-file", "expired.key"),
            ["good.pem", "expired.key"],
            "does not fit",
        ),
    ],
)
def test_file_that_is_another_is_3(
    daemon: Daemon,
    odd: dict[str, str],
    flags: tuple[str, ...],
    names: list[str],
    words: str,
) -> None:
    result = ctl(daemon, *(odd.get(flag, flag) for flag in flags))
    assert result.returncode == LOCAL_FILE
    assert words in result.stderr
    for name in names:
        assert odd[name] in result.stderr


def test_tls_beside_a_unix_socket_is_usage(daemon: Daemon, odd: dict[str, str]) -> None:
    endpoint = f"unix:{daemon.socket_dir}/msitd.sock"
    for flags, name in (
        (("--ca-file", odd["ca.pem"]), "--ca-file"),
        (("--tls",), "--tls"),
    ):
        result = daemon.ctl("--endpoint", endpoint, *flags, "run", "list", expect=USAGE)
        assert name in result.stderr
        assert "a Unix socket is not encrypted" in result.stderr


@pytest.mark.parametrize(
    ("days", "words"),
    [(-1, "certificate expired"), (10, "certificate expires"), (300, None)],
)
def test_daemon_warns_before_its_certificate_expires(
    new_daemon: Callable[[], Daemon], tmp_path: Path, days: int, words: str | None
) -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    issued = trustme.CA().issue_cert(
        "127.0.0.1",
        not_before=now - datetime.timedelta(days=2),
        not_after=now + datetime.timedelta(days=days, hours=1),
    )
    issued.cert_chain_pems[0].write_to_path(tmp_path / "own.pem")
    issued.private_key_pem.write_to_path(tmp_path / "own.key")
    daemon = new_daemon()
    files = {path.name: str(path) for path in tmp_path.iterdir()}
    serve(daemon, files, "own")
    daemon.stop()
    log = daemon.log()
    if words is None:
        assert "certificate" not in log
    else:
        (line,) = [line for line in log.splitlines() if "certificate" in line]
        assert words in line
        assert files["own.pem"] in line


@pytest.mark.parametrize(
    ("cert", "key", "names"),
    [
        ("text.pem", "good.key", ["tls_cert", "text.pem"]),
        ("good.pem", "expired.key", ["tls_key", "expired.key", "does not fit"]),
    ],
)
def test_daemon_names_the_file_that_is_another(
    new_daemon: Callable[[], Daemon],
    odd: dict[str, str],
    cert: str,
    key: str,
    names: list[str],
) -> None:
    daemon = new_daemon()
    process = daemon.spawn("--tls-cert", odd[cert], "--tls-key", odd[key])
    assert process.wait(30) != 0
    for name in names:
        assert name in daemon.log()


def test_certificates_have_roles(
    new_daemon: Callable[[], Daemon], tmp_path: Path
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    for who, identity in (
        ("daemon", "127.0.0.1"),
        ("rank", "rank-7@job.example"),
        ("board", "board.example"),
        ("operator", "operator.example"),
    ):
        issued = authority.issue_cert(identity)
        issued.cert_chain_pems[0].write_to_path(tmp_path / f"{who}.pem")
        issued.private_key_pem.write_to_path(tmp_path / f"{who}.key")
    files = {path.name: str(path) for path in tmp_path.iterdir()}
    daemon = new_daemon()
    serve(
        *(daemon, files, "daemon", "--tls-client-ca", files["ca.pem"]),
        *("--tls-role", "none", "--writer-certificates", "rank-*@job.example"),
        *("--reader-certificates", "board.example"),
        *("--admin-certificates", "operator.example"),
    )

    def shows(who: str) -> list[str]:
        own = ["--cert-file", files[f"{who}.pem"], "--key-file", files[f"{who}.key"]]
        return ["--ca-file", files["ca.pem"], *own]

    def ctl_as(who: str, *words: str, expect: int = 0) -> str:
        done = daemon.ctl(*shows(who), *words, expect=expect)
        return str(done.stdout + done.stderr)

    denied = 64 + 7
    ctl_as("rank", "run", "create", "r")
    assert "cert:rank-7@job.example" in ctl_as("board", "-o", "json", "run", "get", "r")
    assert "ROLE_REFUSED" in ctl_as("board", "run", "seal", "r", expect=denied)
    assert "ROLE_REFUSED" in ctl_as("daemon", "run", "list", expect=denied)
    ctl_as("operator", "run", "create", "theirs")
    assert "NOT_OWNER" in ctl_as("rank", "run", "seal", "theirs", expect=denied)
    ctl_as("operator", "run", "delete", "r", "--yes")


def test_client_that_cannot_be_trusted_is_refused(
    new_daemon: Callable[[], Daemon], odd: dict[str, str], pem: dict[str, str]
) -> None:
    daemon = new_daemon()
    serve(daemon, odd, "good", "--tls-client-ca", odd["ca.pem"])
    trusts = ("--ca-file", odd["ca.pem"], "--connect-timeout", "5s")
    for cert, key in (
        # A certificate of another authority.
        (pem["client.pem"], pem["client.key"]),
        (odd["expired.pem"], odd["expired.key"]),
    ):
        result = ctl(daemon, *trusts, "--cert-file", cert, "--key-file", key)
        assert result.returncode == UNAVAILABLE, result.stderr
    own = ("--cert-file", odd["good.pem"], "--key-file", odd["good.key"])
    assert ctl(daemon, *trusts, *own).returncode == 0


def test_files_that_change_are_read_again(
    new_daemon: Callable[[], Daemon], tmp_path: Path
) -> None:
    """A certificate is renewed while the daemon is running."""
    authorities = [trustme.CA(), trustme.CA()]
    for i, authority in enumerate(authorities):
        authority.cert_pem.write_to_path(tmp_path / f"ca{i}.pem")

    def renew(i: int, *suffixes: str) -> None:
        issued = authorities[i].issue_cert("127.0.0.1")
        parts = {"pem": issued.cert_chain_pems[0], "key": issued.private_key_pem}
        for suffix in suffixes:
            parts[suffix].write_to_path(tmp_path / f"new.{suffix}")
            (tmp_path / f"new.{suffix}").rename(tmp_path / f"own.{suffix}")

    def reaches(i: int) -> bool:
        return ctl(daemon, "--ca-file", str(tmp_path / f"ca{i}.pem")).returncode == 0

    renew(0, "pem", "key")
    daemon = new_daemon()
    daemon.start(
        *("--tls-cert", str(tmp_path / "own.pem")),
        *("--tls-key", str(tmp_path / "own.key")),
    )
    assert reaches(0)
    assert not reaches(1)
    # Only one of two files: they do not match, and the earlier pair stays.
    renew(1, "pem")
    deadline = time.monotonic() + 40
    while "those before stay in use" not in daemon.log():
        assert time.monotonic() < deadline, daemon.log()
        time.sleep(0.1)
    time.sleep(3)
    assert reaches(0)
    renew(1, "pem", "key")
    deadline = time.monotonic() + 40
    while not reaches(1):
        assert time.monotonic() < deadline, daemon.log()
        time.sleep(0.5)
    assert not reaches(0)
