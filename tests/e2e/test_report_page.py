"""The HTML report in a browser: what is on the page, and what clicks do.

Needs chromium on the PATH; without one these tests are skipped.
"""

import html
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from daemon import ROOT

CHROMIUM = shutil.which("chromium")
OPENS_WITHIN_S = 2.0

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


def page(rows: int, script: str) -> str:
    """Returns the page with made-up rows, and a script that drives it."""
    texts = ["", "output", "0", "float32", "[8]", "nl2 = 1, needs <= 1e-4"]
    texts += [f"layers.{i}" for i in range(100)]
    data = {
        "metrics": ["cosine", "max_abs", "nl2", "unused"],
        "higher": [True, False, False, False],
        "comparison": {
            "name": "c-000001",
            "passes": False,
            "facts": [["golden", "<b>g</b>"], ["target", "t"]],
        },
        "rows": [
            [
                *(i, 0, i // 100, 6 + i % 100, 0, 1, 2, 3, 4, 1 if i % 10 == 3 else 0),
                *(0, 5 if i % 10 == 3 else 0),
                *(0.999, "inf" if i == 7 else i * 1e-6, 1e-7 * (i % 97), None),
            ]
            for i in range(rows)
        ],
        "texts": texts,
    }
    text = (ROOT / "client/ctl/report_page.html").read_text()
    text = text.replace("%DATA%", json.dumps(data).replace("<", "\\u003c"))
    return text.replace("</body>", f"<script>{script}</script></body>")


def run(tmp_path: Path, rows: int, script: str) -> dict[str, object]:
    """Opens the page; `script` leaves its findings in `found`."""
    file = tmp_path / "page.html"
    file.write_text(
        page(
            rows,
            "const found={};onerror=m=>{found.error=m;};"
            "try{" + script + "}catch(e){found.error=String(e);}"
            "document.title='FOUND'+JSON.stringify(found)+'END';",
        )
    )
    result = subprocess.run(
        [
            *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu"),
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
        1000,
        """
        const cells=n=>[...document.querySelectorAll('#body tr')].map(tr=>
          tr.children[n]?.textContent).filter(t=>t!==undefined);
        const column=n=>[...document.querySelectorAll('#head th')]
          .findIndex(th=>th.dataset.column===n);
        const click=n=>document.querySelectorAll('#head th')[column(n)].click();
        const type=t=>{$('find').value=t;$('find').oninput();};
        found.verdict=$('verdict').textContent;
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
        const heat=$('heat'),box=heat.getBoundingClientRect();
        heat.onclick({clientX:box.left+1,clientY:box.top+1});
        found.picked=$('count').textContent;
        $('reset').click();
        $('metric').value='1';$('metric').onchange();
        const pixels=heat.getContext('2d').getImageData(0,0,heat.width,heat.height);
        found.colors=new Set(new Uint32Array(pixels.data.buffer)).size;
        found.points=points.length;
        """,
    )
    assert found["verdict"] == "FAIL"
    assert found["facts"] == ["<b>g</b>", "t"]
    columns = found["columns"]
    assert isinstance(columns, list)
    assert "nl2" in columns and "unused" not in columns
    assert found["all"] == "1000 of 1000 rows"
    assert isinstance(found["shown"], int) and found["shown"] < 100
    assert found["worst"] == ["inf", "0.000999"]
    assert found["fails"] == "100 of 1000 rows"
    # layers.7 and layers.70 to layers.79.
    assert found["one"] == "11 of 1000 rows"
    assert found["reason"] == "100 of 1000 rows"
    assert found["picked"] == "1 of 1000 rows"
    assert isinstance(found["colors"], int) and found["colors"] > 20
    assert found["points"] == 1000


def test_the_page_opens_fast_with_many_rows(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        50_000,
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
