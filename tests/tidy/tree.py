"""The files of the project, for use by the checks."""

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CPP_SUFFIXES = (".h", ".hpp", ".cc", ".c")


@cache
def project_files() -> tuple[str, ...]:
    """Returns every file that git tracks or would track, relative to ROOT."""
    out = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return tuple(sorted(f for f in set(out.split("\0")) if f and (ROOT / f).is_file()))


def cpp_files() -> list[str]:
    """Returns our C and C++ sources; generated code is outside the tree."""
    return [f for f in project_files() if f.endswith(CPP_SUFFIXES)]


def python_files() -> list[str]:
    """Returns our Python sources, including scripts without a suffix."""
    return [f for f in project_files() if f.endswith(".py") or _is_python_script(f)]


def read(file: str) -> str:
    """Returns the text of a file of the project."""
    return (ROOT / file).read_text(encoding="utf-8")


def _is_python_script(file: str) -> bool:
    if "." in Path(file).name:
        return False
    with open(ROOT / file, "rb") as f:
        return f.readline(80).startswith(b"#!") and b"python" in _first_line(file)


def _first_line(file: str) -> bytes:
    with open(ROOT / file, "rb") as f:
        return f.readline(80)
