"""Curves and the module tree of `msitctl web`.

Requires a browser, as test_web_page.py does.
"""

import json

import pytest
from browser import CHROMIUM, IS_REQUIRED, Browser
from chunk_bytes import Chunk, Record, float32
from web_pages import MARKUP, OPS, Web, go, opened, record_run
from wire import IngestStream, write

from daemon import Daemon

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not IS_REQUIRED, reason="chromium is not installed"
)

CURVES = "document.querySelectorAll('.plot path.curve').length"
STATUS = "document.querySelector('form+.problem+[role=status]').textContent"
TABLE = (
    "[...document.querySelectorAll('details tr')].map(r=>"
    "[...r.cells].map(c=>c.textContent))"
)
# Sets a control of the form as the user does.
SET = (
    "((label,value)=>{const e=[...document.querySelectorAll('form .bar label')]"
    ".find(l=>l.textContent.trim().startsWith(label)).querySelector('select,input');"
    "e.value=value;e.dispatchEvent(new Event('change'))})"
)


def test_curves_of_both_runs_have_the_values_of_msitctl(
    browser: Browser, web: Web, daemon: Daemon
) -> None:
    opened(browser, web, "#/c/c-000001/row/2")
    link = "[...document.querySelectorAll('a')].find(a=>a.textContent.includes('over'))"
    browser.wait(link)
    browser.run(f"{link}.click()")
    browser.wait(f"{CURVES}===2")
    assert browser.run("location.hash").startswith("#/curves?run=golden&run=target")
    browser.run("document.querySelector('details').open=true")
    browser.wait("document.querySelectorAll('details tbody tr').length===2")
    heads, *rows = browser.run(TABLE)
    assert heads == [
        "token",
        "layers.0.mlp of golden",
        "layers.0.mlp of target",
    ]
    for i, run in enumerate(("golden", "target")):
        tensors = daemon.ctl_json("tensor", "list", run, "--ops", "layers.0.mlp")
        norms = [t["summary"]["l2_norm"] for t in tensors["tensors"]]
        shown = [float(row[1 + i]) for row in rows]
        assert shown == pytest.approx(norms, rel=1e-5)
    browser.run(f"{SET}('value','nan_count')")
    browser.wait("location.hash.includes('value=nan_count')")
    browser.wait(
        "document.querySelector('details tbody')?.textContent.replaceAll(' ','')"
        "==='000100'"
    )
    # The keys read the values.
    browser.run("document.querySelector('.plot').focus()")
    browser.key("ArrowRight")
    tip = "document.querySelector('.plot+.tip').textContent"
    assert browser.run(tip) == "token 0: " + "; ".join(
        f"layers.0.mlp of {run} 0" for run in ("golden", "target")
    )
    browser.send("Page.reload")
    browser.wait(f"{CURVES}===2")
    assert browser.errors == []


def test_curves_select_ops_tokens_and_runs(browser: Browser, web: Web) -> None:
    opened(browser, web)
    go(browser, "#/curves?run=golden")
    # All ops of the run together.
    browser.wait(f"{CURVES}===1")
    browser.run(f"{SET}('ops','*')")
    browser.wait(f"{CURVES}==={len(OPS)}")
    legend = "[...document.querySelectorAll('.legend span')].map(e=>e.textContent)"
    assert browser.run(legend) == OPS
    assert browser.run("document.querySelectorAll('img').length") == 0
    browser.run(f"{SET}('ops','=layers.0.mlp head')")
    browser.wait(f"{CURVES}===2")
    browser.run(f"{SET}('tokens','1')")
    browser.run("document.querySelector('details').open=true")
    browser.wait("document.querySelectorAll('details tbody tr').length===1")
    browser.run(f"{SET}('tokens','one')")
    browser.wait("document.querySelector('.problem').textContent.includes('one')")
    browser.run(f"{SET}('tokens','')")
    browser.wait("!document.querySelector('.problem').textContent")
    browser.run(f"{SET}('ops','nothing')")
    browser.wait(f"{STATUS}==='No tensor matches.'")
    go(browser, "#/curves?run=none")
    browser.wait("document.querySelector('.problem')?.textContent.includes('none')")


