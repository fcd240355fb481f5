"""The table of rows of `msitctl web`: it has exactly the rows that are selected.

Requires a browser, as test_web_page.py does.
"""

from collections.abc import Callable

import pytest
from browser import CHROMIUM, IS_REQUIRED, Browser
from chunk_bytes import Chunk, Record, float32
from msitd import query
from web_pages import FAILING, ROWS, TIMEOUT_S, Web, go, opened, serving
from wire import IngestStream

from daemon import Daemon

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not IS_REQUIRED, reason="chromium is not installed"
)

SHOWN = "[...document.querySelectorAll('tr[data-row]')].map(e=>+e.dataset.row)"
COUNT = "document.querySelector('.bar+[role=status]').textContent"
# Delays or fails calls: `plan` has a step for the next call of a name.
INTERCEPT = """
window.plan = {};
const real = window.fetch;
window.fetch = async (url, options) => {
  const name = url.split("/").pop();
  const step = window.plan[name];
  if (step && step.matches(options.body)) {
    delete window.plan[name];
    if (step.status) {
      return new Response(JSON.stringify({error: step.error}), {status: step.status});
    }
    const response = await real(url, options);
    await new Promise(resolve => { window.release = resolve; });
    return response;
  }
  return real(url, options);
};
"""


def pick(browser: Browser, box: str) -> None:
    """Clicks the check box of a verdict."""
    browser.run(f"document.querySelector('.bar input[value={box}]').click()")


def test_metrics_that_were_added_are_shown(
    browser: Browser, web: Web, daemon: Daemon
) -> None:
    query.connect(daemon.endpoint).comparisons.add_metrics(
        "c-000001",
        {
            FAILING[0]: [
                query.CustomMetric("angle", 12.5),
                query.CustomMetric("note", None, "<b>by hand</b>"),
            ]
        },
    )
    opened(browser, web, "#/c/c-000001")
    browser.wait("document.querySelectorAll('tr[data-row]').length")
    cells = browser.run(
        "(()=>{const heads=[...document.querySelectorAll('.rows thead th')]"
        ".map(e=>e.textContent);const cells=[...document.querySelector("
        "'tr[data-row]').cells].map(e=>e.textContent);"
        "return Object.fromEntries(heads.map((h,i)=>[h,cells[i]]))})()"
    )
    assert (cells["angle"], cells["note"]) == ("12.5", "<b>by hand</b>")
    second = browser.run(
        "[...document.querySelectorAll('tr[data-row]')][1].textContent"
    )
    assert "by hand" not in second
    go(browser, f"#/c/c-000001/row/{FAILING[0]}")
    browser.wait("document.querySelector('.chart')")
    metrics = browser.run(
        "Object.fromEntries([...document.querySelectorAll('.columns section "
        "table.small')][0].querySelectorAll('tr').values().map("
        "r=>[r.cells[0].textContent,r.cells[1].textContent.trim()]))"
    )
    assert metrics["angle"] == "12.5"
    assert metrics["note"] == "<b>by hand</b>"
    assert "nl2" in metrics
    assert browser.errors == []


def test_a_filter_that_changes_during_a_page_shows_no_row_twice(
    browser: Browser, web: Web
) -> None:
    opened(browser, web, "#/c/c-000001")
    browser.wait("document.querySelectorAll('tr[data-row]').length")
    browser.run(INTERCEPT)
    # The page of the first selection arrives while that of the next one is
    # under way, which must not be requested again.
    browser.run(
        "window.plan['page.rows']={matches:()=>true};window.calls=0;"
        "const before=window.fetch;window.fetch=(...a)=>{"
        "if(a[0].endsWith('page.rows'))++window.calls;return before(...a)}"
    )
    pick(browser, "pass")
    browser.wait("!!window.release")
    browser.run(
        "window.first=window.release;delete window.release;"
        "window.plan['page.rows']={matches:()=>true}"
    )
    pick(browser, "skipped")
    browser.wait("!!window.release")
    browser.run("window.first()")
    browser.run(
        "new Promise(r=>setTimeout(r,100)).then(()=>{"
        "document.querySelector('.rows').dispatchEvent(new Event('scroll'))})"
    )
    browser.run("window.release()")
    browser.wait("document.querySelectorAll('tr[data-row]').length>6")
    browser.run("new Promise(r=>setTimeout(r,200))")
    assert browser.run(SHOWN) == list(range(ROWS))
    assert browser.run(COUNT) == f"{ROWS} rows"
    assert browser.run("window.calls") == 2


