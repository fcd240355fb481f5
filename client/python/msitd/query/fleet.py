"""Queries several daemons as if they were one."""

from __future__ import annotations

import dataclasses
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from msitd.query import merging
from msitd.query.comparison_types import (
    ComparedTensor,
    Comparison,
    Matching,
    Policy,
    Reading,
)
from msitd.query.errors import PartialError, QueryError
from msitd.query.node_types import NodeStatus
from msitd.query.tabular import Tabular
from msitd.query.tensors import execution_order, name_of
from msitd.query.types import (
    CaptureCoverage,
    GroupBy,
    Histogram,
    Order,
    Run,
    RunRanks,
    Stats,
    Tensor,
    TensorFilter,
)

if TYPE_CHECKING:
    from types import TracebackType

    import numpy
    import torch
    from typing_extensions import Self

    from msitd.query.daemon import Connection
    from msitd.query.listing import Listing
    from msitd.query.tensors import TensorListing

T = TypeVar("T")

# Errors that are caused by the request, so that every node would return them.
_OF_REQUEST = (
    "ALREADY_EXISTS",
    "CANCELLED",
    "FAILED_PRECONDITION",
    "INVALID_ARGUMENT",
    "OUT_OF_RANGE",
)


class Nodes:
    """Calls all nodes at the same time, each with its own time limit. Thread-safe."""

    def __init__(
        self,
        short: Mapping[str, Connection],
        long: Mapping[str, Connection],
        allow_partial: bool,
    ) -> None:
        """Takes two connections to each node: one whose calls have the time
        limit of a node, and one for calls that take longer.
        """
        self._short = dict(short)
        self._long = dict(long)
        self._allow_partial = allow_partial
        self._pool = ThreadPoolExecutor(len(self._short), "msitd-node")
        self._lock = threading.Lock()
        self._unreachable: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._short)

    @property
    def unreachable(self) -> dict[str, str]:
        with self._lock:
            return dict(self._unreachable)

    def at(self, node: str) -> Connection:
        """Returns the connection to one node.

        Raises ValueError if the list has no such node.
        """
        if node not in self._long:
            raise ValueError(f"{node!r} is none of {', '.join(self._long)}")
        return self._long[node]

    def close(self) -> None:
        for connection in (*self._short.values(), *self._long.values()):
            connection.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def ask(
        self,
        call: Callable[[Connection], T],
        needs_all: bool = True,
        of_daemons: bool = False,
    ) -> list[tuple[str, T]]:
        """Returns the answers by node, without nodes that do not have the
        requested object.

        If several addresses lead to the same daemon, only the first one counts,
        unless the answers are about the daemons themselves (`of_daemons`).

        Raises:
            PartialError: A node does not answer, `needs_all` is set, and
                partial results are not allowed.
            QueryError: The request is invalid, no node has the requested
                object, or no node answers.
        """

        def one(connection: Connection) -> T | QueryError:
            try:
                return call(connection)
            except QueryError as error:
                return error

        try:
            results = list(self._pool.map(one, self._short.values()))
        except RuntimeError:
            raise QueryError("CANCELLED", "", "the connection is closed") from None
        answers: list[tuple[str, T]] = []
        absent: QueryError | None = None
        failed: dict[str, QueryError] = {}
        for node, result in zip(self._short, results, strict=True):
            if not isinstance(result, QueryError):
                self._note(node, None)
                answers.append((node, result))
            elif result.code in _OF_REQUEST:
                raise result
            elif result.code == "NOT_FOUND":
                self._note(node, None)
                absent = absent or result
            else:
                failed[node] = result
        for node, error in failed.items():
            self._note(node, error)
        if failed and not self._allow_partial and (needs_all or not answers):
            raise PartialError({node: str(error) for node, error in failed.items()})
        if not answers:
            raise absent or next(iter(failed.values()))
        return answers if of_daemons else self._once_each(answers)

    def are_one(self, node: str, other: str) -> bool:
        """True if both addresses are known to lead to the same daemon."""
        one = self._short[node].daemon_id
        return node == other or (one != "" and one == self._short[other].daemon_id)

    def _once_each(self, answers: list[tuple[str, T]]) -> list[tuple[str, T]]:
        """Keeps one answer per daemon, even if several of its addresses were called."""
        out: list[tuple[str, T]] = []
        kept: dict[str, str] = {}
        for node, answer in answers:
            # Older daemons do not report an id.
            first = kept.setdefault(self._short[node].daemon_id or node, node)
            if first == node:
                out.append((node, answer))
            else:
                warnings.warn(
                    f"{node} and {first} are the same daemon, which counts once",
                    stacklevel=4,
                )
        return out

    def fail(self, node: str, error: QueryError) -> None:
        """Handles a node that failed after it had begun to answer.

        Raises as `ask` does.
        """
        if error.code in _OF_REQUEST:
            raise error
        self._note(node, error)
        if not self._allow_partial:
            raise PartialError({node: str(error)})

    def _note(self, node: str, error: QueryError | None) -> None:
        with self._lock:
            if error is None:
                self._unreachable.pop(node, None)
            else:
                self._unreachable[node] = str(error)


