"""Reads tensor files of other tools, with the same functions as msit.

    from msitd import formats

    for tensor in formats.tensors_of("checkpoint.pth"):
        print(tensor.name, tensor.dtype, tensor.shape)

    dump = formats.read_dump_data("Add.add.1.2.1756699200000001")
    inputs, outputs = formats.convert_bin_data_to_npy(dump, dtype=None)

Supports dumps of CANN and of ATB, .npy, .npz, .pt, .pth and .safetensors, under
any file name. No code in a file is executed. numpy and torch are imported only
by functions that return their objects.
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
