"""msitctl does not wait longer for daemons that do not answer than it says."""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from daemon import BIN_DIR


def ask(endpoint: str, *words: str) -> tuple["subprocess.CompletedProcess[str]", float]:
    """Runs msitctl. Returns its result and the seconds that it took."""
    start = time.monotonic()
    done = subprocess.run(
        [BIN_DIR / "msitctl", *words],
        env={**os.environ, "MSITCTL_ENDPOINT": endpoint},
        capture_output=True,
        text=True,
        timeout=100,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return done, time.monotonic() - start


@pytest.fixture
def mute() -> Iterator[str]:
    """The address of a port that accepts connections and never sends a byte."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        accepted = []
        is_over = threading.Event()

        def accept() -> None:
            while not is_over.is_set():
                try:
                    accepted.append(server.accept()[0])
                except TimeoutError:
                    continue

        thread = threading.Thread(target=accept)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        is_over.set()
        thread.join()
        for each in accepted:
            each.close()


@pytest.mark.parametrize(
    "words",
    [
        ("run", "get", "a"),
        ("run", "match", "a", "b"),
        ("compare", "run", "a", "b"),
        ("compare", "run", "a", "b", "--match", "none"),
    ],
    ids=" ".join,
)
def test_a_connection_takes_no_longer_than_its_limit(
    mute: str, words: tuple[str, ...]
) -> None:
    done, seconds = ask(mute, *words, "--connect-timeout", "1s")
    assert done.returncode != 0
    assert f"cannot reach {mute}" in done.stderr
    assert "no connection within 1s" in done.stderr
    # The search for the reason may take two more.
    assert seconds < 6


@contextmanager
def refusing(seconds_of_read: float) -> Iterator[str]:
    """A server that refuses comparisons and does not answer reads in time."""
    is_over = threading.Event()

    class Handler(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            if details.method.endswith("ReadAttachment"):

                def read(request: bytes, context: Any) -> Iterator[bytes]:
                    is_over.wait(seconds_of_read)
                    yield from ()

                return grpc.unary_stream_rpc_method_handler(read)
            if details.method.endswith("GetCapabilities"):

                def wait(request: bytes, context: Any) -> bytes:
                    is_over.wait(seconds_of_read)
                    return b""

                return grpc.unary_unary_rpc_method_handler(wait)
            if not details.method.endswith("CreateComparison"):
                return None

            def refuse(request: bytes, context: Any) -> bytes:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not these")
                return b""

            return grpc.unary_unary_rpc_method_handler(refuse)

    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((Handler(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        is_over.set()
        server.stop(None).wait()


def test_a_refused_comparison_does_not_wait_for_its_notes() -> None:
    with refusing(60) as endpoint:
        done, seconds = ask(endpoint, "compare", "run", "a", "b", "--match", "none")
    assert "not these" in done.stderr
    assert done.returncode != 0
    assert seconds < 15
