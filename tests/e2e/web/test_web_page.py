"""The page of `msitctl web` in a browser.

Requires chromium or chromium-headless-shell in PATH. Without one these tests are
skipped, unless the lane `browser` of tests/run requires them.
"""

import os
from pathlib import Path

import pytest
from browser import CHROMIUM, IS_REQUIRED, Browser
from chunk_bytes import Chunk, Record, float32
from web_pages import FAILING, MARKUP, ROWS, SIZES, Web, go, opened, serving
from wire import IngestStream

from daemon import Daemon

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not IS_REQUIRED, reason="chromium is not installed"
)

# A folder for pictures of all views. Without it, there are none.
PICTURES = os.environ.get("MSITD_WEB_PICTURES")


def test_the_overview_leads_to_the_cause(browser: Browser, web: Web) -> None:
    opened(browser, web)
    assert browser.run("location.hash") == "#/"
    assert browser.run("localStorage.getItem('msitd-token')") == web.token
    sentence = browser.run("document.querySelector('.sentence').textContent")
    assert sentence.startswith("target differs from golden from layers.0.mlp on")
    assert (
        browser.run("document.querySelector('.cards .verdict').textContent") == "FAIL"
    )
    runs = browser.run(
        "[...document.querySelectorAll('tbody th')].map(e=>e.textContent)"
    )
    assert runs == ["golden", "target"]
    browser.run("document.querySelector('.cards a').click()")
    browser.wait("document.querySelectorAll('tr[data-row]').length")
    assert browser.run("document.querySelector('h1').textContent") == sentence
    # Rows that pass are not in the way.
    rows = browser.run(
        "[...document.querySelectorAll('tr[data-row]')].map(e=>+e.dataset.row)"
    )
    assert rows == FAILING
    link = "document.querySelector('.facts a')"
    assert f"row {FAILING[0]}" in browser.run(f"{link}.textContent")
    browser.run(f"{link}.click()")
    browser.wait("document.querySelector('.chart')")
    assert browser.run("location.hash") == f"#/c/c-000001/row/{FAILING[0]}"
    assert "layers.0.mlp" in browser.run("document.querySelector('h1').textContent")
    assert "model.py:2 forward" in browser.run(
        "document.querySelector('pre').textContent"
    )
    assert browser.errors == []


def test_names_of_ops_are_text(browser: Browser, web: Web) -> None:
    opened(browser, web, "#/c/c-000001")
    browser.wait("document.querySelectorAll('tr[data-row]').length")
    text = browser.run("document.querySelector('.rows').textContent")
    assert MARKUP in text
    go(browser, "#/c/c-000001/row/3")
    browser.wait("document.querySelector('.chart')")
    assert MARKUP in browser.run("document.querySelector('h1').textContent")
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert "pwned" not in browser.run("document.title").split("layers")[0]
    assert browser.errors == []


def test_nothing_is_requested_elsewhere(browser: Browser, web: Web) -> None:
    for view in ("#/c/c-000001", "#/c/c-000001/row/2", "#/node"):
        opened(browser, web, view)
    assert len(browser.requests) > 10
    for url in browser.requests:
        assert url.startswith((web.address, "data:")), url
        assert web.token not in url.partition("#")[0]
    # The policy refuses what the page does not do.
    refused = browser.run(
        "fetch('https://example.org/').then(()=>false,()=>true)"
    ) and browser.run(
        "new Promise(r=>{document.addEventListener('securitypolicyviolation',"
        "()=>r(true));const s=document.createElement('script');"
        "s.textContent='window.pwned=1';document.head.append(s);"
        "setTimeout(()=>r(false),2000)})"
    )
    assert refused
    assert browser.run("window.pwned") is None


def test_the_table_is_used_by_keyboard(browser: Browser, web: Web) -> None:
    opened(browser, web, "#/c/c-000001")
    browser.wait("document.querySelectorAll('tr[data-row]').length")
    browser.key("/", "/")
    assert browser.run("document.activeElement.type") == "search"
    for letter in "head":
        browser.key(letter, letter)
    browser.wait("document.querySelectorAll('tr[data-row]').length===2")
    # The address has the search.
    assert browser.run("location.hash") == "#/c/c-000001?find=head"
    browser.run("document.querySelector('tr[data-row]').focus()")
    browser.key("ArrowDown")
    assert browser.run("document.activeElement.dataset.row") == "9"
    browser.key("Enter")
    browser.wait("location.hash==='#/c/c-000001/row/9'")
    browser.wait("document.querySelector('.chart')")
    browser.key("Escape")
    browser.wait("location.hash==='#/c/c-000001'")


