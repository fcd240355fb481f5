"""Fixtures: stubs made from protos/, daemons of one's own."""

import tempfile
from pathlib import Path

import pytest
from executing import place  # noqa: F401
from fixtures import daemon, new_daemon, user_place, watches  # noqa: F401
from stubs import make_stubs


def pytest_configure(config: pytest.Config) -> None:
    """Makes the stubs before the test modules that import them are read."""
    folder = tempfile.TemporaryDirectory(prefix="msitd-stubs-")
    config.add_cleanup(folder.cleanup)
    make_stubs(Path(folder.name))
