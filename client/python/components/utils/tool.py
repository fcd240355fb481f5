"""What msit has for reading and saving dumps; `msitd.formats` by another name."""

from msitd.formats import (
    convert_bin_data_to_npy,
    convert_bin_data_to_pt,
    get_bin_data_from_dir,
    read_bin_data,
    read_dump_data,
    save_npy_data,
    save_torch_data,
)

__all__ = [
    "convert_bin_data_to_npy",
    "convert_bin_data_to_pt",
    "get_bin_data_from_dir",
    "read_bin_data",
    "read_dump_data",
    "save_npy_data",
    "save_torch_data",
]
