"""Ranks that die without notice: every record that returned is stored by the daemon."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from names import tensor_name

from daemon import Daemon

RECORDS = 100
TIMEOUT_S = 30

DEATHS = {
    "exit": ("os._exit(1)", 1),
    "abort": ("os.abort()", -signal.SIGABRT),
    "kill": ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
}
OVERFLOWS = ("block", "drop-newest", "drop-oldest-token", "degrade")

RANK = """
import os, resource, signal, sys
import msitd, numpy as np
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
client = msitd.Client("dead", overflow=sys.argv[1])
for i in range({records}):
    taken = client.record(
        np.arange(i, i + 512, dtype=np.int32), op=f"op.{{i}}", token=i // 40
    )
    assert taken, i
{death}
"""


def run_rank(daemon: Daemon, program: str, *args: str) -> int:
    return subprocess.run(
        [sys.executable, "-c", program, *args],
        env={**os.environ, "MSITD_ENDPOINT": str(daemon.socket_dir)},
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
        check=False,
    ).returncode


def start_rank(daemon: Daemon, program: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "MSITD_ENDPOINT": str(daemon.socket_dir)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def wait_until_streams_end(daemon: Daemon) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while int(daemon.ctl_json("node", "status").get("open_stream_count", 0)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def stored_ops(daemon: Daemon, run: str) -> set[str]:
    listed = daemon.ctl_json("tensor", "list", "--run", run, "--limit", "0")
    return {tensor["op"] for tensor in listed.get("tensors", [])}


def tensor_count(daemon: Daemon, run: str) -> int:
    return int(daemon.ctl_json("run", "get", run)["counters"].get("tensor_count", 0))


def memory_is_given_back(daemon: Daemon) -> bool:
    assert daemon.process is not None
    deadline = time.monotonic() + TIMEOUT_S
    while "msitd-arena" in Path(f"/proc/{daemon.process.pid}/maps").read_text():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def read_raw(daemon: Daemon, name: str) -> bytes:
    args = ("tensor", "read", name, "--out", "-", "--format", "raw")
    return daemon.ctl(*args, binary=True).stdout


@pytest.mark.parametrize("overflow", OVERFLOWS)
@pytest.mark.parametrize("death", DEATHS)
def test_what_a_dead_rank_recorded_is_stored(
    daemon: Daemon, death: str, overflow: str
) -> None:
    act, status = DEATHS[death]
    program = RANK.format(records=RECORDS, death=act)
    assert run_rank(daemon, program, overflow) == status
    wait_until_streams_end(daemon)
    assert stored_ops(daemon, "dead") == {f"op.{i}" for i in range(RECORDS)}
    for i in (0, 1, 41, RECORDS - 1):
        data = read_raw(daemon, tensor_name("dead", f"op.{i}", token=i // 40))
        assert data == np.arange(i, i + 512, dtype=np.int32).tobytes(), i
    assert memory_is_given_back(daemon)


TWO_DAEMONS = """
import os, signal, sys, time
import msitd, numpy as np
client = msitd.Client("dead", linger=60, max_block=60)
def record(begin, end):
    for i in range(begin, end):
        assert client.record(np.arange(i, i + 512, dtype=np.int32), op=f"op.{i}")
record(0, 50)
print("half", flush=True)
while client.counters().reconnect_count == 0: time.sleep(0.001)
record(50, 100)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_chunk_begun_under_an_earlier_daemon_is_stored_once(new_daemon) -> None:
    daemon = new_daemon()
    daemon.start()
    rank = start_rank(daemon, TWO_DAEMONS)
    assert rank.stdout is not None
    assert rank.stdout.readline() == b"half\n"
    daemon.kill()
    daemon.start()
    assert rank.wait(TIMEOUT_S) == -signal.SIGKILL
    wait_until_streams_end(daemon)
    assert stored_ops(daemon, "dead") == {f"op.{i}" for i in range(RECORDS)}
    assert tensor_count(daemon, "dead") == RECORDS


THREADS = """
import os, threading
import msitd, numpy as np
client = msitd.Client("dead", max_block=60)
def work(thread):
    for i in range(1_000_000):
        client.record(np.full(700 + i % 999, i, np.int32), op=f"{thread}.{i}")
        os.write(1, f"{thread} {i}\\n".encode())
threads = [threading.Thread(target=work, args=(t,)) for t in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
"""


def test_every_record_that_returned_is_stored(daemon: Daemon) -> None:
    """Kills a rank whose threads record at full speed."""
    rank = start_rank(daemon, THREADS)
    assert rank.stdout is not None
    returned = [rank.stdout.readline() for _ in range(3000)]
    rank.kill()
    returned += rank.stdout.readlines()
    rank.wait(TIMEOUT_S)
    wait_until_streams_end(daemon)
    records = [tuple(map(int, line.split())) for line in returned]
    ops = stored_ops(daemon, "dead")
    assert ops >= {f"{thread}.{i}" for thread, i in records}
    for thread, i in records[-8:]:
        data = read_raw(daemon, tensor_name("dead", f"{thread}.{i}"))
        assert data == np.full(700 + i % 999, i, np.int32).tobytes()


CHILD = """
import os, sys
import msitd, numpy as np
client = msitd.Client("dead", linger=60)
for i in range(100):
    assert client.record(np.arange(i, i + 512, dtype=np.int32), op=f"op.{i}")
if os.fork() == 0:
    os.close(1)
    sys.stdin.read()
    os._exit(0)
os._exit(1)
"""


def test_child_that_holds_everything_open_changes_nothing(daemon: Daemon) -> None:
    rank = start_rank(daemon, CHILD)
    assert rank.wait(TIMEOUT_S) == 1
    wait_until_streams_end(daemon)
    assert stored_ops(daemon, "dead") == {f"op.{i}" for i in range(RECORDS)}
    assert rank.stdin is not None
    rank.stdin.close()
