"""What the driver asks of a worker, and what comes back.

All of it is plain Python, so that any engine can carry it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

TokenRanges = tuple[tuple[int, int], ...]
"""Inclusive ranges of tokens; none stands for all."""

Place = tuple[int, int, int]
"""Where a row is, whoever made it: token and rank of its group, row in the group."""


@dataclass(frozen=True)
class Setup:
    """What a worker needs to know before its first order."""

    comparison: bytes
    """What to compare, as the user asks for it: a Comparison."""
    folder: str
    """Where rows go."""
    endpoint: str = ""
    """A daemon that is asked; empty: the worker starts one of its own."""
    peers: tuple[str, ...] = ()
    """Daemons that the worker's own one may read from."""
    archives: tuple[str, ...] = ()
    """Archives that the worker's own one may read from."""
    config: str = ""
    """More of the configuration of that one, as TOML."""
    failing_rows_max: int = 1000
    passing_rows: bool = True
    """Whether files have rows that pass."""


@dataclass(frozen=True)
class OutlineOrder:
    """Asks what there is to compare."""


@dataclass(frozen=True)
class Span:
    """Groups of a rank, whose tokens may have gaps."""

    rank: int
    first_token: int
    last_token: int
    group_count: int
    is_whole: bool = False
    """All tokens of the rank must be in one task."""


@dataclass(frozen=True)
class Outline:
    """What there is to compare."""

    spans: tuple[Span, ...]
    pairs_per_group: float
    bytes_per_group: float
    run_ids: tuple[str, str] = ("", "")
    """`Run.id` of the golden and of the target run."""

    @property
    def group_count(self) -> int:
        """All groups."""
        return sum(span.group_count for span in self.spans)


@dataclass(frozen=True)
class CompareOrder:
    """Asks to compare the groups of some ranks and tokens."""

    number: int
    ranks: tuple[int, ...] = ()
    """Ranks, or numbers of meshes; none stands for those of the user."""
    tokens: TokenRanges = ()
    """Tokens; none stands for those of the user."""
    group_count: int = 0
    keeps_rows: bool = True
    """False for what only the header is wanted of."""
    attempt: int = 1
    run_ids: tuple[str, str] = ("", "")
    """Which runs are meant: those of the outline, whatever has their names later."""

    def __str__(self) -> str:
        ranks = _ranges_text(self.ranks) or "all"
        tokens = ",".join(
            str(first) if first == last else f"{first}-{last}"
            for first, last in self.tokens
        )
        return f"task {self.number} (ranks {ranks}, tokens {tokens or 'all'})"


@dataclass
class Part:
    """What came of a CompareOrder."""

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
    """By rank and op: the first token at which a weight is not the same."""
    path: str = ""
    file_row_count: int = 0
    size_bytes: int = 0
    host: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Failure:
    """Why an order came to nothing."""

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
    """`0,2-3` of ascending numbers."""
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
