"""The HTML report in a browser: the contents of the page, and the effects of clicks.

Requires chromium or chromium-headless-shell in PATH; without one these tests
are skipped.
"""

import html
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from chunk_bytes import Chunk, Record, float32
from wire import write

from daemon import ROOT, Daemon

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-headless-shell")
OPENS_WITHIN_S = 2.0
PHONE_WIDTH = 400

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


# Counts of the bins, below, above, NaN.
GOLDEN = [[0, 10, 300, 40], 0, 0, 0]
TARGET = [[5, 20, 250, 60], 1, 2, 12]
HISTOGRAMS = {
    "3": {
        "low": -2,
        "high": 2,
        "bins": 4,
        "note": "",
        "golden": GOLDEN,
        "target": TARGET,
    },
    "13": {
        "low": 7,
        "high": 7,
        "bins": 4,
        "note": "golden: it is gone",
        "golden": None,
        "target": [[9, 0, 0, 0], 0, 0, 0],
    },
    "23": {
        "low": 0,
        "high": 0,
        "bins": 0,
        "note": "it was put together",
        "golden": None,
        "target": None,
    },
}


PASS, FAIL, SKIPPED = 0, 1, 3


def made_up_row(i: int) -> list[object]:
    """Every tenth row fails, every hundredth is skipped; row 7 has a NaN."""
    verdict = FAIL if i % 10 == 3 else SKIPPED if i % 100 == 50 else PASS
    # A small value, so that only the verdict can make it red.
    share = {PASS: 1e-3 * (i % 97), FAIL: 2.0, SKIPPED: None}[verdict]
    reason = {PASS: 0, FAIL: 5, SKIPPED: 6}[verdict]
    return [
        *(i, 0, i // 100, 7 + i % 100, 0, 1, 2, 3, 4, verdict, 0),
        *(reason, 0, int(i == 7)),
        *(None if share is None else 2, share),
        *(0.999, "inf" if i == 7 else i * 1e-6, 1e-7 * (i % 97), None),
        5 if i == 3 else 0,
        reason,
        *((107, 108) if i == 13 else (0, 0)),
    ]


def page(rows: int) -> str:
    """Returns the page with made-up rows."""
    texts = ["", "output", "0", "float32", "[8]", "nl2 = 1, needs <= 1e-4"]
    texts += ["no bytes of 50"]
    texts += [f"layers.{i}" for i in range(100)]
    texts += ["0-1,8", "group 0 (ranks 0-1,8); largest difference in rank 8"]
    data = {
        "metrics": ["cosine", "max_abs", "nl2", "unused"],
        "higher": [True, False, False, False],
        "units": ["", "value", "", ""],
        "custom": [],
        "bounds": [["nl2", 1e-4]],
        "comparison": {
            "name": "c-000001",
            "passes": False,
            "partial": False,
            "facts": [["first divergence", "<b>g</b>", 13], ["rows", "t", -1]],
            "setup": [["policy", "preset torch", -1]],
        },
        "rows": [made_up_row(i) for i in range(rows)],
        "texts": texts,
        "histograms": {"limit": 200, "rows": HISTOGRAMS},
    }
    folder = ROOT / "client/ask/report/page"
    text = (folder / "report_page.html").read_text()
    text = text.replace("%THEME%", (folder / "theme.css").read_text())
    text = text.replace("%TITLE%", "t differs from g.")
    return text.replace("%DATA%", json.dumps(data).replace("<", "\\u003c"))


def run(
    tmp_path: Path, text: str, script: str, scheme: str = "light", width: int = 1280
) -> dict[str, object]:
    """Opens a page; `script` stores its results in `found`."""
    file = tmp_path / "page.html"
    script = (
        "const found={inner:innerWidth};onerror=m=>{found.error=m;};"
        "try{" + script + "}catch(e){found.error=String(e);}"
        "document.title='FOUND'+JSON.stringify(found)+'END';"
    )
    file.write_text(text.replace("</body>", f"<script>{script}</script></body>"))
    result = subprocess.run(
        [
            *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu"),
            f"--window-size={width},900",
            f"--blink-settings=preferredColorScheme={int(scheme == 'light')}",
            *(f"--user-data-dir={tmp_path}/profile", "--dump-dom", file.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = result.stdout.split("FOUND", 1)[1].split("END", 1)[0]
    out = json.loads(html.unescape(found))
    assert "error" not in out, out
    return out


def test_the_page_shows_and_filters_and_sorts(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        page(1000),
        """
        const cells=n=>[...document.querySelectorAll('#body tr')].map(tr=>
          tr.children[n]?.textContent).filter(t=>t!==undefined);
        const column=n=>[...document.querySelectorAll('#head th')]
          .findIndex(th=>th.dataset.column===n);
        const click=n=>document.querySelectorAll('#head th')[column(n)].click();
        const type=t=>{$('find').value=t;$('find').oninput();};
        found.verdict=$('verdict').textContent;
        found.title=[document.title,document.querySelector('h1').textContent];
        found.facts=[...document.querySelectorAll('#facts dd')].map(d=>d.textContent);
        found.columns=[...document.querySelectorAll('#head th')]
          .map(th=>th.dataset.column);
        found.all=$('count').textContent;
        found.shown=document.querySelectorAll('#body tr').length;
        click('max_abs');click('max_abs');
        found.worst=cells(column('max_abs')).slice(0,2);
        document.querySelector('.verdicts').click();
        found.fails=$('count').textContent;
        $('reset').click();
        type('layers.7 token:3');found.one=$('count').textContent;
        type('needs');found.reason=$('count').textContent;
        $('reset').click();
        click('row');
        const box=$('heat').getBoundingClientRect(),b=heat.box;
        $('heat').onclick({clientX:box.left+b.left+2,clientY:box.top+b.top+2});
        found.picked=$('count').textContent;
        $('reset').click();
        $('metric').value='1';$('metric').onchange();
        const c=$('heat'),
          pixels=c.getContext('2d').getImageData(0,0,c.width,c.height);
        found.colors=new Set(new Uint32Array(pixels.data.buffer)).size;
        found.points=points.length;
        """,
    )
    assert found["verdict"] == "FAIL"
    assert found["title"] == ["t differs from g."] * 2
    assert found["facts"] == ["<b>g</b>", "t", "10 skipped: no bytes of 50"]
    columns = found["columns"]
    assert isinstance(columns, list)
    assert "nl2" in columns and "unused" not in columns
    # In view without scrolling.
    assert columns.index("reason") < columns.index("nl2")
    assert found["all"] == "1000 of 1000 rows"
    assert isinstance(found["shown"], int) and found["shown"] < 100
    assert found["worst"] == ["inf", "0.000999"]
    # Failing and skipped rows.
    assert found["fails"] == "110 of 1000 rows"
    # layers.7 and layers.70 to layers.79.
    assert found["one"] == "11 of 1000 rows"
    assert found["reason"] == "100 of 1000 rows"
    assert found["picked"] == "1 of 1000 rows"
    assert isinstance(found["colors"], int) and found["colors"] > 20
    # All compared rows.
    assert found["points"] == 990


def test_what_fails_comes_first(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        page(1000),
        """
        found.first=view.slice(0,3).map(r=>r[0]);
        found.verdicts=view.map(r=>r[VERDICT]).filter((v,i,a)=>v!==a[i-1]);
        // A container of the op that made the error.
        T.push('inside');R[3][ORIGIN]=T.length-1;filter();
        found.inside=[view[0][0],view[99][0]];
        const word=document.querySelector('#body tr .word');
        found.word=word.textContent;
        found.red=getComputedStyle(word).color===
          getComputedStyle(document.querySelector('.bad')).color;
        document.querySelector('[data-column="row"]').click();
        found.sorted=view[0][0];
        $('reset').click();found.again=view[0][0];
        """,
    )
    assert found["first"] == [3, 13, 23]
    # Failing, skipped, passing rows.
    assert found["verdicts"] == [FAIL, SKIPPED, PASS]
    assert found["inside"] == [13, 3]
    assert found["word"] == "fail" and found["red"] is True
    assert found["sorted"] == 0 and found["again"] == 13


def test_shards_name_their_ranks(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        page(1000),
        """
        const type=t=>{$('find').value=t;$('find').oninput();
          return view.map(r=>r[0]);};
        found.with=type('rank:8');found.without=type('rank:2');
        jump(13);
        found.facts=[...document.querySelectorAll('#dfacts dd')]
          .map(d=>d.textContent);
        found.words=words(R[13],-1);found.other=words(R[14],-1);
        found.cells=[cell(R[13],RANK),cell(R[14],RANK)];
        """,
    )
    group = "group 0 (ranks 0-1,8); largest difference in rank 8"
    assert found["with"] == [13] and found["without"] == []
    assert isinstance(found["facts"], list) and group in found["facts"]
    assert f"token 0, {group}: fail" in str(found["words"])
    assert "token 0, rank 0: pass" in str(found["other"])
    assert found["cells"] == ["0-1,8", "0"]


def test_the_axes_have_round_numbers_and_ops_end_after_their_parts(
    tmp_path: Path,
) -> None:
    found = run(
        tmp_path,
        page(1000),
        """
        found.rounds=[rounds(0.123,0.937,4),rounds(-7,1004,4),rounds(2,2,4),
          rounds(1e17,1e17+64,4).length,rounds(-1.7e308,1.7e308,4).length];
        found.nice=[1,2,3,34,56,1000].map(nice);
        found.top=T[OPS[0]];
        // Those of layer 50 are skipped.
        found.depths=[...new Set(points.map(p=>p[0]))].length;
        const box=$('depth').getBoundingClientRect(),p=points[0];
        $('depth').onmousemove({clientX:box.left+1+p[0],clientY:box.top+1+p[1]});
        const tip=$('tip').getBoundingClientRect();
        found.near=Math.abs(tip.left-box.left-p[0])<440
          &&Math.abs(tip.top-box.top-p[1])<150;
        found.tip=$('tip').textContent;
        $('depth').onmouseleave();found.left=$('tip').textContent;
        """,
    )
    rounds = found["rounds"]
    assert isinstance(rounds, list)
    assert rounds[:3] == [[0.2, 0.4, 0.6, 0.8], [*range(0, 1001, 200)], [2]]
    assert all(0 < n <= 21 for n in rounds[3:])
    assert found["nice"] == [1, 2, 5, 50, 100, 1000]
    assert found["top"] == "layers.0" and found["depths"] == 99
    assert found["near"] is True and str(found["tip"]).startswith("row ")
    assert found["left"] == ""


def test_numbers_do_not_break(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        page(10),
        """
        const p=document.createElement('p');document.body.append(p);
        const text='nl2 = -1.5e-05, at [1,0,311]: layers.0.self  2026-11-22T14:00:00Z';
        put(p,text);found.same=p.textContent===text;
        found.whole=[...p.querySelectorAll('.nb')].map(s=>s.textContent);
        p.style.width='1px';
        found.lines=[...p.querySelectorAll('.nb')].map(s=>s.getClientRects().length);
        """,
    )
    assert found["same"] is True
    assert found["whole"] == ["-1.5e-05,", "[1,0,311]:", "2026-11-22T14:00:00Z"]
    assert found["lines"] == [1, 1, 1]


def test_what_fails_is_red_whatever_its_value(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        page(1000),
        """
        const level_of=(i,m)=>level(R[i],m,scale(m));
        // By the bound, by cosine, by max_abs, by nl2.
        for(const m of [-1,0,1,2])found[m]=[3,13,93].map(i=>level_of(i,m)>1);
        found.pass=[-1,0,1,2].map(m=>level_of(96,m)<=1);
        found.skipped=Number.isNaN(level_of(50,-1));
        found.odd=[odd(R[7],-1),odd(R[7],1),odd(R[8],1)];
        const hue=c=>+/hsl\\((\\d+)/.exec(c)[1];
        found.red=hue(color(level_of(3,2),2,''));
        found.green=hue(color(level_of(97,-1),-1,''));
        found.near=hue(color(level_of(96,-1),-1,''));
        $('metric').value='-1';$('metric').onchange();
        found.legend=$('hlegend').textContent+$('dlegend').textContent;
        found.title=$('dheading').textContent;
        """,
    )
    for metric in ("-1", "0", "1", "2"):
        assert found[metric] == [True, True, True], metric
    assert found["pass"] == [True] * 4 and found["skipped"] is True
    assert found["odd"] == [True, True, False]
    assert found["red"] == 354
    green, near = found["green"], found["near"]
    assert isinstance(green, int) and isinstance(near, int) and near < green
    for word in ("fails, whatever the value", "not compared", "NaN or Inf", "bound"):
        assert word in str(found["legend"])
    assert found["title"] == "error, in multiples of its bound, against depth"


def test_the_first_divergence_leads_to_its_row(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        page(1000),
        """
        const press=(key,to)=>(to||document.body).dispatchEvent(
          new KeyboardEvent('keydown',{key,bubbles:true}));
        const title=()=>$('dtitle').textContent.split(':')[0];
        $('find').value='layers.1';$('find').oninput();
        // Off the screen, and sorted.
        document.querySelector('[data-column="max_abs"]').click();
        const go=document.querySelector('#facts .go');
        go.focus();found.tag=go.tagName;go.click();
        found.title=title();found.reason=$('dreason').textContent;
        found.held=view[+document.activeElement.dataset.i][0];
        const row=document.activeElement.getBoundingClientRect(),
          box=$('scroll').getBoundingClientRect();
        found.inside=row.top>=box.top&&row.bottom<=box.bottom;
        $('reset').click();document.querySelector('[data-column="row"]').click();
        press('n');found.next=title();press('p');press('p');found.before=title();
        press('Escape');found.closed=$('detail').hidden;
        document.querySelector('.why').click();found.why=$('count').textContent;
        press('ArrowDown',$('heat'));press('ArrowDown',$('heat'));
        found.tip=$('tip').textContent;
        press('Enter',$('heat'));found.place=$('count').textContent;
        """,
    )
    assert found["tag"] == "BUTTON" and found["title"] == "row 13"
    assert found["reason"] == "nl2 = 1, needs <= 1e-4"
    assert found["held"] == 13 and found["inside"] is True
    assert (found["next"], found["before"]) == ("row 23", "row 3")
    assert found["closed"] is True and found["why"] == "10 of 1000 rows"
    assert str(found["tip"]).startswith("row 1: layers.1, token 0, rank 0: pass")
    assert found["place"] == "1 of 1000 rows"


def test_a_telephone_shows_all_of_it(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        page(1000),
        """
        const right=s=>document.querySelector(s).getBoundingClientRect().right;
        found.wide=document.documentElement.scrollWidth;
        found.heat=right('#heat');found.depth=right('#depth');
        const tr=document.querySelector('#body tr.v1'),
          small=tr.querySelector('small');
        found.reason=small.textContent;
        found.seen=small.getBoundingClientRect().left+40<innerWidth;
        found.height=tr.getBoundingClientRect().height;
        tr.click();found.detail=right('#detail');
        """,
        width=PHONE_WIDTH,
    )
    assert found["inner"] == PHONE_WIDTH
    for name in ("wide", "heat", "depth", "detail"):
        assert float(str(found[name])) <= PHONE_WIDTH, name
    assert found["reason"] == "nl2 = 1, needs <= 1e-4" and found["seen"] is True
    # The height with which the table computes.
    assert found["height"] == 45


DETAIL = """
  const chart=()=>({
    hidden:$('histogram').hidden,
    paths:Object.fromEntries([...document.querySelectorAll('#plot path')]
      .map(p=>[p.getAttribute('class'),p.getAttribute('d')])),
    texts:[...document.querySelectorAll('#plot text')].map(t=>t.textContent),
    words:$('cdesc').textContent,note:$('dnote').textContent,
    sides:[...$('sides').rows].map(r=>[...r.cells].map(c=>c.textContent)),
    bins:[...$('bins').rows].map(r=>[...r.cells].map(c=>c.textContent)),
  });
  document.querySelector('[data-column="row"]').click();
  const row=n=>document.querySelector(`#body [data-i="${n}"]`);
  const key=(n,key)=>row(n).dispatchEvent(
    new KeyboardEvent('keydown',{key,bubbles:true}));
"""


def test_the_detail_of_a_row_draws_both_sides(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        page(1000),
        DETAIL
        + """
        found.hidden=$('detail').hidden;
        row(3).click();
        found.title=$('dtitle').textContent;
        found.reason=$('dreason').textContent;
        found.facts=[...document.querySelectorAll('#dfacts dd')]
          .map(d=>d.textContent);
        found.both=chart();
        found.selected=[...document.querySelectorAll('#body tr.on')]
          .map(r=>r.dataset.i);
        const box=$('chart').getBoundingClientRect(),at=(48+402*2.5/4)/456;
        $('chart').onmousemove({clientX:box.left+box.width*at});
        found.over=$('over').textContent;
        $('chart').onmouseleave();found.left=$('over').textContent;
        $('log').click();
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


def test_the_detail_says_why_there_is_no_histogram(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        page(1000),
        DETAIL
        + """
        row(13).click();found.one=chart();
        row(23).click();found.none=chart();
        row(4).click();found.other=chart();
        D.histograms.limit=0;
        row(5).click();found.off=chart().note;
        $('close').click();found.closed=$('detail').hidden;
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


def test_keys_open_details_and_go_on(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        page(1000),
        DETAIL
        + """
        const title=()=>$('dtitle').textContent.split(':')[0];
        row(0).focus();key(0,'ArrowDown');
        found.closed=$('detail').hidden;
        found.held=document.activeElement.dataset.i;
        key(1,'Enter');found.first=title();
        key(1,'ArrowDown');found.second=title();
        for(let i=2;i<200;i++)key(i,'ArrowDown');
        found.last=title();found.shown=row(200)!==null;
        found.stops=[...document.querySelectorAll('#body tr[tabindex="0"]')].length;
        """,
    )
    assert found["closed"] is True and found["held"] == "1"
    assert (found["first"], found["second"]) == ("row 1", "row 2")
    assert found["last"] == "row 200" and found["shown"] is True
    assert found["stops"] == 1


def test_both_colour_schemes_can_be_read(tmp_path: Path) -> None:
    script = """
        row(3).click();
        const rgb=c=>c.match(/[\\d.]+/g).slice(0,3).map(Number);
        const light=c=>{const[r,g,b]=rgb(c).map(v=>{v/=255;
          return v<=0.04045?v/12.92:((v+0.055)/1.055)**2.4;});
          return 0.2126*r+0.7152*g+0.0722*b;};
        const style=(s,p)=>light(getComputedStyle(document.querySelector(s))[p]);
        const ratio=(a,b)=>(Math.max(a,b)+0.05)/(Math.min(a,b)+0.05);
        const page=style('body','backgroundColor');
        found.page=page;
        found.text=ratio(style('body','color'),page);
        found.dim=ratio(style('dt','color'),page);
        found.golden=ratio(style('path.golden','stroke'),page);
        found.target=ratio(style('path.target','stroke'),page);
        const tint=style('tr.v1 td','backgroundColor');
        found.fail=ratio(style('body','color'),tint);
        found.word=ratio(style('tr.v1 td.word','color'),tint);
        found.bad=ratio(style('.bad','color'),page);
    """
    for scheme in ("light", "dark"):
        found = run(tmp_path, page(100), DETAIL + script, scheme)
        ratios = {k: float(str(v)) for k, v in found.items() if k != "inner"}
        assert (ratios.pop("page") > 0.5) == (scheme == "light")
        # The requirements of WCAG 2 for text and for graphics.
        for name in ("text", "dim", "fail", "word", "bad"):
            assert ratios[name] >= 4.5, (scheme, ratios)
        for name in ("golden", "target"):
            assert ratios[name] >= 3, (scheme, ratios)


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


def test_the_page_opens_fast_with_many_rows(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        page(50_000),
        """
        found.ms=performance.now();
        const before=performance.now();
        $('find').value='layers.9';$('find').oninput();
        found.filter_ms=performance.now()-before;
        found.count=$('count').textContent;
        """,
    )
    assert found["count"] == "5500 of 50000 rows"
    assert float(str(found["ms"])) < OPENS_WITHIN_S * 1000, found
    assert float(str(found["filter_ms"])) < 500, found
