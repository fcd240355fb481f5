"""Expands torch elements that are smaller than a byte to one byte each.

torch has integers of 1 to 7 bits, which occupy a byte with unspecified upper
bits, and floats of 4 bits, two per byte. The format of msitd uses one byte for
each: an integer is extended to all bits of the byte, and a float occupies the
lower bits.
"""

from __future__ import annotations

import re
from typing import Any

_INTEGER = re.compile(r"(u?)int([1-7])")
# Two floats per byte, the first one in the lower bits.
_PACKED_FLOAT = "float4_e2m1fn_x2"
_FLOAT = "float4_e2m1fn"


def name_of(torch_dtype: Any) -> str:
    """Returns the name that the elements of a torch dtype have in the format."""
    name = str(torch_dtype).removeprefix("torch.")
    return _FLOAT if name == _PACKED_FLOAT else name


def is_small(torch_dtype: Any) -> bool:
    """Returns whether the elements of a torch dtype are smaller than a byte."""
    name = str(torch_dtype).removeprefix("torch.")
    return name == _PACKED_FLOAT or _INTEGER.fullmatch(name) is not None


def in_whole_bytes(torch: Any, tensor: Any) -> Any:
    """Returns a tensor with one byte per element if the elements of `tensor`
    are smaller.

    Other tensors are returned unchanged. The last dimension of a tensor with
    two elements per byte becomes twice as long.
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
