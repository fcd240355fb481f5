"""The page of the HTML report with made-up rows, in a headless Chromium."""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-headless-shell")

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
        # The request, and the target.
        *(0, 5 if i == 3 else 0),
        reason,
        *((107, 108) if i == 13 else (0, 0)),
    ]


def page(template: str, rows: int, inside: int | None = None) -> str:
    """Returns the page with made-up rows.

    Args:
        template: A report.
        rows: Their number.
        inside: A row of a container of the op that made the error.
    """
    texts = ["", "output", "0", "float32", "[8]", "nl2 = 1, needs <= 1e-4"]
    texts += ["no bytes of 50"]
    texts += [f"layers.{i}" for i in range(100)]
    texts += ["0-1,8", "group 0 (ranks 0-1,8); largest difference in rank 8"]
    all_rows = [made_up_row(i) for i in range(rows)]
    if inside is not None:
        all_rows[inside][10] = len(texts)
        texts.append("inside")
    data = {
        "metrics": ["cosine", "max_abs", "nl2", "unused"],
        "higher": [True, False, False, False],
        "units": ["", "value", "", ""],
        "custom": [],
        "bounds": [["nl2", 1e-4]],
        "comparison": {
            "name": "c-000001",
            "verdict": "FAIL",
            "first": {"op": "layers.13", "token": 0, "rank": 0},
            "facts": [["first divergence", "<b>g</b>", 13], ["rows", "t", -1]],
            "setup": [["policy", "preset torch", -1]],
        },
        "rows": all_rows,
        "texts": texts,
        "histograms": {"limit": 200, "rows": HISTOGRAMS},
    }
    text = re.sub(
        r"(<title>|<h1>).*?(</title>|</h1>)", r"\1t differs from g.\2", template
    )
    start = text.index('id="data">') + len('id="data">')
    end = text.index("</script>", start)
    return text[:start] + json.dumps(data).replace("<", "\\u003c") + text[end:]


# Controls of the page.
PRELUDE = """
  const $=s=>document.querySelector(s);
  const count=()=>$('.count').textContent;
  const type=t=>{const f=$('input[type=search]');f.value=t;
    for(const n of ['input','change'])f.dispatchEvent(new Event(n));};
  const reset=()=>$('button.all').click();
  const heading=n=>$(`[data-column="${n}"]`);
  const detail=()=>$('.detail');
  const title=()=>$('.detail h2').textContent.split(':')[0];
  const choose=n=>{$('.metric').value=n;
    $('.metric').dispatchEvent(new Event('change'));};
  const press=(key,to)=>(to||document.body).dispatchEvent(
    new KeyboardEvent('keydown',{key,bubbles:true}));
"""


def run(
    tmp_path: Path, text: str, script: str, scheme: str = "light", width: int = 1280
) -> dict[str, object]:
    """Opens a page; `script` stores its results in `found`."""
    file = tmp_path / "page.html"
    script = (
        "const found={inner:innerWidth};onerror=m=>{found.error=m;};"
        "try{" + PRELUDE + script + "}catch(e){found.error=String(e);}"
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


DETAIL = """
  const texts=(s,of)=>[...(of||document).querySelectorAll(s)].map(e=>e.textContent);
  const table=s=>[...($(s)?.rows||[])].map(r=>[...r.cells].map(c=>c.textContent));
  const chart=()=>({
    hidden:!$('.detail figure'),
    paths:Object.fromEntries([...document.querySelectorAll('.chart path')]
      .map(p=>[p.getAttribute('class'),p.getAttribute('d')])),
    texts:texts('.chart text'),
    words:$('.chart')?.getAttribute('aria-label'),
    note:$('.detail div>p.dim:last-child')?.textContent||'',
    sides:table('.detail figure>table'),
    bins:table('.detail figure details table'),
  });
  heading('row').click();
  const row=n=>document.querySelector(`.rows [data-i="${n}"]`);
  const key=(n,key)=>press(key,row(n));
"""
