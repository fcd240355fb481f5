"""The tolerances that all parts of a comparison require."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msitd.fleet.groups import Numbers, Places
from msitd.fleet.orders import Place

# The maximum that one daemon returns.
_TOLERANCES_MAX = 256

_Bound = tuple[Any, ...]


@dataclass
class _Entry:
    """One bound of a predicate, over all parts so far."""

    message: Any
    row_count: int = 0
    required: float = 0.0
    place: Place | None = None
    """The row that requires `required`; None: no row requires more than the bound."""
    max_abs: float = 0.0
    max_abs_place: Place | None = None
    """For rows that no bound could satisfy: see RequiredTolerance.bound."""


class Tolerances:
    """Required tolerances by their bounds, with the loosest one of each."""

    def __init__(self) -> None:
        self._entries: dict[_Bound, _Entry] = {}

    def add(self, tolerances: Sequence[Any], places: Places) -> None:
        """Adds the tolerances of one part."""
        seen: dict[_Bound, int] = {}
        at = 0
        while at < len(tolerances):
            needed = tolerances[at]
            at += 1
            instead = None
            if at < len(tolerances) and math.isnan(tolerances[at].bound):
                instead = tolerances[at]
                at += 1
            bound = _bound_of(needed)
            seen[bound] = seen.get(bound, 0) + 1
            entry = self._entries.setdefault((*bound, seen[bound]), _Entry(needed))
            entry.row_count += needed.row_count
            # The daemon puts the row of `instead` here if no row requires more.
            if instead is None or instead.row != needed.row:
                _ask(entry, needed, places.of(needed.row))
            if instead is not None:
                _ask_max_abs(entry, instead.required, places.of(instead.row))

    def places(self) -> list[Place]:
        """Returns the places of the rows that the tolerances name."""
        out: list[Place] = []
        for entry in self._entries.values():
            out += [p for p in (entry.place, entry.max_abs_place) if p is not None]
        return out

    def write(self, comparison: Any, numbers: Numbers) -> None:
        """Writes all tolerances to a Comparison."""
        del comparison.required_tolerances[:]
        for entry in sorted(self._entries.values(), key=_order_of):
            if len(comparison.required_tolerances) >= _TOLERANCES_MAX:
                return
            out = comparison.required_tolerances.add()
            out.CopyFrom(entry.message)
            out.row_count = entry.row_count
            out.required = out.bound if entry.place is None else entry.required
            place = entry.place or entry.max_abs_place
            assert place is not None
            out.row = numbers.of(place)
            if entry.max_abs_place is None:
                continue
            comparison.required_tolerances.add(
                rule=out.rule,
                predicate=out.predicate,
                metric="max_abs",
                bound=math.nan,
                required=entry.max_abs,
                row=numbers.of(entry.max_abs_place),
            )


def _bound_of(needed: Any) -> _Bound:
    return (
        needed.rule,
        needed.predicate,
        needed.metric,
        needed.at_least,
        needed.strict,
        needed.negated,
        needed.element_tolerance,
        needed.bound,
    )


def _order_of(entry: _Entry) -> tuple[int, str, bool, int]:
    """Sorts by rule and predicate, and within a predicate in its own order."""
    message = entry.message
    return (
        message.rule,
        message.predicate,
        message.element_tolerance,
        message.predicate.find(message.metric),
    )


def _ask(entry: _Entry, needed: Any, place: Place) -> None:
    """Adds a requirement of a part; among equal ones, the first row counts."""
    required = needed.required
    if entry.place is not None:
        asks_more = (
            required < entry.required if needed.at_least else required > entry.required
        )
        is_earlier = required == entry.required and place < entry.place
        if not asks_more and not is_earlier:
            return
    entry.required = required
    entry.place = place


def _ask_max_abs(entry: _Entry, required: float, place: Place) -> None:
    before = entry.max_abs_place
    if before is None or (required, _Reversed(place)) > (
        entry.max_abs,
        _Reversed(before),
    ):
        entry.max_abs = required
        entry.max_abs_place = place


@dataclass(frozen=True)
class _Reversed:
    """Sorts places from the last to the first."""

    place: Place

    def __lt__(self, other: _Reversed) -> bool:
        return other.place < self.place
