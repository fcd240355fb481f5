"""Computes statistics of tensors on their device.

Extremes, counts and sums of integers are exact. Sums of floats and norms are
computed in double on CUDA devices and for tensors of float64, otherwise in
float32. The device chooses the order of the additions, so the last digits may
differ from those of the host.
"""

from __future__ import annotations

import functools
import importlib
import logging
import math
import struct
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

_logger = logging.getLogger("msitd")

# Smaller tensors can be copied to the host in the same time.
BYTES_MIN = 64 << 10

# Dtypes of torch. Extremes of 64-bit integers may not be representable as
# double.
_DTYPES = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "int32",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "bfloat16",
    "float32",
    "float64",
)
_COUNTS = ("nan_count", "pos_inf_count", "neg_inf_count")


class Reduction(Protocol):
    """The layout of a reduction's bytes on the host."""

    def statistics(self, reduced: Any) -> Mapping[str, float | bool | int]:
        """Returns the statistics by name, from a tensor of uint8 on the host."""


class _Scalars(NamedTuple):
    # Format of `struct`: largest, smallest, sum; the norm; for floats, the
    # counts.
    form: str
    element_count: int
    is_bool: bool

    def statistics(self, reduced: Any) -> Mapping[str, float | bool | int]:
        numbers = struct.unpack(self.form, bytes(reduced.tolist()))
        largest, smallest, total, norm, *counts = numbers
        return {
            "max": bool(largest) if self.is_bool else largest,
            "min": bool(smallest) if self.is_bool else smallest,
            "mean": total / self.element_count,
            "l2_norm": norm,
            "count": self.element_count,
            **dict(zip(_COUNTS, counts, strict=False)),
        }


class _Parts(NamedTuple):
    """The rows that triton_kernel returns."""

    # The double dtype of torch.
    double: Any
    field_count: int
    element_count: int

    def statistics(self, reduced: Any) -> Mapping[str, float | bool | int]:
        rows = reduced.view(self.double).view(-1, self.field_count)
        _, _, total, squares, *counts, _ = rows.sum(0).tolist()
        has_nan = counts[0] != 0
        return {
            "max": math.nan if has_nan else rows[:, 0].max().item(),
            "min": math.nan if has_nan else rows[:, 1].min().item(),
            "mean": total / self.element_count,
            "l2_norm": math.sqrt(squares),
            "count": self.element_count,
            **dict(zip(_COUNTS, map(int, counts), strict=True)),
        }


def is_reducible(torch: Any, tensor: Any) -> bool:
    """Returns whether `reduce` accepts the tensor and is worthwhile."""
    return (
        tensor.dtype in _reducible_dtypes(torch)
        and tensor.nbytes >= BYTES_MIN
        and tensor.numel() != 0
    )


@functools.cache
def _reducible_dtypes(torch: Any) -> frozenset[Any]:
    return frozenset(getattr(torch, name) for name in _DTYPES if hasattr(torch, name))


def reduce(torch: Any, tensor: Any) -> tuple[Any, Reduction]:
    """Makes the current stream reduce a tensor. Does not wait for the result.

    Returns:
        A tensor of uint8 on the device, and the layout of its bytes.
    """
    kernel = _triton_kernel() if tensor.is_cuda else None
    is_float = tensor.dtype.is_floating_point
    if kernel is not None and is_float and tensor.dtype.itemsize > 1:
        try:
            return _reduce_in_parts(torch, kernel, tensor)
        except Exception as error:  # noqa: BLE001 - torch can do it, too
            _forget_triton(error)
    return _reduce_by_torch(torch, tensor)


def _reduce_in_parts(
    torch: Any, kernel: ModuleType, tensor: Any
) -> tuple[Any, Reduction]:
    rows = kernel.reduce_parts(torch, tensor.contiguous())
    told = _Parts(torch.float64, kernel.FIELD_COUNT, tensor.numel())
    return rows.view(-1).view(torch.uint8), told


def _reduce_by_torch(torch: Any, tensor: Any) -> tuple[Any, Reduction]:
    is_float = tensor.dtype.is_floating_point
    has_double = tensor.device.type == "cuda" or tensor.dtype == torch.float64
    norm_type = torch.float64 if has_double else torch.float32
    letter = "d" if has_double else "f"
    form = f"=4{letter}3q" if is_float else f"=3q{letter}"
    told = _Scalars(form, tensor.numel(), tensor.dtype == torch.bool)
    element_type = norm_type if is_float else torch.int64
    # torch has no extremes of bools.
    if told.is_bool:
        tensor = tensor.to(torch.uint8)
    elif is_float and tensor.dtype.itemsize == 1:
        tensor = tensor.to(torch.float32)
    low, high = torch.aminmax(tensor)
    total = tensor.sum(dtype=element_type)
    whole = tensor if is_float else tensor.to(norm_type)
    norm = torch.linalg.vector_norm(whole, dtype=norm_type)
    parts = [torch.stack([v.to(element_type) for v in (high, low, total)]), norm]
    if is_float:
        infinity = float("inf")
        counts = (tensor.isnan(), tensor == infinity, tensor == -infinity)
        parts.append(torch.stack([torch.count_nonzero(count) for count in counts]))
    return torch.cat([part.view(-1).view(torch.uint8) for part in parts]), told


# The module triton_kernel, None before it is needed; and the reason why there
# is none.
_triton: list[Any] = [None, ""]


def _triton_kernel() -> ModuleType | None:
    """Returns the module of the kernel; None if it is not available."""
    if _triton[0] is None and not _triton[1]:
        try:
            _triton[0] = importlib.import_module("msitd._core.devices.triton_kernel")
        except Exception as error:  # noqa: BLE001 - torch can do it, too
            _forget_triton(error)
    return None if _triton[1] else _triton[0]


def _forget_triton(error: Exception) -> None:
    _triton[1] = f"{type(error).__name__}: {error}"
    _logger.warning(
        "Triton cannot reduce tensors here, so torch does, which takes longer: %s "
        "(said once)",
        _triton[1],
    )
