"""Numbers that identify the bytes of torch tensors within one token."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# Number of tensors remembered. The native client remembers no more.
_TENSORS_MAX = 16384

# Each number is given once per process, across models and threads.
_next_number = itertools.count(1).__next__


class Identities:
    """The numbers of one thread.

    A tensor keeps its number while torch counts no change of its bytes, and
    while there is no collective, which may change them.
    """

    def __init__(self) -> None:
        # torch is installed, since there is a tensor.
        import torch
        from torch.multiprocessing.reductions import StorageWeakRef

        self._types = (torch.Tensor, torch.nn.Parameter)
        self._strided = torch.strided
        self._weak_reference = StorageWeakRef
        self._numbers: dict[tuple[Any, ...], int] = {}
        # While a weak reference to a storage exists, no other storage gets its
        # address.
        self._storages: dict[int, Any] = {}

    def of(self, tensor: torch.Tensor) -> int:
        """Returns the number of the tensor; 0 if its changes cannot be detected."""
        try:
            return self._number_of(tensor)
        except RuntimeError:
            # Wrappers such as those of functorch have no storage.
            return 0

    def _number_of(self, tensor: torch.Tensor) -> int:
        if (
            type(tensor) not in self._types
            or tensor.layout is not self._strided
            # It has no version counter.
            or tensor.is_inference()
            # A view of the same bytes with different values.
            or tensor.is_neg()
            or tensor.is_conj()
            or (type(tensor) is self._types[0] and _may_be_statistics(tensor))
        ):
            return 0
        storage = tensor.untyped_storage()
        address = storage._cdata
        key = (
            address,
            tensor._version,
            _collective_counts(),
            tensor.data_ptr(),
            tensor.shape,
            tensor.stride(),
            tensor.dtype,
        )
        number = self._numbers.get(key)
        if number is None:
            if len(self._numbers) >= _TENSORS_MAX:
                self.clear()
            if address not in self._storages:
                self._storages[address] = self._weak_reference(storage)
            number = self._numbers[key] = _next_number()
        return number

    def clear(self) -> None:
        """Forgets all tensors."""
        self._numbers.clear()
        self._storages.clear()


def _may_be_statistics(tensor: torch.Tensor) -> bool:
    """Returns whether a normalization may change the tensor or its base.

    torch does not count changes of running statistics of batches.
    """
    whole = tensor if tensor._base is None else tensor._base
    return (
        whole.dim() == 1
        and max(tensor.shape, default=0) == tensor.numel()
        and whole.is_floating_point()
        and not whole.requires_grad
    )


def _collective_counts() -> tuple[int, ...]:
    """Returns the number of collectives of each group so far.

    torch does not count changes that collectives make in place.

    Raises:
        RuntimeError: A group does not provide its count.
    """
    distributed = sys.modules.get("torch.distributed")
    if (
        distributed is None
        or not distributed.is_available()
        or not distributed.is_initialized()
    ):
        return ()
    groups = distributed.distributed_c10d._world.pg_map
    return tuple(group._get_sequence_number_for_group() for group in groups)
