"""The commands of pages run, and print the output on the page."""

import tempfile
from pathlib import Path

import page_commands
import pytest

# Commands whose exit code is not 0.
EXIT_CODES = {
    "msitctl compare run golden bf16-broken --rows none": 1,
    "msitctl compare run golden target --rows none >comparison.txt": 1,
    "msitctl verify wrong --columns op,call,io/index,verdict,units,worst_units "
    ">verify.txt": 1,
}
# Files that the commands of a page write.
OUTPUTS = {
    "tutorial.md": "report.html",
    "debugging.md": "comparison.txt",
    "verify.md": "verify.txt",
}


@pytest.mark.parametrize("path", page_commands.PAGES, ids=lambda path: path.name)
def test_every_command_prints_what_the_page_says(path: Path) -> None:
    page = path.read_text()
    if "import torch" in page:
        pytest.importorskip("torch")
    steps = page_commands.steps(page)
    # A short path, because the sockets are in it.
    with tempfile.TemporaryDirectory(prefix="msitd-") as folder:
        results = page_commands.perform(page, Path(folder))
        assert (Path(folder) / OUTPUTS[path.name]).stat().st_size > 0
    assert len(results) == len(steps)
    for step, (output, code) in zip(steps, results, strict=True):
        assert code == EXIT_CODES.get(step.command, 0), (step.command, output)
        shape = page_commands.shape
        assert shape(output) == shape(step.output), step.command
