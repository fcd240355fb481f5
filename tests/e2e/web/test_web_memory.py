"""The memory of the page of `msitctl web` after an hour of a live run.

Requires a browser, as test_web_page.py does. The hour takes a minute: `an_hour.js`
is a clock, and a server that answers the calls of the page. Part of `tests/nightly page`.
"""

import os
from pathlib import Path

import pytest
from browser import CHROMIUM, IS_REQUIRED, Browser
from web_pages import Web, go

pytestmark = [
    pytest.mark.skipif(
        CHROMIUM is None and not IS_REQUIRED, reason="chromium is not installed"
    ),
    pytest.mark.skipif(
        "MSITD_WEB_HOUR" not in os.environ, reason="takes too long for every change"
    ),
]

MIB = 1 << 20
# The memory that a page may need in all, and by which a view that shows as much as
# before may grow in 50 minutes.
MEMORY_MAX = 300 * MIB
GROWTH_MAX = 2 * MIB
SERVER = (Path(__file__).parent / "an_hour.js").read_text(encoding="utf-8")
FIELDS = ("usedSize", "embedderHeapUsedSize", "backingStorageSize")

# Calls that a view makes in an hour, at least.
VIEWS = {
    "overview": ("#/", 3500),
    "node": ("#/node", 3500),
    "modules": ("#/c/c-000001/modules", 3500),
    "curves": ("#/curves?run=run-0&run=run-1", 700),
}
COMPARISON = "#/c/c-000001"
# The rows that fail in an hour are more than a table holds.
ROWS_MAX = 50_000


@pytest.fixture
def page(browser: Browser, web: Web) -> Browser:
    """The page, with a clock that only `play` moves."""
    # Drawing a large window would take most of the time.
    browser.show(480, 360)
    browser.send("Page.addScriptToEvaluateOnNewDocument", source=SERVER)
    browser.open(web.url)
    browser.wait("document.querySelector('.cards a')")
    return browser


def used(browser: Browser) -> int:
    """The heap of the page and its buffers, without garbage."""
    browser.send("HeapProfiler.collectGarbage")
    usage = browser.send("Runtime.getHeapUsage")
    return sum(int(usage[field]) for field in FIELDS)


def private_bytes(browser: Browser) -> int:
    """The memory that the process of the page shares with no other one."""
    parents: dict[int, int] = {}
    renderers = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The name, which may have blanks, is in parentheses.
            words = (folder / "stat").read_text().rpartition(")")[2].split()
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        parents[int(folder.name)] = int(words[1])
        if b"--type=renderer" in line:
            renderers.append(int(folder.name))
    sizes = []
    for pid in renderers:
        above = pid
        while above > 1 and above != browser.process.pid:
            above = parents.get(above, 0)
        if above == browser.process.pid:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            words = [x.split()[1] for x in lines if x.startswith("Private_")]
            sizes.append(sum(map(int, words)) * 1024)
    # A browser may keep an empty process for the next page.
    return max(sizes)


def play(browser: Browser, minutes: int) -> int:
    """Lets time pass, in pieces that are short for a call of the browser."""
    return sum(int(browser.run("play(20)")) for _ in range(3 * minutes))


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_does_not_grow(page: Browser, name: str) -> None:
    view, call_count = VIEWS[name]
    go(page, view)
    calls = play(page, 10)
    before = used(page)
    calls += play(page, 50)
    assert calls >= call_count
    assert used(page) - before < GROWTH_MAX
    assert page.errors == []


def test_a_comparison_that_runs_for_an_hour_stays_small(page: Browser) -> None:
    play(page, 1)
    before = used(page)
    go(page, COMPARISON)
    calls = play(page, 60)
    # Its findings and its groups, each second.
    assert calls > 7000
    text = page.run("document.querySelector('.bar+[role=status]').textContent")
    assert text.startswith(f"{ROWS_MAX} rows, and more")
    page.show(1280, 900)
    play(page, 1)
    sizes = used(page), private_bytes(page)
    assert max(sizes) < MEMORY_MAX, sizes
    go(page, "#/")
    play(page, 1)
    assert used(page) - before < GROWTH_MAX
    assert page.errors == []


def test_views_that_were_left_are_released(page: Browser) -> None:
    views = [view for view, _ in VIEWS.values()] + [COMPARISON]
    seen = []
    for round_number in range(24):
        for view in views:
            go(page, view)
            page.run("play(5)")
        if round_number in (7, 23):
            used(page)
            seen.append(page.send("Memory.getDOMCounters") | {"bytes": used(page)})
    early, late = seen
    for name in ("documents", "nodes", "jsEventListeners"):
        assert late[name] <= early[name] * 1.2, (name, seen)
    assert late["bytes"] - early["bytes"] < GROWTH_MAX, seen
    assert page.errors == []
