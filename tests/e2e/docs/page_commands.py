"""The commands of a page with their output, and the program that the page shows.

A command is a line with a `$` in a block of kind `console`. Called as a program, this
module writes the current output of the commands to the pages.
"""

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from daemon import BIN_DIR, ROOT

PAGES = tuple(
    ROOT / "docs" / name for name in ("tutorial.md", "debugging.md", "verify.md")
)
TIMEOUT_S = 300

_BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"-?\d[\d.:TZe+-]*")
_PROGRAM = re.compile(r"Save this as `(\w+\.py)`")
# The shell prints it between two commands, before the exit code of the first.
_MARK = "command-mark"


@dataclass
class Step:
    """A command, and its output on the page."""

    command: str
    output: str


def program(page: str) -> tuple[str, str]:
    """Returns the name and the text of the program that the reader is told to save."""
    (name,) = _PROGRAM.findall(page)
    (code,) = [text for kind, text in _BLOCK.findall(page) if kind == "python"]
    return name, code


def steps(page: str) -> list[Step]:
    """Returns the commands in order."""
    found: list[Step] = []
    for kind, text in _BLOCK.findall(page):
        if kind != "console":
            continue
        for part in text.removeprefix("$ ").split("\n$ "):
            command, _, output = part.rstrip("\n").partition("\n")
            found.append(Step(command, output))
    return found


def perform(page: str, folder: Path) -> list[tuple[str, int]]:
    """Runs all commands in one shell; returns output and exit code of each.

    A daemon that they start in the background is ended. The daemon of the user has its
    files in `folder`, and ends soon after `folder` is removed.
    """
    name, code = program(page)
    (folder / name).write_text(code)
    lines = ["exec 2>&1", "trap 'kill $(jobs -p); wait' EXIT"]
    for step in steps(page):
        lines += [step.command, f"printf '\\n{_MARK} %s\\n' $?"]
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MSITD_", "MSITCTL_"))
    }
    for variable in ("HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        place = folder / ".user" / variable.lower()
        place.mkdir(parents=True, mode=0o700)
        environment[variable] = str(place)
    # For readers who are root, as in a container.
    environment["MSITD_START"] = "1"
    python = Path(sys.executable).parent
    environment["PATH"] = f"{BIN_DIR}:{python}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    parts = re.split(rf"\n{_MARK} (\d+)\n", done.stdout)
    return [
        (output.rstrip("\n"), int(code))
        for output, code in zip(parts[::2], parts[1::2], strict=False)
    ]


def shape(text: str) -> str:
    """Removes the parts of an output that differ between machines."""
    return re.sub(r"[ ]+", " ", _NUMBER.sub("0", text))


def update(path: Path) -> None:
    """Writes the current output of the commands to a page."""
    page = path.read_text()
    # A short path, because the sockets are in it.
    with tempfile.TemporaryDirectory(prefix="msitd-") as folder:
        results = iter(perform(page, Path(folder)))

    def rewrite(block: re.Match[str]) -> str:
        if block[1] != "console":
            return block[0]
        text = ""
        for step in steps(block[0]):
            output, _ = next(results)
            text += f"$ {step.command}\n" + (f"{output}\n" if output else "")
        return f"```console\n{text}```"

    path.write_text(_BLOCK.sub(rewrite, page))


if __name__ == "__main__":
    for path in PAGES:
        update(path)
