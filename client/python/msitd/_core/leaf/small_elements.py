"""Gives elements of torch that are smaller than a byte a byte each.

Torch has integers of 1 to 7 bits, which take a byte whose upper bits mean nothing, and
floats of 4 bits, two in a byte. The format of msitd has a byte for each of them: an
integer is extended to all of its bits, and a float has its lower ones.
"""

from __future__ import annotations

import re
from typing import Any

_INTEGER = re.compile(r"(u?)int([1-7])")
# Two floats in a byte, the first one in the lower bits.
_PACKED_FLOAT = "float4_e2m1fn_x2"
_FLOAT = "float4_e2m1fn"


def name_of(torch_dtype: Any) -> str:
    """Returns the name that the elements of a dtype of torch have in the format."""
    name = str(torch_dtype).removeprefix("torch.")
    return _FLOAT if name == _PACKED_FLOAT else name


def is_small(torch_dtype: Any) -> bool:
    """Returns whether elements of a dtype of torch are smaller than a byte."""
    name = str(torch_dtype).removeprefix("torch.")
    return name == _PACKED_FLOAT or _INTEGER.fullmatch(name) is not None


def in_whole_bytes(torch: Any, tensor: Any) -> Any:
    """Returns a tensor of bytes, if the elements of `tensor` are smaller; else `tensor`.

    The last dimension of a tensor with two elements in a byte is twice as long.
    """
    if tensor.dtype.itemsize != 1:
        return tensor
    name = str(tensor.dtype).removeprefix("torch.")
    if name == _PACKED_FLOAT:
        pairs = tensor.view(torch.uint8)
        both = torch.stack((pairs & 15, pairs >> 4), dim=-1)
        return both.flatten(-2) if pairs.dim() > 0 else both
    found = _INTEGER.fullmatch(name)
    if found is None:
        return tensor
    bits = int(found.group(2))
    if found.group(1):
        return tensor.view(torch.uint8) & ((1 << bits) - 1)
    return (tensor.view(torch.int8) << (8 - bits)) >> (8 - bits)
