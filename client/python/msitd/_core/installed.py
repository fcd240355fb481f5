"""Finds the programs of msitd."""

from __future__ import annotations

import os
import shutil
import sys

# Folders of programs that are searched before PATH.
_folders: list[str] = []


def add_folder(folder: str) -> None:
    """Lets `find_program` search a folder, after the one of Python."""
    if folder not in _folders:
        _folders.append(folder)


def find_program(name: str) -> str:
    """Returns the path of `msitctl` or `msitd`: next to Python, otherwise in PATH.

    Raises:
        FileNotFoundError: The program is in neither place.
    """
    beside = os.path.dirname(sys.executable)
    path = os.pathsep.join([beside, *_folders])
    found = shutil.which(name, path=path) or shutil.which(name)
    if found is None:
        raise FileNotFoundError(
            f"there is no {name}, neither in {beside} nor in PATH: install msitd, or "
            "add the folder of its programs to PATH"
        )
    return found
