"""Makes the calls of a run again. Runs in an interpreter of its own.

A call of foreign data may end the interpreter, or never return. Before each call, its
name is written to a file that survives, so that the parent process can start another
worker that leaves the call out.
"""

from __future__ import annotations

import bisect
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from msitd.query import select
from msitd.verify import golden, modules, records, table
from msitd.verify.checking import Checker
from msitd.verify.records import Call, CallKey, Group, Selection, TensorReader
from msitd.verify.unchecked import Unchecked

if TYPE_CHECKING:
    from msitd.query import Connection, Tensor
    from msitd.verify.golden import GoldenWriter
    from msitd.verify.scores import Checked

# Size of the file that names the current call.
PLACE_BYTES = 4096
_PROGRESS_S = 1.0

_CRASHED = "its replay ended the interpreter"
_SHARED = "several calls of the token add to it"
_BY_FUNCTIONS = "the functions that the module calls are checked"


class Place:
    """The file that names the call that is being made."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def set(self, rank: int, token: int, key: CallKey, io: str) -> None:
        """Names the call that is made from now on."""
        text = json.dumps([rank, token, key.op, key.call, io]).encode()
        if len(text) < PLACE_BYTES:
            os.pwrite(self._file, text.ljust(PLACE_BYTES), 0)

    def clear(self) -> None:
        """States that no call is being made."""
        os.pwrite(self._file, b" " * PLACE_BYTES, 0)


class Options(NamedTuple):
    """The task of a worker."""

    run: str
    golden: str
    chosen: Selection
    size_max: int
    progress: bool
    # Calls that have ended an interpreter: rank, token, op, call, io.
    crashed: frozenset[tuple[int, int, str, int, str]]


class Worker:
    """Checks all selected calls of a run that the golden run does not have yet."""

    def __init__(self, daemon: Connection, options: Options, place: Place) -> None:
        self._daemon = daemon
        self._options = options
        self._place = place
        self._reader = TensorReader(daemon, options.size_max)
        self._told = 0.0
        # The token that is being checked, for progress.
        self._position = ""

    def run(self) -> None:
        """Checks the calls.

        Raises:
            QueryError: The daemon does not answer.
            MsitError: It does not store the results.
        """
        options = self._options
        run = self._daemon.runs.get(options.run)
        by_rank = records.tokens_of(self._daemon, options.run, options.chosen)
        for rank, tokens in by_rank.items():
            tree = modules.modules_of(self._daemon, options.run, rank)
            known = modules.Modules(tree, self._weight_finder(rank))
            checker = Checker(self._reader, known, options.size_max)
            with golden.GoldenWriter(options.golden, rank, run.world_size) as writer:
                for number, token in enumerate(tokens, 1):
                    self._position = f"token {token} ({number} of {len(tokens)})"
                    group = records.read_group(
                        self._daemon, options.run, rank, token, options.chosen
                    )
                    self._check_group(group, checker, known, writer)

    def _check_group(
        self,
        group: Group,
        checker: Checker,
        known: modules.Modules,
        writer: GoldenWriter,
    ) -> None:
        done = golden.done_in(
            self._daemon, self._options.golden, group.rank, group.token
        )
        covered = _Covered(group)
        counts: dict[str, int] = {}
        for key in group.calls:
            counts[key.op] = counts.get(key.op, 0) + 1
        found: dict[tuple[CallKey, str], dict[str, Checked | Unchecked]] = {}
        self._reader.expect(group.tensors)
        for number, record in enumerate(group.tensors):
            key = CallKey(record.op, record.call)
            if record.io not in records.IOS or (key, record.io, record.index) in done:
                continue
            self._report(group, number)
            if record.io in records.INPUTS:
                self._copy(record, writer)
                continue
            call = group.calls[key]
            is_covered = known.has(record.op) and covered.has(call)
            if is_covered and not known.can_check(record.op):
                writer.state(record, golden.COVERED + _BY_FUNCTIONS)
                continue
            outcomes = found.get((key, record.io))
            if outcomes is None:
                outcomes = self._outcomes(
                    group, call, record.io, counts[key.op], checker
                )
                found[key, record.io] = outcomes
            outcome = outcomes.pop(record.index)
            if is_covered and isinstance(outcome, Unchecked):
                writer.state(record, golden.COVERED + _BY_FUNCTIONS)
            else:
                writer.write_result(record, outcome)
            if not outcomes:
                del found[key, record.io]
                # Later results of the same call would be checked once more.
                self._place.clear()
        writer.flush()

    def _outcomes(
        self, group: Group, call: Call, io: str, call_count: int, checker: Checker
    ) -> dict[str, Checked | Unchecked]:
        if group.is_cut:
            return dict.fromkeys(call.tensors(io), Unchecked(records.TOO_MANY))
        place = (group.rank, group.token, *call.key, io)
        if place in self._options.crashed:
            return dict.fromkeys(call.tensors(io), Unchecked(_CRASHED))
        if io == "grad_weight" and call_count > 1:
            return dict.fromkeys(call.tensors(io), Unchecked(_SHARED))
        self._place.set(group.rank, group.token, call.key, io)
        return checker.check(call, group.token, io)

    def _copy(self, record: Tensor, writer: GoldenWriter) -> None:
        try:
            tensor = self._reader.read(record)
        except Unchecked as problem:
            writer.state(record, golden.NOT_CHECKED + problem.reason)
        else:
            writer.write_input(record, tensor)

    def _weight_finder(self, rank: int) -> Any:
        known: dict[str, Tensor] = {}

        def find(op: str, name: str) -> Any:
            if op not in known:
                chosen = select(ranks=rank, io="weight", tokens=0, ops=_literal(op))
                found = self._daemon.tensors.list(self._options.run, chosen, limit=64)
                known[op] = {each.index: each for each in found if each.op == op}
            record = known[op].get(name)
            return None if record is None else self._reader.read(record)

        return find

    def _report(self, group: Group, number: int) -> None:
        now = time.monotonic()
        if not self._options.progress or now - self._told < _PROGRESS_S:
            return
        self._told = now
        share = f"{number} of {len(group.tensors)} tensors"
        sys.stderr.write(f"\rverify: rank {group.rank}, {self._position}: {share}  ")
        sys.stderr.flush()


class _Covered:
    """The calls of modules whose results follow from those of recorded functions."""

    def __init__(self, group: Group) -> None:
        self._functions = [
            record.sequence
            for record in group.tensors
            if record.io == "output" and isinstance(table.find(record.op), table.Spec)
        ]

    def has(self, call: Call) -> bool:
        """Returns whether a function of the table was recorded between the inputs and
        the outputs of a call. Code that calls nothing of this kind is not covered.
        """
        inputs = [each.sequence for each in call.tensors("input").values()]
        outputs = [each.sequence for each in call.tensors("output").values()]
        if not inputs or not outputs:
            return False
        at = bisect.bisect(self._functions, min(inputs))
        return at < len(self._functions) and self._functions[at] < max(outputs)


def _literal(op: str) -> str:
    """Returns a pattern that matches an op; `?` stands for characters of patterns."""
    return op.replace("*", "?").replace("[", "?").replace("\\", "?")


def read_crashed(path: str) -> Iterator[tuple[int, int, str, int, str]]:
    """Yields the calls that ended earlier workers."""
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            rank, token, op, call, io = json.loads(line)
            yield int(rank), int(token), str(op), int(call), str(io)
