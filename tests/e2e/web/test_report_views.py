"""The HTML report, which has the views of the page of `msitctl web`.

Requires a browser, as test_web_page.py does. tests/e2e/compare/test_report_page.py
has the contents of the report and the effects of clicks.
"""

import base64
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, IS_REQUIRED, Browser
from test_web_accessibility import AXE, violations
from web_pages import (
    FAILING,
    MARKUP,
    OPS,
    ROWS,
    SIZES,
    compared,
    go,
    record_run,
    serving,
)

from daemon import Daemon

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not IS_REQUIRED, reason="chromium is not installed"
)

PICTURES = os.environ.get("MSITD_WEB_PICTURES")
READY = "document.querySelector('.rows tr[data-row]')"
PRINTED_ROWS_MAX = 500


@pytest.fixture
def report(daemon: Daemon, tmp_path: Path) -> Iterator[Path]:
    """A report of a comparison, in which one name of an op is markup."""
    compared(daemon)
    file = tmp_path / "report.html"
    daemon.ctl("compare", "report", "c-000001", "--out", str(file))
    yield file


def opened(browser: Browser, file: Path) -> None:
    """Opens a report from its file."""
    browser.open(file.as_uri())
    browser.wait(READY)


def test_a_report_is_one_file_without_requests(browser: Browser, report: Path) -> None:
    opened(browser, report)
    browser.run(f"{READY}.click()")
    assert browser.requests == [report.as_uri()]
    assert browser.run(
        "fetch('https://example.org/').then(()=>false,()=>true)"
    ) and browser.run(
        "new Promise(r=>{document.addEventListener('securitypolicyviolation',"
        "()=>r(true));const s=document.createElement('script');"
        "s.src='data:text/javascript,window.pwned=1';document.head.append(s);"
        "setTimeout(()=>r(false),2000)})"
    )
    assert browser.run("window.pwned") is None


def test_names_in_a_report_are_text(browser: Browser, report: Path) -> None:
    opened(browser, report)
    assert MARKUP in browser.run("document.querySelector('.rows').textContent")
    browser.run("document.querySelector('tr[data-row=\"3\"]').click()")
    assert MARKUP in browser.run("document.querySelector('.detail').textContent")
    assert browser.run("REPORT.map.describe(0,3)").startswith(
        f"row 3: layers.1.{MARKUP}"
    )
    browser.run(
        "const {clientX:x,clientY:y}=REPORT.map.middleOf(0,3);"
        "REPORT.map.tip.show(REPORT.map.describe(0,3),x,y)"
    )
    assert browser.run("document.images.length") == 0
    assert browser.run("document.title") == browser.run(
        "document.querySelector('h1').textContent"
    )
    assert browser.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_fits_every_width(browser: Browser, report: Path, scheme: str) -> None:
    for size, (width, height) in SIZES.items():
        browser.show(width, height, scheme)
        opened(browser, report)
        browser.run(f"{READY}.click()")
        if PICTURES:
            browser.picture(Path(PICTURES) / f"report-{size}-{scheme}.png")
        assert browser.run("document.documentElement.scrollWidth") <= width, size
    assert browser.errors == []


@pytest.mark.skipif(AXE is None and not IS_REQUIRED, reason="axe-core is not installed")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_is_accessible(browser: Browser, report: Path, scheme: str) -> None:
    assert AXE is not None, "MSITD_AXE is not set"
    for size in ("phone", "laptop"):
        browser.show(*SIZES[size], scheme)
        opened(browser, report)
        browser.run(Path(AXE).read_text(encoding="utf-8") + ";0")
        assert violations(browser) == [], size
        browser.run(f"{READY}.click()")
        for is_open in ("false", "true"):
            browser.run(
                f"document.querySelectorAll('details').forEach(e=>{{e.open={is_open}}})"
            )
            assert violations(browser) == [], size


def test_a_report_of_many_rows_is_printed(browser: Browser, report: Path) -> None:
    text = report.read_text()
    start = text.index('"rows":[') + len('"rows":[')
    end = text.index('],"texts"')
    lines = text[start:end].split(",\n")
    many = report.with_name("many.html")
    rows = ",\n".join(
        f"[{i},{lines[i % ROWS].split(',', 1)[1]}" for i in range(100_000)
    )
    many.write_text(text[:start] + rows + text[end:])
    opened(browser, many)
    assert browser.run("document.querySelectorAll('.rows tr').length") < 100
    assert browser.run("document.querySelector('.count').textContent") == (
        "100000 of 100000 rows"
    )
    printed = browser.run(
        "dispatchEvent(new Event('beforeprint')),"
        "document.querySelectorAll('.rows tr[data-row]').length"
    )
    assert printed == PRINTED_ROWS_MAX
    last = browser.run("[...document.querySelectorAll('.rows tr')].pop().textContent")
    assert last == "99\u2009500 more rows are not printed"
    browser.show(794, 1123)
    browser.send("Emulation.setEmulatedMedia", media="print")
    assert browser.run("document.documentElement.scrollWidth") <= 794
    browser.send("Emulation.setEmulatedMedia", media="")
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run("document.querySelectorAll('.rows tr').length") < 100
    pdf = base64.b64decode(browser.send("Page.printToPDF")["data"])
    # The rows that are not printed would fill more than 2,000 pages.
    assert 2 < pdf.count(b"/Type /Page\n") <= PRINTED_ROWS_MAX
    assert browser.errors == []


