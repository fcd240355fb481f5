"""docs/python.md: every line runs, and prints what the page says."""

import doctest
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon import ROOT, Daemon

PAGE = ROOT / "docs/python.md"
_BLOCK = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def served(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Daemon]:
    """A daemon where both sides of the package look for one, and an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MSITD_ENDPOINT", f"unix:{daemon.socket_dir}")
    monkeypatch.setenv("MSITCTL_ENDPOINT", f"unix:{daemon.socket_dir}/msitd.sock")
    yield daemon


@pytest.mark.usefixtures("served")
def test_every_line_prints_what_the_page_says(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    page = PAGE.read_text()
    # Blank lines keep the line numbers of the page.
    lines = ["\n"] * page.count("\n")
    for block in _BLOCK.finditer(page):
        first = page.count("\n", 0, block.start(1))
        for number, line in enumerate(block[1].splitlines(keepends=True), first):
            lines[number] = line
    examples = "".join(lines)
    assert len(doctest.DocTestParser().get_examples(examples)) > 20
    # A process of its own: this one has modules that a reader does not have, and
    # that msitd.formats does not go with.
    (tmp_path / PAGE.name).write_text(examples)
    done = subprocess.run(
        [sys.executable, "-m", "doctest", PAGE.name],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
