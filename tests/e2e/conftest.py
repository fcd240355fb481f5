"""Fixtures: stubs made from protos/, daemons of one's own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from stubs import make_stubs


def pytest_configure(config: pytest.Config) -> None:
    """Makes the stubs before the test modules that import them are read."""
    import tempfile

    folder = tempfile.TemporaryDirectory(prefix="msitd-stubs-")
    config.add_cleanup(folder.cleanup)
    make_stubs(Path(folder.name))


@pytest.fixture
def new_daemon(tmp_path: Path) -> Iterator[Callable[[], "object"]]:
    """Returns a function that makes a daemon that is not started yet."""
    from daemon import Daemon

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
def daemon(new_daemon: Callable[[], "object"]) -> "object":
    """A daemon that serves."""
    daemon = new_daemon()
    daemon.start()
    return daemon