def test_the_map_leads_to_the_worst_row(browser: Browser, web: Web) -> None:
    opened(browser, web, "#/c/c-000001")
    browser.wait(
        "document.querySelector('.map .legend')?.textContent.includes('fails')"
    )
    browser.run("document.querySelector('canvas.heat').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        browser.key(key)
    tip = "document.querySelector('.tip').textContent"
    assert browser.run(tip) == (
        "layers.0.mlp, token 1: fails, 17123x of its bound, worst is row 7"
    )
    # Cells that pass and cells that fail have different colors.
    colors = browser.run(
        "(()=>{const c=document.querySelector('canvas.heat');"
        "const d=c.getContext('2d').getImageData(0,0,c.width,c.height);"
        "return new Set(new Uint32Array(d.data.buffer)).size})()"
    )
    assert colors > 5
    browser.key("Enter")
    browser.wait("location.hash==='#/c/c-000001/row/7'")
    assert browser.errors == []


def test_an_address_leads_to_what_it_shows(browser: Browser, web: Web) -> None:
    opened(browser, web)
    browser.open(f"{web.address}/#/c/c-000001?verdicts=pass%2Cfail&find=embed")
    browser.wait("document.querySelectorAll('tr[data-row]').length===2")
    browser.send("Page.reload")
    browser.wait("document.querySelectorAll('tr[data-row]').length===2")
    boxes = "[...document.querySelectorAll('.bar input:checked')].map(e=>e.value)"
    assert browser.run(boxes) == ["fail", "pass"]


def test_problems_are_in_words(browser: Browser, web: Web) -> None:
    opened(browser, web, "#/c/none")
    browser.wait("document.querySelector('[role=alert]')")
    assert "none" in browser.run("document.querySelector('[role=alert]').textContent")
    go(browser, "#/c/%E0%A4%A")
    browser.wait(
        "document.querySelector('[role=alert]')?.textContent.includes('no such')"
    )
    go(browser, "#/nowhere")
    browser.wait(
        "document.querySelector('[role=alert]')?.textContent.includes('no such')"
    )
    browser.run("localStorage.setItem('msitd-token','00')")
    go(browser, "#/")
    browser.wait(
        "document.querySelector('[role=alert]')?.textContent.includes('msitctl web printed')"
    )


def test_a_failing_row_appears_while_the_runs_grow(
    browser: Browser, daemon: Daemon
) -> None:
    streams = {run: IngestStream(daemon.channel(), run, 0) for run in ("g", "t")}

    def record(token: int) -> None:
        for run, stream in streams.items():
            value = 9.0 if run == "t" and token == 2 else 1.0
            one = Record("op", float32(value) * 8, [8], token=token, sequence=token)
            stream.send_chunk(Chunk(run, [one], sequence=token).pack())
            stream.wait_committed(token + 1)

    for stream in streams.values():
        stream.opened()
    record(0)
    with serving(daemon) as web:
        web.call(
            "ComparisonService.CreateComparison",
            {
                "comparison": {
                    "golden_run": "g",
                    "target_run": "t",
                    "follow": True,
                    "detach": True,
                }
            },
        )
        browser.open(web.url)
        browser.wait("document.querySelector('.cards a')")
        go(browser, "#/c/c-000001")
        browser.wait("document.querySelector('.rows')")
        record(1)
        record(2)
        # Token 2 is compared once both runs have the next one.
        record(3)
        browser.wait("document.querySelector('tr[data-row].fail')", 5)
        finding = "document.querySelector('.facts a')?.textContent"
        assert browser.wait(finding, 5).startswith("op output/0, rank 0, token 2")
        assert browser.run("document.querySelectorAll('tr[data-row]').length") == 1
        for stream in streams.values():
            stream.finish()
        for run in ("g", "t"):
            daemon.ctl("run", "seal", run)
        browser.wait("document.querySelector('.verdict').textContent==='FAIL'", 20)


VIEWS = {
    "overview": ("#/", "document.querySelector('.cards a')"),
    "comparison": ("#/c/c-000001", "document.querySelectorAll('tr[data-row]').length"),
    "row": ("#/c/c-000001/row/3", "document.querySelector('.picture')"),
    "modules": ("#/c/c-000001/modules", "document.querySelector('[role=treeitem]')"),
    "curves": (
        "#/curves?run=golden&run=target&op=*",
        "document.querySelector('.plot path.curve')",
    ),
    "node": ("#/node", "document.querySelector('.counters')"),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_views_fit_every_width(browser: Browser, web: Web, scheme: str) -> None:
    opened(browser, web)
    for name, (view, ready) in VIEWS.items():
        for size, (width, height) in SIZES.items():
            browser.show(width, height, scheme)
            go(browser, view)
            browser.wait(ready)
            if PICTURES:
                browser.picture(Path(PICTURES) / f"{name}-{size}-{scheme}.png")
            # Wide tables scroll by themselves.
            assert browser.run("document.documentElement.scrollWidth") <= width, (
                name,
                size,
            )
    assert browser.errors == []
    assert ROWS


COLORS = (
    "(()=>{const c=document.querySelector('canvas.heat');"
    "const d=c.getContext('2d').getImageData(0,0,c.width,c.height);"
    "return [...new Set(new Uint32Array(d.data.buffer))].sort().join()})()"
)


def test_the_map_is_colored_by_a_metric(
    browser: Browser, web: Web, daemon: Daemon
) -> None:
    opened(browser, web, "#/c/c-000001")
    legend = "document.querySelector('.map .legend')?.textContent"
    browser.wait(f"{legend}.includes('far from its bound')")
    names = [
        metric["name"]
        for metric in web.call("page.comparison", {"comparison": "c-000001"})["metrics"]
    ]
    options = "[...document.querySelector('select.metric').options].map(o=>o.text)"
    assert browser.run(options) == ["the bound that decided", *names]
    before = browser.run(COLORS)
    choose = (
        "(name=>{const e=document.querySelector('select.metric');e.value="
        "[...e.options].findIndex(o=>o.text===name)-1;"
        "e.dispatchEvent(new Event('change'))})"
    )
    browser.run(f"{choose}('max_abs')")
    browser.wait(f"{legend}.includes('largest error')")
    assert browser.run("location.hash") == "#/c/c-000001?color=max_abs"
    tip = "document.querySelector('.tip').textContent"
    rows = daemon.ctl_json("compare", "rows", "c-000001")["rows"]
    (row,) = [r for r in rows if (r["op"], int(r["token"])) == ("layers.0.mlp", 1)]
    (value,) = [m["value"] for m in row["metrics"] if m["metric"] == "max_abs"]
    browser.run("document.querySelector('canvas.heat').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        browser.key(key)
    text = browser.run(tip)
    assert text.startswith("layers.0.mlp, token 1: fails, max_abs ")
    assert float(text.split("max_abs ")[1].split(",")[0]) == pytest.approx(value, 1e-5)
    assert browser.run(COLORS) != before
    # The address has the metric. An unknown one shows the bound.
    browser.send("Page.reload")
    browser.wait(f"{legend}.includes('largest error')")
    browser.run(f"{choose}('the bound that decided')")
    browser.wait(f"{legend}.includes('far from its bound')")
    assert browser.run("location.hash") == "#/c/c-000001"
    go(browser, "#/c/c-000001?color=none")
    browser.wait(f"{legend}.includes('far from its bound')")
    assert browser.errors == []


def test_colors_of_metrics_follow_the_range(browser: Browser, web: Web) -> None:
    opened(browser, web)
    result = browser.run(
        """(async () => {
          const { Grid, NONE, PASS_FIRST, FAIL_FIRST, UNMATCHED } = await import('/grid.js');
          const { Scale } = await import('/scale.js');
          const fill = (metric, values) => {
            const scale = new Scale(metric);
            const grid = new Grid();
            // In increments, each of which can extend the range.
            values.forEach(([value, kind], i) => {
              const error = scale.errorOf(value);
              const group = {fails: kind === 'fail', passes: kind === 'pass',
                  isUnmatched: kind === 'unmatched', share: error};
              grid.put('op', i, scale.levelOf(group), i, error);
              grid.fit(scale);
            });
            return {levels: values.map((_, i) => grid.levelAt(i, 0)),
                texts: values.map((_, i) => scale.errorText(grid.errorAt(i, 0)))};
          };
          const low = fill({name: 'nl2', isHigherBetter: false, unit: ''},
              [[1e-3, 'pass'], [1e-6, 'pass'], [NaN, 'pass'], [1, 'fail'], [NaN, 'fail'],
               [NaN, 'unmatched'], [0, 'pass'], [Infinity, 'fail']]);
          const cosine = fill({name: 'cosine', isHigherBetter: true, unit: ''},
              [[1, 'pass'], [0.5, 'fail'], [0.999, 'pass'], [0.9, 'pass']]);
          const decibel = fill({name: 'psnr', isHigherBetter: true, unit: 'dB'},
              [[60, 'pass'], [10, 'pass'], [35, 'pass']]);
          return {low, cosine, decibel, limits: {NONE, PASS_FIRST, FAIL_FIRST, UNMATCHED}};
        })()"""
    )
    limits = result["limits"]
    low = result["low"]["levels"]
    assert limits["PASS_FIRST"] == low[1] == low[6] < low[0] < limits["UNMATCHED"]
    assert low[2] == limits["NONE"] and low[5] == limits["UNMATCHED"]
    assert limits["FAIL_FIRST"] < low[3] == low[4] == low[7] == 255
    assert result["low"]["texts"][:3] == ["nl2 0.001", "nl2 0.000001", ""]
    one, half, near, far = result["cosine"]["levels"]
    assert one == near == limits["PASS_FIRST"] < far < limits["UNMATCHED"] < half
    assert result["cosine"]["texts"][1:3] == ["cosine 0.5", "cosine 0.999"]
    best, worst, middle = result["decibel"]["levels"]
    assert limits["PASS_FIRST"] == best < middle < worst < limits["UNMATCHED"]
    assert result["decibel"]["texts"] == ["psnr 60", "psnr 10", "psnr 35"]
