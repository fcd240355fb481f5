"""The HTML report in a browser: the detail of a row.

Requires chromium or chromium-headless-shell in PATH; without one these tests
are skipped.
"""

from pathlib import Path

import pytest
from chunk_bytes import Chunk, Record, float32
from report_pages import CHROMIUM, DETAIL, page, run
from wire import write

from daemon import Daemon

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


def test_the_detail_of_a_row_draws_both_sides(tmp_path: Path, template: str) -> None:
    found = run(
        tmp_path,
        page(template, 1000),
        DETAIL
        + """
        found.hidden=detail().hidden;
        row(3).click();
        found.title=$('.detail h2').textContent;
        found.reason=$('.detail .reason').textContent;
        found.facts=texts('dd, .metrics td',detail()).map(t=>t.trim());
        found.both=chart();
        found.selected=[...document.querySelectorAll('.rows tr.current')]
          .map(r=>r.dataset.i);
        const box=$('.chart').getBoundingClientRect(),at=(48+402*2.5/4)/456;
        const move=(n,clientX)=>$('.chart').dispatchEvent(
          new PointerEvent(n,{clientX}));
        move('pointermove',box.left+box.width*at);
        found.over=$('.over').textContent;
        move('pointerleave',0);found.left=$('.over').textContent;
        $('.detail figure input').click();
        found.log=chart().paths.target;
        """,
    )
    assert found["hidden"] is True
    assert found["title"] == "row 3: layers.3 output/0"
    facts = found["facts"]
    assert isinstance(facts, list)
    assert found["reason"] == "nl2 = 1, needs <= 1e-4"
    assert "nl2, 2x of its bound" in facts and "0.999" in facts
    assert "nl2 = 1, needs <= 1e-4" in facts
    both = found["both"]
    assert isinstance(both, dict)
    assert both["hidden"] is False and both["note"] == ""
    assert both["texts"] == ["0", "100", "200", "300", "-2", "-1", "0", "1", "2"]
    # The largest bin reaches the top; both sides share the scale.
    assert both["paths"]["golden"].startswith("M48.0 180V180.0H148.5")
    assert "V10.0H349.5" in both["paths"]["golden"]
    assert "V38.3H349.5" in both["paths"]["target"]
    assert both["words"] == (
        "golden: 350 elements in 4 bins, most of them, 300, from 0 to 1. "
        "target: 335 elements in 4 bins, most of them, 250, from 0 to 1; "
        "12 NaN, 1 below, 2 above."
    )
    assert both["sides"][1:] == [
        ["golden", "350", "0", "0", "0"],
        ["target", "335", "12", "1", "2"],
    ]
    assert both["bins"][1] == ["-2", "-1", "0", "5"]
    assert len(both["bins"]) == 5
    assert found["selected"] == ["3"]
    assert found["over"] == "from 0 to 1: golden 300, target 250"
    assert found["left"] == ""
    assert found["log"] != both["paths"]["target"]


def test_the_detail_says_why_there_is_no_histogram(
    tmp_path: Path, template: str
) -> None:
    found = run(
        tmp_path,
        page(template, 1000),
        DETAIL
        + """
        row(13).click();found.one=chart();
        row(23).click();found.none=chart();
        row(4).click();found.other=chart();
        DATA.histograms.limit=0;
        row(5).click();found.off=chart().note;
        $('.detail button').click();found.closed=detail().hidden;
        """,
    )
    one, none, other = found["one"], found["none"], found["other"]
    assert isinstance(one, dict) and isinstance(none, dict)
    assert isinstance(other, dict)
    assert list(one["paths"]) == ["target"] and one["texts"][-1] == "7"
    assert one["note"] == "Not drawn: golden: it is gone"
    assert none["hidden"] and none["note"] == "No histogram: it was put together"
    assert other["hidden"] and "has those of 200 rows" in other["note"]
    assert found["off"] == "No histogram: this report was made without."
    assert found["closed"] is True


def test_keys_open_details_and_go_on(tmp_path: Path, template: str) -> None:
    found = run(
        tmp_path,
        page(template, 1000),
        DETAIL
        + """
        row(0).focus();key(0,'ArrowDown');
        found.closed=detail().hidden;
        found.held=document.activeElement.dataset.i;
        key(1,'Enter');found.first=title();
        key(1,'ArrowDown');found.second=title();
        for(let i=2;i<200;i++)key(i,'ArrowDown');
        found.last=title();found.shown=row(200)!==null;
        found.stops=[...document.querySelectorAll('.rows tr[tabindex="0"]')].length;
        """,
    )
    assert found["closed"] is True and found["held"] == "1"
    assert (found["first"], found["second"]) == ("row 1", "row 2")
    assert found["last"] == "row 200" and found["shown"] is True
    assert found["stops"] == 1


def test_a_report_of_the_daemon_draws_what_it_holds(
    daemon: Daemon, tmp_path: Path
) -> None:
    sides = {"g": [0.0, 1.0, 2.0, 4.0], "t": [0.0, 1.0, 8.0, float("nan")]}
    for run_name, values in sides.items():
        chunk = Chunk(run_name, [Record("op", float32(*values), [4])])
        write(daemon.channel(), run_name, [chunk.pack()])
    daemon.ctl("compare", "run", "g", "t", expect=1)
    out = tmp_path / "report.html"
    daemon.ctl("compare", "report", "c-000001", "--out", str(out))
    found = run(tmp_path, out.read_text(), DETAIL + "row(0).click();found.row=chart();")
    row = found["row"]
    assert isinstance(row, dict)
    assert set(row["paths"]) == {"golden", "target"}
    assert row["texts"] == ["0", "1", "0", "2", "4", "6", "8"]
    assert row["sides"][1:] == [
        ["golden", "4", "0", "0", "0"],
        ["target", "3", "1", "0", "0"],
    ]
