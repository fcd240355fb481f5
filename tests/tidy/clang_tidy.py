#!/usr/bin/env python3
"""Runs clang-tidy with the checks of .clang-tidy.

usage: clang_tidy.py BUILD [FILE...]

BUILD must be configured with clang and MSITD_BATCHES=OFF, and its generated
headers must exist. Without FILE, all handwritten sources of BUILD are checked. A
FILE that is not a source of BUILD, such as a header, is skipped: headers are checked
in the sources that include them.

A finding in a header is printed once, no matter how many sources include it.
"""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from pathlib import Path

from compile_alone import is_ours

CLANG_TIDY = "clang-tidy-14"

_FINDING = re.compile(r"^(?=/\S+:\d+:\d+: (?:error|warning): )", re.MULTILINE)


def sources(build: Path, files: list[str]) -> list[Path]:
    """Returns the handwritten sources of a build; if `files` has any, only those."""
    entries = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    ours = sorted({Path(e["file"]) for e in entries if is_ours(e, build)})
    wanted = {Path(file).resolve() for file in files}
    return [file for file in ours if not files or file in wanted]


def findings(output: str) -> list[str]:
    """Returns the findings in an output of clang-tidy, each with its notes."""
    return [found.rstrip() for found in _FINDING.split(output)[1:]]


def main() -> int:
    """Prints the findings. Returns 1 if there are any."""
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    build = Path(sys.argv[1]).resolve()
    files = sources(build, sys.argv[2:])

    def check(file: Path) -> tuple[int, str]:
        done = subprocess.run(
            [CLANG_TIDY, "-p", str(build), "--quiet", str(file)],
            capture_output=True,
            text=True,
            check=False,
        )
        # A failure without a finding is one of clang-tidy itself.
        found = findings(done.stdout)
        if done.returncode != 0 and not found:
            return done.returncode, f"{file}: {done.stdout}{done.stderr}"
        return done.returncode, done.stdout

    seen: set[str] = set()
    failed = False
    with ThreadPoolExecutor(cpu_count()) as pool:
        for status, output in pool.map(check, files):
            failed |= status != 0
            for found in findings(output) or ([output] if status != 0 else []):
                if found not in seen:
                    print(found, flush=True)
                seen.add(found)
    print(f"clang-tidy: {len(files)} sources, {len(seen)} findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
