"""Processor time and memory that the daemon and its ranks use."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import msitd
import numpy as np

from daemon import Daemon

MIB = 1 << 20
# Threads that accept chunks from local ranks.
INGEST = {"shared-memory", "digest", "commit", "index"}


def niceness(daemon: Daemon) -> dict[str, int]:
    """Returns the niceness of each thread of a daemon, by name."""
    assert daemon.process is not None
    out = {}
    for task in Path(f"/proc/{daemon.process.pid}/task").iterdir():
        name, fields = (task / "stat").read_text().split("(")[1].rsplit(")", 1)
        # The first of `fields` is the third field of proc(5), and this is field
        # 19.
        out[name] = int(fields.split()[16])
    return out


def switches(pid: int | str, names: set[str]) -> dict[str, int]:
    """Returns how often threads of these names yielded a processor."""
    out = dict.fromkeys(names, 0)
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = (task / "status").read_text()
        fields = dict(line.split(":\t", 1) for line in status.splitlines())
        if fields["Name"] in names:
            for kind in ("voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"):
                out[fields["Name"]] += int(fields[kind])
    return out


def touched_bytes() -> int:
    """Returns the bytes of client memory that this process has touched."""
    kibibytes = 0
    is_arena = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            is_arena = "msitd-arena" in line
        elif is_arena and line.startswith("Rss:"):
            kibibytes += int(line.split()[1])
    return kibibytes << 10


def test_threads_that_take_chunks_are_nicer(
    new_daemon: Callable[[], Daemon],
) -> None:
    daemon = new_daemon()
    daemon.start("--nice", "13", "--ingest-nice", "17")
    nice = niceness(daemon)
    assert (nice["digest"], nice["commit"]) == (17, 17)
    assert (nice["shared-memory"], nice["control"]) == (13, 13)
    other = new_daemon()
    other.start("--nice", "13", "--ingest-nice", "1")
    nice = niceness(other)
    assert (nice["digest"], nice["commit"]) == (13, 13)


def test_nobody_wakes_while_nothing_is_recorded(daemon: Daemon) -> None:
    assert daemon.process is not None
    pid = daemon.process.pid
    ours = {"msit-sender", "msit-session"}
    with msitd.Client("r", endpoint=str(daemon.socket_dir)) as client:
        client.record(np.zeros(1000), op="op")
        client.flush()
        # Until the counters of the record are reported.
        time.sleep(1.5)
        before = (switches("self", ours), switches(pid, INGEST))
        time.sleep(1.5)
        assert (switches("self", ours), switches(pid, INGEST)) == before


def test_small_steps_touch_little_memory(daemon: Daemon) -> None:
    with msitd.Client("r", endpoint=str(daemon.socket_dir)) as client:
        for _ in range(50):
            client.record(np.ones(1000, np.float32), op="op")
            client.flush()
            client.next_token()
        assert 0 < touched_bytes() < 16 * MIB


def test_a_first_step_is_held_as_a_whole(daemon: Daemon) -> None:
    """More than 64 MiB, while the daemon accepts nothing."""
    assert daemon.process is not None
    tensor = np.ones(MIB, np.float32)
    with msitd.Client("r", endpoint=str(daemon.socket_dir), max_block=0) as client:
        daemon.process.send_signal(signal.SIGSTOP)
        try:
            taken = sum(client.record(tensor, op=f"op.{i}") for i in range(40))
        finally:
            daemon.process.send_signal(signal.SIGCONT)
        client.flush()
    # 1/64 of the available memory, but at least 64 MiB.
    available = next(
        int(line.split()[1]) << 10
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemAvailable:")
    )
    if available > 64 * 256 * MIB:
        assert taken == 40
    else:
        assert taken >= 14


def test_status_says_which_pages_are_shared(
    daemon: Daemon, new_daemon: Callable[[], Daemon]
) -> None:
    status = daemon.ctl_json("node", "status")
    assert status["shared_memory_pages"] in ("huge", "small")
    assert f"share memory pages={status['shared_memory_pages']}" in daemon.log()
    alone = new_daemon()
    alone.start("--shared-memory", "false")
    assert alone.ctl_json("node", "status")["shared_memory_pages"] == ""
