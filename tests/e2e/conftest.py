"""Fixtures: stubs made from protos/, daemons of one's own."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[2]


def _make_stubs(folder: Path) -> None:
    protos = ROOT / "protos"
    files = [*protos.glob("msitd/v1/*.proto"), *protos.glob("google/rpc/*.proto")]
    well_known = Path(protoc.__file__).parent / "_proto"
    status = protoc.main(
        [
            "protoc",
            f"-I{protos}",
            f"-I{well_known}",
            f"--python_out={folder}",
            f"--grpc_python_out={folder}",
            *map(str, files),
        ]
    )
    assert status == 0
    sys.path.insert(0, str(folder))
    # The stubs are msitd.v1, and the Python package is msitd: let both be.
    import msitd

    msitd.__path__.append(str(folder / "msitd"))


def pytest_configure(config: pytest.Config) -> None:
    """Makes the stubs before the test modules that import them are read."""
    import tempfile

    folder = tempfile.TemporaryDirectory(prefix="msitd-stubs-")
    config.add_cleanup(folder.cleanup)
    _make_stubs(Path(folder.name))


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
