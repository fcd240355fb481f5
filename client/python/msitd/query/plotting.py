"""Draws the rows of a comparison with matplotlib, if that is installed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from msitd.query.comparison_types import Comparison, ComparisonRow
from msitd.query.headline import headline
from msitd.query.row_groups import RowGroup

_NONE = (
    "plot needs matplotlib (pip install matplotlib). Without it, "
    "comparisons.report(comparison, 'report.html') writes a page with the same plot."
)
_COLORS = {"pass": "tab:blue", "fail": "tab:red"}


def _depths(rows: list[ComparisonRow]) -> dict[str, int]:
    """Numbers the ops as they end, so that a module follows its parts."""
    ends: dict[str, tuple[bool, int]] = {}
    for place, row in enumerate(rows):
        is_end = row.io == "output"
        if row.op not in ends or (is_end and not ends[row.op][0]):
            ends[row.op] = (is_end, place)
    ordered = sorted(ends, key=lambda op: ends[op][1])
    return {op: depth for depth, op in enumerate(ordered)}


def plot_rows(
    comparison: Comparison, rows: Iterable[ComparisonRow], metric: str, axes: Any
) -> Any:
    """Draws a metric of each row against the depth of its op; returns the axes.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: No row has the metric.
    """
    pyplot = _pyplot()
    all_rows = list(rows)
    depths = _depths(all_rows)
    found = [row for row in all_rows if metric in row.metrics]
    if not found:
        raise ValueError(f"no row of {comparison.name} has the metric {metric!r}")
    axes = axes if axes is not None else pyplot.subplots()[1]
    values = [abs(row.metrics[metric]) for row in found]
    positive = [value for value in values if 0 < value < math.inf]
    # Zeros have a place on this scale, unlike on a logarithmic one.
    axes.set_yscale("symlog", linthresh=min(positive, default=1.0))
    top = 10 * max(positive, default=1.0)
    for verdict, color in _COLORS.items():
        for marker, is_finite in ((".", True), ("x", False)):
            points = [
                (depths[row.op], row.metrics[metric] if is_finite else top)
                for row in found
                if row.verdict == verdict
                and math.isfinite(row.metrics[metric]) == is_finite
            ]
            label = verdict if is_finite else f"{verdict}, NaN or Inf"
            if points:
                xs, ys = zip(*points, strict=True)
                axes.scatter(xs, ys, marker=marker, color=color, label=label)
    bounds = {t.bound for t in comparison.required_tolerances if t.metric == metric}
    for bound in sorted(bounds):
        axes.axhline(bound, linestyle="--", color="gray", label=f"bound {bound:g}")
    _mark_first(comparison, depths, axes)
    axes.set_xlabel("depth: ops in the order in which they end")
    axes.set_ylabel(metric)
    axes.set_title(headline(comparison), wrap=True, fontsize="small")
    axes.legend()
    return axes


def plot_shares(comparison: Comparison, groups: Iterable[RowGroup], axes: Any) -> Any:
    """Draws the worst share of its bound of each op, in order; returns the axes.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: No op has a share.
    """
    pyplot = _pyplot()
    groups_of = list(groups)
    places = {group.op: place for place, group in enumerate(groups_of)}
    found = [(g, g.worst) for g in groups_of if g.worst is not None]
    if not found:
        raise ValueError(f"no row of {comparison.name} has a share of a bound")
    axes = axes if axes is not None else pyplot.subplots()[1]
    positive = [share for _, share in found if 0 < share < math.inf]
    axes.set_yscale("symlog", linthresh=min(positive, default=1.0))
    top = 10 * max([1.0, *positive])
    for is_failing, verdict in ((False, "pass"), (True, "fail")):
        for marker, is_finite in ((".", True), ("x", False)):
            points = [
                (places[group.op], share if is_finite else top)
                for group, share in found
                if (group.fail_count > 0) == is_failing
                and math.isfinite(share) == is_finite
            ]
            label = verdict if is_finite else f"{verdict}, NaN or Inf"
            if points:
                xs, ys = zip(*points, strict=True)
                axes.scatter(xs, ys, marker=marker, color=_COLORS[verdict], label=label)
    axes.axhline(1.0, linestyle="--", color="gray", label="bound")
    _mark_first(comparison, places, axes)
    axes.set_xlabel("ops in the order of their first rows")
    axes.set_ylabel("largest share of the bound")
    axes.set_title(headline(comparison), wrap=True, fontsize="small")
    axes.legend()
    return axes


def _pyplot() -> Any:
    """Returns matplotlib.pyplot. Raises ImportError if it is not installed."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(_NONE) from error
    return pyplot


def _mark_first(comparison: Comparison, places: dict[str, int], axes: Any) -> None:
    """Marks the op of the first divergence."""
    first = comparison.first_divergence
    if first is not None and first.op in places:
        axes.axvline(
            places[first.op], linestyle=":", color="black", label="first divergence"
        )
