"""The daemon as a program: health, reflection, configuration, bounds."""

import os
import subprocess
import time
from pathlib import Path

import grpc
import pytest

from daemon import BIN_DIR, Daemon

SERVING = b"\x08\x01"
SERVICES = [
    "msitd.v1.ComparisonService",
    "msitd.v1.IngestService",
    "msitd.v1.NodeService",
    "msitd.v1.RunReaderService",
    "msitd.v1.RunService",
    "msitd.v1.TensorService",
]


def as_bytes(message: bytes) -> bytes:
    return message


def check_health(channel: grpc.Channel) -> bytes:
    call = channel.unary_unary("/grpc.health.v1.Health/Check", as_bytes, as_bytes)
    return call(b"", timeout=10)


def test_health_is_serving(daemon: Daemon) -> None:
    assert check_health(daemon.channel()) == SERVING


def test_reflection_lists_the_services(daemon: Daemon) -> None:
    list_services = b"\x3a\x00"
    call = daemon.channel().stream_stream(
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        as_bytes,
        as_bytes,
    )(iter([list_services]), timeout=10)
    answer = next(call)
    for service in SERVICES:
        assert service.encode() in answer


def test_threads_have_the_names_of_the_documentation(daemon: Daemon) -> None:
    assert daemon.process is not None
    tasks = Path(f"/proc/{daemon.process.pid}/task")
    wanted = {"msitd", "shared-memory", "accept", "first-reads", "digest", "commit"}
    wanted |= {"index", "control", "query", "reduction", "comparison", "retention"}

    def lacking() -> set[str]:
        return wanted - {(t / "comm").read_text().strip() for t in tasks.iterdir()}

    # A thread sets its name once it is running.
    deadline = time.monotonic() + 30
    while lacking() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not lacking()


def test_unix_socket_serves_too(daemon: Daemon) -> None:
    path = daemon.socket_dir / "msitd.sock"
    with grpc.insecure_channel(f"unix:{path}") as channel:
        assert check_health(channel) == SERVING
    assert path.stat().st_mode & 0o007 == 0


def test_status_and_capabilities(daemon: Daemon) -> None:
    status = daemon.ctl_json("node", "status")
    assert status["storage_state"] == "OK"
    assert int(status["disk_free_bytes"]) > 0
    capabilities = daemon.ctl_json("node", "capabilities")
    assert capabilities["chunk_version"] == 4
    assert "cosine" in capabilities["metrics"]


def test_sockets_are_gone_after_a_stop(daemon: Daemon) -> None:
    assert daemon.stop() == 0
    assert not (daemon.socket_dir / "msitd.sock").exists()
    assert not (daemon.socket_dir / "endpoint").exists()


def test_second_daemon_on_the_same_data_is_refused(daemon: Daemon) -> None:
    second = daemon.spawn("--socket-dir", str(daemon.folder))
    assert second.wait(30) not in (0, None)
    assert check_health(daemon.channel()) == SERVING


def run_msitd(*args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [BIN_DIR / "msitd", *args],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_ranks_go_before_the_daemon(daemon: Daemon) -> None:
    assert daemon.process is not None
    threads = list(Path(f"/proc/{daemon.process.pid}/task").iterdir())
    own = os.getpriority(os.PRIO_PROCESS, 0)
    for thread in threads:
        nice = os.getpriority(os.PRIO_PROCESS, int(thread.name))
        name = (thread / "comm").read_text().strip()
        least = {"digest": 10, "commit": 10, "archive": 15}.get(name, 5)
        assert nice == max(own, least), (thread, name)


BAD_FLAGS = [
    (("--listen", "0.0.0.0:0"), "TLS"),
    (("--listen", "[::]:0"), "TLS"),
    (("--listen", "example.org:7741"), "TLS"),
    (("--listen", "127.0.0.1"), "listen"),
    (("--listen", "127.0.0.2:0"), "use 127.0.0.1"),
    (("--listen", "127.0.0.1:99999"), "listen"),
    (("--log-level", "loud"), "log-level"),
    (("--query-threads", "0"), "query-threads"),
    (("--query-threads", "many"), "query-threads"),
    (("--tls-cert", "a.pem"), "tls"),
    (("--no-such-flag", "1"), "no-such-flag"),
    (("--config", "/nonexistent/msitd.toml"), "/nonexistent/msitd.toml"),
]


@pytest.mark.parametrize(("flags", "word"), BAD_FLAGS)
def test_bad_flag_is_named(tmp_path: Path, flags: tuple[str, ...], word: str) -> None:
    result = run_msitd(
        "--data-dir", str(tmp_path / "d"), "--socket-dir", str(tmp_path), *flags
    )
    assert result.returncode not in (0, -6, -11)
    assert word.lower() in result.stderr.lower()
    assert not (tmp_path / "d").exists()


def test_every_bad_key_of_the_file_is_named_with_its_line(tmp_path: Path) -> None:
    config = tmp_path / "msitd.toml"
    config.write_text(
        'data_dir = "x"\nquery_threads = 0\nlog_levle = "info"\n'
        "direct_io = 3\nlisten = [1]\n"
    )
    result = run_msitd("--config", str(config))
    assert result.returncode not in (0, -6, -11)
    for line, key in ((2, "query_threads"), (3, "log_levle"), (4, "direct_io")):
        assert f"{config}:{line}" in result.stderr, result.stderr
        assert key in result.stderr


def test_printed_configuration_is_read_back(tmp_path: Path) -> None:
    first = run_msitd("--print-config", "--query-threads", "3")
    assert first.returncode == 0
    config = tmp_path / "msitd.toml"
    config.write_text(first.stdout)
    second = run_msitd("--config", str(config), "--print-config")
    assert second.stdout == first.stdout
    assert "query_threads = 3" in second.stdout


def test_version_and_help() -> None:
    for command in (
        ("msitd", "--version"),
        ("msitd", "--help"),
        ("msitctl", "--version"),
        ("msitctl", "--help"),
        ("msitd-inspect", "--help"),
    ):
        result = subprocess.run(
            [BIN_DIR / command[0], *command[1:]],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert result.returncode == 0, (command, result.stderr)
        assert result.stdout
