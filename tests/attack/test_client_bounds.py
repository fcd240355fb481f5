"""Every call of the client ends within its time limit, whatever happens to the
daemon.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import bounded_rank as rank
import pytest
from hosts import Namespace, why_no_namespace

from daemon import Daemon

MODES = ["block", "drop-newest", "drop-oldest-token", "degrade"]

# A busy machine may not run a thread for this long. Without a bound, a call
# takes ten times as long, or forever.
SLACK_S = 0.4
# Time in seconds for a client whose records have all arrived to end its stream.
FINISH_S = 1.0
# Time in seconds for the interpreter to unload its own modules.
EXIT_S = 0.5
PATIENCE_S = 90

Bounds = dict[str, float]


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    """A network that can be interrupted."""
    if why_no_namespace():
        pytest.skip(why_no_namespace())
    namespace = Namespace()
    try:
        yield namespace
    finally:
        namespace.end()


def check_bounds(
    endpoint: str, overflow: str, fault: Callable[[], None], prefix: list[str]
) -> None:
    """Runs a rank whose daemon suffers `fault`, and measures its calls."""
    process = subprocess.Popen(
        [*prefix, sys.executable, str(Path(rank.__file__)), endpoint, overflow],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "ready\n", process.communicate()
        fault()
        process.stdin.write("go\n")
        process.stdin.flush()
        took: Bounds = json.loads(process.stdout.readline() or "{}")
        begin = time.monotonic()
        _, error = process.communicate(timeout=PATIENCE_S)
        took["exit"] = time.monotonic() - begin
        assert process.returncode == 0, error
    finally:
        process.kill()
    bounds = {
        "record": 0 if overflow == "drop-newest" else rank.MAX_BLOCK_S,
        "flush": rank.FLUSH_S,
        "token": 0,
        "begin_call": 0,
        "selects": 0,
        "counters": 0,
        "stream_error": 0,
        "close": rank.CLOSE_S,
        "close_again": 0,
        "close_idle": FINISH_S,
        "open": rank.OPEN_S,
        "exit": rank.CLOSE_S + EXIT_S,
    }
    print(json.dumps({call: round(seconds, 3) for call, seconds in took.items()}))
    assert took.keys() == bounds.keys(), took
    late = {
        call: (seconds, bounds[call])
        for call, seconds in took.items()
        if seconds > bounds[call] + SLACK_S
    }
    assert not late, f"(seconds, bound) of calls that took too long: {late}"


def endpoint_of(daemon: Daemon, transport: str) -> str:
    """Returns the endpoint of the daemon for this transport."""
    return str(daemon.socket_dir) if transport == "shm" else daemon.endpoint


@pytest.mark.parametrize("overflow", MODES)
@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_calls_end_in_time_while_the_daemon_is_stopped(
    daemon: Daemon, transport: str, overflow: str
) -> None:
    assert daemon.process is not None
    process = daemon.process
    try:
        check_bounds(
            endpoint_of(daemon, transport),
            overflow,
            lambda: process.send_signal(signal.SIGSTOP),
            [],
        )
    finally:
        process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("overflow", MODES)
@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_calls_end_in_time_when_the_daemon_was_killed(
    daemon: Daemon, transport: str, overflow: str
) -> None:
    check_bounds(endpoint_of(daemon, transport), overflow, daemon.kill, [])


@pytest.mark.parametrize("overflow", MODES)
def test_calls_end_in_time_behind_a_dropped_network(
    namespace: Namespace, new_daemon: Callable[[], Daemon], overflow: str
) -> None:
    daemon = new_daemon()
    daemon.prefix = namespace.prefix
    daemon.start()
    check_bounds(daemon.endpoint, overflow, namespace.drop, namespace.prefix)
