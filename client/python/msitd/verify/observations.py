"""Observes in which modules of a run something is unlike in their siblings.

An observation is not a verdict: models with different layers are legitimate.
"""

from __future__ import annotations

import collections
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from msitd.query import select
from msitd.verify import records
from msitd.verify.attributes import compare_attributes
from msitd.verify.calls import calls_of
from msitd.verify.modules import modules_of
from msitd.verify.siblings import SIBLINGS_MIN, Group, Tree, groups_of
from msitd.verify.unlike import Comparer, Unlike

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from msitd.query import Connection, Run, Tensor
    from msitd.verify.records import Selection

# Maximum number of records of a token, and of all tokens that are compared.
_TOKEN_RECORDS_MAX = 1 << 20
_RECORDS_MAX = 1 << 21
# Maximum number of observations that are kept, and that are listed.
_KEPT_MAX = 10_000
_LISTED_MAX = 10


class Observed(NamedTuple):
    """The differences between siblings."""

    # Calls of modules that were compared with those of siblings.
    call_count: int
    group_count: int
    # The observations that are listed, as texts, and the number of all.
    unlike: list[str]
    unlike_count: int
    # Counts of calls and tokens that were not compared, by reason.
    reasons: list[tuple[str, int]]


class _Seen(NamedTuple):
    unlike: Unlike
    rank: int
    token: int


class _Notes:
    """The observations of all ranks and tokens. Equal ones are kept once."""

    def __init__(self) -> None:
        self._seen: dict[tuple[Hashable, ...], _Seen] = {}
        self._again: collections.Counter[tuple[Hashable, ...]] = collections.Counter()
        self._dropped = 0

    def add(self, unlike: Unlike, rank: int, token: int) -> None:
        """Adds an observation."""
        if unlike.key in self._seen:
            self._again[unlike.key] += 1
        elif len(self._seen) < _KEPT_MAX:
            self._seen[unlike.key] = _Seen(unlike, rank, token)
        else:
            self._dropped += 1

    @property
    def count(self) -> int:
        """The number of different observations."""
        return len(self._seen) + self._dropped

    def texts(self) -> list[str]:
        """Returns the first observations, specific ones before others."""
        ordered = sorted(
            self._seen.values(),
            key=lambda each: (
                each.unlike.severity,
                each.token,
                each.rank,
                each.unlike.sequence,
            ),
        )
        return [
            _text_of(each, self._again[each.unlike.key])
            for each in ordered[:_LISTED_MAX]
        ]


def _text_of(seen: _Seen, again: int) -> str:
    unlike = seen.unlike
    # Facts about a module are those of all tokens.
    token = f", token {seen.token}" if unlike.sequence else ""
    more = f" (and {again} more times)" if again else ""
    return f"{unlike.place}, rank {seen.rank}{token}: {unlike.text}{more}"


def not_observed(reason: str) -> Observed:
    """Returns that nothing was compared."""
    return Observed(0, 0, [], 0, [(reason, 1)])


def observe(daemon: Connection, run: Run, chosen: Selection) -> Observed:
    """Compares the siblings of a run.

    Raises:
        QueryError: The daemon does not answer.
    """
    if chosen.ops is not None:
        return not_observed("only some ops were selected")
    if _records_some_ops(daemon, run.name):
        return not_observed("the capture policy selects only some ops")
    notes = _Notes()
    reasons: collections.Counter[str] = collections.Counter()
    counters = run.counters
    lost = counters.dropped_count + counters.truncated_count if counters else 0
    lost += sum(
        each.lost_count + each.pending_count
        for each in daemon.captures.coverage(run.name).ranks
    )
    if lost:
        reasons["records were lost, so missing calls are not compared"] = lost
    call_count = group_count = read = 0
    for rank, tokens in records.tokens_of(daemon, run.name, chosen).items():
        tree = Tree(modules_of(daemon, run.name, rank))
        known: set[str] = set()
        for token in tokens:
            if read >= _RECORDS_MAX:
                reasons["tokens after too many records"] += 1
                continue
            listing = _Counted(_list(daemon, run.name, rank, token))
            calls = calls_of(listing, tree.modules)
            read += listing.count
            if listing.count > _TOKEN_RECORDS_MAX:
                reasons["tokens with too many records"] += 1
                continue
            groups = groups_of(calls)
            comparer = Comparer(calls, tree, not lost)
            for group in groups:
                for unlike in _unlike(group, comparer, tree, known):
                    notes.add(unlike, rank, token)
            call_count += comparer.counts.calls
            group_count += comparer.counts.groups
            _add_reasons(reasons, comparer)
    return Observed(
        call_count,
        group_count,
        notes.texts(),
        notes.count,
        reasons.most_common(),
    )


def _records_some_ops(daemon: Connection, run: str) -> bool:
    """Returns whether the hooks may have left out calls, arguments or results."""
    filters = [rule.filter for rule in daemon.captures.get(run).rules]
    return any(each and (each.op_patterns or each.ios) for each in filters)


def _unlike(
    group: Group, comparer: Comparer, tree: Tree, known: set[str]
) -> list[Unlike]:
    """Returns the differences of a group; those of modules for the first token only."""
    found = list(islice(comparer.compare(group), _KEPT_MAX))
    if group.pattern not in known:
        known.add(group.pattern)
        found += islice(compare_attributes(group, tree), _KEPT_MAX)
    return found


def _list(daemon: Connection, run: str, rank: int, token: int) -> Iterator[Tensor]:
    chosen = select(
        ranks=rank, tokens=token, io=("input", "output"), kinds=records.CALL_KINDS
    )
    return islice(daemon.tensors.list(run, chosen), _TOKEN_RECORDS_MAX + 1)


class _Counted:
    """Counts the records that are read."""

    def __init__(self, listing: Iterator[Tensor]) -> None:
        self._listing = listing
        self.count = 0

    def __iter__(self) -> Iterator[Tensor]:
        for each in self._listing:
            self.count += 1
            yield each


def _add_reasons(reasons: collections.Counter[str], comparer: Comparer) -> None:
    counts = comparer.counts
    for name, count in (
        (
            f"blocks with fewer than {SIBLINGS_MIN} of their structure",
            counts.without_siblings,
        ),
        ("calls of modules without a majority", counts.without_majority),
        ("calls of modules without results", counts.incomplete),
    ):
        if count:
            reasons[name] += count
