"""Finds the memory of tensors of Python libraries.

torch and numpy are used if the caller has loaded them, and never imported.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from msitd import _msit
from msitd._core.leaf import small_elements
from msitd._core.leaf.placement import placement_of
from msitd._core.vocabulary import REQUIRES_GRAD_NUMBERS

if TYPE_CHECKING:
    from msitd._core.devices.copies import DeviceCopies

# Format characters of the buffer protocol whose size is the same on all
# platforms. `l`, `L`, `n` and `N` are looked up by their size.
_BUFFER_DTYPES = {
    "?": "bool",
    "b": "int8",
    "B": "uint8",
    "c": "uint8",
    "h": "int16",
    "H": "uint16",
    "i": "int32",
    "I": "uint32",
    "q": "int64",
    "Q": "uint64",
    "e": "float16",
    "f": "float32",
    "d": "float64",
    "Zf": "complex64",
    "Zd": "complex128",
}

_CAPTURED = (
    "a graph of the device, such as a CUDA graph, captures it: a replay runs no Python"
)

_UNKNOWN = REQUIRES_GRAD_NUMBERS[None]
_NO = REQUIRES_GRAD_NUMBERS[False]
_YES = REQUIRES_GRAD_NUMBERS[True]


def record(
    native: _msit.Client,
    tensor: Any,
    dtype: str | None,
    place: _msit.Place,
    facts: _msit.Facts,
    copies: DeviceCopies,
) -> int:
    """Passes the bytes of a tensor to the native client, which copies them.

    Args:
        native: The client of libmsit.
        tensor: A tensor as in `Client.record`: of torch, of numpy, or with
            `__dlpack__` or the buffer protocol.
        dtype: Interprets the elements as this dtype, which has the same size.
        place: Location of the record. Device and placement default to those of
            the tensor.
        facts: Known facts about the tensor. Whether it requires a gradient
            defaults to the value of a torch tensor.
        copies: The device copies of the client.

    Returns:
        A code of msit.h.

    Raises:
        TypeError: `tensor` is not a tensor, or its dtype is not supported.
        ValueError: `dtype` has another size, or elements smaller than a byte
            are to be interpreted as another dtype.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        return _record_torch(native, torch, tensor, dtype, place, facts, copies)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(tensor, (numpy.ndarray, numpy.generic)):
        return _record_numpy(native, numpy, tensor, dtype, place, facts)
    if hasattr(tensor, "__dlpack__") and dtype is None:
        return native.record_dlpack(tensor, place, facts)
    return _record_buffer(native, tensor, dtype, place, facts)


@functools.cache
def torch_reader() -> _msit.TorchReader | None:
    """Returns the native reader of torch tensors; None if torch does not support it."""
    import torch

    exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if exchange is None:
        return None
    try:
        return _msit.TorchReader(exchange, torch.Tensor, torch.nn.Parameter)
    except TypeError:
        return None


def is_captured(torch: Any, device_type: str) -> bool:
    """Returns whether the work of this thread is being captured into a device graph."""
    module = getattr(torch, device_type, None)
    test = getattr(module, "is_current_stream_capturing", None)
    try:
        return test is not None and bool(test())
    except RuntimeError:
        # This torch was built without graphs of the device.
        return False


def _record_torch(
    native: _msit.Client,
    torch: Any,
    tensor: Any,
    dtype: str | None,
    place: _msit.Place,
    facts: _msit.Facts,
    copies: DeviceCopies,
) -> int:
    if dtype is not None and small_elements.is_small(tensor.dtype):
        if dtype != small_elements.name_of(tensor.dtype):
            raise ValueError(
                f"elements of {tensor.dtype} are smaller than a byte: they cannot be "
                f"taken as {dtype}"
            )
        dtype = None
    reader = torch_reader()
    if reader is not None and dtype is None:
        code = native.record_torch(reader, tensor, place, facts)
        if code is not None:
            return code
    requires_grad, stack, identity = facts
    if requires_grad == _UNKNOWN:
        facts = (_YES if tensor.requires_grad else _NO, stack, identity)
    tensor, place = _local_part(torch, tensor.detach(), place)
    number = _torch_dtype_number(tensor.dtype, dtype)
    origin = tensor.device
    if origin.type != "cpu":
        if origin.type == "meta":
            raise TypeError("a tensor on the device `meta` has no bytes")
        if is_captured(torch, origin.type):
            raise TypeError(_CAPTURED)
    if dtype is None:
        tensor = small_elements.in_whole_bytes(torch, tensor)
    if origin.type != "cpu":
        if place[0] is None:
            place = (f"{origin.type}:{origin.index or 0}", *place[1:])
        code = copies.record(torch, tensor, number, place, facts)
        if code is not None:
            return code
        if identity != 0:
            # Bytes that were already recorded need not be copied to the host.
            code = native.record_pointer(
                0, number, tensor.shape, tensor.stride(), 1, place, facts
            )
            if code != _msit.UNKNOWN_IDENTITY:
                return code
        tensor = tensor.cpu()
    return _record_on_host(native, tensor, number, place, facts)


