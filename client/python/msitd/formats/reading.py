"""Tensors of files of other tools."""

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
        name: What the file calls it; empty if it has no names.
        io: "input", "output" and so on; empty if the file does not say.
        index: Which input or output.
        dtype: Name as torch has it; "unspecified" if msitd has no such elements.
        shape: Dimensions.
        data: The elements, row-major and little-endian; empty if there is a problem.
        problem: Why there are no elements; empty if there are.
        attributes: What else the file says of it, such as statistics.
        is_absent: Whether the task did not have it, as an optional input. `problem`
            is set too.
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
        """Does what `torch` does, by the name that msit has for it."""
        return self.torch()

    def _need_elements(self) -> None:
        if self.problem:
            raise ValueError(f"{self.name or 'the tensor'}: {self.problem}")


@dataclass(frozen=True)
class DumpData:
    """A whole file.

    Attributes:
        kind: What it is, such as "ge_dump".
        attributes: What it says beside its tensors, such as "op_name".
        tensors: All of them, in their order.
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
    """Yields the tensors of a file, one in memory at a time.

    Args:
        path: A file of any kind that is read; its name does not matter.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no such file, or its head is wrong.
    """
    yield from _tensors(File(os.fspath(path)))


def read_dump_data(dump_data_path: str | os.PathLike[str]) -> DumpData:
    """Reads a whole file, such as a dump that CANN writes of one task.

    CANN's own tools are not needed.

    Args:
        dump_data_path: A file of any kind that is read.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no such file, or its head is wrong.
    """
    file = File(os.fspath(dump_data_path))
    return DumpData(file.kind, file.attributes, tuple(_tensors(file)))


def convert_bin_data_to_npy(
    bin_dump_data: DumpData, dtype: str | None = "uint8"
) -> tuple[list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]:
    """Returns the inputs and the outputs of a dump as arrays.

    Args:
        bin_dump_data: What `read_dump_data` returned.
        dtype: A type of numpy, as which the elements are taken, flat, whatever they
            are. None gives each array its own type and shape.

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
        FileNotFoundError: There is no such file.
        ValueError: Its name does not end in .bin, or it is no such file.
    """
    path = os.fspath(bin_data_path)
    if not path.endswith(".bin"):
        raise ValueError(f"{path}: the name does not end in .bin")
    tensors = read_dump_data(path).tensors
    if len(tensors) != 1:
        raise ValueError(f"{path}: it has {len(tensors)} tensors instead of one")
    return tensors[0]


def convert_bin_data_to_pt(bin_tensor: DumpTensor) -> torch.Tensor:
    """Returns what `read_bin_data` returned as a tensor of torch.

    Raises:
        ImportError: torch is not installed.
        ValueError: The tensor has a problem.
    """
    return bin_tensor.torch()


def get_bin_data_from_dir(
    dump_data_dir: str | os.PathLike[str], max_depth: int = _DEPTH_MAX
) -> list[str]:
    """Returns the paths of all `.bin` files in a folder and the folders in it.

    Links to folders are not followed. The paths are sorted.

    Args:
        dump_data_dir: The folder.
        max_depth: How many folders deep, counting `dump_data_dir`.

    Raises:
        NotADirectoryError: It is no folder.
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
