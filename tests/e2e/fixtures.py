"""Fixtures of daemons, for all tests that start the real msitd."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from watching import Watch

from daemon import Daemon


@pytest.fixture
def new_daemon(tmp_path: Path) -> Iterator[Callable[[], Daemon]]:
    """Returns a function that makes a daemon without starting it."""
    made: list[Daemon] = []

    def make() -> Daemon:
        folder = tmp_path / f"daemon-{len(made)}"
        folder.mkdir()
        made.append(Daemon(folder))
        return made[-1]

    yield make
    for daemon in made:
        daemon.clean()


@pytest.fixture
def daemon(new_daemon: Callable[[], Daemon]) -> Daemon:
    """A running daemon."""
    daemon = new_daemon()
    daemon.start()
    return daemon


@pytest.fixture
def watches() -> Iterator[list[Watch]]:
    """Those that are to be ended."""
    made: list[Watch] = []
    yield made
    for watch in made:
        if watch.process.poll() is None:
            watch.kill()
