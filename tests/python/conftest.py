"""Fixtures: a fake daemon and a client of it."""

from collections.abc import Iterator

import msitd
import pytest
from fake_daemon import FakeDaemon, Record


@pytest.fixture
def daemon() -> Iterator[FakeDaemon]:
    daemon = FakeDaemon()
    yield daemon
    daemon.stop()


@pytest.fixture
def client(daemon: FakeDaemon) -> Iterator[msitd.Client]:
    client = msitd.Client(run="run", rank=0, world_size=1, endpoint=daemon.endpoint)
    yield client
    daemon.release()
    client.close()


class Recorded:
    """Records with `client` and returns the records that arrive."""

    def __init__(self, client: msitd.Client, daemon: FakeDaemon) -> None:
        self.client = client
        self.daemon = daemon

    def __call__(self, tensor: object, **place: object) -> Record:
        assert self.client.record(tensor, **{"op": "op", **place})
        self.client.flush()
        return self.daemon.records[-1]


@pytest.fixture
def recorded(client: msitd.Client, daemon: FakeDaemon) -> Recorded:
    return Recorded(client, daemon)
