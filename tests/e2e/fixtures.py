"""Fixtures for all tests that start the real msitd."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from watching import Watch

from daemon import BIN_DIR, Daemon


@pytest.fixture
def new_daemon(tmp_path: Path) -> Iterator[Callable[[], Daemon]]:
    """Returns a function that creates a daemon without starting it."""
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
def user_place(daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, with a daemon and programs at their usual locations."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{BIN_DIR}:{os.environ['PATH']}")
    monkeypatch.setenv("MSITD_ENDPOINT", f"unix:{daemon.socket_dir}")
    monkeypatch.setenv("MSITCTL_ENDPOINT", f"unix:{daemon.socket_dir}/msitd.sock")
    return folder


@pytest.fixture
def watches() -> Iterator[list[Watch]]:
    """Watches to be ended after the test."""
    made: list[Watch] = []
    yield made
    for watch in made:
        if watch.process.poll() is None:
            watch.kill()
