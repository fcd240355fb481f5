#!/usr/bin/env python3
"""Compares the exports of a shared library with its version script.

usage: check_exports.py LIBRARY VERSION_SCRIPT [--allow-needed NAME ...]

Fails if a symbol is exported that the script does not name, if a symbol that it
names is missing, or, with --allow-needed, if the library needs another library
whose name starts with none of the names.
"""

import argparse
import re
import subprocess
import sys


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("version_script")
    parser.add_argument("--allow-needed", nargs="*", default=None)
    args = parser.parse_args()

    exported = set()
    for line in run("nm", "-D", "--defined-only", args.library).splitlines():
        _, kind, name = line.split()
        # The version itself is an absolute symbol.
        if kind != "A":
            exported.add(name.split("@")[0])
    with open(args.version_script, encoding="utf-8") as file:
        visible = file.read().split("local:")[0]
    wanted = set(re.findall(r"^\s+(\w+);", visible, re.MULTILINE))

    errors = [f"exported, not in the script: {n}" for n in exported - wanted]
    errors += [f"in the script, not exported: {n}" for n in wanted - exported]
    if args.allow_needed is not None:
        dynamic = run("readelf", "-d", args.library)
        for needed in re.findall(r"NEEDED.*\[(.+)\]", dynamic):
            if not needed.startswith(tuple(args.allow_needed)):
                errors.append(f"needs {needed}")
    for error in sorted(errors):
        print(f"{args.library}: {error}", file=sys.stderr)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
