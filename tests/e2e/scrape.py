"""Requests and parses a daemon's metrics as Prometheus does."""

import re
import socket
import time
from dataclasses import dataclass

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from daemon import Daemon

WAIT_S = 30


@dataclass
class Answer:
    """An HTTP response."""

    status: int
    headers: dict[str, str]
    body: str


def metrics_address(daemon: Daemon) -> tuple[str, int]:
    """Returns the host and port that the daemon logged last."""
    found = re.findall(r"metrics endpoint=https?://([^:]+):(\d+)/metrics", daemon.log())
    host, port = found[-1]
    return host, int(port)


def connect(daemon: Daemon) -> socket.socket:
    """Opens a connection to the metrics of the daemon."""
    return socket.create_connection(metrics_address(daemon), timeout=WAIT_S)


def answer_of(connection: socket.socket) -> Answer:
    """Reads a response to its end."""
    data = b""
    while piece := connection.recv(65536):
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return Answer(int(first.split(" ")[1]), headers, body.decode())


def ask(connection: socket.socket, request: str = "GET /metrics HTTP/1.1") -> Answer:
    """Sends a request without a body and returns the response."""
    with connection:
        connection.sendall(f"{request}\r\nHost: msitd\r\n\r\n".encode())
        return answer_of(connection)


def families(daemon: Daemon) -> dict[str, Metric]:
    """Returns the metrics of the daemon by name, without `_total`."""
    answer = ask(connect(daemon))
    assert answer.status == 200
    return {
        family.name: family for family in text_string_to_metric_families(answer.body)
    }


def values(daemon: Daemon) -> dict[str, float]:
    """Returns every sample: `name` or `name{label="value"}`."""
    out = {}
    for family in families(daemon).values():
        for sample in family.samples:
            labels = ",".join(
                f'{key}="{value}"' for key, value in sample.labels.items()
            )
            out[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return out


def wait_for(daemon: Daemon, name: str, minimum: float) -> dict[str, float]:
    """Waits until a sample is at least `minimum`; returns all samples."""
    deadline = time.monotonic() + WAIT_S
    while (found := values(daemon)).get(name, 0) < minimum:
        assert time.monotonic() < deadline, (name, found.get(name), daemon.log())
        time.sleep(0.1)
    return found
