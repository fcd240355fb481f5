"""Fixtures: the page of a daemon, and a browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser import Browser

from daemon import Daemon

if TYPE_CHECKING:
    from web_pages import Web


@pytest.fixture
def web(daemon: Daemon) -> "Iterator[Web]":
    """The page of a daemon with a comparison."""
    # The stubs that it imports do not exist yet when this module is loaded.
    from web_pages import compared, serving

    compared(daemon)
    with serving(daemon) as web:
        yield web


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """A browser that was just started."""
    browser = Browser(tmp_path)
    browser.show(1280, 900)
    yield browser
    browser.close()
