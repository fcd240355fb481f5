"""Brings trees of files from one folder into another."""

from __future__ import annotations

import os
import shutil


def move_into(source: str, target: str) -> None:
    """Moves a tree into another one, each file and new folder at once.

    Folders that are in both become one; of files that are, that of `source`
    stays.
    """
    try:
        os.mkdir(target, 0o755)
    except FileExistsError:
        pass
    for entry in os.scandir(source):
        path = os.path.join(target, entry.name)
        if entry.is_dir(follow_symlinks=False) and os.path.isdir(path):
            move_into(entry.path, path)
        else:
            os.replace(entry.path, path)


def remove_all(folder: str) -> None:
    """Removes a folder, if it is there."""
    shutil.rmtree(folder, ignore_errors=True)