class FleetListing(Tabular[T]):
    """Rows of all nodes, in the order of a single daemon.

    Each iteration queries again.
    """

    def __init__(
        self,
        nodes: Nodes,
        row_type: type[T],
        list_of: Callable[[Connection], Listing[T]],
        key: Callable[[T], Any],
        join: Callable[[Sequence[tuple[str, T]]], T] | None,
        limit: int | None,
    ) -> None:
        """`join` merges rows with the same key into one; None keeps them separate.

        Raises:
            TypeError: The list is requested with an argument of the wrong type.
            ValueError: An argument has a value that is not allowed.
        """
        # Builds the request for one node, which raises at once if it is
        # invalid.
        list_of(nodes.at(nodes.names[0]))
        self._nodes = nodes
        self._row_type = row_type
        self._list_of = list_of
        self._key = key
        self._join = join
        self._limit = limit

    def __iter__(self) -> Iterator[T]:
        if self._limit == 0:
            return

        def begin(connection: Connection) -> tuple[list[T], Iterator[T]]:
            rows = iter(self._list_of(connection))
            first = next(rows, None)
            return ([] if first is None else [first]), rows

        heads: dict[str, T] = {}
        rest: dict[str, Iterator[T]] = {}
        for node, (first, rows) in self._nodes.ask(begin):
            if first:
                heads[node], rest[node] = first[0], rows
        count = 0
        while heads and (self._limit is None or count < self._limit):
            least = min(self._key(row) for row in heads.values())
            same = [node for node, row in heads.items() if self._key(row) == least]
            taken = same if self._join is not None else same[:1]
            rows_taken = [(node, heads.pop(node)) for node in taken]
            yield (rows_taken[0][1] if self._join is None else self._join(rows_taken))
            count += 1
            for node in taken:
                try:
                    for row in rest[node]:
                        heads[node] = row
                        break
                except QueryError as error:
                    self._nodes.fail(node, error)
            # Among equal rows, that of the first node is returned first.
            heads = {node: heads[node] for node in self._nodes.names if node in heads}


class FleetTensorListing(FleetListing[Tensor]):
    """The tensors of a run on all nodes."""

    def ranks(self) -> RunRanks:
        """Returns the ranks of the run that the list covers; see
        `TensorListing.ranks`.
        """
        # Every listing of this class is a list of tensors.
        asked: Any = self._list_of
        return merging.merge_ranks(
            ranks for _, ranks in self._nodes.ask(lambda node: asked(node).ranks())
        )


