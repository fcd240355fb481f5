"""Reduces a CUDA tensor in one pass. Imported only if Triton is available."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

# Results of each program of the kernel: largest, smallest, sum, sum of squares,
# NaN, +Inf, -Inf, zero.
FIELDS = tl.constexpr(8)
FIELD_COUNT = 8

_BLOCK = 1024
_PROGRAMS_MAX = 1024
# A program for fewer elements is not worthwhile.
_ELEMENTS_MIN = 8 * _BLOCK


@triton.jit  # type: ignore[misc]
def _reduce(  # type: ignore[no-untyped-def]
    elements, out, count, per_program, is_double: tl.constexpr, block: tl.constexpr
):
    program = tl.program_id(0).to(tl.int64)
    kind = tl.float64 if is_double else tl.float32
    infinity = float("inf")
    high = tl.full([block], -infinity, kind)
    low = tl.full([block], infinity, kind)
    total = tl.zeros([block], tl.float64)
    squares = tl.zeros([block], tl.float64)
    nans = tl.zeros([block], tl.int32)
    positive = tl.zeros([block], tl.int32)
    negative = tl.zeros([block], tl.int32)
    for begin in range(0, per_program, block):
        at = program * per_program + begin + tl.arange(0, block)
        is_there = at < count
        value = tl.load(elements + at, mask=is_there, other=0.0).to(kind)
        is_nan = value != value  # noqa: PLR0124
        is_number = is_there & (value == value)  # noqa: PLR0124
        high = tl.maximum(high, tl.where(is_number, value, -infinity))
        low = tl.minimum(low, tl.where(is_number, value, infinity))
        wide = value.to(tl.float64)
        total += wide
        squares += wide * wide
        nans += is_nan.to(tl.int32)
        positive += (value == infinity).to(tl.int32)
        negative += (value == -infinity).to(tl.int32)
    to = out + program * FIELDS
    tl.store(to, tl.max(high, 0).to(tl.float64))
    tl.store(to + 1, tl.min(low, 0).to(tl.float64))
    tl.store(to + 2, tl.sum(total, 0))
    tl.store(to + 3, tl.sum(squares, 0))
    tl.store(to + 4, tl.sum(nans, 0).to(tl.float64))
    tl.store(to + 5, tl.sum(positive, 0).to(tl.float64))
    tl.store(to + 6, tl.sum(negative, 0).to(tl.float64))
    tl.store(to + 7, 0.0)


def reduce_parts(torch: Any, tensor: Any) -> Any:
    """Makes the current stream reduce a contiguous tensor of floats.

    Returns:
        One row of FIELD_COUNT doubles for each part of the tensor, on the
        device.
    """
    count = tensor.numel()
    programs = min(-(-count // _ELEMENTS_MIN), _PROGRAMS_MAX)
    blocks = -(-count // (programs * _BLOCK))
    out = torch.empty(
        (programs, FIELD_COUNT), dtype=torch.float64, device=tensor.device
    )
    with torch.cuda.device(tensor.device):
        _reduce[(programs,)](
            tensor,
            out,
            count,
            blocks * _BLOCK,
            is_double=tensor.dtype == torch.float64,
            block=_BLOCK,
        )
    return out
