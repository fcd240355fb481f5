"""Fixtures: stubs generated from protos/, and private daemons."""

import tempfile
from pathlib import Path

import pytest
from executing import place  # noqa: F401
from fixtures import daemon, new_daemon, user_place, watches  # noqa: F401
from stubs import make_stubs


def pytest_configure(config: pytest.Config) -> None:
    """Generates the stubs before the test modules that import them are loaded."""
    folder = tempfile.TemporaryDirectory(prefix="msitd-stubs-")
    config.add_cleanup(folder.cleanup)
    make_stubs(Path(folder.name))