class FleetRuns:
    """The runs of all nodes. Every method may raise QueryError."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def list(self, *, limit: int | None = None) -> FleetListing[Run]:
        """Lists runs by name, each of them once; see `Runs.list`."""
        return FleetListing(
            self._nodes,
            Run,
            lambda node: node.runs.list(limit=limit),
            lambda run: run.name,
            _join_runs,
            limit,
        )

    def get(self, run: str) -> Run:
        """Returns one run with the ranks and counts of all nodes; see `Runs.get`."""
        return _join_runs(self._nodes.ask(lambda node: node.runs.get(run)))

    def holders(self, run: str) -> dict[str, Run]:
        """Returns the run as each node reports it, by node; nodes without the
        run are absent.
        """
        return dict(self._nodes.ask(lambda node: node.runs.get(run)))

    def seal(self, run: str) -> Run:
        """Ends the capture of a run on every node that has it; see `Runs.seal`."""
        return _join_runs(self._nodes.ask(lambda node: node.runs.seal(run)))


class FleetTensors:
    """The tensors of all nodes. Every method may raise QueryError."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def list(
        self,
        run: str,
        select: TensorFilter | None = None,
        *,
        limit: int | None = None,
        order: Order = "key",
    ) -> FleetTensorListing:
        """Lists tensors in the order of a single daemon; see `Tensors.list`."""
        return self._list(
            lambda node: node.tensors.list(run, select, limit=limit, order=order),
            limit,
            order,
        )

    def find(
        self,
        run: str,
        where: str,
        select: TensorFilter | None = None,
        *,
        limit: int | None = None,
        order: Order = "execution",
    ) -> FleetTensorListing:
        """Lists the tensors whose statistics meet a condition; see `Tensors.find`."""

        def list_of(node: Connection) -> TensorListing:
            return node.tensors.find(run, where, select, limit=limit, order=order)

        return self._list(list_of, limit, order)

    def get(self, name: str) -> Tensor:
        """Returns one tensor from the first node that has it; see `Tensors.get`."""
        return self._holder_of(name)[1]

    def stats(
        self,
        run: str,
        select: TensorFilter | None = None,
        *,
        by: GroupBy | None = None,
    ) -> Stats:
        """Returns statistics over the tensors of all nodes; see `Tensors.stats`.

        Counts and extremes are exact. Sums and norms of a group that is spread
        over several nodes may differ from those of a single daemon in the last
        digits.
        """
        answers = self._nodes.ask(lambda node: node.tensors.stats(run, select, by=by))
        _warn_of_doubles(run, answers)
        return merging.merge_stats([answer for _, answer in answers])

    def histogram(
        self,
        tensor: Tensor | ComparedTensor | str,
        *,
        bins: int = 64,
        low: float | None = None,
        high: float | None = None,
    ) -> Histogram:
        """Returns a histogram of a tensor's elements; see `Tensors.histogram`."""
        node, known = self._holder_of(tensor)
        return self._nodes.at(node).tensors.histogram(
            known, bins=bins, low=low, high=high
        )

    def read(
        self, tensor: Tensor | ComparedTensor | str, *, sample: bool = False
    ) -> numpy.ndarray[Any, Any]:
        """Reads a tensor as a numpy array; see `Tensors.read`."""
        node, known = self._holder_of(tensor)
        return self._nodes.at(node).tensors.read(known, sample=sample)

    def read_torch(
        self, tensor: Tensor | ComparedTensor | str, *, sample: bool = False
    ) -> torch.Tensor:
        """Reads a tensor as a torch tensor; see `Tensors.read_torch`."""
        node, known = self._holder_of(tensor)
        return self._nodes.at(node).tensors.read_torch(known, sample=sample)

    def _list(
        self,
        list_of: Callable[[Connection], Listing[Tensor]],
        limit: int | None,
        order: Order,
    ) -> FleetTensorListing:
        key = merging.key_of_tensor if order == "key" else execution_order
        return FleetTensorListing(self._nodes, Tensor, list_of, key, None, limit)

    def _holder_of(self, tensor: Tensor | ComparedTensor | str) -> tuple[str, Tensor]:
        name = name_of(tensor)
        # One node with the tensor is enough, even if others fail.
        return self._nodes.ask(lambda node: node.tensors.get(name), needs_all=False)[0]


