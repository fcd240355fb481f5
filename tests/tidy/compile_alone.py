#!/usr/bin/env python3
"""Compiles each source separately, which finds missing includes.

usage: compile_alone.py [--warnings] BUILD

BUILD must be configured with MSITD_BATCHES=OFF, because in a batch one source
includes the headers of another. Only the syntax is checked, which takes a third
of the time, and heavy foreign headers are compiled beforehand (precompiled.py).

With --warnings, a source also fails if the compiler of BUILD warns about it. With
clang, that includes the thread-safety analysis.
"""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from precompiled import Includes, Precompiled, words_of

LINES_SHOWN_MAX = 20


def is_ours(entry: dict[str, Any], build: Path) -> bool:
    """Returns whether a source is handwritten."""
    file = Path(entry["file"])
    return not file.is_relative_to(build) and file.suffix in (".cc", ".c")


def failures(build: Path, warnings: bool = False) -> tuple[int, list[str]]:
    """Returns the number of sources, and the errors of the compiler.

    Args:
        build: A build folder.
        warnings: Whether a warning is an error. Otherwise, warnings are ignored.
    """
    options = ["-fsyntax-only", "-Werror" if warnings else "-w"]
    build = build.resolve()
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))

    ours = [(e, words_of(e["command"])) for e in entries if is_ours(e, build)]
    root = Path(__file__).resolve().parents[2]

    def check(entry: dict[str, Any], words: list[str], sets: Precompiled) -> str:
        done = subprocess.run(
            [*words, *sets.options(entry["file"]), *options],
            cwd=entry["directory"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return ""
        return "\n".join(done.stderr.splitlines()[:LINES_SHOWN_MAX])

    with TemporaryDirectory() as folder, ThreadPoolExecutor(cpu_count()) as pool:
        includes = Includes([root, root / "client" / "include"])
        sets = Precompiled(ours, includes, Path(folder), pool)
        found = pool.map(lambda one: check(*one, sets), ours)
        return len(ours), [what for what in found if what]


def main() -> int:
    """Prints the sources that do not compile separately."""
    arguments = sys.argv[1:]
    warnings = arguments[:1] == ["--warnings"]
    if len(arguments) != 1 + warnings:
        print(__doc__, file=sys.stderr)
        return 2
    count, findings = failures(Path(arguments[-1]), warnings)
    for what in findings:
        print(what)
    print(f"{count - len(findings)} of {count} sources compile alone")
    return 1 if findings or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
