"""The HTML report in a browser: the contents of the page, and the effects of clicks.

Requires chromium or chromium-headless-shell in PATH; without one these tests
are skipped.
"""

import re
from collections import Counter
from pathlib import Path

import pytest
from report_pages import CHROMIUM, DETAIL, page, run

OPENS_WITHIN_S = 2.0
FILTERS_WITHIN_S = 0.5
ATTEMPTS = 3
PHONE_WIDTH = 400

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


def test_the_page_shows_and_filters_and_sorts(tmp_path: Path, template: str) -> None:
    found = run(
        tmp_path,
        page(template, 1000),
        """
        const cells=n=>[...document.querySelectorAll('.rows tbody tr')].map(tr=>
          tr.children[n]?.textContent).filter(t=>t!==undefined);
        const heads=[...document.querySelectorAll('.rows th')];
        const column=n=>heads.findIndex(th=>th.dataset.column===n);
        const click=n=>heading(n).click();
        found.verdict=$('.verdict').textContent;
        found.title=[document.title,$('h1').textContent];
        found.facts=[...$('.facts').querySelectorAll('dd')].map(d=>d.textContent);
        found.columns=heads.map(th=>th.dataset.column);
        found.all=count();
        found.shown=document.querySelectorAll('.rows tbody tr').length;
        click('max_abs');click('max_abs');
        found.worst=cells(column('max_abs')).slice(0,2);
        found.sort=heading('max_abs').getAttribute('aria-sort');
        $('[value=pass]').click();
        found.fails=count();
        reset();
        type('layers.7 token:3');found.one=count();
        type('needs');found.reason=count();
        reset();
        click('row');
        const at=REPORT.map.middleOf(0,0);
        for(const n of ['pointerdown','pointerup'])
          $('canvas.heat').dispatchEvent(new PointerEvent(n,at));
        found.picked=count();found.label=$('.picked').textContent;
        reset();
        choose('1');REPORT.map.drawNow();
        const c=$('canvas.heat'),
          pixels=c.getContext('2d').getImageData(0,0,c.width,c.height);
        found.colors=new Set(new Uint32Array(pixels.data.buffer)).size;
        found.points=REPORT.depth.points.length;
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
    assert found["sort"] == "descending"
    assert found["picked"] == "1 of 1000 rows"
    assert found["label"] == "only layers.0, token 0"
    assert isinstance(found["colors"], int) and found["colors"] > 20
    # All compared rows.
    assert found["points"] == 990


def test_ops_are_found_by_patterns(tmp_path: Path, template: str) -> None:
    found = run(
        tmp_path,
        page(template, 1000),
        """
        for(const text of ['=layers.7','LAYERS.7?','*.7','=Layers.7 token:3','a*z'])
          {type(text);found[text]=count();}
        """,
    )
    # layers.7, and layers.70 to layers.79, at ten tokens.
    assert found["=layers.7"] == found["*.7"] == "10 of 1000 rows"
    assert found["LAYERS.7?"] == "100 of 1000 rows"
    assert found["=Layers.7 token:3"] == "1 of 1000 rows"
    assert found["a*z"] == "0 of 1000 rows"


def test_what_fails_comes_first(tmp_path: Path, template: str) -> None:
    found = run(
        tmp_path,
        page(template, 1000, inside=3),
        """
        const view=()=>REPORT.table.rows;
        found.first=view().slice(0,3).map(r=>r.row);
        found.verdicts=view().map(r=>r.verdict).filter((v,i,a)=>v!==a[i-1]);
        found.inside=[view()[0].row,view()[99].row];
        const word=$('.rows tbody tr .word');
        found.word=word.textContent;
        found.red=getComputedStyle(word).color===
          getComputedStyle($('.bad')).color;
        heading('row').click();
        found.sorted=view()[0].row;
        reset();found.again=view()[0].row;
        """,
    )
    assert found["first"] == [13, 23, 33]
    assert found["verdicts"] == ["fail", "skipped", "pass"]
    # Row 3 is a container of the op that made the error.
    assert found["inside"] == [13, 3]
    assert found["word"] == "fail" and found["red"] is True
    assert found["sorted"] == 0 and found["again"] == 13


def test_shards_name_their_ranks(tmp_path: Path, template: str) -> None:
    found = run(
        tmp_path,
        page(template, 1000),
        """
        const select=t=>{type(t);return REPORT.table.rows.map(r=>r.row);};
        found.with=select('rank:8');found.without=select('rank:2');
        REPORT.jump(ROWS[13]);
        found.facts=[...detail().querySelectorAll('dd')].map(d=>d.textContent);
        const words=i=>rowText(ROWS[i],new Measure(-1));
        found.words=words(13);found.other=words(14);
        const at=[...document.querySelectorAll('.rows th')].indexOf(heading('rank'));
        const cell=i=>$(`tr[data-row="${i}"]`).cells[at].textContent;
        found.cells=[cell(13)];
        heading('row').click();found.cells.push(cell(14));
        """,
    )
    group = "group 0 (ranks 0-1,8); largest difference in rank 8"
    assert found["with"] == [13] and found["without"] == []
    assert isinstance(found["facts"], list) and group in found["facts"]
    assert f"token 0, {group}: fail" in str(found["words"])
    assert "token 0, rank 0: pass" in str(found["other"])
    assert found["cells"] == ["0-1,8", "0"]


def test_the_axes_have_round_numbers_and_ops_end_after_their_parts(
    tmp_path: Path, template: str
) -> None:
    found = run(
        tmp_path,
        page(template, 1000),
        """
        found.rounds=[ticksOf(0.123,0.937,5.5),ticksOf(-7,1004,5.5),ticksOf(2,2,5.5),
          ticksOf(1e17,1e17+64,5.5).length,ticksOf(-1.7e308,1.7e308,5.5).length];
        found.nice=[1,2,3,34,56,1000].map(nice);
        found.top=OPS[0];
        const {points,canvas}=REPORT.depth;
        // Those of layer 50 are skipped.
        found.depths=[...new Set(points.map(p=>p[0]))].length;
        const box=canvas.getBoundingClientRect(),p=points[0];
        const move=(n,x,y)=>canvas.dispatchEvent(new PointerEvent(n,
          {clientX:box.left+1+x,clientY:box.top+1+y}));
        move('pointermove',p[0],p[1]);
        const tip=REPORT.depth.tip.element,at=tip.getBoundingClientRect();
        found.near=Math.abs(at.left-box.left-p[0])<440
          &&Math.abs(at.top-box.top-p[1])<150;
        found.tip=tip.textContent;
        move('pointerleave',0,0);found.left=tip.textContent;
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


def test_numbers_do_not_break(tmp_path: Path, template: str) -> None:
    found = run(
        tmp_path,
        page(template, 10),
        """
        const p=document.createElement('p');document.body.append(p);
        const text='nl2 = -1.5e-05, at [1,0,311]: layers.0.self  2026-11-22T14:00:00Z';
        putText(p,text);found.same=p.textContent===text;
        found.whole=[...p.querySelectorAll('.nowrap')].map(s=>s.textContent);
        p.style.width='1px';
        found.lines=[...p.querySelectorAll('.nowrap')].map(s=>s.getClientRects().length);
        """,
    )
    assert found["same"] is True
    assert found["whole"] == ["-1.5e-05,", "[1,0,311]:", "2026-11-22T14:00:00Z"]
    assert found["lines"] == [1, 1, 1]


def test_what_fails_is_red_whatever_its_value(tmp_path: Path, template: str) -> None:
    found = run(
        tmp_path,
        page(template, 1000),
        """
        const level=(i,m)=>new Measure(m).level(ROWS[i]);
        // By the bound, by cosine, by max_abs, by nl2.
        for(const m of [-1,0,1,2])found[m]=[3,13,93].map(i=>level(i,m)>=FAIL_FIRST);
        found.pass=[-1,0,1,2].map(m=>
          level(96,m)>=PASS_FIRST&&level(96,m)<UNMATCHED);
        found.skipped=level(50,-1)===SKIPPED;
        const odd=(i,m)=>new Measure(m).isOdd(ROWS[i]);
        found.odd=[odd(7,-1),odd(7,1),odd(8,1)];
        // The smallest error of all, which fails.
        found.red=[colorOf(level(3,0)),colorOf(level(3,2))];
        found.far=colorOf(level(97,-1));
        found.near=colorOf(level(96,-1));
        choose('-1');
        found.legend=REPORT.map.legend.textContent+REPORT.depth.legend.textContent;
        found.title=REPORT.depth.title.textContent;
        """,
    )
    for metric in ("-1", "0", "1", "2"):
        assert found[metric] == [True, True, True], metric
    assert found["pass"] == [True] * 4 and found["skipped"] is True
    assert found["odd"] == [True, True, False]
    reds, far, near = found["red"], found["far"], found["near"]
    assert isinstance(reds, list) and isinstance(far, list) and isinstance(near, list)
    # Red to orange; blue, the darker the nearer to the bound.
    assert all(red > blue + 80 for red, _, blue in reds)
    assert all(blue > red for red, _, blue in (far, near))
    assert sum(near) < sum(far)
    for word in (
        *("fails: at its bound", "unmatched", "skipped", "NaN or Inf"),
        *("bound", "first divergence"),
    ):
        assert word in str(found["legend"])
    assert found["title"] == "error, in multiples of its bound, against depth"


def test_the_first_divergence_leads_to_its_row(tmp_path: Path, template: str) -> None:
    found = run(
        tmp_path,
        page(template, 1000),
        """
        type('layers.1');
        // Off the screen, and sorted.
        heading('max_abs').click();
        const go=$('.facts .go');
        go.focus();found.tag=go.tagName;go.click();
        found.title=title();found.reason=$('.detail .reason').textContent;
        found.held=+document.activeElement.dataset.row;
        const row=document.activeElement.getBoundingClientRect(),
          box=$('.rows').getBoundingClientRect();
        found.inside=row.top>=box.top&&row.bottom<=box.bottom;
        reset();heading('row').click();
        press('n');found.next=title();press('p');press('p');found.before=title();
        press('j');found.after=title();press('k');press('k');found.earlier=title();
        press('Escape');found.closed=detail().hidden;
        $('.why').click();found.why=count();
        const heat=$('canvas.heat');
        press('ArrowDown',heat);press('ArrowDown',heat);
        found.tip=REPORT.map.tip.element.textContent;
        press('Enter',heat);found.place=count();
        """,
    )
    assert found["tag"] == "BUTTON" and found["title"] == "row 13"
    assert found["reason"] == "nl2 = 1, needs <= 1e-4"
    assert found["held"] == 13 and found["inside"] is True
    assert (found["next"], found["before"]) == ("row 23", "row 3")
    assert (found["after"], found["earlier"]) == ("row 4", "row 2")
    assert found["closed"] is True and found["why"] == "10 of 1000 rows"
    assert str(found["tip"]).startswith("row 1: layers.1, token 0, rank 0: pass")
    assert found["place"] == "1 of 1000 rows"


def test_a_telephone_shows_all_of_it(tmp_path: Path, template: str) -> None:
    found = run(
        tmp_path,
        page(template, 1000),
        """
        const right=s=>document.querySelector(s).getBoundingClientRect().right;
        found.wide=document.documentElement.scrollWidth;
        found.heat=right('canvas.heat');found.depth=right('canvas.depth');
        const tr=$('.rows tr.fail'),
          small=tr.querySelector('small');
        found.reason=small.textContent;
        found.seen=small.getBoundingClientRect().left+40<innerWidth;
        found.height=tr.getBoundingClientRect().height;
        found.computed=REPORT.table.height();
        tr.click();found.detail=right('.detail');
        """,
        width=PHONE_WIDTH,
    )
    assert found["inner"] == PHONE_WIDTH
    for name in ("wide", "heat", "depth", "detail"):
        assert float(str(found[name])) <= PHONE_WIDTH, name
    assert found["reason"] == "nl2 = 1, needs <= 1e-4" and found["seen"] is True
    # The height with which the table computes.
    assert found["height"] == found["computed"]


def test_both_colour_schemes_can_be_read(tmp_path: Path, template: str) -> None:
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
        const tint=style('tr.fail td','backgroundColor');
        found.fail=ratio(style('body','color'),tint);
        found.word=ratio(style('tr.fail td.word','color'),tint);
        found.bad=ratio(style('.bad','color'),page);
    """
    for scheme in ("light", "dark"):
        found = run(tmp_path, page(template, 100), DETAIL + script, scheme)
        ratios = {k: float(str(v)) for k, v in found.items() if k != "inner"}
        assert (ratios.pop("page") > 0.5) == (scheme == "light")
        # The requirements of WCAG 2 for text and for graphics.
        for name in ("text", "dim", "fail", "word", "bad"):
            assert ratios[name] >= 4.5, (scheme, ratios)
        for name in ("golden", "target"):
            assert ratios[name] >= 3, (scheme, ratios)


def test_a_report_may_have_no_rows(tmp_path: Path, template: str) -> None:
    found = run(
        tmp_path,
        page(template, 0),
        """
        found.count=count();
        for(const key of ['ArrowDown','Enter','+','0'])press(key,$('canvas.heat'));
        for(const key of ['n','p','j','k','Escape'])press(key);
        $('.map select').value='layer';
        $('.map select').dispatchEvent(new Event('change'));
        found.options=[...$('.metric').options].map(o=>o.textContent);
        found.links=document.querySelectorAll('.go').length;
        """,
    )
    assert found["count"] == "0 of 0 rows"
    assert found["options"] == ["the bound that decided"]
    # Its row is not part of the report.
    assert found["links"] == 0


def test_a_row_without_the_metric_has_no_color(tmp_path: Path, template: str) -> None:
    found = run(
        tmp_path,
        page(template, 100),
        """
        // A row that passes, and one that fails.
        ROWS[96].cells[18]=ROWS[93].cells[18]=null;
        const measure=new Measure(2);
        found.levels=[96,93,97].map(i=>measure.level(ROWS[i]));
        found.limits=[NONE,FAIL_FIRST,PASS_FIRST];
        """,
    )
    levels, limits = found["levels"], found["limits"]
    assert isinstance(levels, list) and isinstance(limits, list)
    none, fail, passes = limits
    assert levels[0] == none and levels[1] >= fail and passes <= levels[2] < fail


def test_names_are_defined_in_one_module(template: str) -> None:
    script = template[template.index('"use strict"') :]
    # All modules share the scope of one script.
    names = re.findall(
        r"^(?:const|let|(?:async )?function|class) (\w+)", script, re.MULTILINE
    )
    twice = [name for name, count in Counter(names).items() if count > 1]
    assert len(names) > 50 and twice == []
    # Neither comments nor statements of modules are left.
    assert not re.search(r"^\s*(?://|import |export )|/\*\*", script, re.MULTILINE)


def test_the_page_opens_fast_with_many_rows(tmp_path: Path, template: str) -> None:
    # Another program may delay a browser, but hardly three times in a row.
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        found = run(
            folder,
            page(template, 50_000),
            """
            found.ms=performance.now();
            const before=performance.now();
            type('layers.9');
            found.filter_ms=performance.now()-before;
            found.count=count();
            """,
        )
        assert found["count"] == "5500 of 50000 rows"
        opened, filtered = float(str(found["ms"])), float(str(found["filter_ms"]))
        if opened < OPENS_WITHIN_S * 1000 and filtered < FILTERS_WITHIN_S * 1000:
            return
    pytest.fail(f"the page opened in {opened} ms and was filtered in {filtered} ms")
