"""Moves and removes trees of files."""

from __future__ import annotations

import os
import shutil


def move_into(source: str, target: str) -> None:
    """Merges a tree into another one; each file and new folder is moved atomically.

    Folders that exist in both are merged. For files that exist in both, that of
    `source` is kept.
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
    """Removes a folder, if it exists."""
    shutil.rmtree(folder, ignore_errors=True)
