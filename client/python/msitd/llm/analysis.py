"""The file in which msit describes the contents of each tensor."""

from __future__ import annotations

import csv
import fcntl
import io
import os
from collections.abc import Callable

from msitd.llm.folders import TENSOR_SUFFIX

FILE_NAME = "tensor_analyze.csv"

_HEADER = (
    "Node Name",
    "Node Type",
    "Tensor Path",
    "dtype",
    "shape",
    "max",
    "min",
    "variance",
    "mean",
)


def analyze(
    folder: str, place: str, type_of: Callable[[str], str], has_tensors: bool
) -> list[tuple[str, ...]]:
    """Returns a row for each tensor of one token.

    Args:
        folder: Current location of the folders of its ops.
        place: Location of these folders for the reader of the rows.
        type_of: Returns the class of an op.
        has_tensors: Whether the tensor files are kept.
    """
    rows = []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        for name in sorted(os.listdir(entry.path)):
            if name.endswith(TENSOR_SUFFIX):
                path = os.path.join(place, entry.name, name)
                rows.append(
                    (
                        entry.name,
                        type_of(entry.name),
                        path if has_tensors else path.removesuffix(TENSOR_SUFFIX),
                        *_facts(os.path.join(entry.path, name)),
                    )
                )
    return rows


def append(root: str, rows: list[tuple[str, ...]]) -> None:
    """Appends rows to the file of all ranks, which other ranks may write at the
    same time.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    with open(os.path.join(root, FILE_NAME), "a", encoding="utf-8", newline="") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_size == 0:
            os.fchmod(file.fileno(), 0o640)
            writer.writerow(_HEADER)
        writer.writerows(rows)
        file.write(text.getvalue())
        file.flush()


def _facts(path: str) -> tuple[str, ...]:
    # torch is installed, since a model was dumped.
    import torch

    tensor = torch.load(path, weights_only=True, map_location="cpu")
    facts = (str(tensor.dtype), str(tensor.shape))
    if tensor.numel() == 0 or tensor.is_complex():
        return (*facts, "nan", "nan", "nan", "nan")
    numbers = tensor.float()
    variance = numbers.var().item() if numbers.numel() > 1 else float("nan")
    extremes = (numbers.max().item(), numbers.min().item())
    return (*facts, *(str(x) for x in (*extremes, variance, numbers.mean().item())))
