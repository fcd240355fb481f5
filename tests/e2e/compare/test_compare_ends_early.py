"""A comparison that ends early: its name, the reason, and whether it continues."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from chunk_bytes import Chunk, Record, float32
from wire import write

from daemon import BIN_DIR, Daemon

DEADLINE, NOT_FOUND, UNAVAILABLE = 64 + 4, 64 + 5, 64 + 14


@pytest.fixture
def runs(daemon: Daemon) -> Daemon:
    """A daemon with two active runs, so that followers wait for more."""
    for run in ("g", "t"):
        records = [Record("op", float32(1), [1], token=t, sequence=t) for t in (0, 1)]
        write(daemon.channel(), run, [Chunk(run, records).pack()])
    return daemon


class Follower:
    """A following msitctl that has printed its first row."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def end(self) -> tuple[int, str]:
        """Waits for its end; returns the exit code and stderr."""
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err


@contextmanager
def following(daemon: Daemon, *flags: str) -> Iterator[Follower]:
    process = subprocess.Popen(
        [
            *(BIN_DIR / "msitctl", "-o", "json", "compare", "run", "g", "t"),
            *("--follow", "--rows", "all", *flags),
        ],
        env={**os.environ, "MSITCTL_ENDPOINT": daemon.endpoint},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # A missing row ends the test instead of blocking it.
    alarm = threading.Timer(60, process.kill)
    alarm.start()
    try:
        assert process.stdout is not None
        assert '"row"' in process.stdout.readline()
        yield Follower(process)
    finally:
        alarm.cancel()
        process.kill()
        process.wait()


def test_daemon_that_stops_is_78(runs: Daemon) -> None:
    with following(runs) as follower:
        runs.stop()
        code, err = follower.end()
    assert code == UNAVAILABLE, err
    assert "c-000001" in err
    assert "continues" in err or "the daemon stopped" in err
    assert "INTERNAL" not in err


def test_what_a_stop_cut_off_says_so_ever_after(runs: Daemon) -> None:
    runs.ctl("compare", "run", "g", "t", "--follow", "--detach")
    runs.stop()
    runs.start()
    comparison = runs.ctl_json("compare", "get", "c-000001")
    assert comparison["state"] == "FAILED"
    assert comparison["error_code"] == 14
    assert comparison["error_reason"] == "NOT_SERVING"


def test_daemon_that_is_killed_is_78(runs: Daemon) -> None:
    with following(runs) as follower:
        runs.kill()
        code, err = follower.end()
    assert code == UNAVAILABLE, err
    assert "c-000001" in err
    assert "c-000001 continues for about 10 s while the daemon runs" in err


@pytest.mark.parametrize("run", ["g", "t"])
def test_run_that_is_deleted_is_69(runs: Daemon, run: str) -> None:
    with following(runs) as follower:
        runs.ctl("run", "delete", run, "--yes")
        code, err = follower.end()
    assert code == NOT_FOUND, err
    assert "RUN_NOT_FOUND" in err
    assert f"no run {run}" in err
    assert "c-000001" in err
    assert "c-000001 failed" in err


def test_run_that_is_made_again_is_another_one(runs: Daemon) -> None:
    with following(runs) as follower:
        runs.ctl("run", "delete", "t", "--yes")
        write(runs.channel(), "t", [Chunk("t", [Record("op", float32(1), [1])]).pack()])
        code, err = follower.end()
    assert code == NOT_FOUND, err
    assert "c-000001" in err
    assert "c-000001 failed" in err


def test_comparison_that_is_deleted_is_69(runs: Daemon) -> None:
    with following(runs) as follower:
        runs.ctl("compare", "delete", "c-000001", "--yes")
        code, err = follower.end()
    assert code == NOT_FOUND, err
    assert "COMPARISON_NOT_FOUND" in err
    assert "c-000001 is no longer running" in err


def test_daemon_that_hangs_is_68_with_the_name(runs: Daemon) -> None:
    with following(runs, "--timeout", "2s") as follower:
        assert runs.process is not None
        runs.process.send_signal(signal.SIGSTOP)
        try:
            code, err = follower.end()
        finally:
            runs.process.send_signal(signal.SIGCONT)
    assert code == DEADLINE, err
    assert "c-000001 has not ended in time" in err
    assert "c-000001 may still be running" in err


def test_comparison_whose_name_never_came_is_68(
    new_daemon: Callable[[], Daemon],
) -> None:
    daemon = new_daemon()
    daemon.start()
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        # The kernel accepts the connection, so the call itself gets no answer.
        result = daemon.ctl("--timeout", "2s", "compare", "run", "g", "t", expect=None)
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    assert result.returncode in (DEADLINE, UNAVAILABLE), result.stderr
    if result.returncode == DEADLINE:
        assert "msitctl compare list" in result.stderr
