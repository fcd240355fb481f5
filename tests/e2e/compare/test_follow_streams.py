"""Following runs from before they begin, and ranks that do not finish a token."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import msitd
import numpy as np

from daemon import BIN_DIR, Daemon

TIMEOUT_S = 60

# A rank that dies in the token with its first NaN, without any notification.
RANK = """
import os, sys
import msitd
import numpy as np
client = msitd.Client("t")
for token in range(2):
    for op in "abcd":
        value = float("nan") if (token, op) == (1, "b") else 1
        client.record(np.full(4, value, np.float32), op=op, token=token)
        if np.isnan(value):
            os.kill(os.getpid(), 9)
"""


@contextmanager
def follower(daemon: Daemon, *flags: str) -> Iterator["subprocess.Popen[str]"]:
    """A comparison of g and t that follows them; it is killed if it hangs."""
    process = subprocess.Popen(
        [BIN_DIR / "msitctl", "-o", "json", "compare", "run", "g", "t", "--follow"]
        + list(flags),
        env={**os.environ, "MSITCTL_ENDPOINT": daemon.endpoint},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    alarm = threading.Timer(TIMEOUT_S, process.kill)
    alarm.start()
    try:
        yield process
    finally:
        alarm.cancel()
        process.kill()
        process.communicate()


def record(daemon: Daemon, run: str, tokens: int) -> None:
    with msitd.Client(run, endpoint=str(daemon.socket_dir)) as client:
        for token in range(tokens):
            for op in "abcd":
                client.record(np.full(4, 1, np.float32), op=op, token=token)


def next_row(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    assert process.stdout is not None
    row = json.loads(process.stdout.readline())
    return int(row["token"]), row["op"], row["verdict"]


def test_follower_may_come_before_its_runs(daemon: Daemon) -> None:
    with follower(daemon, "--rows", "all") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "msitctl: waiting for run g to begin\n"
        record(daemon, "g", 1)
        assert process.stderr.readline() == "msitctl: waiting for run t to begin\n"
        record(daemon, "t", 1)
        assert [next_row(process) for _ in "abcd"] == [(0, op, "PASS") for op in "abcd"]
        daemon.ctl("run", "seal", "g")
        daemon.ctl("run", "seal", "t")
        assert process.wait(TIMEOUT_S) == 0


def test_rank_that_dies_in_its_token_is_reported(daemon: Daemon) -> None:
    record(daemon, "g", 2)
    environment = {**os.environ, "MSITD_ENDPOINT": str(daemon.socket_dir)}
    daemon.ctl("run", "create", "t")
    with follower(daemon, "--rows", "all", "--watch", "nan") as process:
        subprocess.run([sys.executable, "-c", RANK], env=environment, check=False)
        rows = [next_row(process) for _ in range(6)]
        assert rows[:4] == [(0, op, "PASS") for op in "abcd"]
        assert rows[4:] == [(1, "a", "PASS"), (1, "b", "FAIL")]
        # Tensors that it has not reached are missing once no more can arrive.
        daemon.ctl("run", "seal", "g")
        daemon.ctl("run", "seal", "t")
        rows = [next_row(process) for _ in range(2)]
        assert rows == [(1, "c", "UNMATCHED"), (1, "d", "UNMATCHED")]
        assert process.wait(TIMEOUT_S) == 1
        assert process.stderr is not None
        assert 'watch "target_nan_count > 0" holds: row 5' in process.stderr.read()
