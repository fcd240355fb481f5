"""Writes files for torch and numpy."""

from __future__ import annotations

import os
from typing import Any


def save_torch_data(pt_data: Any, pt_file_path: str | os.PathLike[str]) -> None:
    """Saves an object with torch.save, and creates the folder if necessary.

    Args:
        pt_data: A tensor, or an object that contains tensors.
        pt_file_path: The new file, whose name ends in .pt or .pth.

    Raises:
        ImportError: torch is not installed.
        ValueError: The name has another suffix.
    """
    path = _prepared(pt_file_path, (".pt", ".pth"))
    import torch

    torch.save(pt_data, path)


def save_npy_data(npy_file_path: str | os.PathLike[str], npy_data: Any) -> None:
    """Saves an array with numpy.save, and creates the folder if necessary.

    Args:
        npy_file_path: The new file, whose name ends in .npy.
        npy_data: An array of numbers.

    Raises:
        ImportError: numpy is not installed.
        ValueError: The name has another suffix, or the array contains objects.
    """
    path = _prepared(npy_file_path, (".npy",))
    import numpy as np

    array = np.asanyarray(npy_data)
    if array.dtype.hasobject:
        raise ValueError(f"{path}: an array of objects is not saved")
    np.save(path, array, allow_pickle=False)


def _prepared(path: str | os.PathLike[str], endings: tuple[str, ...]) -> str:
    path = os.fspath(path)
    if not path.endswith(endings):
        raise ValueError(f"{path}: the name does not end in {' or '.join(endings)}")
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    return path
