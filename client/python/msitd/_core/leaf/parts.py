"""Splits tensors whose bytes do not lie in one piece of memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

# Maximum number of nested wrappers.
_DEPTH_MAX = 8


class NoBytesError(TypeError):
    """The tensor has no bytes; the text states the reason."""


def parts_of(tensor: Any) -> list[tuple[str, Any]] | None:
    """Returns the tensors and values that `tensor` consists of, by name.

    The name is empty if a wrapper holds only one tensor. Returns None if the
    tensor does not consist of others.

    Raises:
        NoBytesError: The tensor has no bytes, or none while a graph is traced.
    """
    parts = _direct_parts_of(tensor)
    return None if parts is None else list(_flattened(parts, 0))


def outside_of_transforms() -> AbstractContextManager[Any]:
    """Suspends transforms of torch.func, which would wrap each part again."""
    try:
        from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
    except ImportError:
        return nullcontext()
    return temporarily_clear_interpreter_stack()


def _flattened(parts: list[tuple[str, Any]], depth: int) -> Iterator[tuple[str, Any]]:
    import torch

    for name, part in parts:
        inner = None
        if isinstance(part, torch.Tensor) and depth < _DEPTH_MAX:
            inner = _direct_parts_of(part)
        if inner is None:
            yield name, part
            continue
        for inner_name, leaf in _flattened(inner, depth + 1):
            yield ".".join(word for word in (name, inner_name) if word), leaf


def _direct_parts_of(tensor: Any) -> list[tuple[str, Any]] | None:
    import torch

    for find in (_wrapped, _nested, _sparse, _quantized):
        parts = find(torch, tensor)
        if parts is not None:
            return parts
    if tensor.device.type == "meta":
        raise NoBytesError("a tensor on the device `meta` has no bytes")
    return None


def _wrapped(torch: Any, tensor: Any) -> list[tuple[str, Any]] | None:
    functorch = getattr(torch._C, "_functorch", None)
    is_functional = torch._is_functional_tensor(tensor)
    if is_functional:
        torch._sync(tensor)
        return [("", torch._from_functional_tensor(tensor))]
    if functorch is not None and functorch.is_functorch_wrapped_tensor(tensor):
        return [("", functorch.get_unwrapped(tensor))]
    kind = type(tensor)
    if kind.__name__ == "FakeTensor" or getattr(tensor, "fake_mode", None) is not None:
        raise NoBytesError("a fake tensor has no bytes")
    if kind.__name__ == "FunctionalTensor":
        return [("", tensor.elem)]
    # Jagged tensors have their own names below, and a DTensor has its local
    # shard.
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None or tensor.is_nested or hasattr(tensor, "to_local"):
        return None
    names, _ = flatten()
    return [(name, getattr(tensor, name)) for name in names]


def _nested(torch: Any, tensor: Any) -> list[tuple[str, Any]] | None:
    if not tensor.is_nested:
        return None
    if tensor.layout is torch.strided:
        return [(str(i), part) for i, part in enumerate(tensor.unbind())]
    parts = [("values", tensor.values()), ("offsets", tensor.offsets())]
    lengths = tensor.lengths()
    return parts if lengths is None else [*parts, ("lengths", lengths)]


def _sparse(torch: Any, tensor: Any) -> list[tuple[str, Any]] | None:
    layout = tensor.layout
    if layout is torch.strided:
        return None
    if layout is torch.sparse_coo:
        return [
            ("indices", tensor._indices()),
            ("values", tensor._values()),
            ("is_coalesced", tensor.is_coalesced()),
        ]
    if layout in (torch.sparse_csr, torch.sparse_bsr):
        names = ("crow_indices", "col_indices", "values")
    elif layout in (torch.sparse_csc, torch.sparse_bsc):
        names = ("ccol_indices", "row_indices", "values")
    elif tensor.is_mkldnn:
        return [("", tensor.to_dense())]
    else:
        return None
    return [(name, getattr(tensor, name)()) for name in names]


def _quantized(torch: Any, tensor: Any) -> list[tuple[str, Any]] | None:
    if not tensor.is_quantized:
        return None
    codes = ("codes", tensor.int_repr())
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return [
            codes,
            ("scale", tensor.q_scale()),
            ("zero_point", tensor.q_zero_point()),
        ]
    return [
        codes,
        ("scales", tensor.q_per_channel_scales()),
        ("zero_points", tensor.q_per_channel_zero_points()),
        ("axis", tensor.q_per_channel_axis()),
    ]