def test_an_error_of_the_table_is_shown_beside_it(browser: Browser, web: Web) -> None:
    opened(browser, web, "#/c/c-000001")
    browser.wait("document.querySelectorAll('tr[data-row]').length")
    browser.run(INTERCEPT)
    browser.run(
        "window.plan['page.rows']={matches:()=>true,status:503,error:'daemon is away'}"
    )
    pick(browser, "pass")
    browser.wait(f"{COUNT}.includes('daemon is away')")
    pick(browser, "pass")
    browser.wait(f"{COUNT}==='{len(FAILING)} rows'")


def test_a_map_that_failed_is_shown_the_next_time(browser: Browser, web: Web) -> None:
    opened(browser, web, "#/c/c-000001")
    browser.wait(
        "document.querySelector('.map .legend')?.textContent.includes('fails')"
    )
    browser.run(INTERCEPT)
    browser.run(
        "window.plan['page.groups']={matches:b=>b.includes('RANK'),status:501,"
        "error:'not here'}"
    )
    choose = (
        "(k=>{const s=document.querySelector('.map select');s.value=k;"
        "s.dispatchEvent(new Event('change'))})"
    )
    browser.run(f"{choose}('layer')")
    browser.wait(
        "document.querySelector('.map .bar').textContent.includes('No map: not here')"
    )
    display = "getComputedStyle(document.querySelector('canvas.heat')).display"
    assert browser.run(display) == "none"
    for kind in ("op", "layer"):
        browser.run(f"{choose}('{kind}')")
        browser.wait("!document.querySelector('canvas.heat').hidden")
        browser.wait(
            "!document.querySelector('.map .bar').textContent.includes('No map')"
        )
    assert browser.errors == []


def test_a_map_waits_for_a_daemon_that_restarts(browser: Browser, web: Web) -> None:
    opened(browser, web, "#/c/c-000001")
    browser.wait("!!document.querySelector('.map .legend i')")
    browser.run(INTERCEPT)
    for status in (503, 504):
        browser.run(
            "window.plan['page.groups']={matches:()=>true,"
            f"status:{status},error:'daemon {status} is away'}};"
            "(s=>s.dispatchEvent(new Event('change')))("
            "document.querySelector('.map select'))"
        )
        note = "document.querySelector('.map .bar>.dim').textContent"
        browser.wait(f"{note}.includes('daemon {status} is away')")
        browser.wait(f"{note}===''")
        assert browser.run("document.querySelector('canvas.heat').hidden") is False


def test_rows_that_arrive_during_a_reload_are_not_lost(
    browser: Browser, web: Web
) -> None:
    opened(browser, web)
    result = browser.run(
        """(async () => {
          const { RowTable } = await import('/rows.js');
          const row = (n) => ({row: n, op: 'op', io: 'output', index: '',
              verdict: 'fail', metrics: {}, reason: ''});
          const pages = [];
          window.fetch = () => new Promise(resolve => pages.push(rows =>
              resolve(new Response(JSON.stringify({rows, next_page_token: ''})))));
          const tick = () => new Promise(resolve => setTimeout(resolve, 20));
          const table = new RowTable('c', [], true, new AbortController().signal);
          document.body.append(table.scroll);
          const numbers = () => table.rows.map(r => r.row);
          const selected = table.select({verdicts: ['FAIL'], op_patterns: []});
          pages.shift()([row(0)]);
          await selected;
          table.add([row(1)]);
          const before = numbers();
          const reloaded = table.reload();
          await tick();
          // The page under way was read before this row was produced.
          table.add([row(2)]);
          pages.shift()([row(0), row(1)]);
          await reloaded;
          const isBehind = table.isBehind();
          const again = table.reload();
          await tick();
          pages.shift()([row(0), row(1), row(2)]);
          await again;
          table.add([row(3)]);
          return {before, isBehind, after: numbers(), end: table.isBehind()};
        })()"""
    )
    assert result == {
        "before": [0, 1],
        "isBehind": True,
        "after": [0, 1, 2, 3],
        "end": False,
    }
    assert browser.errors == []


class Growing:
    """Two runs that grow, and differ at one token."""

    def __init__(self, daemon: Daemon, wrong_token: int) -> None:
        self.daemon = daemon
        self.wrong_token = wrong_token
        self.streams = {
            run: IngestStream(daemon.channel(), run, 0) for run in ("g", "t")
        }
        for stream in self.streams.values():
            stream.opened()

    def record(self, token: int) -> None:
        """Adds a token to both runs."""
        for run, stream in self.streams.items():
            value = 9.0 if run == "t" and token == self.wrong_token else 1.0
            one = Record("op", float32(value) * 8, [8], token=token, sequence=token)
            stream.send_chunk(Chunk(run, [one], sequence=token).pack())
            stream.wait_committed(token + 1)

    def end(self) -> None:
        """Seals both runs."""
        for stream in self.streams.values():
            stream.finish()
        for run in self.streams:
            self.daemon.ctl("run", "seal", run)