def _local_part(torch: Any, tensor: Any, place: _msit.Place) -> tuple[Any, _msit.Place]:
    """Returns the part of a tensor that lies in this process, and its location.

    Raises:
        TypeError: The tensor has no bytes, or is not dense.
    """
    if hasattr(tensor, "to_local"):
        if place[-1] is None:
            place = (*place[:-1], placement_of(tensor))
        tensor = tensor.to_local()
    name = type(tensor).__name__
    # The result of a collective has no bytes until it is waited for.
    if name == "AsyncCollectiveTensor":
        tensor = tensor.wait()
    elif name == "FakeTensor":
        raise TypeError("a fake tensor has no bytes")
    if tensor.layout is not torch.strided or tensor.is_nested:
        raise TypeError(f"a tensor of layout {tensor.layout} is not dense")
    return tensor, place


def _record_on_host(
    native: _msit.Client,
    tensor: Any,
    number: int,
    place: _msit.Place,
    facts: _msit.Facts,
) -> int:
    """Records a tensor in the memory of the host, whose dtype has the number."""
    if tensor.is_neg() or tensor.is_conj():
        tensor = tensor.resolve_neg().resolve_conj()
    data = tensor.data_ptr()
    if data == 0 and tensor.numel() != 0:
        raise TypeError(f"a tensor of class {type(tensor).__qualname__} has no bytes")
    return native.record_pointer(
        data,
        number,
        tensor.shape,
        tensor.stride(),
        tensor.element_size(),
        place,
        facts,
    )


def _record_numpy(
    native: _msit.Client,
    numpy: Any,
    array: Any,
    dtype: str | None,
    place: _msit.Place,
    facts: _msit.Facts,
) -> int:
    array = numpy.asarray(array)
    name = array.dtype.name
    number = _dtype_number(dtype or name)
    if _msit.dtype_bytes(number) != array.dtype.itemsize:
        raise ValueError(f"{dtype} is not as long as {name}")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    # ml_dtypes leaves the upper bits 0, but the format extends the sign to
    # them.
    if name in ("int2", "int4"):
        array = array.astype(numpy.int8)
    # Types that others registered with numpy have no buffer protocol.
    elif array.dtype.isbuiltin == 2:
        array = array.view(f"u{array.dtype.itemsize}")
    return native.record_buffer(array, number, place, facts)


def _record_buffer(
    native: _msit.Client,
    buffer: Any,
    dtype: str | None,
    place: _msit.Place,
    facts: _msit.Facts,
) -> int:
    view = memoryview(buffer)
    if dtype is None:
        dtype = _buffer_dtype(view)
    return native.record_buffer(view, _dtype_number(dtype), place, facts)


def _dtype_number(name: str) -> int:
    number = _msit.dtype_from_name(name)
    if number == 0:
        raise TypeError(f"tensors of dtype {name} are not supported")
    return number


def _buffer_dtype(view: memoryview) -> str:
    form = view.format.lstrip("@=<")
    if form in ("l", "n"):
        return f"int{8 * view.itemsize}"
    if form in ("L", "N"):
        return f"uint{8 * view.itemsize}"
    try:
        return _BUFFER_DTYPES[form]
    except KeyError:
        raise TypeError(
            f"a buffer of format {view.format!r} is not supported"
        ) from None


_torch_dtype_numbers: dict[Any, int] = {}


def _torch_dtype_number(torch_dtype: Any, dtype: str | None) -> int:
    number = _torch_dtype_numbers.get(torch_dtype)
    if number is None and dtype is None:
        number = _dtype_number(small_elements.name_of(torch_dtype))
        _torch_dtype_numbers[torch_dtype] = number
    if dtype is None:
        assert number is not None
        return number
    number = _dtype_number(dtype)
    if _msit.dtype_bytes(number) != torch_dtype.itemsize:
        raise ValueError(f"{dtype} is not as long as {torch_dtype}")
    return number
