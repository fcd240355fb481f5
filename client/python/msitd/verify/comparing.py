"""Compares a run with its golden run in float64, and sums up what was checked."""

from __future__ import annotations

import collections
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from msitd.query import CustomMetric, select
from msitd.verify import golden, table
from msitd.verify.records import IOS, RESULTS, Selection

if TYPE_CHECKING:
    from msitd.query import ComparisonRow, Connection

# Maximum number of wrong results and of reasons that are listed.
_WRONG_MAX = 10
_REASONS_MAX = 12
# Rows whose metrics are sent together.
_ROWS_MAX = 10_000
# The largest score that is written as a number.
_UNITS_MAX = 1e300


class Summary(NamedTuple):
    """The results that were checked, and those that are wrong."""

    comparison: str
    checked_count: int
    # Results of modules that consist of calls that were checked.
    covered_count: int
    not_checked_count: int
    # Counts of results that were not checked, by reason.
    reasons: list[tuple[str, int]]
    # Results that are wrong, in the order of execution, as texts.
    wrong: list[str]
    largest_healthy: float


def compare(daemon: Connection, run: str, name: str, chosen: Selection) -> Summary:
    """Compares the run with its golden run, and adds the scores to the rows.

    Raises:
        QueryError: The comparison failed.
    """
    found = daemon.comparisons.run(name, run, chosen.filter(io=IOS))
    counts = _Counts()
    units = _Units(daemon, name, chosen)
    metrics: dict[int, list[CustomMetric]] = {}
    for row in daemon.comparisons.rows(found):
        counts.add(row)
        if row.io not in RESULTS or row.verdict not in ("pass", "fail"):
            continue
        norm, worst, text = units.of(row)
        if math.isnan(norm):
            continue
        counts.add_units(row, norm, worst, text)
        metrics[row.row] = [
            CustomMetric("units", min(norm, _UNITS_MAX)),
            CustomMetric("worst_units", min(worst, _UNITS_MAX), text),
        ]
        if len(metrics) == _ROWS_MAX:
            daemon.comparisons.add_metrics(found, metrics)
            metrics = {}
    if metrics:
        daemon.comparisons.add_metrics(found, metrics)
    wrong = [_text_of(daemon, run, *each) for each in counts.wrong]
    return Summary(
        comparison=found.name,
        checked_count=counts.checked,
        covered_count=counts.covered,
        not_checked_count=sum(counts.reasons.values()),
        reasons=counts.reasons.most_common(_REASONS_MAX),
        wrong=wrong,
        largest_healthy=counts.largest,
    )


class _Counts:
    def __init__(self) -> None:
        self.checked = 0
        self.covered = 0
        self.reasons: collections.Counter[str] = collections.Counter()
        self.wrong: list[tuple[ComparisonRow, float, float, str]] = []
        self.largest = 0.0

    def add(self, row: ComparisonRow) -> None:
        """Counts a row."""
        if row.verdict == "skipped" and row.reason.startswith(golden.NOT_CHECKED):
            reason = row.reason.removeprefix(golden.NOT_CHECKED)
            self.reasons[reason.partition(" (")[0]] += 1
        elif row.verdict == "skipped" and not row.not_compared:
            self.covered += 1
        elif row.verdict in ("skipped", "unmatched"):
            self.reasons[row.reason or "it was not compared"] += 1
        elif row.io in RESULTS:
            self.checked += 1

    def add_units(
        self, row: ComparisonRow, norm: float, worst: float, text: str
    ) -> None:
        """Counts the score of a row."""
        if row.verdict == "pass":
            self.largest = max(self.largest, norm, worst)
            return
        if len(self.wrong) < _WRONG_MAX:
            self.wrong.append((row, norm, worst, text))


class _Units:
    """The scores that the golden run has, of one rank and token at a time."""

    def __init__(self, daemon: Connection, name: str, chosen: Selection) -> None:
        self._daemon = daemon
        self._name = name
        self._chosen = chosen
        self._place: tuple[int, int] | None = None
        self._texts: dict[tuple[str, int, str], str] = {}

    def of(self, row: ComparisonRow) -> tuple[float, float, str]:
        """Returns the scores of a row; NaN if there are none."""
        if self._place != (row.rank, row.token):
            self._place = (row.rank, row.token)
            wanted = self._chosen._replace(
                ranks=(row.rank,), tokens=((row.token, row.token),)
            )
            chosen = wanted.filter(io="state", kinds="text")
            self._texts = {
                (each.op, each.call, each.index): each.value
                for each in self._daemon.tensors.list(self._name, chosen)
                if each.index.startswith(golden.UNITS)
            }
        key = (row.op, row.call, f"{golden.UNITS}{row.io}/{row.index}")
        return golden.parse_units(self._texts.get(key, "nan nan []"))


def _text_of(
    daemon: Connection,
    run: str,
    row: ComparisonRow,
    norm: float,
    worst: float,
    text: str,
) -> str:
    """Returns a line about a wrong result: where it is, how wrong, and its caller."""
    module = ""
    if table.is_function(row.op):
        found = _module_of(daemon, run, row)
        module = f" in {found}" if found else ""
    units = max(norm, worst)
    size = "" if math.isinf(units) else f": {units:.3g} rounding units"
    line = (
        f"{row.op} call {row.call}{module}, {row.io}/{row.index}, rank {row.rank}, "
        f"token {row.token}{size}"
    )
    if text:
        line += f", {text}" if size else f": {text}"
    stack = daemon.tensors.get(row.target.name).stack if row.target else ""
    return f"{line}, {stack.splitlines()[0]}" if stack else line


def _module_of(daemon: Connection, run: str, row: ComparisonRow) -> str:
    """Returns the innermost module whose call contains that of a function."""
    if row.target is None:
        return ""
    at = daemon.tensors.get(row.target.name).sequence
    best = ("", -1)
    begins: dict[tuple[str, int], int] = {}
    ends: dict[tuple[str, int], int] = {}
    chosen = select(ranks=row.rank, tokens=row.token, io=("input", "output"))
    for each in daemon.tensors.list(run, chosen):
        if table.is_function(each.op):
            continue
        key: Any = (each.op, each.call)
        if each.io == "input":
            begins[key] = min(begins.get(key, each.sequence), each.sequence)
        else:
            ends[key] = max(ends.get(key, each.sequence), each.sequence)
    for key, begin in begins.items():
        if begin < at < ends.get(key, -1) and begin > best[1]:
            best = (key[0], begin)
    return best[0]
