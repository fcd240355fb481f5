"""Finds the programs of msitd."""

from __future__ import annotations

import os
import shutil
import sys


def find_program(name: str) -> str:
    """Returns the path of `msitctl` or `msitd`: next to Python, otherwise in PATH.

    Raises:
        FileNotFoundError: The program is in neither place.
    """
    beside = os.path.dirname(sys.executable)
    found = shutil.which(name, path=beside) or shutil.which(name)
    if found is None:
        raise FileNotFoundError(
            f"there is no {name}, neither in {beside} nor in PATH: install msitd, or "
            "add the folder of its programs to PATH"
        )
    return found
