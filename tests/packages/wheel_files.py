"""The files in a wheel."""

import subprocess
from pathlib import Path

PROGRAMS = ("msitd", "msitctl", "msitd-inspect")


def elf_files(folder: Path) -> list[Path]:
    """Returns all programs and libraries in a folder."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"
    ]


def printed_by(*command: str | Path) -> str:
    """Returns the output of a program that must succeed."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
