"""Tensors, which are the recorded values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, Any, cast, get_args

from msitd.query import arguments, arrays
from msitd.query.comparison_types import ComparedTensor
from msitd.query.connection import Caller
from msitd.query.errors import QueryError
from msitd.query.listing import Listing
from msitd.query.messages import from_message, new
from msitd.query.resuming import check_whole, read_to_the_end, take
from msitd.query.types import (
    GroupBy,
    Histogram,
    Order,
    RunRanks,
    Stats,
    Tensor,
    TensorFilter,
    checked_filter,
)

if TYPE_CHECKING:
    import numpy
    import torch

# The same as in protos/base/sample.h.
_SAMPLE_ELEMENTS_MAX = 1024


# Maximum number of tensors that are sorted, if `limit` is not lower.
_ORDERED_MAX = 200_000


class TensorListing(Listing[Tensor]):
    """The tensors of a run."""

    def ranks(self) -> RunRanks:
        """Returns the ranks of the run that the list covers.

        For an active run, these are the ranks so far. If the result is
        `partial`, the list covers only a part of the run.
        """
        page = self._page(self._request, 1, "")
        lacking = tuple(from_message(r) for r in page.ranks_lacking)
        held = tuple(from_message(r) for r in page.ranks_held)
        return RunRanks(held, lacking, page.partial)


class OrderedTensorListing(TensorListing):
    """The tensors of a run in execution order.

    Each iteration reads the whole list before it yields the first row. It keeps
    `limit` rows of the list, or 200,000.
    """

    def __iter__(self) -> Iterator[Tensor]:
        if self._limit == 0:
            return
        rows: Iterable[Any] = self._rows(self._request, None)
        if self._limit is None:
            first = sorted(islice(rows, _ORDERED_MAX), key=execution_order)
            if next(iter(rows), None) is not None:
                raise QueryError(
                    "RESOURCE_EXHAUSTED",
                    "",
                    f"more than {_ORDERED_MAX} tensors to put in order: give a limit, "
                    f"or order='key'",
                )
        else:
            some = list(self._rows(self._request, self._limit))
            if len(some) < self._limit:
                rows = some
            else:
                # No tensor of a later token can be among the first rows.
                last = max(row.token for row in some)
                rows = self._rows(_up_to_token(self._request, last), None)
            first = nsmallest(self._limit, rows, key=execution_order)
        yield from map(from_message, first)


def execution_order(tensor: Any) -> tuple[int, int, int, str]:
    """Returns the sort key, in execution order, of a Tensor or of its message.

    An output is sorted at the end of its call, so that a container follows the
    modules inside it. Ranks are interleaved because they run the same program.
    """
    return tensor.token, tensor.sequence, tensor.rank, tensor.name


def _up_to_token(request: Any, last: int) -> Any:
    """Returns `request` without tokens after `last`, a token that it selects."""
    out = type(request)()
    out.CopyFrom(request)
    ranges = [(r.first, min(r.last, last)) for r in out.filter.tokens]
    del out.filter.tokens[:]
    for first, end in ranges or [(0, last)]:
        if first <= end:
            out.filter.tokens.add(first=first, last=end)
    return out


class Tensors:
    """The operations of `msitctl tensor`. Every method may raise QueryError."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(
        self,
        run: str,
        select: TensorFilter | None = None,
        *,
        limit: int | None = None,
        order: Order = "key",
    ) -> TensorListing:
        """Lists tensors.

        Args:
            run: Name of the run.
            select: Tensors to list, as `select` returns it; None: all.
            limit: Maximum number of tensors; None: all.
            order: `key`: by rank, device, token, op, call, io and index, page
                by page. `execution`: see `find`.

        Raises:
            TypeError: An argument has the wrong type, such as a str for
                `select`.
            ValueError: `order` has another value.
        """
        return self._list(run, select, "", limit, order)

    def find(
        self,
        run: str,
        where: str,
        select: TensorFilter | None = None,
        *,
        limit: int | None = None,
        order: Order = "execution",
    ) -> TensorListing:
        """Lists the tensors whose statistics meet a condition.

        Args:
            run: Name of the run.
            where: The condition, such as `nan_count > 0 or abs_max >= 1e4`. See
                docs/predicates.md.
            select: Tensors to search. None: all.
            limit: Maximum number of tensors; None: all.
            order: `execution`: by token, then in the order in which the program
                computed them, so that the output of a module follows everything
                that was computed inside it. The whole list is read before the
                first row. `key`: see `list`.

        Raises:
            TypeError: An argument has the wrong type, such as a str for
                `select`.
            ValueError: `where` is empty, or `order` has another value.
        """
        return self._list(run, select, arguments.text("where", where), limit, order)

    def get(self, name: str) -> Tensor:
        """Returns one tensor without its bytes.

        Raises `NOT_FOUND` if it does not exist.

        Args:
            name: Resource name: `Tensor.name` or `ComparedTensor.name`.
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
        """Returns statistics of sets of tensors, computed from their summaries only.

        Args:
            run: Name of the run.
            select: Tensors to include; None: all.
            by: Attribute to group by; None: all tensors form one group.

        Raises:
            TypeError: `select` is not a TensorFilter.
            ValueError: `by` is an empty str.
        """
        request = new(
            "SummarizeTensorsRequest",
            run=run,
            filter=checked_filter(select),
            group_by=None if by is None else arguments.text("by", by),
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
        """Returns a histogram of a tensor's elements. Reads its bytes.

        Args:
            tensor: The tensor, or its name.
            bins: Number of bins of equal width, 1 to 1024.
            low: Lower edge of the first bin; None: the smallest finite element.
            high: Upper edge of the last bin; None: the largest finite element.

        Raises:
            TypeError: `bins` is not an int.
            ValueError: `bins` is below 1.
            QueryError: `FAILED_PRECONDITION` (`TENSOR_EXPIRED`) if the bytes
                are not kept.
        """
        # On the wire, 0 selects the daemon's default.
        if arguments.number("bins", bins) < 1:
            raise ValueError(f"bins: {bins} is not in 1..1024")
        request = new(
            "ComputeHistogramRequest",
            name=name_of(tensor),
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
                in all. A tensor that was captured at level `sample` has no
                other elements.

        Returns:
            An array of the shape of the tensor, or of shape (n,) for a sample.
            Its dtype is that of the tensor, with these exceptions. Integers of
            fewer than 8 bits are int8 or uint8, and complex32 is complex64.
            bfloat16 and smaller floats use the types of ml_dtypes, or float32
            if ml_dtypes is not installed or lacks the type.

        Raises:
            ImportError: numpy is not installed.
            ValueError: The dtype is unknown because the daemon is newer.
            QueryError: `NOT_FOUND`, or `FAILED_PRECONDITION` (`TENSOR_EXPIRED`)
                if the bytes are not kept, or `DATA_LOSS` if they do not match
                their hash.
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
            ValueError: See `read`.
            QueryError: See `read`.
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
        self,
        run: str,
        select: TensorFilter | None,
        where: str,
        limit: int | None,
        order: Order,
    ) -> TensorListing:
        if order not in get_args(Order):
            raise ValueError(f"order: {order!r} is not {' or '.join(get_args(Order))}")
        listing = TensorListing if order == "key" else OrderedTensorListing
        return listing(
            self._caller,
            "TensorService/ListTensors",
            "tensors",
            Tensor,
            {"run": run, "filter": checked_filter(select), "where": where},
            limit,
        )

    def _known(self, tensor: Tensor | ComparedTensor | str) -> Tensor:
        # The name in a row may be that of only one shard of the whole tensor.
        return tensor if isinstance(tensor, Tensor) else self.get(name_of(tensor))

    def _read_bytes(self, tensor: Tensor, sample: bool) -> bytearray:
        """Reads all bytes within one deadline, over as many streams as necessary."""
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
        """Appends the following bytes to `data`; returns once it has `size` bytes."""
        request = new(
            "ReadTensorRequest", name=name, offset_bytes=len(data), sample=sample
        )
        for piece in self._caller.stream(
            "TensorService/ReadTensor", request, "ReadTensorResponse", deadline
        ):
            take(data, piece.offset_bytes, piece.data, size)
        check_whole(data, size)

    def _read_small(self, tensors: Sequence[Tensor]) -> Iterator[tuple[Tensor, bytes]]:
        """Reads the bytes of up to 1000 tensors of one run in one call, in order.

        Leaves out those that are too large for it, and those that cannot be read.
        """
        request = new("ReadTensorsRequest", names=[each.name for each in tensors])
        for answer in self._caller.stream(
            "TensorService/ReadTensors",
            request,
            "ReadTensorsResponse",
            self._caller.stream_deadline(),
        ):
            for each in answer.tensors:
                # The daemon may be wrong.
                if 0 <= each.position < len(tensors):
                    yield tensors[each.position], each.data


def name_of(tensor: Tensor | ComparedTensor | str) -> str:
    """Returns the resource name of a tensor.

    Raises:
        TypeError: The argument is neither a tensor nor a str.
        ValueError: The str is empty.
    """
    if isinstance(tensor, (Tensor, ComparedTensor)):
        return tensor.name
    return arguments.text("tensor", tensor)


def _sample_count(element_count: int) -> int:
    """Returns the number of elements in the sample of a tensor of that many
    elements.
    """
    step = max(1, -(-element_count // _SAMPLE_ELEMENTS_MAX))
    return -(-element_count // step)


def _shape_of(tensor: Tensor, sample: bool) -> tuple[int, ...]:
    return (_sample_count(math.prod(tensor.shape)),) if sample else tensor.shape
