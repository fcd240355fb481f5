"""Elements of a row in `msitctl web`: the calls, and what the page shows of them.

The tests of the page require a browser, as test_web_page.py does.
"""

import math

import msitd
import numpy as np
import pytest
from browser import CHROMIUM, IS_REQUIRED, Browser
from chunk_bytes import Chunk, Record, float32
from web_pages import Web, go, opened
from wire import write

from daemon import Daemon

with_browser = pytest.mark.skipif(
    CHROMIUM is None and not IS_REQUIRED, reason="chromium is not installed"
)

VOCABULARY = 40
ROW = {"comparison": "c-000002", "row": 0}
LOGITS_ROW = {"comparison": "c-000002", "row": 1}


def values_of(run: str, shape: list[int]) -> list[float]:
    """Elements of a tensor; those of the target differ in some places."""
    values = [float(i % 7) for i in range(math.prod(shape))]
    if run == "t":
        values[5] += 0.25
        values[-1] -= 3
        values[9] = math.nan
    return values


def logits_of(run: str) -> list[float]:
    """Logits of two positions. At the last one, the runs prefer other tokens."""
    values = [float(i % VOCABULARY) / 8 for i in range(2 * VOCABULARY)]
    values[VOCABULARY + 17] = 9 if run == "g" else 8
    values[VOCABULARY + 3] = 8.5
    return values


@pytest.fixture
def rows(web: Web, daemon: Daemon) -> Web:
    """A comparison of tensors with three dimensions, and of logits."""
    for run in ("g", "t"):
        records = [
            Record(
                "layers.0",
                b"".join(float32(v) for v in values_of(run, [2, 3, 4])),
                [2, 3, 4],
                sequence=0,
            ),
            Record(
                "lm_head",
                b"".join(float32(v) for v in logits_of(run)),
                [2, VOCABULARY],
                sequence=1,
            ),
        ]
        if run == "t":
            records.append(Record("only", float32(2.0) * 6, [6], sequence=2))
        write(daemon.channel(), run, [Chunk(run, records, version=2).pack()])
        daemon.ctl("run", "seal", run)
    daemon.ctl("compare", "run", "g", "t", expect=1)
    return web


def test_values_are_those_of_the_tensors(rows: Web) -> None:
    page = rows.call("page.values", ROW)
    assert page["shape"] == [2, 3, 4]
    density = page["density"]
    assert density["element_count"] == 24
    assert density["non_finite_count"] == 1
    assert density["is_sample"] is False
    assert sum(cell[2] for cell in density["cells"]) == 23
    assert sum(cell[2] for cell in density["cells"] if cell[1] == 0) == 21
    # NaN is the largest difference.
    assert page["largest"] == {
        "at": [0, 2, 1],
        "golden": 2,
        "target": "nan",
        "difference": "nan",
    }
    golden, target = values_of("g", [2, 3, 4]), values_of("t", [2, 3, 4])
    piece = page["slice"]
    assert (page["dims"], page["at"]) == ([1, 2], [0, 2, 1])
    assert piece["golden"] == golden[:12]
    assert piece["target"][5] == target[5]
    assert piece["target"][9] == "nan"
    # Any two dimensions, at any position of the other one.
    wanted = {"dims": [0, 1], "at": [0, 0, 3], "only_slice": True}
    page = rows.call("page.values", {**ROW, **wanted})
    assert page["density"] is None
    assert page["slice"]["golden"] == golden[3::4]
    assert page["slice"]["target"] == target[3::4]
    assert (page["slice"]["lines"], page["slice"]["columns"]) == (2, 3)
    page = rows.call("page.values", {**ROW, "dims": [2, 0], "at": [0, 1, 0]})
    assert page["slice"]["golden"] == [
        golden[i * 12 + 4 + k] for k in range(4) for i in range(2)
    ]


def test_places_that_do_not_exist_are_refused(rows: Web) -> None:
    for wanted in (
        {"dims": [0, 0]},
        {"dims": [0, 3]},
        {"dims": [0]},
        {"dims": [0, -1]},
        {"at": [0, 0, 4]},
        {"at": [0, 0]},
        {"at": [2, 0, 0]},
        {"at": [0, 0, 0, 0]},
        {"more": 1},
    ):
        rows.call("page.values", {**ROW, **wanted}, expect=400)
    rows.call("page.values", {**ROW, "row": 99}, expect=404)
    rows.call("page.logits", {**LOGITS_ROW, "at": [2, 0]}, expect=400)
    rows.call("page.logits", {**LOGITS_ROW, "at": [0]}, expect=400)