def test_the_first_divergence_is_marked(browser: Browser, report: Path) -> None:
    opened(browser, report)
    assert "first divergence" in browser.run("REPORT.map.legend.textContent")
    assert browser.run("REPORT.map.first.op") == "layers.0.mlp"
    assert browser.run("REPORT.map.grid.lines.length") == ROWS // 2
    numbers = browser.run(
        "[...document.querySelectorAll('.rows tr.fail')].map(e=>+e.dataset.row)"
    )
    assert numbers == FAILING


LABELS = (
    "[...document.querySelectorAll('[role=treeitem]')].map(e=>"
    "e.getAttribute('aria-label'))"
)
SHOWN = "document.querySelector('.count').textContent"


def test_a_report_has_the_tree_of_the_page(
    browser: Browser, daemon: Daemon, tmp_path: Path
) -> None:
    compared(daemon)
    record_run(daemon, "more", 3.0, [*OPS, "extra.one", "extra.two"])
    daemon.ctl("compare", "run", "golden", "more", expect=1)
    file = tmp_path / "report.html"
    daemon.ctl("compare", "report", "c-000002", "--out", str(file))
    opened(browser, file)
    tree = browser.run(LABELS)
    with serving(daemon) as web:
        browser.open(web.url)
        browser.wait("document.querySelector('.cards a')")
        go(browser, "#/c/c-000002/modules")
        browser.wait("document.querySelectorAll('[role=treeitem]').length>4")
        assert browser.run(LABELS) == tree
    assert "extra: no partner in the other run" in tree
    assert "mlp: 2 fail, worst 17123x of bound" in tree
    # The buttons show a row, and the rows of a module.
    opened(browser, file)
    browser.run("document.querySelector('[data-path=\"layers.0.mlp\"] button').click()")
    title = browser.run("document.querySelector('.detail h2').textContent")
    assert title.startswith("row ") and "layers.0.mlp" in title
    browser.run("document.querySelector('[data-path=extra] button').click()")
    assert browser.run(SHOWN) == "4 of 14 rows"
    assert browser.run("document.querySelector('.picked').textContent") == "only extra"
    browser.run("document.querySelector('[data-path=\"layers.0\"] button').click()")
    assert browser.run(SHOWN) == "4 of 14 rows"
    # Keys move, and Enter shows the rows.
    browser.run("document.querySelector('[data-path=embed]').focus()")
    browser.key("ArrowDown")
    browser.key("Enter")
    label = browser.run("document.activeElement.getAttribute('aria-label')")
    assert label is None or label.startswith("layers")
    assert browser.run("document.querySelector('.picked').textContent") == "only layers"
    browser.run(
        "document.querySelector('.modules').previousSibling"
        ".querySelector('input').click()"
    )
    assert not any("embed" in one for one in browser.run(LABELS))
    assert browser.run("document.images.length") == 0
    assert browser.errors == []


def test_names_with_many_parts_have_bounded_trees(
    browser: Browser, report: Path
) -> None:
    opened(browser, report)
    result = browser.run(
        """(() => {
          const tree = new ModuleTree(() => {});
          document.body.append(tree.element);
          const counts = {pass: 0, fail: 1, unmatched: 0, skipped: 0, worst: 2, row: 0};
          const start = performance.now();
          for (let i = 0; i < 1000; ++i) {
            for (const end of ['x', 'y']) {
              tree.root.add(`${i}.` + `m${i}.`.repeat(1000) + end, counts);
            }
          }
          const deep = `7.` + `m7.`.repeat(1000) + 'x';
          tree.reveal(deep);
          tree.draw();
          const levels = tree.items().map(e => +e.getAttribute('aria-level'));
          const item = tree.item(deep);
          return {levels: Math.max(...levels), ms: performance.now() - start,
              name: item.querySelector('.name').textContent.length,
              height: item.getBoundingClientRect().height,
              wide: document.documentElement.scrollWidth - innerWidth};
        })()"""
    )
    assert result["levels"] <= 32, result
    assert 0 < result["name"] < 200, result
    assert result["ms"] < 10_000 and result["wide"] <= 0, result
