"""Merges the parts of a comparison into one.

Counts are added. The first row of each kind is the first one among all parts,
and the required tolerances are the loosest ones. The order of events on
different ranks can only be determined from all ranks together: see
`Merge.order_wanted`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from msitd.fleet.groups import Numbers, Places, merged
from msitd.fleet.orders import CompareOrder, Failure, Part, Place
from msitd.fleet.tolerances import Tolerances
from msitd.query.errors import code_number
from msitd.query.messages import merge_rules, message_class

_TEXTS_MAX = 64
_NONE = -1
# States of a Comparison.
_DONE = 3
_FAILED = 5
# Tasks that fail with other codes may be repeated.
_ERROR_CODES = (
    "FAILED_PRECONDITION",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "RESOURCE_EXHAUSTED",
)
_LOSSES = ("golden_losses", "target_losses")
_FAILURES_NAMED = 4

# A ComparisonRow, or an InputDifference, with the place of its row.
_First = tuple[Any, Place]


@dataclass
class _Ordered:
    """The order of the ranks that fail first, from their joint comparison."""

    header: Any
    places: Places


def _first_made(part: _Ordered) -> tuple[int, int, int]:
    """Where the first maker of a part is, by token and execution."""
    return min((m.row.token, m.row.sequence, m.row.rank) for m in part.header.makers)


def _maker_rows(part: _Ordered) -> Iterable[Any]:
    """The rows of the makers of a part, to be numbered again."""
    for maker in part.header.makers:
        if maker.HasField("row"):
            yield maker.row
    if part.header.HasField("first_origin"):
        yield part.header.first_origin


class Merge:
    """Merges parts, which may be added in any order; see `finish`.

    Args:
        frame: The comparison of no groups, which describes the runs.
        failing_rows_max: Maximum number of kept rows that fail or are
            unmatched.
    """

    def __init__(self, frame: Any, failing_rows_max: int) -> None:
        self._out = message_class("msitd.v1.Comparison")()
        self._out.CopyFrom(frame)
        self._failing_rows_max = failing_rows_max
        # Properties of the runs are those of the frame. No store keeps the result.
        self._counts = [n for n in _fields_with("SUM") if n != "stored_size_bytes"]
        self._first_names = _fields_with("FIRST_ROW")
        for name in self._counts:
            setattr(self._out, name, 0)
        self._out.stored_size_bytes = 0
        self._parts: list[tuple[CompareOrder, bytes]] = []
        self._firsts: dict[str, _First] = {}
        self._tolerances = Tolerances()
        self._hopeless: Place | None = None
        self._hints: dict[str, Place] = {}
        self._idle: list[str] = list(frame.idle_rules)
        # Those of the first part that has any.
        self._pairing_hints: tuple[int, list[str]] | None = None
        self._view_hints: tuple[int, list[Any]] | None = None
        # The first failing rows, as a heap with the last of them on top.
        self._failing: list[tuple[_Backwards, bytes]] = []
        self._failures: list[tuple[CompareOrder, Failure]] = []
        self._order_failure: Failure | None = None
        # The first token at which a rank fails.
        self._failing_token: int | None = None
        self._failing_groups: set[tuple[int, int]] = set()
        self._failing_parts = 0
        self._wrong_weights: dict[int, set[int]] = {}
        self._ordered: _Ordered | None = None
        # The part with the first makers.
        self._made: _Ordered | None = None

    def add(self, part: Part) -> None:
        """Adds one part."""
        header = message_class("msitd.v1.Comparison").FromString(part.header)
        places = Places(part.groups)
        if places.row_count != part.row_count:
            raise ValueError(f"{part.order}: its groups are not those of its rows")
        self._parts.append((part.order, part.groups))
        for name in self._counts:
            setattr(self._out, name, getattr(self._out, name) + getattr(header, name))
        self._add_losses(header)
        for name in self._first_names:
            if header.HasField(name):
                self._offer_first(name, getattr(header, name), places)
        self._tolerances.add(header.required_tolerances, places)
        if header.first_hopeless_row != _NONE:
            place = places.of(header.first_hopeless_row)
            self._hopeless = min(place, self._hopeless or place)
        for hint, row in part.hints.items():
            place = places.of(row)
            self._hints[hint] = min(place, self._hints.get(hint, place))
        found = (part.order.number, list(header.pairing_hints))
        if found[1]:
            self._pairing_hints = min(found, self._pairing_hints or found)
        views = (part.order.number, list(header.view_hints))
        if views[1] and views[0] < (self._view_hints or (views[0] + 1,))[0]:
            self._view_hints = views
        idle = set(header.idle_rules)
        self._idle = [rule for rule in self._idle if rule in idle]
        for row, data in part.failing:
            self._keep_failing(places.of(row), data)
        for (rank, _), token in part.wrong_weights.items():
            self._wrong_weights.setdefault(rank, set()).add(token)
        self._note_failing(part, _Ordered(header, places))
        self._note_makers(_Ordered(header, places))

    def _add_losses(self, header: Any) -> None:
        """Adds the losses of a part; the frame has those that clients reported."""
        for name in _LOSSES:
            losses = getattr(header, name)
            if losses.incomplete_count > 0:
                getattr(self._out, name).incomplete_count += losses.incomplete_count
                self._out.partial = True
            # Every part that reads the run finds the same places.
            if losses.unread_place_count > 0:
                out = getattr(self._out, name)
                out.unread_place_count = max(
                    out.unread_place_count, losses.unread_place_count
                )
                self._out.partial = True
        if header.not_compared_count > 0 or header.for_want_of_ranks_count > 0:
            self._out.partial = True

    def fail(self, order: CompareOrder, failure: Failure) -> None:
        """Records that a part is missing."""
        self._failures.append((order, failure))

    def fail_order(self, failure: Failure) -> None:
        """Records that the result of `order_wanted` is not known."""
        self._order_failure = failure

    def order_wanted(self) -> CompareOrder | None:
        """Returns what must be compared once more, together, after all parts
        were added.

        That is the first token at which ranks fail, with those ranks, and
        earlier tokens at which their weights differ. None if a single part has
        all the information.
        """
        if self._failing_token is None:
            return None
        groups = sorted(self._failing_groups)[:_FAILING_RANKS_MAX]
        ranks = sorted({rank for _, rank in groups})
        before = {
            token
            for rank in ranks
            for token in self._wrong_weights.get(rank, ())
            if token < self._failing_token
        }
        if self._failing_parts == 1 and not before:
            return None
        self._ordered = None
        tokens = sorted(before | {token for token, _ in groups})[-_TOKENS_MAX:]
        # An offset may produce tokens below 0, which a filter cannot select; it
        # then selects all.
        is_told = tokens[0] >= 0
        return CompareOrder(
            number=_NONE,
            ranks=tuple(ranks),
            tokens=tuple((token, token) for token in tokens) if is_told else (),
            keeps_rows=False,
        )

    def set_order(self, part: Part) -> None:
        """Adds the result of `order_wanted`."""
        header = message_class("msitd.v1.Comparison").FromString(part.header)
        self._ordered = _Ordered(header, Places(part.groups))

    def finish(self, see_group: Callable[[int, int, int, int, int], None]) -> Any:
        """Returns the Comparison.

        Calls `see_group` for each group in order, with token, rank, number of
        its first row, number of rows, and task.
        """
        wanted = {place[:2] for place in self._places()}
        numbers = self._number(wanted, see_group)
        out = self._out
        for name, (first, place) in self._firsts.items():
            getattr(out, name).CopyFrom(first)
            _row_in(getattr(out, name)).row = numbers.of(place)
        self._tolerances.write(out, numbers)
        out.first_hopeless_row = (
            _NONE if self._hopeless is None else numbers.of(self._hopeless)
        )
        hints = sorted(self._hints, key=lambda hint: self._hints[hint])
        out.layout_hints[:] = hints[:_TEXTS_MAX]
        out.idle_rules[:] = self._idle
        if self._pairing_hints is not None:
            out.pairing_hints[:] = self._pairing_hints[1]
        if self._view_hints is not None:
            out.view_hints.extend(self._view_hints[1])
        self._write_order(numbers)
        out.may_diverge_before = self._may_diverge_before()
        self._write_state()
        return out

    def _may_diverge_before(self) -> bool:
        """Returns whether missing data may precede the first divergence."""
        out = self._out
        if not out.HasField("first_divergence"):
            return False
        if (
            out.HasField("first_not_compared")
            and out.first_not_compared.token <= out.first_divergence.token
        ):
            return True
        # The token of a lost record, or at which a missing rank begins, is
        # unknown.
        return bool(
            out.golden_ranks.partial
            or out.target_ranks.partial
            or any(out.HasField(name) for name in _LOSSES)
        )

    def failing_rows(self, numbers: Numbers) -> list[Any]:
        """Returns the rows that were kept, in order."""
        rows = []
        for key, data in sorted(self._failing, key=lambda kept: kept[0].place):
            row = message_class("msitd.v1.ComparisonRow").FromString(data)
            row.row = numbers.of(key.place)
            rows.append(row)
        return rows

    @property
    def numbers(self) -> Numbers:
        """Row numbers of the rows that the result names, after `finish`."""
        return self._numbers

    def _offer_first(self, name: str, first: Any, places: Places) -> None:
        place = places.of(_row_in(first).row)
        before = self._firsts.get(name)
        if before is None or _order_of(first, place) < _order_of(*before):
            self._firsts[name] = (first, place)

    def _keep_failing(self, place: Place, data: bytes) -> None:
        kept = (_Backwards(place), data)
        if len(self._failing) < self._failing_rows_max:
            heapq.heappush(self._failing, kept)
        elif self._failing and self._failing[0][0].place > place:
            heapq.heapreplace(self._failing, kept)

    def _note_failing(self, part: Part, ordered: _Ordered) -> None:
        token = part.failing_token
        if token is None:
            return
        if self._failing_token is None or token < self._failing_token:
            self._failing_token = token
            self._failing_groups.clear()
            self._failing_parts = 0
        if token == self._failing_token:
            self._failing_groups.update(part.failing_groups)
            self._failing_parts += 1
            # If there are several, none of them has all ranks.
            self._ordered = ordered if self._failing_parts == 1 else None

    def _note_makers(self, part: _Ordered) -> None:
        if part.header.makers and (
            self._made is None or _first_made(part) < _first_made(self._made)
        ):
            self._made = part

    def _makers_from(self) -> _Ordered | None:
        """Returns the part whose makers are those of the merged comparison.

        If the first failing row has no maker, as for a difference of shapes, that
        is the part with the first makers. A single daemon does the same.
        """
        if self._ordered is None or self._ordered.header.makers or self._made is None:
            return self._ordered
        difference = self._firsts.get("input_difference")
        token = _first_made(self._made)[0]
        if difference is not None and difference[0].row.token <= token:
            return self._ordered
        return self._made

    def _order_rows(self) -> Iterable[Any]:
        """Returns the rows in the header of the joint comparison, to be renumbered."""
        if self._ordered is None:
            return
        header = self._ordered.header
        if header.HasField("first_divergence"):
            yield header.first_divergence
        yield from header.concurrent_divergences

    def _places(self) -> list[Place]:
        """Returns the places of all rows that the result names."""
        out = [place for _, place in self._firsts.values()]
        out += self._hints.values()
        out += self._tolerances.places()
        out += [kept.place for kept, _ in self._failing]
        if self._hopeless is not None:
            out.append(self._hopeless)
        if self._ordered is not None:
            out += [self._ordered.places.of(row.row) for row in self._order_rows()]
        made = self._makers_from()
        if made is not None:
            out += [made.places.of(row.row) for row in _maker_rows(made)]
        return out

    def _number(
        self,
        wanted: set[tuple[int, int]],
        see_group: Callable[[int, int, int, int, int], None],
    ) -> Numbers:
        first_rows: dict[tuple[int, int], int] = {}
        count = 0
        last: tuple[int, int] | None = None
        for (token, rank, rows), index in merged([groups for _, groups in self._parts]):
            order = self._parts[index][0]
            if (token, rank) == last:
                raise ValueError(f"{order} has token {token} of rank {rank} once more")
            last = token, rank
            if last in wanted:
                first_rows[last] = count
            see_group(token, rank, count, rows, order.number)
            count += rows
        self._numbers = Numbers(first_rows)
        return self._numbers

    def _write_order(self, numbers: Numbers) -> None:
        out = self._out
        for name in ("first_divergence", "first_origin"):
            out.ClearField(name)
        del out.concurrent_divergences[:]
        del out.makers[:]
        out.more_makers_count = 0
        made = self._makers_from()
        if self._ordered is None or made is None:
            return
        for row in self._order_rows():
            row.row = numbers.of(self._ordered.places.of(row.row))
        for row in _maker_rows(made):
            row.row = numbers.of(made.places.of(row.row))
        header = self._ordered.header
        if header.HasField("first_divergence"):
            out.first_divergence.CopyFrom(header.first_divergence)
        out.concurrent_divergences.extend(header.concurrent_divergences)
        if made.header.HasField("first_origin"):
            out.first_origin.CopyFrom(made.header.first_origin)
        out.makers.extend(made.header.makers)
        out.more_makers_count = made.header.more_makers_count

    def _write_state(self) -> None:
        out = self._out
        out.state = _DONE
        texts = []
        if self._failures:
            texts.append(self._failures_text())
        if self._order_failure is not None:
            texts.append(
                f"which of the ranks was first is not known: {self._order_failure}"
            )
        if not texts:
            return
        first = self._failures[0][1] if self._failures else self._order_failure
        assert first is not None
        out.state = _FAILED
        out.error = "; ".join(texts)
        code = first.code if first.code in _ERROR_CODES else "UNAVAILABLE"
        out.error_code = code_number(code)
        out.error_reason = first.reason

    def _failures_text(self) -> str:
        count = len(self._failures)
        named = "; ".join(f"{o}: {f}" for o, f in self._failures[:_FAILURES_NAMED])
        more = count - _FAILURES_NAMED
        return (
            f"{count} of {count + len(self._parts)} tasks failed, and their rows are "
            f"lacking: {named}" + (f"; and {more} more" if more > 0 else "")
        )


# The limit of a comparison that orders ranks, and of a filter.
_FAILING_RANKS_MAX = 1024
_TOKENS_MAX = 256


@dataclass(frozen=True)
class _Backwards:
    """A place that compares as smaller the later it is."""

    place: Place

    def __lt__(self, other: _Backwards) -> bool:
        return other.place < self.place


def _fields_with(rule: str) -> list[str]:
    """The fields of a Comparison that have a merge rule."""
    rules = merge_rules("msitd.v1.Comparison")
    return [name for name, its_rule in rules.items() if its_rule == rule]


def _row_in(first: Any) -> Any:
    """The row in a field with the rule FIRST_ROW."""
    is_row = first.DESCRIPTOR.name == "ComparisonRow"
    return first if is_row else first.row


def _order_of(first: Any, place: Place) -> tuple[int, int, int, Place]:
    row = _row_in(first)
    return row.token, row.sequence, row.rank, place
