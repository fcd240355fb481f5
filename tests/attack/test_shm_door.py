"""Foreign processes that connect to ingest.sock, and the shared memory that it
hands out.
"""

import array
import fcntl
import os
import signal
import socket
import struct
import threading
import time

import msitd
import numpy as np
import pytest
from shm_client import ARENA_BYTES, MAGIC, VERSION, ShmProducer, hello

from daemon import Daemon

SILENT_CONNECTIONS = 400
FLOOD_PACKETS = 200
SCM_FDS_MAX = 253
FLOOD_S = 2.0
TIMEOUT_S = 30
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def connect(daemon: Daemon) -> socket.socket:
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    door.settimeout(TIMEOUT_S)
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            door.connect(str(daemon.socket_dir / "ingest.sock"))
            return door
        # More connections are waiting than may be accepted.
        except BlockingIOError:
            assert time.monotonic() < deadline
            time.sleep(0.001)


def send_fds(door: socket.socket, packet: bytes, fds: list[int]) -> None:
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
    door.sendmsg([packet], [rights])


def pid_of(daemon: Daemon) -> int:
    assert daemon.process is not None
    return daemon.process.pid


def fd_count(daemon: Daemon) -> int:
    return len(os.listdir(f"/proc/{pid_of(daemon)}/fd"))


