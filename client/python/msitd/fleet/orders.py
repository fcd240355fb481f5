"""Messages between the driver and its workers.

They are plain Python objects, so that any engine can transport them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

TokenRanges = tuple[tuple[int, int], ...]
"""Inclusive ranges of tokens; empty: all tokens."""

Place = tuple[int, int, int]
"""Position of a row, whichever worker produced it: token and rank of its group,
and the row in the group.
"""


@dataclass(frozen=True)
class Setup:
    """The information that a worker needs before its first order."""

    comparison: bytes
    """The comparison that the user requests: a Comparison."""
    folder: str
    """Folder for the rows."""
    endpoint: str = ""
    """A daemon to query; empty: the worker starts its own."""
    peers: tuple[str, ...] = ()
    """Daemons from which the worker's own daemon may read."""
    archives: tuple[str, ...] = ()
    """Archives from which the worker's own daemon may read."""
    config: str = ""
    """More configuration of that daemon, as TOML."""
    failing_rows_max: int = 1000
    passing_rows: bool = True
    """Whether the files contain rows that pass."""


@dataclass(frozen=True)
class OutlineOrder:
    """Requests the extent of the comparison."""


@dataclass(frozen=True)
class Span:
    """Groups of a rank, whose tokens may have gaps."""

    rank: int
    first_token: int
    last_token: int
    group_count: int
    is_whole: bool = False
    """Whether all tokens of the rank must be in one task."""


@dataclass(frozen=True)
class Outline:
    """The extent of the comparison."""

    spans: tuple[Span, ...]
    pairs_per_group: float
    bytes_per_group: float
    run_ids: tuple[str, str] = ("", "")
    """`Run.id` of the golden run and of the target run."""

    @property
    def group_count(self) -> int:
        """Number of all groups."""
        return sum(span.group_count for span in self.spans)


@dataclass(frozen=True)
class CompareOrder:
    """Requests the comparison of the groups of some ranks and tokens."""

    number: int
    ranks: tuple[int, ...] = ()
    """Ranks, or numbers of meshes; empty: those that the user selected."""
    tokens: TokenRanges = ()
    """Tokens; empty: those that the user selected."""
    group_count: int = 0
    keeps_rows: bool = True
    """False if only the header is needed."""
    attempt: int = 1
    run_ids: tuple[str, str] = ("", "")
    """Ids of the runs in the outline, in case other runs get their names later."""

    def __str__(self) -> str:
        ranks = _ranges_text(self.ranks) or "all"
        tokens = ",".join(
            str(first) if first == last else f"{first}-{last}"
            for first, last in self.tokens
        )
        return f"task {self.number} (ranks {ranks}, tokens {tokens or 'all'})"


@dataclass
class Part:
    """The result of a CompareOrder."""

    order: CompareOrder
    header: bytes
    """The Comparison; its row numbers are those of this part."""
    groups: bytes
    """Groups in order, packed: see `groups`."""
    row_count: int
    failing: list[tuple[int, bytes]] = field(default_factory=list)
    """The first rows that fail or are unmatched: number, and ComparisonRow."""
    hints: dict[str, int] = field(default_factory=dict)
    """The first row of each layout hint."""
    failing_token: int | None = None
    """The first token at which a row fails."""
    failing_groups: tuple[tuple[int, int], ...] = ()
    """Token and rank of the groups that fail there."""
    wrong_weights: dict[tuple[int, str], int] = field(default_factory=dict)
    """By rank and op: the first token at which a weight differs."""
    path: str = ""
    file_row_count: int = 0
    size_bytes: int = 0
    host: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Failure:
    """Why an order failed."""

    code: str
    message: str
    reason: str = ""

    @property
    def is_final(self) -> bool:
        """True if the same order would fail again."""
        return self.code in (
            "INVALID_ARGUMENT",
            "NOT_FOUND",
            "PERMISSION_DENIED",
            "UNAUTHENTICATED",
            "UNIMPLEMENTED",
            "FAILED_PRECONDITION",
        )

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


Order = OutlineOrder | CompareOrder
Answer = Outline | Part | Failure


def _ranges_text(numbers: tuple[int, ...]) -> str:
    """Formats ascending numbers as ranges, such as `0,2-3`."""
    texts: list[str] = []
    first = previous = None
    for number in (*numbers, None):
        if previous is not None and number == previous + 1:
            previous = number
            continue
        if first is not None:
            texts.append(str(first) if first == previous else f"{first}-{previous}")
        first = previous = number
    return ",".join(texts)