def test_logits_have_the_order_of_both_runs(rows: Web) -> None:
    page = rows.call("page.logits", LOGITS_ROW)
    assert page["at"] == [1, VOCABULARY - 1]
    top = page["top"]
    # 10 of each run, of which 10 are the same.
    assert len(top) == 10
    assert [item["id"] for item in top[:2]] == [17, 3]
    assert [item["golden"]["rank"] for item in top] == list(range(10))
    assert [item["target"]["rank"] for item in top[:2]] == [1, 0]
    exact = logits_of("g")[VOCABULARY:]
    share = math.exp(exact[17]) / sum(map(math.exp, exact))
    assert top[0]["golden"] == {
        "value": 9,
        "share": pytest.approx(share, rel=1e-5),
        "rank": 0,
    }
    first = rows.call("page.logits", {**LOGITS_ROW, "at": [0, 0]})
    assert first["top"][0]["id"] == VOCABULARY - 1


def test_one_side_and_no_side_have_notes(rows: Web, daemon: Daemon) -> None:
    page = rows.call("page.values", {**ROW, "row": 2})
    assert page["note"] == "only one run has the tensor"
    assert page["slice"]["golden"] is None
    assert page["slice"]["target"] == [2] * 6
    assert page["dims"] == [-1, 0]
    logits = rows.call("page.logits", {**ROW, "row": 2})
    assert logits["top"][0]["golden"] is None
    daemon.ctl("run", "delete", "t", "--yes")
    page = rows.call("page.values", ROW)
    assert page["slice"] is None
    assert "deleted" in page["note"]
    assert rows.call("page.logits", LOGITS_ROW)["top"] == []


