"""Runs a program of the package.

usage: python -m msitd PROGRAM [ARGUMENT...]
       python -m msitd --version

PROGRAM is msitctl, msit, msprobe, msitd or msitd-inspect: the one in this package, or
else, if the package was built without programs, the one in PATH. This works where the
scripts of a virtual environment are not in PATH.
"""

import os
import shutil
import sys
from pathlib import Path

import msitd

PROGRAMS = ("msitctl", "msit", "msprobe", "msitd", "msitd-inspect")
# msitctl, called by another name, because a wheel contains no links.
NAMES = ("msit", "msprobe")


def main(arguments: list[str]) -> str | int:
    """Runs the program that the arguments name. Returns only if there is none."""
    if arguments[:1] == ["--version"]:
        print(f"msitd {msitd.__version__}")
        return 0
    if arguments[:1] in (["--help"], ["-h"]):
        print((__doc__ or "").partition("\n\n")[2].strip())
        return 0
    if not arguments or arguments[0] not in PROGRAMS:
        return f"python -m msitd: name a program: {', '.join(PROGRAMS)}"
    name = arguments[0]
    folder = Path(__file__).with_name("bin")
    program = folder / ("msitctl" if name in NAMES else name)
    path = str(program) if program.exists() else shutil.which(name)
    if path is None:
        return (
            f"python -m msitd: this package was built without programs, and there is "
            f"no {name} in PATH"
        )
    os.execv(path, [str(folder / name), *arguments[1:]])


def msprobe() -> str | int:
    """Runs msprobe, for the script of that name in the distribution msitd-compat."""
    return main(["msprobe", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
