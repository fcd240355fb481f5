"""Files for torch and numpy."""

from __future__ import annotations

import os
from typing import Any


def save_torch_data(pt_data: Any, pt_file_path: str | os.PathLike[str]) -> None:
    """Saves what torch.save takes, and makes the folder for it.

    Args:
        pt_data: A tensor, or what has tensors.
        pt_file_path: The new file, whose name ends in .pt or .pth.

    Raises:
        ImportError: torch is not installed.
        ValueError: The name is another one.
    """
    path = _prepared(pt_file_path, (".pt", ".pth"))
    import torch

    torch.save(pt_data, path)


def save_npy_data(npy_file_path: str | os.PathLike[str], npy_data: Any) -> None:
    """Saves an array as numpy.save does, and makes the folder for it.

    Args:
        npy_file_path: The new file, whose name ends in .npy.
        npy_data: An array of numbers.

    Raises:
        ImportError: numpy is not installed.
        ValueError: The name is another one, or the array is one of objects.
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