def test_a_sample_is_shown_of_tensors_without_bytes(web: Web, daemon: Daemon) -> None:
    # Every fifth element is kept.
    count, wrong = 5000, 2500
    for run in ("g", "t"):
        daemon.ctl("capture", "set", "--run", run, "--level", "sample")
        data = np.ones((50, 100), np.float32)
        data.flat[wrong] = 3 if run == "t" else 1
        with msitd.Client(run, endpoint=daemon.endpoint) as client:
            assert client.record(data, op="op")
        daemon.ctl("run", "seal", run)
    daemon.ctl("compare", "run", "g", "t", expect=1)
    page = web.call("page.values", ROW)
    assert page["density"]["is_sample"] is True
    assert page["density"]["element_count"] == count // 5
    assert page["largest"]["at"] == [wrong // 100, 0]
    assert page["slice"] is None
    assert "TENSOR_EXPIRED" in page["slice_note"]


def test_a_large_tensor_is_read_only_in_part(web: Web, daemon: Daemon) -> None:
    # 96 MiB, of which one slice has 2 MiB.
    shape, wrong = (48, 512, 1024), (31, 100, 1000)
    for run in ("g", "t"):
        data = np.ones(shape, np.float32)
        data[wrong] = 7 if run == "t" else 1
        with msitd.Client(run, endpoint=str(daemon.socket_dir)) as client:
            assert client.record(data, op="op")
        daemon.ctl("run", "seal", run)
    daemon.ctl("compare", "run", "g", "t", expect=1)
    page = web.call("page.values", ROW)
    assert page["density"]["is_sample"] is True
    page = web.call("page.values", {**ROW, "at": list(wrong), "only_slice": True})
    piece = page["slice"]
    assert (piece["lines"], piece["columns"]) == (128, 128)
    assert (piece["line_step"], piece["column_step"]) == (4, 8)
    # The cell is the element that differs most among 32.
    assert piece["target"][25 * 128 + 125] == 7
    assert sum(value != 1 for value in piece["target"]) == 1
    page = web.call("page.values", {**ROW, "dims": [0, 2], "at": [0, 0, 0]})
    assert page["slice"] is None
    assert page["slice_note"] == (
        "the slice spans 94 MiB, more than the limit of 64 MiB"
    )
    # The page offers other dimensions.
    assert (page["dims"], page["at"]) == ([0, 2], [0, 0, 0])


PICTURES = "document.querySelectorAll('.picture canvas').length"
TIP = "document.querySelector('.pictures+.tip').textContent"


@with_browser
def test_the_row_page_shows_errors_and_pictures(browser: Browser, rows: Web) -> None:
    opened(browser, rows)
    go(browser, "#/c/c-000002/row/0")
    browser.wait(f"{PICTURES}===3")
    text = browser.run("document.querySelector('.values').textContent")
    assert "24 elements: 21 equal, 2 differ, 1 with NaN or infinities." in text
    assert "The largest difference: nan at [0, 2, 1]: golden 2, target nan." in text
    # The element with the largest difference is marked in each picture.
    marks = (
        "[...document.querySelectorAll('rect.mark')].map(e=>"
        "[+e.getAttribute('x'),+e.getAttribute('y')])"
    )
    assert browser.run(marks) == [[1, 2]] * 3
    largest = "[0, 2, 1], the largest difference: golden 2, target nan, difference nan"
    assert browser.run(TIP) == largest
    browser.run("document.querySelector('.pictures').focus()")
    browser.key("ArrowUp")
    assert browser.run(TIP) == "[0, 1, 1]: golden 5, target 5.25, difference 0.25"
    # The cursor stays in its line, and other keys are those of the browser.
    for _ in range(3):
        browser.key("ArrowRight")
    assert browser.run(TIP).startswith("[0, 1, 3]")
    browser.run(
        "document.querySelector('.pictures').dispatchEvent(new KeyboardEvent("
        "'keydown',{key:'ArrowLeft',ctrlKey:true}))"
    )
    assert browser.run(TIP).startswith("[0, 1, 3]")
    # Each picture has different colors, and NaN has its own.
    pixels = browser.run(
        "[...document.querySelectorAll('.picture canvas')].map(c=>[...new Uint32Array("
        "c.getContext('2d').getImageData(0,0,c.width,c.height).data.buffer)])"
    )
    assert pixels[1][9] == pixels[2][9] != pixels[0][9]
    assert pixels[2][0] == pixels[2][1] != pixels[2][5]
    # A field that was changed keeps the focus.
    browser.run(
        "(i=>{i.focus();i.value=1;i.dispatchEvent(new Event('change'))})("
        "document.querySelector('.values input[type=number]'))"
    )
    browser.wait(f"{TIP}.startsWith('[1,')")
    assert browser.run("document.activeElement.value") == "1"
    browser.run(
        "(s=>{s.value=0;s.dispatchEvent(new Event('change'))})("
        "document.querySelector('.values select'))"
    )
    browser.wait("document.querySelector('.picture canvas').height===2")
    browser.wait("location.hash.includes('dims=0%2C2')")
    browser.send("Page.reload")
    browser.wait("document.querySelector('.picture canvas')?.height===2")
    assert browser.errors == []


@with_browser
def test_an_address_that_does_not_fit_is_ignored(browser: Browser, rows: Web) -> None:
    opened(browser, rows)
    for query in ("dims=0,9&at=1,1,1,1", "dims=1,1&at=0,0,9", "dims=-1,0&at=x"):
        go(browser, f"#/c/c-000002/row/0?{query}")
        browser.wait(f"{PICTURES}===3")
        assert browser.run(TIP).startswith("[0, 2, 1], the largest"), query
    assert browser.errors == []


@with_browser
def test_a_sample_does_not_have_the_largest_difference(
    browser: Browser, rows: Web
) -> None:
    opened(browser, rows)
    browser.run(
        """window.worse = 0;
        const real = window.fetch;
        window.fetch = async (url, options) => {
          const response = await real(url, options);
          if (!url.endsWith('page.values')) return response;
          const page = await response.json();
          page.density.is_sample = true;
          page.largest.difference = -3;
          page.slice.difference = page.slice.difference.map(() => window.worse);
          return new Response(JSON.stringify(page));
        }"""
    )
    for worse, marks in ((3, 3), (4, 0), ("nan", 0)):
        browser.run(f"window.worse={worse!r}")
        go(browser, "#/c/c-000002/row/1")
        browser.wait("document.querySelector('h1')?.textContent.includes('lm_head')")
        go(browser, "#/c/c-000002/row/0")
        browser.wait(f"{PICTURES}===3&&document.querySelectorAll('.values .chart')[0]")
        browser.wait("document.querySelector('h1')?.textContent.includes('layers.0')")
        assert browser.run("document.querySelectorAll('rect.mark').length") == marks, (
            worse
        )
        text = browser.run("document.querySelector('.values').textContent")
        assert "The largest difference of the sample: -3 at" in text


def record_pairs(daemon: Daemon, pairs: dict[str, tuple[object, object]]) -> None:
    """Records each pair as an op of two runs, and compares them."""
    for i, run in enumerate(("g", "t")):
        with msitd.Client(run, endpoint=daemon.endpoint) as client:
            for op, pair in pairs.items():
                assert client.record(np.asarray(pair[i]), op=op)
        daemon.ctl("run", "seal", run)
    daemon.ctl("compare", "run", "g", "t", expect=1)


def test_neighbours_of_a_number_differ(web: Web, daemon: Daemon) -> None:
    one = np.float32(1)
    wide = np.int64(2) ** 53
    record_pairs(
        daemon,
        {
            "float": ([one], [np.nextafter(one, np.float32(2))]),
            "integer": (np.int64([1234567890]), np.int64([1234567891])),
            "wide": (np.int64([wide]), np.int64([wide + 1])),
            "unsigned": (np.uint64([2**64 - 1]), np.uint64([2**64 - 2])),
        },
    )
    found = {}
    for row in range(4):
        page = web.call("page.values", {**ROW, "row": row})
        assert page["slice"]["difference"] == [page["largest"]["difference"]]
        op = web.call("page.row", {"comparison": "c-000002", "rows": [row]})["row"]
        (found[op["op"]],) = page["slice"]["difference"]
        if op["op"] == "integer":
            assert page["slice"]["golden"] == [1234567890]
            assert page["slice"]["target"] == [1234567891]
        if op["op"] == "float":
            assert page["slice"]["golden"] != page["slice"]["target"]
    assert found == {
        "float": pytest.approx(2**-23, rel=1e-8),
        "integer": 1,
        "wide": 1,
        "unsigned": -1,
    }


@with_browser
def test_axes_without_a_magnitude_have_no_numbers(
    browser: Browser, web: Web, daemon: Daemon
) -> None:
    one = np.ones(4, np.float32)
    record_pairs(daemon, {"a": (one, one * 3), "b": (one * 0, one * 0)})
    opened(browser, web)
    texts = (
        "[...document.querySelectorAll('.values .chart text')].map(e=>e.textContent)"
    )
    for row, wanted in (
        (1, ["0", "equal", "magnitude of the golden value", "difference"]),
        (0, ["0", "1", "2", "equal", "2", "4"]),
    ):
        go(browser, f"#/c/c-000002/row/{row}")
        browser.wait(f"document.body.textContent.includes('row {row}')")
        browser.wait(f"{texts}.length")
        shown = browser.run(texts)
        assert shown[: len(wanted)] == wanted
        assert len(shown) == (4 if row else 8)


@with_browser
def test_logits_that_are_nan_have_no_rank(
    browser: Browser, web: Web, daemon: Daemon
) -> None:
    count = (1 << 20) + 1
    some = np.arange(30, dtype=np.float32)
    some[[2, 29]] = np.nan
    record_pairs(
        daemon,
        {
            "a.lm_head": (np.arange(30.0), np.full(30, np.nan)),
            "b.lm_head": (np.arange(30, dtype=np.float32), some),
            "c.lm_head": (np.zeros(count, np.float32), np.ones(count, np.float32)),
        },
    )
    page = web.call("page.logits", {**ROW, "row": 0})
    assert page["nan_counts"] == [0, 30]
    assert [item["id"] for item in page["top"]] == list(range(29, 19, -1))
    nothing = {"value": "nan", "share": None, "rank": None}
    assert all(item["target"] == nothing for item in page["top"])
    page = web.call("page.logits", {**ROW, "row": 1})
    assert page["nan_counts"] == [0, 2]
    assert page["top"][0]["golden"]["rank"] == 0
    assert page["top"][0]["target"] == nothing
    assert [item["target"]["rank"] for item in page["top"][1:]] == list(range(10))
    assert page["top"][1]["target"]["share"] == pytest.approx(1 - math.exp(-1), rel=0.1)
    page = web.call("page.logits", {**ROW, "row": 2})
    assert page["top"] == []
    assert page["note"] == (
        f"the last dimension has {count} elements, more than the limit of {count - 1}"
    )
    opened(browser, web)
    for row, text in (
        (0, "The target's logits are NaN."),
        (1, "golden 29, target 28. 2 of the target's logits are NaN."),
        (2, "Not shown: the last dimension has"),
    ):
        go(browser, f"#/c/c-000002/row/{row}")
        browser.wait(f"document.body.textContent.includes({text!r})")
    assert browser.errors == []


@with_browser
def test_the_row_page_shows_logits(browser: Browser, rows: Web) -> None:
    opened(browser, rows)
    go(browser, "#/c/c-000002/row/1")
    table = "document.querySelector('[aria-label=\"Largest logits\"]')"
    browser.wait(table)
    section = f"{table}.closest('section').textContent"
    assert "The runs prefer different tokens: golden 17, target 3." in browser.run(
        section
    )
    first = browser.run(
        f"[...{table}.querySelector('tbody tr').cells].map(c=>c.textContent)"
    )
    assert first[:3] == ["17", "1", "9"]
    assert first[4:6] == ["2", "8"]
    browser.run(
        "(i=>{i.value=0;i.dispatchEvent(new Event('change'))})("
        f"{table}.closest('section').querySelector('input'))"
    )
    browser.wait(f"{section}.includes('Both runs prefer token {VOCABULARY - 1}')")
    go(browser, "#/c/c-000002/row/0")
    browser.wait(f"{PICTURES}===3")
    assert browser.run(table) is None
    assert browser.errors == []
