"""The views of `msitctl web` have no violation that axe-core finds.

Requires a browser, as test_web_page.py does, and axe-core: MSITD_AXE is the path of
its script. The lane `browser` of tests/run installs both.
"""

import os
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, IS_REQUIRED, Browser
from web_pages import SIZES, Web, go, opened

AXE = os.environ.get("MSITD_AXE")

pytestmark = pytest.mark.skipif(
    (CHROMIUM is None or AXE is None) and not IS_REQUIRED,
    reason="chromium or axe-core is not installed",
)

VIEWS = {
    "overview": ("#/", "document.querySelector('.cards a')"),
    "comparison": ("#/c/c-000001", "document.querySelectorAll('tr[data-row]').length"),
    "modules": (
        "#/c/c-000001/modules",
        "document.querySelectorAll('[role=treeitem]').length",
    ),
    "row": ("#/c/c-000001/row/3", "document.querySelector('.picture')"),
    "curves": (
        "#/curves?run=golden&run=target&op=mlp",
        "document.querySelector('.plot path.curve')",
    ),
    "node": ("#/node", "document.querySelector('.counters')"),
    "problem": ("#/c/none", "document.querySelector('[role=alert]')"),
}


def violations(browser: Browser) -> list[tuple[str, Any]]:
    """Rules that the page violates, and where."""
    return browser.run(
        "axe.run(document,{resultTypes:['violations']}).then(r=>r.violations.map("
        "v=>[v.id,v.nodes.map(n=>[n.html,n.failureSummary])]))"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_views_are_accessible(browser: Browser, web: Web, scheme: str) -> None:
    assert AXE is not None, "MSITD_AXE is not set"
    opened(browser, web)
    browser.run(Path(AXE).read_text(encoding="utf-8") + ";0")
    for name, (view, ready) in VIEWS.items():
        for size in ("phone", "laptop"):
            browser.show(*SIZES[size], scheme)
            go(browser, view)
            browser.wait(ready)
            for details in ("false", "true"):
                browser.run(
                    "document.querySelectorAll('details').forEach("
                    f"e=>{{e.open={details}}})"
                )
                assert violations(browser) == [], (name, size)


def test_the_check_finds_violations(browser: Browser, web: Web) -> None:
    assert AXE is not None, "MSITD_AXE is not set"
    opened(browser, web)
    browser.run(Path(AXE).read_text(encoding="utf-8") + ";0")
    browser.run(
        "document.querySelector('#main').append(document.createElement('input'))"
    )
    assert "label" in [rule for rule, _ in violations(browser)]
