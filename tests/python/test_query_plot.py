"""The plot of a comparison in msitd.query, with a stand-in for matplotlib."""

import math
import sys
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("grpc")

from msitd.query.messages import from_message, new
from msitd.query.plotting import plot_rows, plot_shares


class Axes:
    """Remembers what is drawn."""

    def __init__(self) -> None:
        self.points: dict[str, list[tuple[float, float]]] = {}
        self.lines: list[float] = []
        self.marks: dict[str, float] = {}
        self.title = ""
        self.threshold = 0.0

    def set_yscale(self, _: str, linthresh: float) -> None:
        self.threshold = linthresh

    def scatter(self, xs: Any, ys: Any, label: str, **_: Any) -> None:
        self.points[label] = list(zip(xs, ys, strict=True))

    def axhline(self, bound: float, **_: Any) -> None:
        self.lines.append(bound)

    def axvline(self, place: float, label: str, **_: Any) -> None:
        self.marks[label] = place

    def set_title(self, text: str, **_: Any) -> None:
        self.title = text

    def set_xlabel(self, _: str) -> None:
        pass

    set_ylabel = set_xlabel

    def legend(self) -> None:
        pass


@pytest.fixture
def pyplot(monkeypatch: pytest.MonkeyPatch) -> None:
    package, module = ModuleType("matplotlib"), ModuleType("matplotlib.pyplot")
    module.subplots = lambda: (None, Axes())  # type: ignore[attr-defined]
    package.pyplot = module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "matplotlib", package)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", module)


def comparison() -> Any:
    return from_message(new("Comparison", name="c-000001", golden_run="g"))


def row(op: str, io: str, verdict: str, **metrics: float) -> Any:
    message = new("ComparisonRow", op=op, io=io.lower(), verdict=verdict.lower())
    for name, value in metrics.items():
        message.metrics.add(metric=name, value=value)
    return from_message(message)


ROWS = [
    row("block", "INPUT", "PASS", nl2=0.0),
    row("block.a", "OUTPUT", "FAIL", nl2=0.5),
    row("block.b", "OUTPUT", "PASS", nl2=1e-6),
    row("block", "OUTPUT", "FAIL", nl2=math.inf),
    row("alone", "OUTPUT", "UNMATCHED"),
]


def test_a_module_is_drawn_after_its_parts(pyplot: None) -> None:
    axes = plot_rows(comparison(), ROWS, "nl2", None)
    assert axes.points == {
        "pass": [(2, 0.0), (1, 1e-6)],
        "fail": [(0, 0.5)],
        "fail, NaN or Inf": [(2, 5.0)],
    }
    assert axes.threshold == 1e-6


def group(op: str, worst: float | None, failed: int = 0) -> Any:
    message = new(
        "SummarizeComparisonRowsResponse.Group", op=op, worst=worst, fail_count=failed
    )
    return from_message(message)


def diverged(op: str) -> Any:
    first = new("ComparisonRow", op=op)
    message = new("Comparison", name="c-000001")
    message.first_divergence.CopyFrom(first)
    return from_message(message)


def test_shares_are_drawn_by_op(pyplot: None) -> None:
    groups = [
        group("a", 0.5),
        group("b", 2.0, failed=1),
        group("c", math.inf, failed=2),
        group("d", None),
    ]
    axes = plot_shares(diverged("b"), groups, None)
    assert axes.points == {
        "pass": [(0, 0.5)],
        "fail": [(1, 2.0)],
        "fail, NaN or Inf": [(2, 20.0)],
    }
    assert axes.lines == [1.0]
    assert axes.marks == {"first divergence": 1}


def test_a_comparison_without_shares_cannot_be_drawn(pyplot: None) -> None:
    with pytest.raises(ValueError, match=r"no row of c-000001 has a share"):
        plot_shares(comparison(), [group("a", None)], None)
    with pytest.raises(ValueError, match=r"no row of c-000001 has a share"):
        plot_shares(comparison(), [], None)


def test_the_first_divergence_is_marked_at_its_depth(pyplot: None) -> None:
    assert plot_rows(diverged("block.b"), ROWS, "nl2", None).marks == {
        "first divergence": 1
    }
    assert not plot_rows(diverged("elsewhere"), ROWS, "nl2", None).marks


def test_own_axes_are_used(pyplot: None) -> None:
    axes = Axes()
    assert plot_rows(comparison(), ROWS, "nl2", axes) is axes


def test_a_metric_that_no_row_has_is_an_error(pyplot: None) -> None:
    with pytest.raises(ValueError, match=r"no row of c-000001 has the metric 'nl3'"):
        plot_rows(comparison(), ROWS, "nl3", None)


def test_without_matplotlib_the_error_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install matplotlib.*report"):
        plot_rows(comparison(), ROWS, "nl2", None)
    with pytest.raises(ImportError, match=r"pip install matplotlib.*report"):
        plot_shares(comparison(), [group("a", 0.5)], None)
