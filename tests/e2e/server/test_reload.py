"""SIGHUP applies what can be changed while the daemon runs, and --check-config finds
the problems of a configuration.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from chunk_bytes import Chunk, Record
from wire import write

import daemon as programs
from daemon import Daemon

USAGE_EXIT = 2
WAIT_S = 30


def reload(daemon: Daemon, word: str, count: int = 1) -> str:
    """Sends SIGHUP and waits for the line of the log that ends the reload."""
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + WAIT_S
    while (log := daemon.log()).count(word) < count:
        assert daemon.process.poll() is None and time.monotonic() < deadline, log
        time.sleep(0.02)
    return log


def test_a_reload_applies_what_it_can_and_names_the_rest(
    new_daemon: Callable[[], Daemon], tmp_path: Path
) -> None:
    file = tmp_path / "msitd.toml"
    file.write_text("log_level = 'info'\n")
    daemon = new_daemon()
    daemon.start("--config", str(file))
    file.write_text(
        "log_level = 'debug'\nretain_disk_bytes = '20GB'\nretain_age_s = '2d'\n"
        "max_streams = 7\nquery_threads = 3\n"
    )
    log = reload(daemon, "require a restart")
    assert "changed='log_level,retain_disk_bytes,retain_age_s'" in log
    assert "keys='query_threads,max_streams'" in log
    # Diagnostics have the configuration in force.
    diagnostics = tmp_path / "diag.tar"
    daemon.ctl("node", "diag", "--out", str(diagnostics))
    text = diagnostics.read_bytes().decode(errors="replace")
    assert f"retain_disk_bytes = {20 << 30}" in text
    assert "log_level = 'debug'" in text and "max_streams = 384" in text
    assert daemon.stop() == 0


def test_a_broken_file_changes_nothing(
    new_daemon: Callable[[], Daemon], tmp_path: Path
) -> None:
    file = tmp_path / "msitd.toml"
    file.write_text("retain_tokens = 5\n")
    daemon = new_daemon()
    daemon.start("--config", str(file))
    for i, text in enumerate(
        ("= broken", "nice = 99", "lisen = []", "tls_cert = 'x'", "\0"), start=1
    ):
        file.write_text("retain_tokens = 9\n" + text)
        reload(daemon, "reload failed", i)
    file.unlink()
    reload(daemon, "reload failed", 6)
    file.mkdir()
    reload(daemon, "reload failed", 7)
    assert "reloaded" not in daemon.log()
    file.rmdir()
    file.write_text("retain_tokens = 9\n")
    assert "changed='retain_tokens'" in reload(daemon, "reloaded")
    assert daemon.ctl_json("run", "list") is not None


def test_many_signals_do_no_harm(new_daemon: Callable[[], Daemon]) -> None:
    daemon = new_daemon()
    daemon.start()
    assert daemon.process is not None
    for _ in range(1000):
        daemon.process.send_signal(signal.SIGHUP)
    reload(daemon, "reloaded")
    daemon.ctl("run", "list")
    daemon.process.send_signal(signal.SIGHUP)
    assert daemon.stop() == 0


def test_retention_follows_the_new_limit(
    new_daemon: Callable[[], Daemon], tmp_path: Path
) -> None:
    file = tmp_path / "msitd.toml"
    file.write_text("")
    daemon = new_daemon()
    daemon.start("--config", str(file), "--segment-bytes", str(16 << 20))
    # Whole segments expire, so there must be several.
    chunks = [
        Chunk("r", [Record("op", os.urandom(1 << 20), [1 << 18], token=i)], sequence=i)
        for i in range(40)
    ]
    write(daemon.channel(), "r", [chunk.pack() for chunk in chunks])
    file.write_text("retain_tokens = 2\n")
    reload(daemon, "reloaded")
    deadline = time.monotonic() + WAIT_S
    while "gave up bytes" not in daemon.log():
        assert time.monotonic() < deadline, daemon.log()
        time.sleep(0.1)


def check(*flags: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [programs.BIN_DIR / "msitd", "--check-config", *flags],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={key: value for key, value in os.environ.items() if "AWS_" not in key},
    )


def test_a_check_finds_every_problem_and_starts_nothing(tmp_path: Path) -> None:
    file = tmp_path / "msitd.toml"
    places = f"data_dir = '{tmp_path}/data'\nsocket_dir = '{tmp_path}'\n"
    file.write_text(places)
    good = check("--config", str(file))
    assert good.returncode == 0 and good.stdout == "the configuration is valid\n"
    assert sorted(tmp_path.iterdir()) == [file]
    file.write_text(
        places + "retain_disk_byte = 5\nretain_age_s = '3x'\n"
        "archives = ['s3://bucket/runs']\nadmin_groups = ['no-such-group-here']\n"
    )
    bad = check("--config", str(file), "--audit-file", "/no/such/folder/audit.log")
    assert bad.returncode == USAGE_EXIT and not bad.stdout
    for line in (
        f"{file}:3:1: retain_disk_byte: no such key; did you mean retain_disk_bytes?",
        f'{file}:4:1: retain_age_s: "3x" is not a duration such as',
        f"{file}:5:1: archives: s3:// archives need archive_credentials_file",
        f"{file}:6:1: admin_groups: there is no group 'no-such-group-here'",
        "--audit-file: ",
    ):
        assert line in bad.stderr, bad.stderr
    assert sorted(tmp_path.iterdir()) == [file]
    assert check("--config", str(tmp_path / "none.toml")).returncode == USAGE_EXIT
