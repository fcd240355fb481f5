"""The table of the benchmark, and its bars."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from judging_trials import NONE, NOT_ASKED, RIGHT, WRONG, Outcome
from seeding import FAMILIES


@dataclasses.dataclass(frozen=True)
class Share:
    """A count of trials with an outcome."""

    count: int
    total: int

    @property
    def value(self) -> float:
        return self.count / self.total if self.total else 0.0

    def __str__(self) -> str:
        if not self.total:
            return "-"
        return f"{self.count} / {self.total} ({100 * self.value:.0f} %)"


def share(some: Iterable[Outcome], is_counted: Callable[[Outcome], bool]) -> Share:
    """Counts the outcomes that satisfy a condition."""
    some = list(some)
    return Share(sum(map(is_counted, some)), len(some))


def counted(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Returns the trials with a mistake that is larger than the noise."""
    return [one for one in outcomes if one.family and one.is_above_noise]


def asked_alone(some: Iterable[Outcome]) -> list[Outcome]:
    """Returns the trials for which verify and run origin were run."""
    return [one for one in some if one.verify != NOT_ASKED]


def _shares(some: Sequence[Outcome]) -> dict[str, Share]:
    asked = asked_alone(some)
    alone = [one for one in asked if one.shows_by_itself]
    others = [one for one in asked if not one.shows_by_itself]
    return {
        "right op, golden run": share(some, lambda one: one.golden == RIGHT),
        "wrong op, golden run": share(some, lambda one: one.golden == WRONG),
        "right op, none: by itself": share(alone, lambda one: one.alone == RIGHT),
        "right op, none: others": share(others, lambda one: one.alone == RIGHT),
        "wrong op, none": share(asked, lambda one: one.is_wrong_alone),
        "right cause": share(some, lambda one: one.is_explained),
        "by an explanation": share(some, lambda one: one.cause == RIGHT),
        "wrong cause": share(some, lambda one: one.cause == WRONG),
    }


def table(outcomes: Iterable[Outcome]) -> str:
    """Returns a row for each family, as Markdown."""
    some = counted(outcomes)
    heads = ["family", "trials", *_shares(some)]
    lines = [_line(heads), "|---" * len(heads) + "|"]
    for family, title in FAMILIES.items():
        mine = [one for one in some if one.family == family]
        if mine:
            cells = [
                f"{one.count}"
                if one.total == len(mine)
                else f"{one.count} / {one.total}"
                for one in _shares(mine).values()
            ]
            lines.append(_line([title, len(mine), *cells]))
    lines.append(_line(["all", len(some), *_shares(some).values()]))
    return "\n".join(lines)


def _line(cells: Sequence[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


@dataclasses.dataclass(frozen=True)
class Bar:
    """A share, and the limit that it must reach or not exceed."""

    name: str
    share: Share
    limit: float
    is_maximum: bool = False

    @property
    def is_met(self) -> bool:
        """False without trials: what was not measured is not met."""
        if not self.share.total:
            return False
        if self.is_maximum:
            return self.share.value <= self.limit
        return self.share.value >= self.limit

    def __str__(self) -> str:
        sign = "<=" if self.is_maximum else ">="
        verdict = "met" if self.is_met else "MISSED"
        return f"{self.name}: {self.share}, needs {sign} {self.limit:.0%}: {verdict}"


def bars(outcomes: Iterable[Outcome]) -> list[Bar]:
    """Returns the bars of the trials with mistakes."""
    some = counted(outcomes)
    asked = asked_alone(some)
    alone = [one for one in asked if one.shows_by_itself]
    by_itself = Bar(
        "right op without one, of mistakes that show by themselves",
        share(alone, lambda one: one.alone == RIGHT),
        0.6,
    )
    return [
        Bar(
            "right op with a golden run",
            share(some, lambda one: one.golden == RIGHT),
            0.8,
        ),
        *([by_itself] if asked or not some else []),
        Bar("right cause", share(some, lambda one: one.is_explained), 0.6),
        Bar("wrong cause", share(some, lambda one: one.cause == WRONG), 0.05, True),
    ]


def facts(outcomes: Sequence[Outcome]) -> list[str]:
    """Returns the shares that have no bar."""
    some = counted(outcomes)
    healthy = [one for one in outcomes if not one.family]
    quiet = [one for one in outcomes if one.family and not one.is_above_noise]
    named = share(healthy, lambda one: (one.golden, one.cause) != (NONE, NONE))
    named_alone = share(asked_alone(healthy), lambda one: one.is_wrong_alone)
    everything = share(asked_alone(some), lambda one: one.alone == RIGHT)
    within = sum(not one.failure for one in quiet)
    lines = [
        f"right op without a golden run, of all mistakes: {everything}",
        f"not counted, because their mistake is within the noise: {within}",
        f"healthy pairs for which compare run names an op or a cause: {named}",
        f"healthy pairs for which verify or run origin names an op: {named_alone}",
    ]
    for name in ("precision", "setting", "subject"):
        for value in sorted({getattr(one, name) for one in some}):
            mine = [one for one in some if getattr(one, name) == value]
            op = share(mine, lambda one: one.golden == RIGHT)
            cause = share(mine, lambda one: one.is_explained)
            lines.append(f"{value}: right op {op}, right cause {cause}")
    return lines
