"""docs/tutorial.md: every command runs, and prints the output on the page."""

import tempfile
from pathlib import Path

import pytest
import tutorial

pytest.importorskip("torch")

# Commands whose exit code is not 0.
EXIT_CODES = {"msitctl compare run golden bf16-broken --rows none": 1}


def test_every_command_prints_what_the_page_says() -> None:
    page = tutorial.PAGE.read_text()
    steps = tutorial.steps(page)
    # A short path, because the sockets are in it.
    with tempfile.TemporaryDirectory(prefix="msitd-") as folder:
        results = tutorial.perform(page, Path(folder))
        assert (Path(folder) / "report.html").stat().st_size > 0
    assert len(results) == len(steps)
    for step, (output, code) in zip(steps, results, strict=True):
        assert tutorial.shape(output) == tutorial.shape(step.output), step.command
        assert code == EXIT_CODES.get(step.command, 0), (step.command, output)
