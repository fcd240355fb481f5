#!/usr/bin/env python3
"""Prints the unit tests of the files that differ from a commit, as CMake targets.

usage: changed_units.py [COMMIT]

COMMIT defaults to the point where the branch left its upstream, or to HEAD if it
has no upstream. Files that are not committed count too. A test that itself has
changed is printed, and otherwise the tests of the changed file's folder, or of the
closest folder above that has tests. Tests of other folders that include the file
are not: tests/run release has all.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from check_mirror import LAYERS, TESTED_ELSEWHERE, UNIT
from tree import ROOT, project_files, read

_TARGET = re.compile(r"^\s*msitd_test\(\s*(\w+)\s+([^)]*)\)", re.MULTILINE)


def targets(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """Returns the sources of each test.

    Args:
        texts: The texts of files CMakeLists.txt.
    """
    out: dict[str, set[str]] = {}
    for file, text in texts.items():
        folder = PurePosixPath(file).parent
        for name, words in _TARGET.findall(text):
            sources = {str(folder / w) for w in words.split() if w.endswith(".cc")}
            out.setdefault(name, set()).update(sources)
    return out


def tests_of(file: str, sources: Mapping[str, set[str]]) -> set[str]:
    """Returns the tests for a changed file; empty if no unit test covers it."""
    own = {name for name, of in sources.items() if file in of}
    if own:
        return own
    folder = PurePosixPath(file).parent
    if file.startswith("tests/"):
        return _below(str(folder), sources)
    while str(folder) != ".":
        tested = TESTED_ELSEWHERE.get(str(folder), UNIT + str(folder))
        if found := _below(tested, sources):
            return found
        folder = folder.parent
    return set()


def _below(folder: str, sources: Mapping[str, set[str]]) -> set[str]:
    """Returns the tests with sources in a folder, or else below it."""

    def having(is_in: str) -> set[str]:
        return {
            name
            for name, of in sources.items()
            if any(re.fullmatch(is_in, source) for source in of)
        }

    start = re.escape(folder)
    return having(rf"{start}/[^/]+") or having(rf"{start}/.+")


def units(files: Iterable[str], sources: Mapping[str, set[str]]) -> list[str]:
    """Returns the tests for some changed files, sorted."""
    found: set[str] = set()
    for file in files:
        is_cpp = file.endswith((".cc", ".h", ".c", ".hpp"))
        if is_cpp and file.startswith((*LAYERS, "tests/")):
            found |= tests_of(file, sources)
    return sorted(found)


def project_targets() -> dict[str, set[str]]:
    """Returns the sources of each test of the project."""
    lists = [f for f in project_files() if f.endswith("CMakeLists.txt")]
    return targets({file: read(file) for file in lists})


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else ""


def changed_files(commit: str = "") -> list[str]:
    """Returns the files that differ from a commit, or exist only now."""
    base = commit or _git("merge-base", "HEAD", "@{upstream}").strip() or "HEAD"
    names = _git("diff", "--name-only", "-z", base)
    names += _git("ls-files", "-z", "--others", "--exclude-standard")
    return sorted({name for name in names.split("\0") if name})


if __name__ == "__main__":
    for unit in units(changed_files(*sys.argv[1:2]), project_targets()):
        print(unit)
