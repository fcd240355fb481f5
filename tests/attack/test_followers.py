"""Comparisons that follow their runs, with clients that die or keep waiting."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable

import msitd
import numpy as np

from daemon import BIN_DIR, Daemon

# Number of runs that a daemon compares at a time.
THREADS = 2
SOON_S = 5
# A follower without readers ends after 10 s; the rest is for a busy machine.
FORSAKEN_S = 30


def record(daemon: Daemon, run: str, *tokens: int) -> None:
    tensor = np.zeros(4, dtype=np.float32)
    endpoint = f"unix:{daemon.socket_dir}"
    with msitd.Client(
        run, endpoint=endpoint, max_block=30, if_exists="append"
    ) as client:
        for token in tokens:
            client.record(tensor, op="op", token=token, call=0)
        client.flush(30)


def follow(daemon: Daemon) -> "subprocess.Popen[str]":
    """Starts a client that follows both runs, and returns once it has a row."""
    process = subprocess.Popen(
        [
            BIN_DIR / "msitctl",
            *("-o", "json", "compare", "run", "golden", "target"),
            *("--follow", "--rows", "all"),
        ],
        env={**os.environ, "MSITCTL_ENDPOINT": daemon.endpoint},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    # The timer ends a client that prints nothing.
    timer = threading.Timer(20, process.kill)
    timer.start()
    row = process.stdout.readline()
    timer.cancel()
    assert row, daemon.log()
    assert json.loads(row)["verdict"] == "PASS"
    return process


def end(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.wait(10)
    assert process.stdout is not None
    process.stdout.close()


def compare_at_once(daemon: Daemon) -> None:
    start = time.monotonic()
    timeout = ("--timeout", f"{SOON_S}s")
    daemon.ctl(*timeout, "compare", "run", "golden", "target")
    assert time.monotonic() - start < SOON_S


def states(daemon: Daemon) -> dict[str, str]:
    listed = daemon.ctl_json("compare", "list")["comparisons"]
    return {one["name"]: one["state"] for one in listed}


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + FORSAKEN_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_followers_that_wait_leave_room_for_others(daemon: Daemon) -> None:
    record(daemon, "golden", 0, 1)
    record(daemon, "target", 0, 1)
    followers = [follow(daemon) for _ in range(THREADS)]
    try:
        compare_at_once(daemon)
        # The other followers continue.
        record(daemon, "golden", 2)
        record(daemon, "target", 2)
        for process in followers:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["token"] in ("1", 1)
        daemon.ctl("run", "seal", "golden")
        daemon.ctl("run", "seal", "target")
        assert [process.wait(10) for process in followers] == [0, 0]
    finally:
        for process in followers:
            end(process)


def test_followers_whose_clients_are_killed_end_unless_detached(
    daemon: Daemon,
) -> None:
    record(daemon, "golden", 0, 1)
    record(daemon, "target", 0, 1)
    # Started before the others, so its time would be over first.
    detached = daemon.ctl(
        *("-o", "name", "compare", "run", "golden", "target"),
        *("--follow", "--detach"),
    ).stdout.strip()
    for process in [follow(daemon) for _ in range(THREADS)]:
        end(process)
    compare_at_once(daemon)
    wait_until(lambda: list(states(daemon).values()).count("CANCELLED") == THREADS)
    assert states(daemon)[detached] == "RUNNING"
    cancelled = next(n for n, state in states(daemon).items() if state == "CANCELLED")
    assert "nobody reads" in daemon.ctl_json("compare", "get", cancelled)["error"]
    daemon.ctl("compare", "cancel", detached)


def test_a_comparison_that_takes_too_long_is_cancelled(daemon: Daemon) -> None:
    record(daemon, "golden", 0, 1)
    record(daemon, "target", 0, 1)
    failed = daemon.ctl(
        *("--timeout", "500ms", "compare", "run", "golden", "target"),
        "--follow",
        expect=64 + 4,
    )
    assert "c-000001 was cancelled" in failed.stderr
    assert states(daemon) == {"c-000001": "CANCELLED"}
