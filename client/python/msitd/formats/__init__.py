"""Reads files of other tools that hold tensors, with the functions that msit has for it.

from msitd import formats

for tensor in formats.tensors_of("checkpoint.pth"):
    print(tensor.name, tensor.dtype, tensor.shape)

dump = formats.read_dump_data("Add.add.1.2.1756699200000001")
inputs, outputs = formats.convert_bin_data_to_npy(dump, dtype=None)

Dumps of CANN and of ATB, .npy, .npz, .pt, .pth and .safetensors are read, whatever they
are called. Nothing that a file holds is run. numpy and torch are imported only by what
returns their objects.
"""

from msitd.formats.reading import (
    DumpData,
    DumpTensor,
    convert_bin_data_to_npy,
    convert_bin_data_to_pt,
    get_bin_data_from_dir,
    read_bin_data,
    read_dump_data,
    tensors_of,
)
from msitd.formats.writing import save_npy_data, save_torch_data

__all__ = [
    "DumpData",
    "DumpTensor",
    "convert_bin_data_to_npy",
    "convert_bin_data_to_pt",
    "get_bin_data_from_dir",
    "read_bin_data",
    "read_dump_data",
    "save_npy_data",
    "save_torch_data",
    "tensors_of",
]
