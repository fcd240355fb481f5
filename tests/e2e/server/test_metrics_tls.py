"""The metrics page over TLS, with certificates of its scrapers."""

import datetime
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from scrape import Answer, ask, connect

from daemon import Daemon

USAGE_EXIT = 2
WAIT_S = 30


class Authority:
    """A CA with the files of a daemon and of a scraper."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.file = folder / f"{name}.pem"
        self.authority.cert_pem.write_to_path(self.file)

    def issue(self, name: str, identity: str = "127.0.0.1") -> tuple[Path, Path]:
        """Writes a certificate and its key, over those of the same name."""
        issued = self.authority.issue_cert(identity)
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        issued.cert_chain_pems[0].write_to_path(certificate)
        issued.private_key_pem.write_to_path(key)
        return certificate, key

    def context(self, own: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        """Returns what a scraper uses, with a certificate of its own or without."""
        out = ssl.create_default_context(cafile=str(self.file))
        if own is not None:
            out.load_cert_chain(*own)
        return out


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def scrape(daemon: Daemon, context: ssl.SSLContext, *lines: str) -> Answer:
    secure = context.wrap_socket(connect(daemon), server_hostname="127.0.0.1")
    return ask(secure, "\r\n".join(["GET /metrics HTTP/1.1", *lines]))


def serial(daemon: Daemon, context: ssl.SSLContext) -> object:
    with context.wrap_socket(connect(daemon), server_hostname="127.0.0.1") as secure:
        certificate = secure.getpeercert()
    assert certificate is not None
    return certificate["serialNumber"]


def flags_of(files: tuple[Path, Path], *more: str) -> list[str]:
    return [
        *("--metrics-tls-cert", str(files[0]), "--metrics-tls-key", str(files[1])),
        *more,
    ]


def test_a_scraper_verifies_the_daemon(
    new_daemon: Callable[[], Daemon], authority: Authority, tmp_path: Path
) -> None:
    daemon = new_daemon()
    flags = flags_of(authority.issue("daemon"))
    daemon.start("--metrics-listen", "127.0.0.1:0", *flags)
    assert "metrics endpoint=https://127.0.0.1:" in daemon.log()
    answer = scrape(daemon, authority.context())
    assert answer.status == 200 and "msitd_build_info" in answer.body
    stranger = Authority(tmp_path, "stranger")
    with pytest.raises(ssl.SSLError):
        scrape(daemon, stranger.context())
    # A plain request gets no page.
    with connect(daemon) as plain:
        plain.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        try:
            assert b"msitd" not in plain.recv(65536)
        except ConnectionResetError:
            pass
    assert scrape(daemon, authority.context()).status == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_scrapers_need_a_certificate_of_the_ca(
    new_daemon: Callable[[], Daemon],
    authority: Authority,
    tmp_path: Path,
    version: ssl.TLSVersion,
) -> None:
    daemon = new_daemon()
    flags = flags_of(
        authority.issue("daemon"), "--metrics-tls-client-ca", str(authority.file)
    )
    # Other machines may connect: their certificates replace the token.
    daemon.start("--metrics-listen", "0.0.0.0:0", *flags)
    stranger = Authority(tmp_path, "stranger")

    def context(own: tuple[Path, Path] | None) -> ssl.SSLContext:
        out = authority.context(own)
        out.minimum_version = out.maximum_version = version
        return out

    scraper = authority.issue("scraper", "prometheus@example.org")
    assert scrape(daemon, context(scraper)).status == 200
    for own in (None, stranger.issue("other", "prometheus@example.org")):
        with pytest.raises((ssl.SSLError, ConnectionError, IndexError, ValueError)):
            scrape(daemon, context(own))
    assert scrape(daemon, context(scraper)).status == 200


def test_a_token_is_required_in_addition(
    new_daemon: Callable[[], Daemon], authority: Authority, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret-1")
    daemon = new_daemon()
    flags = flags_of(
        authority.issue("daemon"),
        *("--metrics-tls-client-ca", str(authority.file)),
        *("--metrics-token-file", str(token)),
    )
    daemon.start("--metrics-listen", "127.0.0.1:0", *flags)
    context = authority.context(authority.issue("scraper"))
    assert scrape(daemon, context).status == 401
    assert scrape(daemon, context, "Authorization: Bearer secret-1").status == 200


def test_files_that_change_are_read_again(
    new_daemon: Callable[[], Daemon], authority: Authority
) -> None:
    daemon = new_daemon()
    files = authority.issue("daemon")
    daemon.start("--metrics-listen", "127.0.0.1:0", *flags_of(files))
    before = serial(daemon, authority.context())
    # A pair that does not match is not used.
    key = files[1].read_text()
    authority.issue("daemon")
    renewed = files[1].read_text()
    files[1].write_text(key)
    assert daemon.process is not None
    daemon.process.send_signal(1)
    deadline = time.monotonic() + WAIT_S
    while "metrics_tls_key" not in daemon.log():
        assert time.monotonic() < deadline, daemon.log()
        time.sleep(0.05)
    assert serial(daemon, authority.context()) == before
    files[1].write_text(renewed)
    daemon.process.send_signal(1)
    while serial(daemon, authority.context()) == before:
        assert time.monotonic() < deadline, daemon.log()
        time.sleep(0.05)
    assert scrape(daemon, authority.context()).status == 200


def write_short_key(files: tuple[Path, Path]) -> None:
    """Writes a pair that matches, but whose key OpenSSL considers too short."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    begin = datetime.datetime(2026, 1, 1)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 7)
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=10_000))
        .sign(key, hashes.SHA256())
    )
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