FOLLOWED = {"golden_run": "g", "target_run": "t", "follow": True, "detach": True}


def test_rows_that_were_missed_are_there_when_it_ends(
    browser: Browser, daemon: Daemon
) -> None:
    runs = Growing(daemon, wrong_token=2)
    runs.record(0)
    with serving(daemon) as web:
        web.call("ComparisonService.CreateComparison", {"comparison": FOLLOWED})
        opened(browser, web, "#/c/c-000001?find=op&verdicts=fail%2Cpass")
        browser.wait("document.querySelector('.rows')")
        for token in (1, 2, 3):
            runs.record(token)
        runs.end()
        browser.wait("document.querySelector('.verdict').textContent==='FAIL'", 20)
        browser.wait(f"{COUNT}==='4 rows'", 20)
        assert browser.run(SHOWN) == [0, 1, 2, 3]


def test_a_result_that_was_not_loaded_is_requested_again(
    browser: Browser, daemon: Daemon
) -> None:
    runs = Growing(daemon, wrong_token=1)
    runs.record(0)
    with serving(daemon) as web:
        web.call("ComparisonService.CreateComparison", {"comparison": FOLLOWED})
        opened(browser, web, "#/c/c-000001")
        browser.wait("document.querySelector('.rows')")
        browser.run(
            """window.fetch = (real => (url, options) => url.endsWith('page.comparison')
                && window.isAway !== false
                  ? Promise.resolve(new Response('{"error":"away"}', {status: 503}))
                  : real(url, options))(window.fetch)"""
        )
        for token in (1, 2):
            runs.record(token)
        runs.end()
        legend = "document.querySelector('.map .legend').textContent"
        browser.wait(f"{legend}.includes('fails')", 20)
        # The stream has ended.
        browser.wait("document.querySelector('tr[data-row].fail')", 20)
        browser.wait("document.querySelector('#main>[role=status]').textContent===''")
        assert "FAIL" not in browser.run(
            "document.querySelector('.verdict').textContent"
        )
        assert "first divergence" not in browser.run(legend)
        browser.run("window.isAway=false")
        browser.wait("document.querySelector('.verdict').textContent==='FAIL'", 20)
        browser.wait(f"{legend}.includes('first divergence')")


def test_several_daemons_are_followed_without_a_stream(
    browser: Browser, new_daemon: Callable[[], Daemon]
) -> None:
    daemons = [new_daemon(), new_daemon()]
    for daemon in daemons:
        daemon.start()
    runs = Growing(daemons[0], wrong_token=2)
    runs.record(0)
    with serving(daemons[0]) as single:
        single.call("ComparisonService.CreateComparison", {"comparison": FOLLOWED})
    endpoints = ",".join(daemon.endpoint for daemon in daemons)
    web = Web({}, "--endpoints", endpoints, "web", "--listen", "127.0.0.1:0")
    try:
        opened(browser, web)
        browser.run("document.querySelector('.cards a').click()")
        browser.wait("document.querySelector('.rows')")
        for token in (1, 2, 3):
            runs.record(token)
        browser.wait("document.querySelector('tr[data-row].fail')", 20)
        runs.end()
        browser.wait("document.querySelector('.verdict').textContent==='FAIL'", 20)
        assert browser.run(SHOWN) == [2]
        # It is not requested again and again.
        streams = [url for url in browser.requests if url.endswith("page.stream")]
        assert len(streams) == 1
        # Numbers of rows belong to a daemon, so that no row is opened.
        text = browser.run("document.querySelector('#main').textContent")
        assert "Rows of several daemons are not opened" in text
        assert "rows of several daemons are not reduced" in text
        assert browser.run("document.querySelectorAll('.facts a').length") == 0
        before = browser.run("location.hash")
        browser.run("document.querySelector('tr[data-row]').click()")
        assert browser.run("location.hash") == before
        go(browser, f"{before.partition('?')[0]}/row/2")
        browser.wait(
            "document.querySelector('[role=alert]')?.textContent"
            ".includes('open the page of one')"
        )
        # A daemon that does not answer is named on each page.
        assert browser.run("document.querySelector('#nodes').textContent") == ""
        daemons[1].kill()
        go(browser, "#/")
        browser.wait(
            "document.querySelector('#nodes').textContent"
            f"==='Incomplete: no answer from {daemons[1].endpoint}.'"
        )
    finally:
        web.process.kill()
        web.process.communicate(timeout=TIMEOUT_S)