def test_an_outlier_among_many_tokens_stays_visible(
    browser: Browser, web: Web, daemon: Daemon
) -> None:
    count, outlier = 2000, 1234
    records = [
        Record(
            "op",
            float32(900.0 if token == outlier else 1.0),
            [1],
            token=token,
            sequence=token,
        )
        for token in range(count)
    ]
    chunks = [
        Chunk("long", records[i : i + 500], sequence=i // 500, version=2).pack()
        for i in range(0, count, 500)
    ]
    write(daemon.channel(), "long", chunks)
    opened(browser, web)
    go(browser, "#/curves?run=long&op=op&value=max")
    browser.wait(f"{CURVES}===1")
    text = browser.run("document.querySelector('#main').textContent")
    assert "Each point is 5 tokens" in text
    browser.run("document.querySelector('details').open=true")
    browser.wait("document.querySelectorAll('details tbody tr').length>1")
    rows = browser.run(TABLE)[1:]
    assert len(rows) == count // 5
    assert [row for row in rows if "900" in row[1]] == [["1230–1234", "1 to 900"]]
    band = browser.run("document.querySelector('.plot path.band').getAttribute('d')")
    assert band.count("L") == 2 * len(rows) - 1
    assert browser.errors == []


def test_scales_of_numbers_that_are_close_are_finite(
    browser: Browser, web: Web
) -> None:
    opened(browser, web)
    ticks = browser.run(
        """import('/axis.js').then(({ ticksOf }) => [
            [1, 1 + 2 ** -52], [1e17, 1e17 + 16], [-1e17 - 16, -1e17],
            [Math.log10(123456), Math.log10(123456 * (1 + 12 * 2 ** -52))],
            [0, 1], [-3, 7], [0.1, 0.4], [-1e308, 1e308],
        ].map(([low, high]) => ticksOf(low, high, 5)))"""
    )
    assert all(0 < len(one) <= 11 for one in ticks), ticks
    assert ticks[4] == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert ticks[5] == [-2, 0, 2, 4, 6]
    assert ticks[6] == [0.1, 0.2, 0.3, 0.4]
    drawn = browser.run(
        """import('/plot.js').then(({ Plot }) =>
          [[[1, 1 + 2 ** -52], false], [[1e17, 1e17 + 16], false],
           [[123456, 123456 * (1 + 12 * 2 ** -52)], true]].map(([y, isLog]) => {
            const plot = new Plot('token', new AbortController().signal);
            plot.show([{name: 'a', color: 0, dash: 0, x: [0, 1], y}], isLog);
            return plot.chart.querySelector('.curve').getAttribute('d');
          }))"""
    )
    assert all("NaN" not in path and "L" in path for path in drawn), drawn


def test_values_that_are_not_drawn_are_marked(browser: Browser, web: Web) -> None:
    opened(browser, web)
    shown = browser.run(
        """import('/plot.js').then(({ Plot }) => {
          const plot = new Plot('token', new AbortController().signal);
          document.body.append(plot.element);
          const show = (y, isLog) => {
            plot.show([{name: 'a', color: 0, dash: 0, x: y.map((_, i) => i), y}], isLog);
            plot.table.open = true;
            plot.fillTable();
            const of = (query) => [...plot.element.querySelectorAll(query)];
            return {path: of('path.curve').pop().getAttribute('d').replace(/[^MLh]/g, ''),
                    gaps: of('.gap').length, note: plot.note.textContent,
                    texts: of('td').map(e => e.textContent),
                    high: Math.max(...plot.reduced.points[0].values().map(p => p.high))};
          };
          const many = Array.from({length: 1000}, (_, i) => i === 499 ? 0 : 1);
          many[500] = 900;
          return [show([1, 2, NaN, 3, 4], false), show([1, -3, 2, 0], true),
                  show(many, true)];
        })"""
    )
    # A token without a value ends the line.
    assert shown[0]["path"] == "MLML"
    assert shown[0]["gaps"] == 1
    assert shown[0]["texts"] == ["1", "2", "no value", "3", "4"]
    assert "A cross is a token without a value." in shown[0]["note"]
    # A value at 0 or below hides only itself.
    assert shown[1]["path"] == "MhMh"
    assert shown[1]["texts"] == ["1", "-3", "2", "0"]
    assert shown[1]["note"].endswith("not shown on a logarithmic scale: 2.")
    assert shown[2]["high"] == 900
    assert shown[2]["note"].endswith("not shown on a logarithmic scale: 1.")
    assert [text for text in shown[2]["texts"] if "900" in text] == ["1 to 900, 0"]


def test_curves_without_one_of_the_runs(browser: Browser, web: Web) -> None:
    opened(browser, web)
    for ops in ("", "&op=head"):
        go(browser, f"#/curves?run=golden&run=none{ops}")
        browser.wait(f"{CURVES}===1&&{STATUS}.includes('none')")
        assert browser.run(STATUS).startswith("Incomplete: ")
        assert browser.run("document.querySelector('.problem').textContent") == ""
    browser.run(
        """window.fetch = (real => (url, options) =>
            url.endsWith('page.summaries') && options.body.includes(window.refused)
              ? Promise.resolve(new Response('{"error":"too many groups"}', {status: 429}))
              : real(url, options))(window.fetch)"""
    )
    for refused, text in (
        ("TOKEN", "too many groups. Choose tokens, such as 0-9999."),
        ("OP", "too many groups. Search for fewer ops."),
    ):
        browser.run(f"window.refused='\"{refused}\"'")
        browser.run(f"{SET}('ops','{refused}*')")
        browser.run(f"{SET}('ops','*')")
        browser.wait(f"document.body.textContent.includes({text!r})")


def test_curves_of_an_active_run_grow(
    browser: Browser, web: Web, daemon: Daemon
) -> None:
    stream = IngestStream(daemon.channel(), "live", 0)
    stream.opened()

    def record(token: int) -> None:
        one = Record("op", float32(1.0 + token), [1], token=token, sequence=token)
        stream.send_chunk(Chunk("live", [one], sequence=token).pack())
        stream.wait_committed(token + 1)

    record(0)
    opened(browser, web)
    go(browser, "#/curves?run=live&op=op&value=max")
    browser.wait("document.querySelectorAll('.plot circle').length===1")
    record(1)
    browser.wait("document.querySelectorAll('.plot circle').length===2", 20)
    stream.finish()
    assert browser.errors == []


def test_summaries_are_compact(web: Web, daemon: Daemon) -> None:
    request = {"run": "golden", "group_by": "OP", "value": "count"}
    answer = web.call("page.summaries", request)
    assert answer == {"keys": OPS, "values": [128] * len(OPS), "ranks_lacking": []}
    answer = web.call("page.summaries", {**request, "group_by": "TOKEN"})
    assert (answer["keys"], answer["values"]) == (["0", "1"], [320, 320])
    (one,) = web.call("page.summaries", {"run": "golden", "value": "l2_norm"})["values"]
    (group,) = daemon.ctl_json("tensor", "stats", "golden")["groups"]
    assert one == group["summary"]["l2_norm"]
    empty = {"run": "golden", "value": "max", "filter": {"op_patterns": ["none"]}}
    assert web.call("page.summaries", empty)["values"] == [None]
    web.call("page.summaries", {**request, "run": "none"}, expect=404)
    web.call("page.summaries", {**request, "value": "none"}, expect=400)


ITEMS = (
    "[...document.querySelectorAll('[role=treeitem]')].map(e=>"
    "[+e.getAttribute('aria-level'),e.getAttribute('aria-expanded'),"
    "e.getAttribute('aria-label')])"
)
FOCUSED = "document.activeElement.dataset.path"


def test_the_tree_is_open_at_the_first_op_that_fails(
    browser: Browser, web: Web
) -> None:
    opened(browser, web, "#/c/c-000001")
    browser.wait("document.querySelector('.views a')")
    browser.run("document.querySelector('.views a').click()")
    browser.wait("document.querySelectorAll('[role=treeitem]').length>4")
    items = browser.run(ITEMS)
    assert items[0] == [1, None, "embed: 2 pass"]
    assert [1, "true", "layers: 4 fail, worst 17772x of bound"] in items
    assert [2, "true", "0: 2 fail, worst 17123x of bound"] in items
    assert [3, None, "mlp: 2 fail, worst 17123x of bound"] in items
    assert not any("img" in label for _, _, label in items if label.startswith("1:"))
    focusable = browser.run(
        "[...document.querySelectorAll('[role=treeitem][tabindex=\"0\"]')]"
        ".map(e=>e.dataset.path)"
    )
    assert focusable == ["layers.0.mlp"]
    browser.run("document.querySelector('[tabindex=\"0\"][role=treeitem]').focus()")
    for key, path in [
        ("ArrowUp", "layers.0.attn"),
        ("ArrowLeft", "layers.0"),
        ("ArrowLeft", "layers.0"),
        ("ArrowDown", f"layers.1.{MARKUP}"),
        ("ArrowUp", "layers.0"),
        ("ArrowRight", "layers.0"),
        ("ArrowRight", "layers.0.attn"),
        ("ArrowDown", "layers.0.mlp"),
    ]:
        browser.key(key)
        assert browser.run(FOCUSED) == path, key
    assert browser.run("location.hash") == "#/c/c-000001/modules?at=layers.0.mlp"
    assert browser.run("document.querySelectorAll('img').length") == 0
    browser.key("Enter")
    browser.wait("location.hash==='#/c/c-000001/row/2'")
    go(browser, "#/c/c-000001/modules?at=layers.0")
    browser.wait("document.querySelector('[data-path=\"layers.0\"] a')")
    browser.run("document.querySelector('[data-path=\"layers.0\"] a').click()")
    browser.wait("document.querySelectorAll('tr[data-row]').length===2")
    assert browser.errors == []


def test_the_tree_marks_ops_without_a_partner(
    browser: Browser, web: Web, daemon: Daemon
) -> None:
    record_run(daemon, "more", 1.0, [*OPS[:2], "extra.one", "extra/two"])
    daemon.ctl("compare", "run", "golden", "more", expect=1)
    opened(browser, web, "#/c/c-000002/modules?at=extra.one")
    browser.wait("document.querySelector('[data-path=\"extra.one\"]')")
    labels = {label for _, _, label in browser.run(ITEMS)}
    assert "extra: no partner in the other run" in labels
    assert "one: no partner in the other run" in labels
    assert "two: no partner in the other run" in labels
    assert "embed: 2 pass" in labels
    browser.run("document.querySelector('.bar input').click()")
    browser.wait("!document.querySelector('[data-path=embed]')")
    assert browser.run("location.hash").endswith("only=problems")


def test_a_tree_of_many_ops_has_few_lines(browser: Browser, web: Web) -> None:
    opened(browser, web)
    result = browser.run(
        """(async () => {
          const { ModuleTree } = await import('/tree.js');
          const tree = new ModuleTree(() => {});
          document.body.append(tree.element);
          const start = performance.now();
          for (let i = 0; i < 100000; ++i) {
            const fail = i === 98765 ? 1 : 0;
            tree.root.add(`model.layers.${i % 2000}.op${i}`,
                {pass: 1 - fail, fail, unmatched: 0, skipped: 0, worst: fail * 7, row: i});
          }
          tree.reveal('model.layers.765.op98765');
          tree.draw();
          const lines = tree.items().length;
          const more = tree.items().find(e => e.dataset.more !== undefined);
          tree.toggle(more, true);
          return {lines, after: tree.items().length, ms: performance.now() - start,
                  first: tree.items()[0].textContent};
        })()"""
    )
    assert result["first"].startswith("▾model.layers1 fail, worst 7x of bound"), result
    assert result["lines"] < 700, result
    assert result["lines"] < result["after"] < 1200, result
    assert result["ms"] < 10_000, result
    assert browser.errors == []


def test_an_op_among_many_is_revealed(browser: Browser, web: Web) -> None:
    opened(browser, web)
    result = browser.run(
        """(async () => {
          const { ModuleTree } = await import('/tree.js');
          const tree = new ModuleTree(() => {});
          document.body.append(tree.element);
          const counts = {pass: 1, fail: 0, unmatched: 0, skipped: 0, worst: NaN, row: 0};
          for (let i = 0; i < 1000; ++i) tree.root.add(`m.op${i}`, counts);
          for (const op of ['a.b', 'a/b', 'a']) tree.root.add(op, counts);
          tree.reveal('m.op900');
          tree.draw();
          const item = tree.item('m.op900');
          tree.open.add('a');
          tree.draw();
          return {tab: item.tabIndex, place: item.getAttribute('aria-posinset'),
                  lines: tree.items().length,
                  paths: tree.items().map(e => e.dataset.path).filter(
                      p => p?.startsWith('a'))};
        })()"""
    )
    assert (result["tab"], result["place"]) == (0, "901")
    assert result["lines"] < 320
    # A separator belongs to the name of an op.
    assert result["paths"] == ["a", "a.b", "a/b"]


def test_a_tree_that_grows_keeps_the_focus(browser: Browser, web: Web) -> None:
    opened(browser, web)
    # Answers of a comparison that runs; the op of the address never appears.
    browser.run(
        """window.calls = 0;
        window.fetch = (real => async (url, options) => {
          if (!url.endsWith('page.groups')) return real(url, options);
          ++window.calls;
          const groups = [0, 1].map(i => [i, 0, 0, 1, 0, 0, 0, 0.5, window.calls]);
          return new Response(JSON.stringify({ops: ['one', 'two'], groups,
              next_row: window.calls, row_count: window.calls, has_ended: false}));
        })(window.fetch)"""
    )
    go(browser, "#/c/c-000001/modules?at=nothing")
    browser.wait("document.querySelector('[data-path=one]')")
    browser.run("document.querySelector('[data-path=one]').focus()")
    browser.key("ArrowDown")
    assert browser.run(FOCUSED) == "two"
    calls = browser.run("window.calls")
    browser.wait(f"window.calls>{calls}+1")
    assert browser.run(FOCUSED) == "two"
    browser.key("ArrowUp")
    assert browser.run(FOCUSED) == "one"


def test_counts_of_a_module_are_those_of_its_worst_ops(
    browser: Browser, web: Web
) -> None:
    opened(browser, web)
    counts = browser.run(
        """(async () => {
          const { addCounts } = await import('/tree.js');
          const of = (fail, worst, row) =>
              ({pass: 0, fail, unmatched: 0, skipped: 0, worst, row});
          const add = (...all) => all.reduce((a, b) => (addCounts(a, b), a),
              of(0, NaN, -1));
          return [add(of(0, 0.9, 1), of(1, 0.5, 2), of(0, 3, 3)),
                  add(of(1, 2, 1), of(1, 5, 2), of(1, NaN, 3)),
                  add(of(0, NaN, 4), of(0, 0.1, 5)), add()].map(
              ({fail, worst, row}) => [fail, String(worst), row]);
        })()"""
    )
    assert json.dumps(counts) == json.dumps(
        [[1, "0.5", 2], [3, "5", 2], [0, "0.1", 5], [0, "NaN", -1]]
    )
