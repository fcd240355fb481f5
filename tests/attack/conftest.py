"""The daemons, stubs and fixtures are those of tests/e2e."""

import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]


def pytest_configure(config: pytest.Config) -> None:
    """Generates the stubs before the test modules that import them are loaded."""
    from stubs import make_stubs

    folder = tempfile.TemporaryDirectory(prefix="msitd-stubs-")
    config.add_cleanup(folder.cleanup)
    make_stubs(Path(folder.name))


from fixtures import daemon, new_daemon, watches  # noqa: F401
