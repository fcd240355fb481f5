"""Bytes that do not belong to any protocol of msitd."""

import random
import socket

from daemon import Daemon

CONNECTIONS = 50
BYTES = 4096


def test_random_bytes_on_both_doors_leave_it_serving(daemon: Daemon) -> None:
    rng = random.Random(0)
    host, port = daemon.endpoint.rsplit(":", 1)
    for _ in range(CONNECTIONS):
        with socket.create_connection((host, int(port)), timeout=5) as tcp:
            tcp.sendall(rng.randbytes(BYTES))
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
            door.settimeout(5)
            door.connect(str(daemon.socket_dir / "ingest.sock"))
            door.send(rng.randbytes(64))
    assert daemon.ctl_json("node", "status")["storage_state"] == "OK"
