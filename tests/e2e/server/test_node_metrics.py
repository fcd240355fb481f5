"""The metrics page reports events, and requests for it cannot harm the daemon."""

import re
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from chunk_bytes import Chunk, Record
from prometheus_client.parser import text_string_to_metric_families
from scrape import answer_of, ask, connect, families, values, wait_for
from wire import IngestStream, refusal, write

from daemon import Daemon

USAGE_EXIT = 2
PAGE = Path(__file__).resolve().parents[3] / "docs" / "monitoring.md"
# Metrics that no daemon of this test has, because they count refusals or are about TLS.
SELDOM = {"msitd_refused_chunks", "msitd_certificate_expiry_time_seconds"}


@pytest.fixture
def measured(new_daemon: Callable[[], Daemon]) -> Daemon:
    """A running daemon with a metrics page."""
    daemon = new_daemon()
    daemon.start("--metrics-listen", "127.0.0.1:0")
    return daemon


def fill(daemon: Daemon, run: str, count: int = 3) -> None:
    chunks = [
        Chunk(run, [Record(f"op.{i}", bytes([i]) * 4096, [1024])], sequence=i).pack()
        for i in range(count)
    ]
    write(daemon.channel(), run, chunks)


def test_metrics_say_what_was_recorded_and_refused(measured: Daemon) -> None:
    before = values(measured)
    assert before["msitd_ingest_bytes_total"] == 0
    assert before['msitd_storage_state{state="ok"}'] == 1
    fill(measured, "r")
    stream = IngestStream(measured.channel(), "s")
    stream.opened()
    stream.send_chunk(b"nonsense")
    with pytest.raises(grpc.RpcError) as error:
        stream.finish()
    assert refusal(error.value).reason == "CHUNK_MALFORMED"
    measured.ctl("run", "pin", "r")
    measured.ctl("run", "get", "no-such-run", expect=None)
    found = wait_for(
        measured, 'msitd_refused_chunks_total{reason="CHUNK_MALFORMED"}', 1
    )
    assert found["msitd_ingest_chunks_total"] == 3
    assert found["msitd_ingest_records_total"] == 3
    assert found["msitd_ingest_bytes_total"] == 3 * 4096
    assert found["msitd_ack_seconds_count"] == 3
    assert 0 < found["msitd_ack_seconds_sum"] < 60
    assert found["msitd_runs"] == 2
    assert found["msitd_pinned_runs"] == 1
    assert found["msitd_pinned_bytes"] == 3 * 4096
    assert found['msitd_calls_total{code="NOT_FOUND"}'] >= 1
    assert found['msitd_call_seconds_count{pool="control"}'] >= 2
    assert found['msitd_store_bytes{part="segments"}'] > 3 * 4096
    assert found["msitd_disk_free_bytes"] > 0
    assert found["process_resident_memory_bytes"] > 1 << 20
    assert found["process_open_fds"] > 10
    assert found['msitd_log_lines_total{level="info"}'] >= 3


def test_every_metric_is_in_the_manual_and_the_other_way_round(
    measured: Daemon,
) -> None:
    fill(measured, "r")
    found = families(measured)
    told = {}
    for line in PAGE.read_text().splitlines():
        row = re.match(r"\| `(\w+)` \| (\w+) \| (`\w+`)? *\| (.+) \|$", line)
        if row:
            name, kind, label, text = row.groups()
            told[name.removesuffix("_total")] = (kind, (label or "").strip("`"), text)
    for name, family in found.items():
        labels = {key for s in family.samples for key in s.labels} - {"le"}
        assert told.pop(name) == (
            family.type,
            "".join(labels),
            family.documentation.removesuffix("."),
        )
    assert set(told) == SELDOM


def test_only_the_path_of_the_metrics_is_there(measured: Daemon) -> None:
    assert ask(connect(measured), "HEAD /metrics HTTP/1.1").body == ""
    assert ask(connect(measured), "GET / HTTP/1.1").status == 404
    assert ask(connect(measured), "GET /metrics/../etc/passwd HTTP/1.1").status == 404
    assert ask(connect(measured), "DELETE /metrics HTTP/1.1").status == 405
    assert ask(connect(measured), "hello").status == 400


def test_strangers_cannot_keep_others_from_the_metrics(measured: Daemon) -> None:
    held = [connect(measured) for _ in range(200)]
    for i, connection in enumerate(held):
        try:
            connection.sendall(b"GET /metrics" if i % 2 else bytes(range(256)) * 64)
        except OSError:
            pass  # It had to go already.
    begin = time.monotonic()
    assert ask(connect(measured)).status == 200
    assert time.monotonic() - begin < 5
    # A client that requests repeatedly and never reads.
    for _ in range(50):
        with connect(measured) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            slow.sendall(b"GET /metrics HTTP/1.1\r\n\r\n" * 8)
    fill(measured, "r")
    found = wait_for(measured, "msitd_ingest_chunks_total", 3)
    assert found["process_open_fds"] < 200
    for connection in held:
        connection.close()


def test_a_unix_socket_is_for_the_owner_and_the_group(
    new_daemon: Callable[[], Daemon],
) -> None:
    daemon = new_daemon()
    path = daemon.socket_dir / "metrics.sock"
    for _ in range(2):
        daemon.start("--metrics-listen", str(path))
        mode = path.stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o660
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            body = answer_of(connection).body
        names = {family.name for family in text_string_to_metric_families(body)}
        assert "msitd_ingest_bytes" in names
        # Even over the file that a killed daemon leaves.
        daemon.kill()
    daemon.start("--metrics-listen", str(path))
    assert daemon.stop() == 0
    assert not path.exists()


def test_other_machines_need_a_token(
    new_daemon: Callable[[], Daemon], tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text(" secret-1\n")
    daemon = new_daemon()
    daemon.start("--metrics-listen", "0.0.0.0:0", "--metrics-token-file", str(token))

    def status(*lines: str) -> int:
        return ask(
            connect(daemon), "\r\n".join(["GET /metrics HTTP/1.1", *lines])
        ).status

    assert status("Authorization: Bearer secret-1") == 200
    assert status("authorization:  bearer secret-1 ") == 200
    for lines in (
        [],
        ["Authorization: Bearer secret-2"],
        ["Authorization: Bearer secret-"],
        ["Authorization: Bearer "],
        ["Authorization: Basic secret-1"],
        ["X: Authorization: Bearer secret-1"],
        ["Authorization: Bearer secret-1", "Authorization: Bearer secret-2"],
    ):
        assert status(*lines) == 401, lines
    # Not even other pages answer without it.
    assert ask(connect(daemon), "GET /other HTTP/1.1").status == 401
    token.write_text("secret-3")
    assert status("Authorization: Bearer secret-1") == 401
    assert status("Authorization: Bearer secret-3") == 200
    token.write_text("")
    assert status("Authorization: Bearer ") == 401
    token.unlink()
    assert status("Authorization: Bearer secret-3") == 401
    assert "secret" not in daemon.log()


def test_other_machines_cannot_reach_the_metrics(
    new_daemon: Callable[[], Daemon],
) -> None:
    for address in ("0.0.0.0:0", "[::]:0", "example.org:80", "127.0.0.1", "/" * 200):
        daemon = new_daemon()
        process = daemon.spawn("--metrics-listen", address)
        assert process.wait(30) == USAGE_EXIT
        assert "metrics_listen" in daemon.log()


def test_nobody_listens_by_default(daemon: Daemon) -> None:
    assert "metrics endpoint" not in daemon.log()
