"""Carries out the tasks of a comparison with one daemon, as an ordinary client.

The same code runs in a process on the driver's machine and in an actor of Ray.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from msitd.fleet.asking import Asking
from msitd.fleet.groups import GroupKeys, GroupTable
from msitd.fleet.orders import (
    Answer,
    CompareOrder,
    Failure,
    Order,
    Outline,
    OutlineOrder,
    Part,
    Setup,
    Span,
)
from msitd.fleet.own_daemon import OwnDaemon
from msitd.fleet.row_file import RowFile
from msitd.query.errors import QueryError, code_name
from msitd.query.messages import message_class

# The same as in protos/msitd/v1/comparison_service.proto.
_DONE = 3
_PASS = 1
_FAIL = 2
_UNMATCHED = 3
_IO_WEIGHT = 3

# The maximum number of hints of a comparison, and of ranks that fail at a
# token.
_HINTS_MAX = 64
_FAILING_RANKS_MAX = 1024
_WRONG_WEIGHTS_MAX = 4096


class Worker:
    """A daemon, and the comparison that it works on.

    Raises:
        FileNotFoundError: The program `msitd` is not installed.
        RuntimeError: The daemon does not start.
        ImportError: A package is not installed.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._comparison = message_class("msitd.v1.Comparison").FromString(
            setup.comparison
        )
        self._keys = GroupKeys(self._comparison.matching)
        self._own: OwnDaemon | None = None
        endpoint = setup.endpoint
        if not endpoint:
            self._own = OwnDaemon(setup.peers, setup.archives, setup.config)
            endpoint = self._own.endpoint
        self._daemon = Asking(endpoint)
        self._metrics: list[str] | None = None

    def close(self) -> None:
        """Stops the daemon, if it is the worker's own."""
        self._daemon.close()
        if self._own is not None:
            self._own.stop()

    def do(self, order: Order) -> Answer:
        """Carries out one order. Errors are returned as the answer."""
        try:
            if isinstance(order, OutlineOrder):
                return self._outline()
            return self._compare(order)
        except QueryError as error:
            return Failure(error.code, error.message, error.reason)
        except OSError as error:
            return Failure("UNAVAILABLE", f"{socket.gethostname()}: {error}")

    def _outline(self) -> Outline:
        plan = self._daemon.plan(self._comparison)
        sampled = max(plan.sampled_group_count, 1)
        return Outline(
            tuple(
                Span(s.rank, s.first_token, s.last_token, s.group_count, s.is_whole)
                for s in plan.spans
            ),
            plan.sampled_pair_count / sampled,
            plan.sampled_read_bytes / sampled,
            (plan.golden_run_id, plan.target_run_id),
        )

    def _compare(self, order: CompareOrder) -> Part:
        started = time.monotonic()
        wanted = message_class("msitd.v1.Comparison")()
        wanted.CopyFrom(self._comparison)
        wanted.golden_run_id, wanted.target_run_id = order.run_ids
        if order.ranks:
            wanted.filter.ranks[:] = order.ranks
        if order.tokens:
            del wanted.filter.tokens[:]
            for first, last in order.tokens:
                wanted.filter.tokens.add(first=first, last=last)
        made = self._daemon.create(wanted)
        try:
            taken = _TakenRows(self._setup.failing_rows_max, self._keys)
            file = self._row_file(order) if order.keeps_rows else None
            takes = _is_kept if self._setup.passing_rows else _is_no_pass
            try:
                for rows in self._daemon.rows(made.name):
                    for row in rows:
                        place = taken.add(row)
                        if file is not None and takes(row):
                            file.add(row, place)
                header = self._daemon.get(made.name)
                _check_whole(header, taken.row_count)
                size = file.commit() if file is not None else 0
            except BaseException:
                if file is not None:
                    file.drop()
                raise
        finally:
            # The result is in the file, and the daemon may live long.
            self._daemon.delete(made.name)
        part = taken.part(order, header.SerializeToString())
        part.size_bytes = size
        if file is not None:
            part.path = file.path
            part.file_row_count = file.row_count
        part.host = socket.gethostname()
        part.seconds = time.monotonic() - started
        return part

    def _row_file(self, order: CompareOrder) -> RowFile:
        if self._metrics is None:
            self._metrics = self._daemon.metrics()
        folder = os.path.abspath(self._setup.folder)
        return RowFile(folder, order.number, order.attempt, self._metrics)


def _is_kept(_: Any) -> bool:
    return True


def _is_no_pass(row: Any) -> bool:
    return bool(row.verdict != _PASS)


class _TakenRows:
    """The data about the rows of a part that is kept in memory."""

    def __init__(self, failing_rows_max: int, keys: GroupKeys) -> None:
        self._failing_rows_max = failing_rows_max
        self._keys = keys
        self._groups = GroupTable()
        self.row_count = 0
        self._failing: list[tuple[int, bytes]] = []
        self._hints: dict[str, int] = {}
        self._failing_token: int | None = None
        self._failing_groups: set[tuple[int, int]] = set()
        self._wrong_weights: dict[tuple[int, str], int] = {}

    def add(self, row: Any) -> tuple[int, int, int]:
        """Adds the next row; returns its place."""
        token, rank = self._keys.of(row)
        in_group = self._groups.add((token, rank))
        verdict = row.verdict
        if verdict in (_FAIL, _UNMATCHED):
            if len(self._failing) < self._failing_rows_max:
                self._failing.append((row.row, row.SerializeToString()))
            if verdict == _FAIL:
                self._note_failure(row.token, (token, rank))
        if row.layout_hint and len(self._hints) < _HINTS_MAX:
            self._hints.setdefault(row.layout_hint, row.row)
        if row.io == _IO_WEIGHT and not row.bitwise_equal:
            self._note_weight(row, rank, token)
        self.row_count += 1
        return token, rank, in_group

    def part(self, order: CompareOrder, header: bytes) -> Part:
        """Returns the part."""
        return Part(
            order,
            header,
            self._groups.pack(),
            self.row_count,
            self._failing,
            self._hints,
            self._failing_token,
            tuple(sorted(self._failing_groups)),
            self._wrong_weights,
        )

    def _note_failure(self, token: int, group: tuple[int, int]) -> None:
        if self._failing_token is None or token < self._failing_token:
            self._failing_token = token
            self._failing_groups.clear()
        is_first = token == self._failing_token
        if is_first and len(self._failing_groups) < _FAILING_RANKS_MAX:
            self._failing_groups.add(group)

    def _note_weight(self, row: Any, rank: int, token: int) -> None:
        if len(self._wrong_weights) < _WRONG_WEIGHTS_MAX:
            self._wrong_weights.setdefault((rank, row.op), token)


def _check_whole(header: Any, row_count: int) -> None:
    """Raises QueryError unless the comparison is done and all rows have arrived."""
    if header.state != _DONE:
        code = code_name(header.error_code)
        why = header.error or "it was cancelled by another caller"
        raise QueryError(code, header.error_reason, why)
    counted = (
        header.pass_count
        + header.fail_count
        + header.unmatched_count
        + header.skipped_count
    )
    if counted != row_count:
        raise QueryError(
            "INTERNAL", "", f"{header.name}: {row_count} of {counted} rows have come"
        )