@pytest.mark.parametrize("flag", ["tls", "metrics-tls"])
def test_a_pair_that_openssl_rejects_does_not_replace_the_certificate(
    new_daemon: Callable[[], Daemon], authority: Authority, flag: str
) -> None:
    daemon = new_daemon()
    files = authority.issue("daemon")
    flags = [f"--{flag}-cert", str(files[0]), f"--{flag}-key", str(files[1])]
    if flag == "tls":
        flags += flags_of(authority.issue("page"))
    daemon.start("--metrics-listen", "127.0.0.1:0", *flags)

    def expiry() -> list[str]:
        page = scrape(daemon, authority.context()).body.splitlines()
        return [line for line in page if line.startswith("msitd_certificate_expiry")]

    deadline = time.monotonic() + WAIT_S
    # The daemon looks at its certificates soon after it has started.
    while not (before := expiry()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    write_short_key(files)
    while "OpenSSL does not accept" not in daemon.log():
        assert time.monotonic() < deadline, daemon.log()
        time.sleep(0.05)
    assert expiry() == before
    assert "TLS files have changed" not in daemon.log()
    # The files are checked again, without a signal.
    authority.issue("daemon")
    while "TLS files have changed" not in daemon.log():
        assert time.monotonic() < deadline, daemon.log()
        time.sleep(0.05)
    assert scrape(daemon, authority.context()).status == 200


def test_handshakes_that_do_not_end_keep_nobody_out(
    new_daemon: Callable[[], Daemon], authority: Authority
) -> None:
    daemon = new_daemon()
    flags = flags_of(authority.issue("daemon"))
    daemon.start("--metrics-listen", "127.0.0.1:0", *flags)
    held: list[socket.socket] = []
    for i in range(100):
        connection = connect(daemon)
        held.append(connection)
        try:
            connection.sendall((b"", b"\x16\x03\x01", b"\0" * 4096, b"GET /")[i % 4])
        except OSError:
            pass  # A newer connection has replaced it.
    begin = time.monotonic()
    assert scrape(daemon, authority.context()).status == 200
    assert time.monotonic() - begin < 5
    # Clients that leave in the middle of an answer.
    for _ in range(30):
        secure = authority.context().wrap_socket(
            connect(daemon), server_hostname="127.0.0.1"
        )
        secure.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        secure.close()
    assert scrape(daemon, authority.context()).status == 200
    for connection in held:
        connection.close()
    assert daemon.stop() == 0


def test_a_large_request_in_pieces_is_answered(
    new_daemon: Callable[[], Daemon], authority: Authority
) -> None:
    daemon = new_daemon()
    flags = flags_of(authority.issue("daemon"))
    daemon.start("--metrics-listen", "127.0.0.1:0", *flags)
    secure = authority.context().wrap_socket(
        connect(daemon), server_hostname="127.0.0.1"
    )
    with secure:
        for piece in (b"GET /metrics HT", b"TP/1.1\r\n", b"X: y\r\n" * 500, b"\r\n"):
            secure.sendall(piece)
            time.sleep(0.01)
        data = b""
        while piece := secure.recv(65536):
            data += piece
    assert data.startswith(b"HTTP/1.0 200") and data.endswith(b"\n")
    answer = scrape(daemon, authority.context(), "X: " + "y" * 5000)
    assert answer.status == 431


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"cert": "x"}, "metrics_tls_cert and metrics_tls_key must be set together"),
        ({"client-ca": "x"}, "metrics_tls_client_ca: requires metrics_tls_cert"),
    ],
)
def test_keys_that_miss_others_are_named(
    new_daemon: Callable[[], Daemon], keys: dict[str, str], words: str
) -> None:
    daemon = new_daemon()
    flags = [
        word for key, value in keys.items() for word in (f"--metrics-tls-{key}", value)
    ]
    process = daemon.spawn("--metrics-listen", "127.0.0.1:0", *flags)
    assert process.wait(WAIT_S) == USAGE_EXIT
    assert words in daemon.log()


def test_a_file_that_is_no_certificate_is_named(
    new_daemon: Callable[[], Daemon], authority: Authority
) -> None:
    certificate, key = authority.issue("daemon")
    certificate.write_text("nonsense")
    daemon = new_daemon()
    flags = flags_of((certificate, key))
    process = daemon.spawn("--metrics-listen", "127.0.0.1:0", *flags)
    assert process.wait(WAIT_S) != 0
    assert f"metrics_tls_cert {certificate}" in daemon.log()
