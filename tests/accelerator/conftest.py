"""A daemon, and a device of torch that is really there."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msitd
import pytest
import torch
from msitd import query

ROOT = Path(__file__).resolve().parents[2]
MSITD = Path(os.environ.get("MSITD_BIN_DIR", ROOT / "build/release/bin")) / "msitd"

HAS_CUDA = torch.cuda.is_available()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not HAS_CUDA:
        for item in items:
            item.add_marker(pytest.mark.skip(reason="no accelerator is there"))


@pytest.fixture(scope="session")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data = tmp_path_factory.mktemp("msitd")
    with tempfile.TemporaryDirectory(prefix="msitd-") as sockets:
        process = subprocess.Popen(
            [
                MSITD,
                "--data-dir",
                data,
                "--socket-dir",
                sockets,
                "--listen",
                "127.0.0.1:0",
            ]
        )
        file = Path(sockets) / "endpoint"
        deadline = time.monotonic() + 30
        while not (file.exists() and file.read_text().strip()):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield next(e for e in file.read_text().split() if e.startswith("unix:"))
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="session")
def daemon(endpoint: str) -> Iterator[query.Connection]:
    with query.connect(endpoint) as connected:
        yield connected


@pytest.fixture
def run(request: pytest.FixtureRequest) -> str:
    """Names a run of this test alone."""
    return request.node.name


@pytest.fixture
def open_client(endpoint: str) -> Callable[..., msitd.Client]:
    def open_client(run: str, **options: Any) -> msitd.Client:
        return msitd.Client(run, 0, 1, endpoint, **options)

    return open_client


@contextmanager
def no_waiting() -> Iterator[None]:
    """Lets torch raise where a function waits for the device."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def leaves(daemon: query.Connection, run: str) -> dict[tuple[Any, ...], Any]:
    """Returns what a run has, by token, op, call, io and index."""
    return {(t.token, t.op, t.call, t.io, t.index): t for t in daemon.tensors.list(run)}
