"""Tables of outcomes."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from cases import MODES, SETTINGS
from explanations import KINDS
from subjects import PRECISIONS

_GROUPS = ("all", *PRECISIONS, *SETTINGS, *MODES)


def totals(outcomes: Iterable[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Counts outcomes by precision and category; for faults, also those above
    the noise.
    """
    counts: dict[str, Counter[str]] = {}
    for one in outcomes:
        names = [one["category"]]
        if one["category"] == "fault" and one["is_above_noise"]:
            names.append("fault above noise")
        for name in names:
            groups = ["all", one["precision"], one["mode"]]
            if one["category"] == "fault":
                groups.append(one["setting"])
            for group in groups:
                counts.setdefault(f"{group}/{name}", Counter())[one["outcome"]] += 1
    return {key: dict(sorted(count.items())) for key, count in sorted(counts.items())}


def _row(group: str, name: str, counts: dict[str, int], columns: list[str]) -> str:
    total = sum(counts.values())
    shares = "".join(
        f"{counts.get(column, 0):5} {100 * counts.get(column, 0) / total:3.0f}%"
        for column in columns
    )
    return f"{group:15} {name:18} {total:5} {shares}"


def text(counts: dict[str, dict[str, int]]) -> str:
    """Returns the table as text."""
    lines = []
    for names, columns in (
        (("healthy", "informational"), ["passed", "partial", "failed", "error"]),
        (
            ("fault", "fault above noise"),
            ["right", "wrong", "not known", "drift", "unnoticed", "error"],
        ),
    ):
        heads = "".join(f"{column:>10}" for column in columns)
        lines.append(f"{'group':15} {'category':18} {'cases':>5} {heads}")
        for name in names:
            for group in _GROUPS:
                if f"{group}/{name}" in counts:
                    found = counts[f"{group}/{name}"]
                    lines.append(_row(group, name, found, columns))
        lines.append("")
    return "\n".join(lines)


def explanations(outcomes: Iterable[dict[str, Any]]) -> str:
    """Returns how often the kind of a fault is explained, as text.

    Counts faults above the noise whose maker is right.
    """
    found = [
        one
        for one in outcomes
        if one["category"] == "fault"
        and one["is_above_noise"]
        and one["outcome"] == "right"
    ]
    lines = []
    columns = ["right", "wrong", "none"]
    heads = "".join(f"{column:>10}" for column in columns)
    lines.append(f"{'group':15} {'explanations':18} {'cases':>5} {heads}")
    for has_kind, name in ((True, "simple faults"), (False, "other faults")):
        some = [
            one for one in found if (one["name"].split("/")[2] in KINDS) is has_kind
        ]
        if some:
            counts = Counter(one["explanation"] for one in some)
            lines.append(_row("all", name, dict(counts), columns))
    return "\n".join(lines)


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Returns the cases whose outcomes differ between two runs."""
    lines = []
    for name in sorted(set(before) & set(after)):
        old, new = before[name]["outcome"], after[name]["outcome"]
        if old != new:
            lines.append(f"{name}: {old} -> {new}")
    return lines
