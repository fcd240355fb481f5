"""docs/python.md and torch.md: every line runs, and prints the output on the page."""

import doctest
import gc
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon import BIN_DIR, ROOT, Daemon

PAGES = ("python.md", "torch.md")
_BLOCK = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def served(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Daemon]:
    """A daemon at the default endpoint of both sides of the package, and an
    empty folder.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MSITD_ENDPOINT", f"unix:{daemon.socket_dir}")
    monkeypatch.setenv("PATH", f"{BIN_DIR}:{os.environ['PATH']}")
    monkeypatch.setenv("MSITCTL_ENDPOINT", f"unix:{daemon.socket_dir}/msitd.sock")
    yield daemon


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("name", PAGES)
def test_every_line_prints_what_the_page_says(name: str) -> None:
    pytest.importorskip("torch")
    path = ROOT / "docs" / name
    page = path.read_text()
    # Blank lines preserve the line numbers of the page.
    lines = ["\n"] * page.count("\n")
    for block in _BLOCK.finditer(page):
        first = page.count("\n", 0, block.start(1))
        for number, line in enumerate(block[1].splitlines(keepends=True), first):
            lines[number] = line
    test = doctest.DocTestParser().get_doctest("".join(lines), {}, name, str(path), 0)
    assert len(test.examples) > 20
    told: list[str] = []
    result = doctest.DocTestRunner().run(test, out=told.append)
    # Handles of hooks are in reference cycles, and keep their clients alive.
    gc.collect()
    assert result.failed == 0, "".join(told)
