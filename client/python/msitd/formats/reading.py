"""Reads tensors from files of other tools."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msitd._formats import File
from msitd.query.arrays import to_numpy, to_torch

if TYPE_CHECKING:
    import numpy as np
    import torch

_DEPTH_MAX = 20


@dataclass(frozen=True)
class DumpTensor:
    """One tensor of a file, with its elements.

    Attributes:
        name: Name in the file, or "" if the file has no names.
        io: "input", "output" and so on, or "" if the file does not state it.
        index: Number of the input or output.
        dtype: Name in torch; "unspecified" if msitd does not support the
            elements.
        shape: Dimensions.
        data: The elements, row-major and little-endian. Empty if there is a
            problem.
        problem: Why there are no elements, or "" if there are.
        attributes: Other facts that the file states, such as statistics.
        is_absent: Whether the task did not have the tensor, such as an optional
            input. `problem` is also set.
    """

    name: str
    io: str
    index: str
    dtype: str
    shape: tuple[int, ...]
    data: bytearray = field(repr=False)
    problem: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    is_absent: bool = False

    def numpy(self) -> np.ndarray[Any, Any]:
        """Returns the elements as an array.

        Raises:
            ImportError: numpy is not installed.
            ValueError: The tensor has a problem.
        """
        self._need_elements()
        array: np.ndarray[Any, Any] = to_numpy(self.data, self.dtype, self.shape)
        return array

    def torch(self) -> torch.Tensor:
        """Returns the elements as a tensor on the CPU.

        Raises:
            ImportError: torch is not installed.
            ValueError: The tensor has a problem.
        """
        self._need_elements()
        return to_torch(self.data, self.dtype, self.shape)

    def get_data(self) -> torch.Tensor:
        """Same as `torch`, under the name that msit uses."""
        return self.torch()

    def _need_elements(self) -> None:
        if self.problem:
            raise ValueError(f"{self.name or 'the tensor'}: {self.problem}")


@dataclass(frozen=True)
class DumpData:
    """The contents of a file.

    Attributes:
        kind: Kind of the file, such as "ge_dump".
        attributes: Facts other than tensors, such as "op_name".
        tensors: All tensors in the order of the file.
    """

    kind: str
    attributes: dict[str, str]
    tensors: tuple[DumpTensor, ...]

    @property
    def input_data(self) -> tuple[DumpTensor, ...]:
        """The inputs of the task."""
        return tuple(tensor for tensor in self.tensors if tensor.io == "input")

    @property
    def output_data(self) -> tuple[DumpTensor, ...]:
        """The outputs of the task."""
        return tuple(tensor for tensor in self.tensors if tensor.io == "output")


def tensors_of(path: str | os.PathLike[str]) -> Iterator[DumpTensor]:
    """Yields the tensors of a file, with one in memory at a time.

    Args:
        path: A file of any supported kind, under any name.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The kind of the file is not supported, or its header is
            invalid.
    """
    yield from _tensors(File(os.fspath(path)))


def read_dump_data(dump_data_path: str | os.PathLike[str]) -> DumpData:
    """Reads a whole file, such as a dump that CANN writes for one task.

    CANN's own tools are not required.

    Args:
        dump_data_path: A file of any supported kind.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The kind of the file is not supported, or its header is
            invalid.
    """
    file = File(os.fspath(dump_data_path))
    return DumpData(file.kind, file.attributes, tuple(_tensors(file)))


def convert_bin_data_to_npy(
    bin_dump_data: DumpData, dtype: str | None = "uint8"
) -> tuple[list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]:
    """Returns the inputs and the outputs of a dump as arrays.

    Args:
        bin_dump_data: The result of `read_dump_data`.
        dtype: A numpy dtype with which the bytes are reinterpreted as flat
            arrays. None gives each array its own dtype and shape.

    Raises:
        ImportError: numpy is not installed.
        ValueError: A tensor has a problem, or its length does not fit `dtype`.
    """
    inputs = [_array(tensor, dtype) for tensor in bin_dump_data.input_data]
    outputs = [_array(tensor, dtype) for tensor in bin_dump_data.output_data]
    return inputs, outputs


def read_bin_data(bin_data_path: str | os.PathLike[str]) -> DumpTensor:
    """Reads the tensor of a `.bin` file of ATB.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: Its name does not end in .bin, or it is not a file of ATB.
    """
    path = os.fspath(bin_data_path)
    if not path.endswith(".bin"):
        raise ValueError(f"{path}: the name does not end in .bin")
    tensors = read_dump_data(path).tensors
    if len(tensors) != 1:
        raise ValueError(f"{path}: it has {len(tensors)} tensors instead of one")
    return tensors[0]


def convert_bin_data_to_pt(bin_tensor: DumpTensor) -> torch.Tensor:
    """Returns the result of `read_bin_data` as a torch tensor.

    Raises:
        ImportError: torch is not installed.
        ValueError: The tensor has a problem.
    """
    return bin_tensor.torch()


def get_bin_data_from_dir(
    dump_data_dir: str | os.PathLike[str], max_depth: int = _DEPTH_MAX
) -> list[str]:
    """Returns the paths of all `.bin` files in a folder and its subfolders.

    Links to folders are not followed. The paths are sorted.

    Args:
        dump_data_dir: The folder.
        max_depth: Maximum depth of folders, including `dump_data_dir`.

    Raises:
        NotADirectoryError: The path is not a folder.
        RecursionError: There are folders deeper than `max_depth`.
    """
    top = os.path.realpath(dump_data_dir)
    if not os.path.isdir(top):
        raise NotADirectoryError(top)
    paths = []
    for folder, _, names in os.walk(top):
        depth = 0 if folder == top else os.path.relpath(folder, top).count(os.sep) + 1
        if depth >= max_depth:
            raise RecursionError(f"{folder} is deeper than {max_depth} folders")
        paths += [os.path.join(folder, n) for n in names if n.endswith(".bin")]
    return sorted(paths)


def _tensors(file: File) -> Iterator[DumpTensor]:
    while (found := file.next()) is not None:
        name, io, index, dtype, shape, _, attributes, problem, is_absent = found
        data = bytearray()
        if not problem:
            try:
                data = file.read()
            except ValueError as error:
                problem = str(error)
        yield DumpTensor(
            name, io, index, dtype, tuple(shape), data, problem, attributes, is_absent
        )


def _array(tensor: DumpTensor, dtype: str | None) -> np.ndarray[Any, Any]:
    if dtype is None:
        return tensor.numpy()
    if tensor.problem:
        raise ValueError(f"{tensor.name or 'the tensor'}: {tensor.problem}")
    flat = to_numpy(tensor.data, "uint8", (len(tensor.data),))
    array: np.ndarray[Any, Any] = flat.view(dtype)
    return array
