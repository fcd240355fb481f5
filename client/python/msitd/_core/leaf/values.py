"""Describes values, which are arguments of an op other than tensors.

torch and numpy are used if the caller has loaded them, and never imported.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import hashlib
import pathlib
import re
import sys
import types
import zlib
from typing import Any, NamedTuple

from msitd._core.vocabulary import KIND_NUMBERS

_NUMBER = KIND_NUMBERS["number"]
_TEXT = KIND_NUMBERS["text"]
_NONE = KIND_NUMBERS["none"]
_DTYPE = KIND_NUMBERS["dtype"]
_OTHER = KIND_NUMBERS["other"]

_INT64 = range(-(1 << 63), 1 << 63)

# The native client cuts longer texts, and adds their length and a hash. Longer
# bytes objects are not written out.
_BYTES_MAX = 256

# Types whose repr is short and calls no code of the user.
_PLAIN_TYPES = (
    slice,
    range,
    type,
    types.EllipsisType,
    types.NotImplementedType,
    types.FunctionType,
    types.BuiltinFunctionType,
    enum.Enum,
    decimal.Decimal,
    fractions.Fraction,
    pathlib.PurePath,
    datetime.date,
    datetime.time,
    datetime.timedelta,
)
_PLAIN_TYPES_OF_TORCH = ("device", "dtype", "layout", "memory_format", "qscheme")

# Addresses differ from process to process.
_ADDRESS = re.compile(" at 0x[0-9a-fA-F]+")


class Value(NamedTuple):
    """The form in which the native client takes a value."""

    kind: int
    # A bool, int, float or complex; None for other kinds.
    number: Any
    text: str


class Described:
    """Stands in for a value that is not available but fully described."""

    __slots__ = ("lack", "value")

    def __init__(self, value: Value, lack: str = "") -> None:
        self.value = value
        # Why more should have been recorded but could not be; empty if nothing
        # is missing.
        self.lack = lack


_NONE_VALUE = Value(_NONE, None, "None")
_BOOLS = (Value(_NUMBER, False, "False"), Value(_NUMBER, True, "True"))


def describe(value: Any) -> Value:
    """Returns the recorded form of `value`.

    An object of an unknown class becomes `<package.module.Class>`, because its
    repr may be long, take long, or differ from run to run.

    Raises:
        TypeError: `value` is a tensor.
    """
    if value is None:
        return _NONE_VALUE
    if value is True or value is False:
        return _BOOLS[value]
    kind = type(value)
    if kind is int:
        return _describe_int(value)
    if kind is float or kind is complex:
        return Value(_NUMBER, value, repr(value))
    if kind is str:
        return Value(_TEXT, None, _clean(value))
    return _describe_rarer(value)


def is_array(value: Any) -> bool:
    """Returns whether `value` is a numpy array, which is recorded as a tensor."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_plain(value: Any) -> bool:
    """Returns whether `value` certainly holds no tensors."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return True
    if isinstance(value, (tuple, list, dict)):
        return not value
    return (
        isinstance(value, (*_PLAIN_TYPES, bytearray))
        or _is_plain_of_torch(value)
        or type(value).__module__ == "numpy"
    )


def _describe_int(value: int) -> Value:
    kind = _NUMBER if value in _INT64 else _OTHER
    number = value if kind == _NUMBER else None
    try:
        return Value(kind, number, repr(value))
    except ValueError:
        # Python refuses to write decimal numbers with thousands of digits.
        return Value(kind, number, hex(value))


def _describe_rarer(value: Any) -> Value:
    if isinstance(value, Described):
        return value.value._replace(text=_clean(value.value.text))
    if isinstance(value, enum.Enum):
        return _describe_other(value)
    for plain in (int, float, complex):
        if isinstance(value, plain):
            return describe(plain(value))
    if isinstance(value, str):
        return Value(_TEXT, None, _clean(str.__str__(value)))
    torch = sys.modules.get("torch")
    if torch is not None:
        if isinstance(value, torch.dtype):
            return Value(_DTYPE, None, repr(value))
        if isinstance(value, torch.Tensor):
            raise TypeError("a tensor is no value: use record")
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        if isinstance(value, numpy.dtype):
            return Value(_DTYPE, None, _clean(repr(value)))
        if isinstance(value, numpy.ndarray):
            raise TypeError("an array is no value: use record")
        if isinstance(value, numpy.generic):
            return _describe_numpy_scalar(value)
    return _describe_other(value)


def _describe_numpy_scalar(value: Any) -> Value:
    plain = value.item()
    if type(plain) in (bool, int, float, complex):
        return describe(plain)
    return _describe_other(value)


def _describe_other(value: Any) -> Value:
    return Value(_OTHER, None, _clean(_ADDRESS.sub("", _other_text(value))))


def _other_text(value: Any) -> str:
    if isinstance(value, (bytes, bytearray)):
        text = repr(bytes(value[:_BYTES_MAX]))
        if len(value) <= _BYTES_MAX:
            return text
        # Keeps objects apart that begin with the same bytes.
        digest = hashlib.blake2b(value, digest_size=8).hexdigest()
        return f"{text}… ({len(value)} bytes, hash {digest})"
    is_empty = isinstance(value, (tuple, list, dict, set, frozenset)) and not value
    if is_empty or isinstance(value, _PLAIN_TYPES) or _is_plain_of_torch(value):
        return repr(value)
    text = _distributed_text(value)
    if text is not None:
        return text
    kind = type(value)
    return f"<{kind.__module__}.{kind.__qualname__}>"


def _distributed_text(value: Any) -> str | None:
    """Returns the text that msprobe writes for a reduction or a process group."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return None
    if isinstance(value, distributed.ReduceOp.RedOpType):
        return str(value)
    if not isinstance(value, distributed.ProcessGroup):
        return None
    try:
        ranks = distributed.get_process_group_ranks(value)
    except (KeyError, RuntimeError, ValueError):
        # The group was destroyed, or this process is not a member.
        return None
    group_id = group_id_of(ranks)
    return repr(
        {"type": "torch.ProcessGroup", "group_ranks": ranks, "group_id": group_id}
    )


def group_id_of(ranks: list[int]) -> str:
    """Returns the text by which msprobe identifies a group: a checksum of its ranks."""
    return f"{zlib.crc32(str(ranks).encode()):08x}"


def _is_plain_of_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    return any(
        isinstance(value, getattr(torch, name))
        for name in _PLAIN_TYPES_OF_TORCH
        if hasattr(torch, name)
    )


def _clean(text: str) -> str:
    """Returns the text, encodable as UTF-8, without NUL characters."""
    if "\0" in text:
        text = text.replace("\0", "\\x00")
    if text.isascii():
        return text
    return text.encode(errors="backslashreplace").decode()
