"""Measurements of a soak."""

import threading
import time
from pathlib import Path

# Growth up to this ratio is normal: caches fill, and producers return.
GROWTH_RATIO_MAX = 1.3
GROWTH_MIB_MAX = 64
DESCRIPTORS_MAX = 64
# Fewer values are not conclusive.
VALUES_MIN = 6


class Gauges:
    """Memory and descriptors of one process while it is running."""

    def __init__(self, pid: int) -> None:
        self._process = Path(f"/proc/{pid}")
        self._values: list[tuple[float, int]] = []

    def rss_mib(self) -> float:
        """Returns the memory that no other process shares; ranks share the rings."""
        fields = dict(
            line.split(":", 1)
            for line in (self._process / "status").read_text().splitlines()
        )
        return int(fields["RssAnon"].split()[0]) / 1024

    def descriptors(self) -> int:
        return len(list((self._process / "fd").iterdir()))

    def remember(self) -> None:
        self._values.append((self.rss_mib(), self.descriptors()))

    def growth(self) -> list[str]:
        """Returns the names of the values that have grown from beginning to end."""
        third = len(self._values) // 3
        if third < VALUES_MIN // 3:
            return []
        first, last = self._values[:third], self._values[-third:]
        findings = []
        before, after = (max(value[0] for value in part) for part in (first, last))
        if after > before * GROWTH_RATIO_MAX + GROWTH_MIB_MAX:
            findings.append(f"memory has grown from {before:.0f} to {after:.0f} MiB")
        opened, open_now = (max(value[1] for value in part) for part in (first, last))
        if open_now > opened + DESCRIPTORS_MAX:
            findings.append(f"descriptors have grown from {opened} to {open_now}")
        return findings


class Series:
    """Values over time, by name. Any thread may add to it."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._lock = threading.Lock()
        self.points: dict[str, list[tuple[float, float]]] = {}
        self.marks: list[tuple[float, str]] = []

    def add(self, name: str, value: float) -> None:
        now = round(time.monotonic() - self._begin, 3)
        with self._lock:
            self.points.setdefault(name, []).append((now, value))

    def mark(self, what: str) -> None:
        with self._lock:
            self.marks.append((round(time.monotonic() - self._begin, 3), what))

    def summary(self) -> dict[str, dict[str, float]]:
        """Returns median, p99 and maximum of each series."""
        out = {}
        for name, points in sorted(self.points.items()):
            values = sorted(value for _, value in points)
            out[name] = {
                "count": len(values),
                "median": values[len(values) // 2],
                "p99": values[min(len(values) * 99 // 100, len(values) - 1)],
                "max": values[-1],
            }
        return out

    def plot(self, file: Path) -> None:
        """Plots all series, if matplotlib is installed."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            return
        names = sorted(self.points)
        figure = Figure(figsize=(10, 2 * max(len(names), 1)))
        for place, name in enumerate(names):
            axes = figure.add_subplot(len(names), 1, place + 1)
            times, values = zip(*self.points[name], strict=True)
            axes.plot(times, values, ".", markersize=2)
            axes.set_ylabel(name)
            for at, _ in self.marks:
                axes.axvline(at, color="0.85", linewidth=0.5)
        figure.savefig(file)
