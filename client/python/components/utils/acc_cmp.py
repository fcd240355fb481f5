"""Reads dumps of TorchAir; neither CANN nor its parser is required."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from msitd.formats import DumpTensor, read_dump_data

if TYPE_CHECKING:
    import numpy as np

# The types that msit's parser gives numbers that numpy lacks, by the beginning of
# their names.
_WIDENED = {
    "bfloat16": "float32",
    "float4": "float64",
    "float6_": "float64",
    "float8": "float64",
    "hifloat8": "float64",
}


def parse_torchair_dump_data(
    dump_file: str | os.PathLike[str],
) -> tuple[list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]:
    """Returns the inputs and the outputs in a dump file.

    Args:
        dump_file: A dump that CANN writes for one task, or an `.npz` file with
            the arrays `inputs` and `outputs`, which have one row per tensor.

    Returns:
        Arrays in plain layout. bfloat16 becomes float32, smaller floating-point
        numbers float64. A tensor that the task did not have, such as an
        optional input, is an array of one NaN, so that it keeps its position
        and has a smallest element. For an `.npz` file, the rows of its arrays;
        none for a missing array.

    Raises:
        FileNotFoundError: The file does not exist.
        ImportError: numpy is not installed.
        ValueError: The file is not a dump, is incomplete, or has a tensor that
            cannot be read. The exception keeps scripts from deleting the file.
    """
    path = os.fspath(dump_file)
    if path.endswith(".npz"):
        return _rows_of(path)
    dump = read_dump_data(path)
    if dump.kind != "ge_dump":
        raise ValueError(f"{path}: it is no dump of CANN but {dump.kind}")
    inputs = [_array(path, tensor) for tensor in dump.input_data]
    return inputs, [_array(path, tensor) for tensor in dump.output_data]


def _rows_of(
    path: str,
) -> tuple[list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]:
    import numpy as np

    with np.load(path, allow_pickle=False) as arrays:
        names = set(arrays.files)
        inputs, outputs = (
            list(arrays[name]) if name in names else []
            for name in ("inputs", "outputs")
        )
    return inputs, outputs


def _array(path: str, tensor: DumpTensor) -> np.ndarray[Any, Any]:
    if tensor.is_absent:
        import numpy as np

        return np.full(1, np.nan, np.float32)
    if tensor.problem:
        raise ValueError(f"{path}: {tensor.io} {tensor.index}: {tensor.problem}")
    array = tensor.numpy()
    for name, widened in _WIDENED.items():
        if tensor.dtype.startswith(name):
            return array.astype(widened)
    return array
