"""Tensors: the recorded values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

from msitd.query import arrays
from msitd.query.comparison_types import ComparedTensor
from msitd.query.connection import Caller
from msitd.query.listing import Listing
from msitd.query.messages import from_message, new
from msitd.query.resuming import check_whole, read_to_the_end, take
from msitd.query.types import (
    GroupBy,
    Histogram,
    RunRanks,
    Stats,
    Tensor,
    TensorFilter,
)

if TYPE_CHECKING:
    import numpy
    import torch

# As in protos/base/sample.h.
_SAMPLE_ELEMENTS_MAX = 1024


class TensorListing(Listing[Tensor]):
    """Tensors of a run."""

    def ranks(self) -> RunRanks:
        """Returns which ranks of the run the list covers.

        Of an active run: those so far. If the result is `partial`, the list
        covers only a part of the run.
        """
        page = self._page(1, "")
        lacking = tuple(from_message(r) for r in page.ranks_lacking)
        held = tuple(from_message(r) for r in page.ranks_held)
        return RunRanks(held, lacking, page.partial)


class Tensors:
    """What `msitctl tensor` does. Every method may raise QueryError."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(
        self,
        run: str,
        select: TensorFilter | None = None,
        *,
        limit: int | None = None,
    ) -> TensorListing:
        """Lists tensors by rank, device, token, op, call, io and index.

        Args:
            run: Name of the run.
            select: Which tensors, as `select` makes it; None: all.
            limit: Most tensors; None: all.
        """
        return self._list(run, select, "", limit)

    def find(
        self,
        run: str,
        where: str,
        select: TensorFilter | None = None,
        *,
        limit: int | None = None,
    ) -> TensorListing:
        """Lists the tensors whose statistics meet a condition.

        Args:
            run: Name of the run.
            where: The condition, such as `nan_count > 0 or abs_max >= 1e4`; see
                docs/predicates.md.
            select: Which tensors; None: all.
            limit: Most tensors; None: all.
        """
        return self._list(run, select, where, limit)

    def get(self, name: str) -> Tensor:
        """Returns one tensor without its bytes; `NOT_FOUND` if it is not there.

        Args:
            name: Its resource name: `Tensor.name` or `ComparedTensor.name`.
        """
        request = new("GetTensorRequest", name=name)
        answer = self._caller.unary("TensorService/GetTensor", request, "Tensor")
        return cast(Tensor, from_message(answer))

    def stats(
        self,
        run: str,
        select: TensorFilter | None = None,
        *,
        by: GroupBy | None = None,
    ) -> Stats:
        """Returns statistics of sets of tensors, from their summaries. Reads no bytes.

        Args:
            run: Name of the run.
            select: Which tensors; None: all.
            by: What to group by; None: all tensors are one group.
        """
        request = new(
            "SummarizeTensorsRequest", run=run, filter=select, group_by=by or ""
        )
        answer = self._caller.unary(
            "TensorService/SummarizeTensors", request, "SummarizeTensorsResponse"
        )
        return cast(Stats, from_message(answer))

    def histogram(
        self,
        tensor: Tensor | ComparedTensor | str,
        *,
        bins: int = 64,
        low: float | None = None,
        high: float | None = None,
    ) -> Histogram:
        """Returns how the elements of a tensor spread. Reads its bytes.

        Args:
            tensor: The tensor, or its name.
            bins: Bins of equal width, 1 to 1024.
            low: Lower edge of the first bin; None: the smallest finite element.
            high: Upper edge of the last bin; None: the largest finite element.

        Raises:
            QueryError: `FAILED_PRECONDITION` (`TENSOR_EXPIRED`) if the bytes are
                not kept.
        """
        request = new(
            "ComputeHistogramRequest",
            name=_name_of(tensor),
            bin_count=bins,
            low=low,
            high=high,
        )
        answer = self._caller.unary(
            "TensorService/ComputeHistogram", request, "Histogram"
        )
        return cast(Histogram, from_message(answer))

    def read(
        self, tensor: Tensor | ComparedTensor | str, *, sample: bool = False
    ) -> numpy.ndarray[Any, Any]:
        """Reads a tensor as a numpy array, which owns its memory.

        Args:
            tensor: The tensor, or its name.
            sample: Reads only the sample: every step-th element, at most 1024
                in all. For a tensor captured at level `sample` that is all that
                is kept.

        Returns:
            An array of the shape of the tensor, or (n,) for a sample. Its dtype
            is that of the tensor, with these exceptions: integers of fewer than
            8 bits are int8 or uint8; complex32 is complex64; bfloat16 and
            smaller floats are those of ml_dtypes, or float32 if that is not
            installed or lacks them.

        Raises:
            ImportError: numpy is not installed.
            ValueError: The dtype is unknown here: the daemon is newer.
            QueryError: `NOT_FOUND`; `FAILED_PRECONDITION` (`TENSOR_EXPIRED`) if
                the bytes are not kept; `DATA_LOSS` if they fail their hash.
        """
        known = self._known(tensor)
        data = self._read_bytes(known, sample)
        return cast(
            "numpy.ndarray[Any, Any]",
            arrays.to_numpy(data, known.dtype, _shape_of(known, sample)),
        )

    def read_torch(
        self, tensor: Tensor | ComparedTensor | str, *, sample: bool = False
    ) -> torch.Tensor:
        """Reads a tensor as a torch tensor on the CPU; see `read`.

        The dtype is that of the tensor, with these exceptions: integers of
        fewer than 8 bits are int8 or uint8, and floats that torch lacks are
        float32.

        Raises:
            ImportError: torch is not installed.
            ValueError: As `read`.
            QueryError: As `read`.
        """
        known = self._known(tensor)
        data = self._read_bytes(known, sample)
        return arrays.to_torch(data, known.dtype, _shape_of(known, sample))

    def read_bytes(
        self, tensor: Tensor | ComparedTensor | str, *, sample: bool = False
    ) -> bytes:
        """Reads the bytes of a tensor, row-major and little-endian; see `read`."""
        return bytes(self._read_bytes(self._known(tensor), sample))

    def _list(
        self, run: str, select: TensorFilter | None, where: str, limit: int | None
    ) -> TensorListing:
        return TensorListing(
            self._caller,
            "TensorService/ListTensors",
            "tensors",
            Tensor,
            {"run": run, "filter": select, "where": where},
            limit,
        )

    def _known(self, tensor: Tensor | ComparedTensor | str) -> Tensor:
        # The name in a row may be that of one shard of the whole tensor.
        return tensor if isinstance(tensor, Tensor) else self.get(_name_of(tensor))

    def _read_bytes(self, tensor: Tensor, sample: bool) -> bytearray:
        """Reads all bytes, over as many streams as it takes, within one deadline."""
        size = tensor.size_bytes
        if sample:
            count = math.prod(tensor.shape)
            size = _sample_count(count) * (size // count if count else 0)
        data = bytearray()
        deadline = self._caller.stream_deadline()
        read_to_the_end(
            data, lambda: self._read_stream(tensor.name, sample, size, data, deadline)
        )
        return data

    def _read_stream(
        self, name: str, sample: bool, size: int, data: bytearray, deadline: float
    ) -> None:
        """Appends what follows on `data`; returns once it has `size` bytes."""
        request = new(
            "ReadTensorRequest", name=name, offset_bytes=len(data), sample=sample
        )
        for piece in self._caller.stream(
            "TensorService/ReadTensor", request, "ReadTensorResponse", deadline
        ):
            take(data, piece.offset_bytes, piece.data, size)
        check_whole(data, size)


def _name_of(tensor: Tensor | ComparedTensor | str) -> str:
    return tensor if isinstance(tensor, str) else tensor.name


def _sample_count(element_count: int) -> int:
    """Number of elements in the sample of a tensor with so many elements."""
    step = max(1, -(-element_count // _SAMPLE_ELEMENTS_MAX))
    return -(-element_count // step)


def _shape_of(tensor: Tensor, sample: bool) -> tuple[int, ...]:
    return (_sample_count(math.prod(tensor.shape)),) if sample else tensor.shape
