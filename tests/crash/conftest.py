"""The daemons, stubs and names are those of tests/e2e."""

import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


def pytest_configure(config: pytest.Config) -> None:
    """Lets the tests import the modules of tests/e2e, and generates the stubs."""
    sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
    from stubs import make_stubs

    folder = tempfile.TemporaryDirectory(prefix="msitd-stubs-")
    config.add_cleanup(folder.cleanup)
    make_stubs(Path(folder.name))