def cpu_seconds(daemon: Daemon) -> float:
    with open(f"/proc/{pid_of(daemon)}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def seconds_to_store(daemon: Daemon, run: str = "good") -> float:
    """Returns the time in seconds from a rank's start to its first acknowledgement."""
    start = time.monotonic()
    with msitd.Client(run, endpoint=str(daemon.socket_dir), open_timeout=30) as client:
        assert client.record(np.zeros(1000), op="op")
        client.flush(60)
    assert client.counters().acknowledged_count == 1
    return time.monotonic() - start


def wait_for_fds(daemon: Daemon, count: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while fd_count(daemon) > count:
        assert time.monotonic() < deadline, (fd_count(daemon), count)
        time.sleep(0.01)


def test_silent_connections_keep_no_rank_out(daemon: Daemon) -> None:
    before = fd_count(daemon)
    silent = [connect(daemon) for _ in range(SILENT_CONNECTIONS)]
    # Such clients are disconnected after five seconds anyway, but never before.
    assert seconds_to_store(daemon) < 3
    assert seconds_to_store(daemon, "again") < 3
    for door in silent:
        door.close()
    wait_for_fds(daemon, before + 4)


def test_descriptors_that_nobody_asked_for_are_closed(daemon: Daemon) -> None:
    seconds_to_store(daemon)
    before = fd_count(daemon)
    null = os.open("/dev/null", os.O_RDONLY)
    fds = [null] * SCM_FDS_MAX
    try:
        for i in range(FLOOD_PACKETS):
            with connect(daemon) as door:
                packet = hello("flood", stream_id=i + 1) if i % 2 else b"x" * 64
                send_fds(door, packet, fds[: 1 + i % SCM_FDS_MAX])
        producer = ShmProducer(daemon.socket_dir, "flood", 1, 9)
        coverage = struct.pack("<IHHQQQQQQ", MAGIC, VERSION, 3, 0, 0, 0, 0, 0, 0)
        for i in range(FLOOD_PACKETS):
            try:
                send_fds(producer.socket, coverage, fds[: 1 + i % 3])
            except OSError:
                break
        assert fd_count(daemon) <= before + 16
        producer.close()
    finally:
        os.close(null)
    assert seconds_to_store(daemon, "again") < 5
    wait_for_fds(daemon, before + 4)


def test_descriptor_that_is_slow_to_close_stalls_nobody(daemon: Daemon) -> None:
    """The last copy of a TCP socket that lingers: closing it waits for its peer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()[:2], timeout=5) as tcp:
            peer, _ = server.accept()
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            tcp.setblocking(False)
            try:
                while True:
                    tcp.send(bytes(1 << 16))
            except BlockingIOError:
                pass
            linger = struct.pack("ii", 1, 20)
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            door = connect(daemon)
            # Stopped, so that the copy in transit is the last one.
            os.kill(pid_of(daemon), signal.SIGSTOP)
            send_fds(door, b"no hello", [tcp.fileno()])
        os.kill(pid_of(daemon), signal.SIGCONT)
        assert seconds_to_store(daemon) < 5
        door.close()
        peer.close()


def test_oversize_and_empty_packets_end_their_session_only(daemon: Daemon) -> None:
    before = fd_count(daemon)
    for size in (0, 1, 423, 425, 1024, 1025, 65_536, 200_000):
        with connect(daemon) as door:
            door.send(bytes(size))
            assert len(door.recv(1024)) in (0, 600)
    assert seconds_to_store(daemon) < 3
    wait_for_fds(daemon, before + 4)


@pytest.mark.parametrize("kind", ["pipe", "file", "loose", "small", "huge"])
def test_memory_that_is_none_is_refused(daemon: Daemon, kind: str, tmp_path) -> None:
    if kind == "pipe":
        fd, other = os.pipe()
        os.close(other)
    elif kind == "file":
        (tmp_path / "file").write_bytes(bytes(ARENA_BYTES))
        fd = os.open(tmp_path / "file", os.O_RDWR)
    else:
        fd = os.memfd_create("foreign", os.MFD_ALLOW_SEALING)
        sizes = {"loose": ARENA_BYTES, "small": 4096, "huge": (1 << 30) + 4096}
        os.ftruncate(fd, sizes[kind])
        if kind != "loose":
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, SEALS)
    with connect(daemon) as door:
        send_fds(door, hello("foreign"), [fd])
        packet = door.recv(1024)
    os.close(fd)
    code, reason_bytes = struct.unpack_from("<iI", packet, 8)
    assert (code, packet[24 : 24 + reason_bytes]) == (3, b"RING_INVALID")


def test_flood_of_wakeups_costs_others_little(daemon: Daemon) -> None:
    producer = ShmProducer(daemon.socket_dir, "flood", 0, 7)
    is_over = threading.Event()

    def flood() -> None:
        while not is_over.is_set():
            producer.wake()

    before = cpu_seconds(daemon)
    start = time.monotonic()
    thread = threading.Thread(target=flood)
    thread.start()
    try:
        assert seconds_to_store(daemon) < 3
        while time.monotonic() < start + FLOOD_S:
            time.sleep(0.05)
    finally:
        is_over.set()
        thread.join()
    share = (cpu_seconds(daemon) - before) / (time.monotonic() - start)
    producer.close()
    # About as much CPU as the flooding client itself uses, and at most one
    # core.
    assert share < 1


def test_links_in_the_socket_directory_are_not_followed(new_daemon) -> None:
    daemon = new_daemon()
    victim = daemon.folder / "victim"
    victim.write_text("precious")
    for name in ("endpoint", "endpoint.next"):
        (daemon.socket_dir / name).symlink_to(victim)
    daemon.start()
    assert victim.read_text() == "precious"
    assert not (daemon.socket_dir / "endpoint").is_symlink()


def test_arena_over_the_limit_keeps_what_it_holds(new_daemon) -> None:
    """A restart with a `ring_bytes_max` below the size that a live rank was given."""
    daemon = new_daemon()
    daemon.start()
    endpoint = str(daemon.socket_dir)
    with msitd.Client("r", endpoint=endpoint, linger=60, max_block=60) as client:
        for i in range(10):
            assert client.record(np.full(1000, i), op=f"op.{i}")
        daemon.kill()
        daemon.start("--ring-bytes-max", str(16 << 20))
        deadline = time.monotonic() + TIMEOUT_S
        while "ring_bytes_max" not in daemon.log():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert client.counters().acknowledged_count == 0
        daemon.kill()
        daemon.start()
        client.flush(60)
        assert client.counters().acknowledged_count == 10
        assert client.counters().dropped_count == 0