class FleetCaptures:
    """The capture policies and the coverage of all nodes."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def coverage(self, run: str) -> CaptureCoverage:
        """Returns the coverage of a run on all nodes; see `Captures.coverage`."""
        answers = self._nodes.ask(lambda node: node.captures.coverage(run))
        _warn_of_doubles(run, answers)
        return merging.merge_coverage([answer for _, answer in answers])


class Fleet:
    """A connection to several daemons. Thread-safe; see `connect_fleet`."""

    runs: FleetRuns
    tensors: FleetTensors
    captures: FleetCaptures

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self.runs = FleetRuns(nodes)
        self.tensors = FleetTensors(nodes)
        self.captures = FleetCaptures(nodes)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that are queried, as spelled in the list of endpoints."""
        return self._nodes.names

    @property
    def unreachable(self) -> dict[str, str]:
        """Nodes whose last call failed, with the reason.

        Results since then lack them.
        """
        return self._nodes.unreachable

    def at(self, node: str) -> Connection:
        """Returns the connection to one of `nodes`, for operations on a single daemon.

        Raises:
            ValueError: The node does not exist.
        """
        return self._nodes.at(node)

    def statuses(self) -> dict[str, NodeStatus]:
        """Returns the state and the counters of each daemon, by node."""
        ask = self._nodes.ask
        return dict(ask(lambda node: node.node.status(), of_daemons=True))

    def compare(
        self,
        golden_run: str,
        target_run: str,
        select: TensorFilter | None = None,
        *,
        at: str,
        policy: Policy | None = None,
        matching: Matching | None = None,
        reading: Reading | None = None,
        timeout: float | timedelta | None = None,
    ) -> Comparison:
        """Compares two runs on one node, wherever the runs are, and waits until
        it is done.

        That node reads missing ranks from the other nodes, which its `peers`
        must list with the same names as `nodes`. The rows are those of a single
        daemon that holds everything: `fleet.at(node).comparisons.rows(done)`.
        If a node does not answer, the result is partial; see `unreachable`.

        Args:
            golden_run: The reference run.
            target_run: The run under test.
            select: Tensors to compare, in both runs; None: all.
            at: The node that compares, one of `nodes`.
            policy: Which pairs pass; None: the defaults.
            matching: How tensors are paired; None: by equal names.
            reading: What is read of pairs whose hashes differ; None: the bytes.
            timeout: Time limit of the wait, in seconds; None: 24 hours.

        Raises:
            ValueError: The node does not exist.
            QueryError: See `Comparisons.run`.
        """
        worker = self.at(at)
        golden_source = self._source_of(golden_run, at)
        target_source = self._source_of(target_run, at)
        # A node that does not answer may hold ranks that no other node has.
        is_whole = not self.unreachable
        done = worker.comparisons.run(
            golden_run,
            target_run,
            select,
            policy=policy,
            matching=matching,
            reading=reading,
            timeout=timeout,
            golden_source=golden_source,
            target_source=target_source,
        )
        if is_whole:
            return done
        return dataclasses.replace(
            done,
            partial=True,
            may_diverge_before=done.first_divergence is not None,
        )

    def _source_of(self, run: str, at: str) -> str:
        """Returns the location of a run in the notation that the comparing node
        uses.
        """
        holders = list(self.runs.holders(run))
        names = ["local" if self._nodes.are_one(each, at) else each for each in holders]
        return "" if names == ["local"] else ",".join(names)

    def close(self) -> None:
        """Ends all calls. Further calls of `close` have no effect."""
        self._nodes.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _join_runs(answers: Sequence[tuple[str, Run]]) -> Run:
    name = answers[0][1].name
    _warn_of_doubles(name, answers)
    runs = [run for _, run in answers]
    for what in merging.disagreements(runs):
        warnings.warn(f"the nodes disagree about {what} of run {name}", stacklevel=3)
    return merging.merge_runs(runs)


def _warn_of_doubles(
    run: str, answers: Sequence[tuple[str, Run | Stats | CaptureCoverage]]
) -> None:
    """Warns of ranks that exist on two nodes."""
    for number, (node, answer) in enumerate(answers):
        for other, before in answers[:number]:
            both = merging.common(before.ranks_held, answer.ranks_held)
            if both:
                warnings.warn(
                    f"{other} and {node} both have ranks {merging.text_of(both)} of "
                    f"run {run}: their common records count twice",
                    stacklevel=4,
                )
