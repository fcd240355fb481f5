"""Converts the bytes of tensors to numpy arrays and torch tensors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msitd.query.messages import missing

if TYPE_CHECKING:
    import torch

# numpy type strings of the dtypes that numpy supports. Integers of fewer than 8
# bits are stored in one byte each, which holds their value.
_NUMPY = {
    "bool": "|b1",
    "int8": "|i1",
    "int16": "<i2",
    "int32": "<i4",
    "int64": "<i8",
    "uint8": "|u1",
    "uint16": "<u2",
    "uint32": "<u4",
    "uint64": "<u8",
    "float16": "<f2",
    "float32": "<f4",
    "float64": "<f8",
    "complex64": "<c8",
    "complex128": "<c16",
    "int1": "|i1",
    "int2": "|i1",
    "int4": "|i1",
    "uint1": "|u1",
    "uint2": "|u1",
    "uint4": "|u1",
    **{f"int{bits}": "|i1" for bits in (3, 5, 6, 7)},
    **{f"uint{bits}": "|u1" for bits in (3, 5, 6, 7)},
    **dict.fromkeys(("bits8", "bits1x8", "bits2x4", "bits4x2"), "|u1"),
    "bits16": "<u2",
}

# Dtypes that ml_dtypes provides under the same names.
_ML_DTYPES = (
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e8m0fnu",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float4_e2m1fn",
)

# Exponent bits, mantissa bits and bias of float types without infinities and
# NaN. Types of fewer than 8 bits occupy the lower bits of a byte.
_FINITE_FLOATS = {
    "float4_e2m1fn": (2, 1, 1),
    "float4_e1m2": (1, 2, 1),
    "float6_e2m3fn": (2, 3, 1),
    "float6_e3m2fn": (3, 2, 3),
}

# The same for float types whose only NaN has the bits of a negative zero.
_FNUZ_FLOATS = {"float8_e4m3fnuz": (4, 3, 8), "float8_e5m2fnuz": (5, 2, 16)}


def to_numpy(data: bytes | bytearray, dtype: str, shape: Sequence[int]) -> Any:
    """Returns the elements of a tensor as a numpy array, which owns its memory.

    Args:
        data: The elements, row-major and little-endian.
        dtype: Name of the dtype in torch.
        shape: Dimensions, which must match the number of elements in `data`.

    Returns:
        An array of that shape and dtype, with these exceptions. Integers of
        fewer than 8 bits are int8 or uint8, bits are unsigned, and complex32 is
        complex64. Floats that numpy lacks use the types of ml_dtypes, or
        float32, which holds all their values, if ml_dtypes is not installed or
        lacks the type.

    Raises:
        ImportError: numpy is not installed.
        ValueError: The dtype is unknown.
    """
    np = _numpy()
    own = bytearray(data) if isinstance(data, bytes) else data
    if dtype in _NUMPY:
        flat = np.frombuffer(own, dtype=_NUMPY[dtype])
    elif dtype == "complex32":
        halves = np.frombuffer(own, dtype="<f2").astype(np.float32)
        flat = halves.view(np.complex64)
    else:
        flat = _small_floats(np, own, dtype)
    return flat.reshape(tuple(shape))


def to_torch(data: bytes | bytearray, dtype: str, shape: Sequence[int]) -> torch.Tensor:
    """Returns the elements of a tensor as a torch tensor on the CPU.

    Args:
        data: The elements, as in `to_numpy`.
        dtype: Name of the dtype in torch.
        shape: Dimensions.

    Returns:
        A tensor of that shape and dtype, with these exceptions: integers of
        fewer than 8 bits are int8 or uint8, and floats that torch lacks are
        float32.

    Raises:
        ImportError: torch is not installed.
        ValueError: The dtype is unknown.
    """
    try:
        import torch
    except ImportError as error:
        raise missing("torch") from error
    own = bytearray(data) if isinstance(data, bytes) else data
    if dtype in _NUMPY and dtype.startswith(("int", "uint")):
        bits = 8 * int(_NUMPY[dtype][2:])
        kind = getattr(torch, f"{dtype.rstrip('0123456789')}{bits}")
    else:
        kind = getattr(torch, dtype, None)
    if kind is None:
        return torch.from_numpy(to_numpy(own, dtype, shape).astype("float32"))
    if not own:
        return torch.empty(tuple(shape), dtype=kind)
    return torch.frombuffer(own, dtype=kind).reshape(tuple(shape))


def _numpy() -> Any:
    try:
        import numpy
    except ImportError as error:
        raise missing("numpy") from error
    return numpy


def _small_floats(np: Any, data: bytearray, dtype: str) -> Any:
    """Returns elements of a float dtype that numpy lacks."""
    if dtype in _ML_DTYPES:
        try:
            import ml_dtypes
        except ImportError:
            pass
        else:
            if hasattr(ml_dtypes, dtype):
                return np.frombuffer(data, dtype=np.dtype(getattr(ml_dtypes, dtype)))
    if dtype == "bfloat16":
        upper_halves = np.frombuffer(data, dtype="<u2").astype(np.uint32) << 16
        return upper_halves.view(np.float32)
    return _values(dtype)[np.frombuffer(data, dtype=np.uint8)]


@functools.cache
def _values(dtype: str) -> Any:
    """Returns the float32 value of each byte of a float type of at most 8 bits.

    Raises:
        ValueError: The float type is unknown.
    """
    np = _numpy()
    codes = np.arange(256)
    if dtype in _FINITE_FLOATS:
        return _ieee_like(np, codes, *_FINITE_FLOATS[dtype])
    if dtype in _FNUZ_FLOATS:
        values = _ieee_like(np, codes, *_FNUZ_FLOATS[dtype])
        values[0x80] = -np.nan
        return values
    if dtype == "float8_e4m3fn":
        values = _ieee_like(np, codes, 4, 3, 7)
        values[[0x7F, 0xFF]] = np.nan, -np.nan
        return values
    if dtype == "float8_e5m2":
        # The code is the upper half of a binary16.
        return (codes << 8).astype(np.uint16).view(np.float16).astype(np.float32)
    if dtype == "float8_e8m0fnu":
        values = np.ldexp(1.0, np.minimum(codes, 254) - 127).astype(np.float32)
        values[255] = np.nan
        return values
    if dtype == "hifloat8":
        return np.array([_hifloat8(int(code)) for code in codes], dtype=np.float32)
    raise ValueError(f"dtype {dtype} is unknown to this package; read_bytes reads it")


def _ieee_like(np: Any, codes: Any, exponent_bits: int, digits: int, bias: int) -> Any:
    """Decodes IEEE-like codes, all of them finite: sign, exponent, and the
    mantissa in the lowest bits.
    """
    mantissas = codes & ((1 << digits) - 1)
    exponents = codes >> digits & ((1 << exponent_bits) - 1)
    signs = 1 - 2 * (codes >> (digits + exponent_bits) & 1)
    significands = mantissas + np.where(exponents > 0, 1 << digits, 0)
    powers = np.maximum(exponents, 1) - bias - digits
    return (np.ldexp(significands.astype(np.float64), powers) * signs).astype(
        np.float32
    )


def _hifloat8(code: int) -> float:
    """Returns the value of a HiFloat8 (arXiv:2409.16626).

    After the sign bit, a prefix encodes the number of exponent bits. The
    exponent consists of a sign and a magnitude whose leading one is not stored.
    The remaining bits are the mantissa. A code without a prefix is a power of
    two that is smaller than all other values.
    """
    special = {0x80: float("nan"), 0x6F: float("inf"), 0xEF: float("-inf")}
    if code in special:
        return special[code]
    sign = -1.0 if code & 0x80 else 1.0
    code &= 0x7F
    if code < 8:
        return sign * 2.0 ** (code - 23) if code else 0.0
    # The prefixes 11, 10, 01, 001 and 0001 stand for 4, 3, 2, 1 and 0 bits.
    exponent_bits = (code >> 5) + 1 if code >= 32 else int(code >= 16)
    digits = 3 if exponent_bits < 2 else 5 - exponent_bits
    exponent = 0
    if exponent_bits:
        stored = code >> digits & ((1 << exponent_bits) - 1)
        leading = 1 << (exponent_bits - 1)
        magnitude = leading | (stored & (leading - 1))
        exponent = -magnitude if stored & leading else magnitude
    mantissa = code & ((1 << digits) - 1)
    return sign * (mantissa + (1 << digits)) * 2.0 ** (exponent - digits)
