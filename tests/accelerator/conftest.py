"""A daemon, and a real device of torch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msitd
import pytest
import torch
from msitd import query
from own_daemon import own_daemon

HAS_CUDA = torch.cuda.is_available()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not HAS_CUDA:
        for item in items:
            item.add_marker(pytest.mark.skip(reason="no accelerator is there"))


@pytest.fixture(scope="session")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with own_daemon(tmp_path_factory.mktemp("msitd")) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def daemon(endpoint: str) -> Iterator[query.Connection]:
    with query.connect(endpoint) as connected:
        yield connected


@pytest.fixture
def run(request: pytest.FixtureRequest) -> str:
    """Returns a run name that only this test uses."""
    return request.node.name


@pytest.fixture
def open_client(endpoint: str) -> Callable[..., msitd.Client]:
    def open_client(run: str, **options: Any) -> msitd.Client:
        return msitd.Client(run, 0, 1, endpoint, **options)

    return open_client


@contextmanager
def no_waiting() -> Iterator[None]:
    """Makes torch raise if a function waits for the device."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def leaves(daemon: query.Connection, run: str) -> dict[tuple[Any, ...], Any]:
    """Returns the contents of a run by token, op, call, io and index."""
    return {(t.token, t.op, t.call, t.io, t.index): t for t in daemon.tensors.list(run)}
