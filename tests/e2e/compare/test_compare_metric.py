"""Custom metrics: plug-ins that msitctl runs with a comparison."""

import csv
import html
import io
import json
import math
import shutil
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from chunk_bytes import FLOAT64, INT64, Chunk, Record, float32
from wire import write

from daemon import Daemon

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-headless-shell")
USAGE, LOCAL, FAILED = 2, 3, 1
PYTHON = ("--python", sys.executable)
BFLOAT16, COMPLEX64, FLOAT8_E4M3 = 11, 16, 14

PLUGIN = """
    import os
    import sys
    import time

    import numpy as np


    def own_cosine(golden, target):
        assert golden.dtype == np.float32 and golden.ndim == 1
        golden, target = golden.astype(float), target.astype(float)
        norms = np.linalg.norm(golden) * np.linalg.norm(target)
        return golden @ target / norms


    def shapes(golden, target):
        return float(golden.ndim), f"{golden.shape} {target.shape}"


    def worst(golden, target):
        at = int(np.argmax(np.abs(golden - target)))
        if golden[at] == 5:
            raise ValueError("five\\nis out")
        print("printed by a plug-in")
        return np.float32(abs(golden[at] - target[at])), f"at {at}"


    def leaves(golden, target):
        if golden[0] == 5:
            os._exit(7)
        return golden[0]


    def talks(golden, target):
        print("o" * 100000)
        print("e" * 100000, file=sys.stderr)
        return golden[0]


    def fails(golden, target):
        if len(golden) > 1:
            raise ValueError("of this too")
        return 1


    def always_leaves(golden, target):
        if len(golden) > 1:
            os._exit(7)
        return 1


    def hangs(golden, target):
        while golden[0] == 5:
            time.sleep(1)
        return golden[0]


    def kinds(golden, target):
        both = f"{golden.dtype}/{target.dtype} {golden.ndim}"
        return abs(golden[0]), f"{both} {golden.flags.writeable}"


    def odd(golden, target):
        answers = {1: None, 2: "word", 3: ("word", "and text"), 4: float("inf"),
                   5: float("nan"), 6: 10**400, 7: (1, 2, 3), 8: (1, b"bytes"),
                   9: (1, "x" * 5000), 10: (1, "line\\nbreak \\udcff"), 11: 1j,
                   12: True}
        return answers[int(golden[0])] if len(golden) > 1 else 0


    def same(golden, target):
        return 1.0


    def three(golden, target, other):
        return 1.0


    def divides(golden, target):
        return 1 // int(golden[0] - target[0])


    def wrong_kind(golden, target):
        return [1.0], 5


    def quits(golden, target):
        if golden[0] == 5:
            sys.exit("quit")
        return 0


    NUMBER = 5
"""


@pytest.fixture
def plugin(tmp_path: Path) -> str:
    """A file of plug-ins."""
    file = tmp_path / "own.py"
    file.write_text(textwrap.dedent(PLUGIN))
    return str(file)


def record_all(
    daemon: Daemon, pairs: dict[str, tuple[Record | None, Record | None]]
) -> None:
    """Records golden and target of each pair, in order."""
    for side, run in enumerate(("g", "t")):
        records = []
        for i, (op, pair) in enumerate(pairs.items()):
            record = pair[side]
            if record is None:
                continue
            record.op, record.sequence = op, i
            records.append(record)
        write(daemon.channel(), run, [Chunk(run, records).pack()])


def floats(*values: float) -> Record:
    return Record("", float32(*values), [len(values)])


def rows_of(daemon: Daemon, comparison: str = "c-000001") -> dict[str, dict]:
    """Returns custom metrics by op and name."""
    rows = daemon.ctl_json("compare", "rows", comparison)["rows"]
    return {
        row["op"]: {m["metric"]: m for m in row.get("custom_metrics", [])}
        for row in rows
    }


PAIRS = {
    "first": ([1.0, 2.0, 3.0], [1.0, 2.0, 3.5]),
    "five": ([5.0, 2.0], [7.0, 2.0]),
    "same": ([4.0, 4.0], [4.0, 4.0]),
    "alone": ([1.0], None),
    "shape": ([1.0, 2.0], [1.0]),
    "last": ([1.0, 0.0], [1.0, 1.0]),
}


def record_pairs(daemon: Daemon) -> None:
    record_all(
        daemon,
        {
            op: tuple(None if side is None else floats(*side) for side in pair)
            for op, pair in PAIRS.items()
        },
    )


def test_own_cosine_is_the_one_of_the_daemon(daemon: Daemon, plugin: str) -> None:
    rng = np.random.default_rng(7)
    pairs = {}
    for op in ("a", "b", "c"):
        golden = rng.standard_normal(1000).astype(np.float32)
        target = golden + rng.standard_normal(1000).astype(np.float32) * 0.1
        pairs[op] = (floats(*golden), floats(*target))
    record_all(daemon, pairs)
    daemon.ctl("compare", "run", "g", "t", expect=FAILED)
    result = daemon.ctl(
        "compare", "metric", "c-000001", *PYTHON, "--plugin", f"{plugin}:own_cosine"
    )
    assert result.stdout.split() == ["metric", "rows", "values", "own_cosine", "3", "3"]
    assert result.stderr == ""
    rows = daemon.ctl_json("compare", "rows", "c-000001")["rows"]
    for row in rows:
        ours = {m["metric"]: m["value"] for m in row["metrics"]}["cosine"]
        own = row["custom_metrics"][0]["value"]
        assert ours < 0.9999 and math.isclose(own, ours, rel_tol=1e-9)
    # The metrics are kept.
    daemon.stop()
    daemon.start()
    assert daemon.ctl_json("compare", "rows", "c-000001")["rows"] == rows


def test_arrays_have_the_shapes_of_their_tensors(daemon: Daemon, plugin: str) -> None:
    square = (
        Record("", float32(1, 2, 3, 4), [2, 2]),
        Record("", float32(1, 2, 3, 5), [2, 2]),
    )
    scalar = (Record("", float32(1), []), Record("", float32(2), []))
    record_all(daemon, {"square": square, "scalar": scalar})
    daemon.ctl("compare", "run", "g", "t", expect=FAILED)
    daemon.ctl("compare", "metric", "c-000001", *PYTHON, "--plugin", f"{plugin}:shapes")
    rows = rows_of(daemon)
    assert rows["square"]["shapes"]["text"] == "(2, 2) (2, 2)"
    assert rows["scalar"]["shapes"]["text"] == "() ()"


def test_one_bad_tensor_does_not_end_it(daemon: Daemon, plugin: str) -> None:
    record_pairs(daemon)
    daemon.ctl("compare", "run", "g", "t", expect=FAILED)
    result = daemon.ctl(
        *("compare", "metric", "c-000001", *PYTHON),
        *("--plugin", f"{plugin}:worst", "--plugin", f"{plugin}:leaves"),
        *("--plugin", f"{plugin}:quits", "--name", "worst", "--name", "v-2.x"),
        *("--name", "quits"),
    )
    assert "printed by a plug-in" in result.stderr
    assert "printed" not in result.stdout
    assert "worst: no value for 3 of 6 rows; row 1, five: ValueError" in result.stderr
    rows = rows_of(daemon)
    assert rows["first"]["worst"] == {"metric": "worst", "value": 0.5, "text": "at 2"}
    assert rows["five"]["worst"]["text"] == "ValueError: five\\nis out"
    assert rows["same"]["worst"]["value"] == 0.0
    assert rows["alone"]["worst"]["text"] == "no target tensor"
    assert rows["shape"]["worst"]["text"] == "not measured: 1 elements against 2"
    assert rows["last"]["worst"]["value"] == 1.0
    assert "value" not in rows["five"]["worst"]
    assert rows["five"]["v-2.x"]["text"] == "the interpreter ended with status 7"
    assert rows["last"]["v-2.x"]["value"] == 1.0
    assert rows["five"]["quits"]["text"] == "SystemExit: quit"


def test_a_plugin_without_any_value_fails(daemon: Daemon, plugin: str) -> None:
    record_all(daemon, {f"op{i}": (floats(1, i), floats(1, -i)) for i in range(2, 5)})
    daemon.ctl("compare", "run", "g", "t", expect=FAILED)
    flags = ("--plugin", f"{plugin}:fails", *PYTHON)
    result = daemon.ctl("compare", "metric", "c-000001", *flags, expect=LOCAL)
    assert "--plugin fails: no row has a value" in result.stderr
    assert "ValueError: of this too" in result.stderr
    # A failed comparison takes precedence in the exit code.
    result = daemon.ctl("compare", "run", "g", "t", *flags, expect=FAILED)
    assert "fails: no value for 3 of 3 rows" in result.stderr
    daemon.ctl("compare", "run", "g", "g", *flags, expect=LOCAL)


def test_what_a_plugin_prints_is_bounded(daemon: Daemon, plugin: str) -> None:
    record_pairs(daemon)
    daemon.ctl("compare", "run", "g", "t", expect=FAILED)
    result = daemon.ctl(
        *("compare", "metric", "c-000001", *PYTHON, "--plugin", f"{plugin}:talks")
    )
    assert 60_000 < len(result.stderr) < 70_000
    assert "further output of the plug-in is omitted" in result.stderr
    assert rows_of(daemon)["first"]["talks"]["value"] == 1.0


def test_a_plugin_that_hangs_is_stopped(daemon: Daemon, plugin: str) -> None:
    record_pairs(daemon)
    daemon.ctl("compare", "run", "g", "t", expect=FAILED)
    daemon.ctl(
        *("compare", "metric", "c-000001", *PYTHON, "--plugin-timeout", "500ms"),
        *("--plugin", f"{plugin}:hangs"),
    )
    rows = rows_of(daemon)
    assert rows["five"]["hangs"]["text"] == "no answer within 0.5s"
    assert rows["last"]["hangs"]["value"] == 1.0


def test_a_plugin_that_always_ends_is_given_up(daemon: Daemon, plugin: str) -> None:
    record_all(daemon, {f"op{i}": (floats(1, i), floats(1, -i)) for i in range(20)})
    daemon.ctl("compare", "run", "g", "t", expect=FAILED)
    result = daemon.ctl(
        *("compare", "metric", "c-000001", *PYTHON),
        *("--plugin", f"{plugin}:always_leaves"),
        expect=LOCAL,
    )
    assert "aborted" in result.stderr
    texts = [row["always_leaves"]["text"] for row in rows_of(daemon).values()]
    assert texts[0] == "the interpreter ended with status 7"
    assert texts[-1].startswith("not measured: 17 earlier interpreters ended")


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("own.py:nothing", "there is no nothing in it"),
        ("own.py:NUMBER", "NUMBER is not a function"),
        ("own.py:three", "three does not take two arguments"),
        ("own.py:divides", "fails for two arrays of one element: ZeroDivisionError"),
        ("own.py:wrong_kind", "TypeError: the text is of type int"),
        ("none.py:f", "No such file"),
        ("broken.py:f", "SyntaxError"),
        ("leaves.py:f", "the interpreter ended with status 3"),
        ("own.py", "is not FILE.py:FUNCTION"),
    ],
)
def test_a_wrong_plugin_is_told_at_once(
    daemon: Daemon, plugin: str, tmp_path: Path, what: str, why: str
) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "leaves.py").write_text("import os\nos._exit(3)\n")
    flags = ("--plugin", f"{tmp_path}/{what}", *PYTHON)
    for command in (("metric", "c-000001"), ("run", "g", "t")):
        result = daemon.ctl("compare", *command, *flags, expect=USAGE)
        assert why in result.stderr and result.stderr.count("\n") == 1


def test_wrong_flags_are_told(daemon: Daemon, plugin: str) -> None:
    own = ("--plugin", f"{plugin}:same")
    for flags, why in (
        ((), "--plugin FILE.py:FUNCTION is missing"),
        ((*own, *own), "two metrics would be called same"),
        ((*own, "--name", "a", "--name", "b"), "2 names for 1 plug-ins"),
        ((*own, "--name", "a b"), "not a name of a metric"),
        ((*own, "--name", "verdict"), "a column of reports"),
        ((*own, "--name", "cosine"), "a metric that the daemon measures"),
        ((*own, "--plugin-arrays", "lists"), "not numpy or torch"),
        ((*own, "--plugin-timeout", "soon"), "--plugin-timeout"),
    ):
        result = daemon.ctl("compare", "metric", "c-1", *flags, expect=USAGE)
        assert why in result.stderr
    result = daemon.ctl(
        *("compare", "metric", "c-1", *own, "--python", "/none"), expect=LOCAL
    )
    assert "/none cannot be started" in result.stderr
    for flag in ("--detach", "--follow"):
        daemon.ctl("compare", "run", "g", "t", *own, flag, expect=USAGE)
    daemon.ctl("compare", "metric", "c-000009", *own, *PYTHON, expect=64 + 5)
    # Reported before anything is compared.
    record_pairs(daemon)
    wrong = (*own, *PYTHON, "--plugin-name", "golden_max")
    result = daemon.ctl("compare", "run", "g", "t", *wrong, expect=USAGE)
    assert "a column of reports" in result.stderr
    assert daemon.ctl("compare", "list", "-o", "name").stdout == ""


def test_arrays_have_the_types_that_the_manual_says(
    daemon: Daemon, plugin: str
) -> None:
    def tensor(dtype: int, data: bytes) -> Record:
        # All values have two elements.
        return Record("", data, [2], dtype=dtype)

    values = {
        "bf16": tensor(BFLOAT16, struct.pack("<2H", 0xBFC0, 0)),
        "e4m3": tensor(FLOAT8_E4M3, bytes([0xBC, 0x00])),
        "f64": tensor(FLOAT64, struct.pack("<2d", -1.5, 0)),
        "int64": tensor(INT64, struct.pack("<2q", -3, 0)),
        "complex": tensor(COMPLEX64, struct.pack("<4f", 0, -1.5, 0, 0)),
        "bool": tensor(1, bytes([1, 0])),
        "f16": tensor(10, struct.pack("<2e", -1.5, 0)),
        "int4": tensor(22, bytes([0xFD, 0x00])),
        "hif8": tensor(28, bytes([0x8C, 0x00])),
        "complex32": tensor(30, struct.pack("<4e", 0, -1.5, 0, 0)),
    }
    record_all(daemon, {op: (value, value) for op, value in values.items()})
    daemon.ctl("compare", "run", "g", "t")
    daemon.ctl("compare", "metric", "c-000001", *PYTHON, "--plugin", f"{plugin}:kinds")
    found = {op: row["kinds"] for op, row in rows_of(daemon).items()}
    assert {op: (row["value"], row["text"]) for op, row in found.items()} == {
        "bf16": (1.5, "float32/float32 1 True"),
        "e4m3": (1.5, "float32/float32 1 True"),
        "f64": (1.5, "float64/float64 1 True"),
        "int64": (3.0, "float32/float32 1 True"),
        "complex": (1.5, "complex64/complex64 1 True"),
        "bool": (1.0, "float32/float32 1 True"),
        "f16": (1.5, "float32/float32 1 True"),
        "int4": (3.0, "float32/float32 1 True"),
        "hif8": (1.5, "float32/float32 1 True"),
        "complex32": (1.5, "complex64/complex64 1 True"),
    }


def test_torch_tensors_are_given_if_asked_for(daemon: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "old.py"
    file.write_text(
        "import torch\n"
        "def cosine(golden, my):\n"
        "    return torch.cosine_similarity(golden, my, dim=0).item(), 'by torch'\n"
    )
    record_pairs(daemon)
    result = daemon.ctl(
        *("compare", "run", "g", "t", *PYTHON, "--plugin-arrays", "torch"),
        *("--plugin", f"{file}:cosine", "--plugin-name", "by_torch"),
        expect=FAILED,
    )
    assert "custom metrics    by_torch" in result.stdout
    same = rows_of(daemon)["same"]["by_torch"]
    assert math.isclose(same["value"], 1.0, rel_tol=1e-6)
    assert same["text"] == "by torch"


def test_answers_of_any_kind_are_taken(daemon: Daemon, plugin: str) -> None:
    pairs = {str(i): (floats(i, 0), floats(i, 1)) for i in range(1, 13)}
    record_all(daemon, pairs)
    daemon.ctl("compare", "run", "g", "t", expect=FAILED)
    daemon.ctl("compare", "metric", "c-000001", *PYTHON, "--plugin", f"{plugin}:odd")
    found = {
        int(op): (row["odd"].get("value"), row["odd"]["text"])
        for op, row in rows_of(daemon).items()
    }
    assert found[1] == (None, "")
    assert found[2] == (None, "word")
    assert found[3] == (None, "word and text")
    assert found[4] == ("Infinity", "")
    assert found[5] == ("NaN", "")
    assert found[6][1].startswith("OverflowError")
    assert found[7] == (None, "TypeError: 3 results, not a value and a text")
    assert found[8] == (None, "TypeError: the text is of type bytes")
    assert found[9] == (1.0, "x" * 1024)
    assert found[10] == (1.0, "line\\nbreak ?")
    assert found[11] == (None, "TypeError: the value is of type complex")
    assert found[12] == (1.0, "")


def test_a_pair_above_the_limit_is_not_read(daemon: Daemon, plugin: str) -> None:
    record_pairs(daemon)
    daemon.ctl(
        *("compare", "run", "g", "t", *PYTHON, "--plugin", f"{plugin}:same"),
        *("--plugin-size-max", "16"),
        expect=FAILED,
    )
    rows = rows_of(daemon)
    assert (
        rows["first"]["same"]["text"]
        == "not measured: the tensors have 24 B, more than 16 B"
    )
    assert rows["five"]["same"]["value"] == 1.0


def test_rows_of_layouts_and_of_expired_bytes_say_so(
    daemon: Daemon, plugin: str
) -> None:
    record_pairs(daemon)
    flags = (*PYTHON, "--plugin", f"{plugin}:same")
    daemon.ctl(
        "compare", "run", "g", "t", *flags, "--target-layout", "*=replicated", expect=1
    )
    text = rows_of(daemon)["first"]["same"]["text"]
    assert text == "not measured: assembled from shards"
    daemon.ctl("compare", "run", "g", "t", expect=FAILED)
    daemon.ctl("run", "delete", "t", "--yes")
    flags = ("compare", "metric", "c-000002", *flags, "--verdict", "fail")
    daemon.ctl(*flags, expect=LOCAL)
    rows = rows_of(daemon, "c-000002")
    assert "NOT_FOUND" in rows["first"]["same"]["text"]
    assert rows["same"] == {}


def test_every_report_has_them(daemon: Daemon, plugin: str, tmp_path: Path) -> None:
    record_pairs(daemon)
    result = daemon.ctl(
        *("compare", "run", "g", "t", "--metrics", "msit,msprobe", *PYTHON),
        *("--plugin", f"{plugin}:worst", "--rows", "all"),
        expect=FAILED,
    )
    heading, first, five = result.stdout.split("\n\n")[2].splitlines()[:3]
    assert heading.split()[-2:] == ["worst", "reason"]
    assert "0.5 at 2" in first and "ValueError: five" in five
    assert "custom metrics    worst" in result.stdout

    lines = daemon.ctl("compare", "rows", "c-000001", "-o", "csv").stdout
    rows = {r["op"]: r for r in csv.DictReader(io.StringIO(lines))}
    assert rows["first"]["custom_metrics.worst"] == "0.5"
    assert rows["first"]["custom_metrics.worst:text"] == "at 2"
    picked = daemon.ctl(
        "compare", "rows", "c-000001", "--columns", "op,worst,custom_metrics.worst:text"
    ).stdout.splitlines()
    assert picked[1].split() == ["first", "0.5", "at", "2", "at", "2"]

    def report(name: str, *flags: str) -> list[dict[str, str]]:
        out = tmp_path / name
        daemon.ctl("compare", "report", "c-000001", "--out", str(out), *flags)
        return list(csv.DictReader(io.StringIO(out.read_text())))

    first, five, *_ = report("rows.csv")
    assert list(first)[-2:] == ["worst", "worst:text"]
    assert (first["worst"], first["worst:text"]) == ("0.5", "at 2")
    assert (five["worst"], five["worst:text"]) == ("", "ValueError: five\\nis out")
    first, five, *_ = report("msit.csv", "--format", "msit")
    assert list(first)[23:] == ["cmp_fail_reason", "worst"]
    assert (first["worst"], first["cmp_fail_reason"]) == ("0.5", "at 2")
    assert (five["worst"], five["cmp_fail_reason"]) == (
        "",
        "ValueError: five\\nis out",
    )
    first, *_ = report("msprobe.csv", "--format", "msprobe")
    assert list(first)[-3:] == ["Data_name", "worst", "worst:text"]
    assert (first["worst"], first["worst:text"]) == ("0.5", "at 2")

    check_other_reports(daemon, tmp_path)


def check_other_reports(daemon: Daemon, folder: Path) -> None:
    """Checks the reports of record_pairs that are not CSV."""
    out = folder / "rows.jsonl"
    daemon.ctl("compare", "report", "c-000001", "--out", str(out))
    comparison, row, *_ = map(json.loads, out.read_text().splitlines())
    assert comparison["custom_metrics"] == ["worst"]
    assert row["custom_metrics"][0]["value"] == 0.5
    for name, flags in (("rows", ()), ("msit", ("--format", "msit"))):
        out = folder / f"{name}.xlsx"
        daemon.ctl("compare", "report", "c-000001", "--out", str(out), *flags)
        sheet = openpyxl.load_workbook(out)["rows"]
        cells = [[cell.value for cell in row] for row in sheet.iter_rows()]
        at = cells[0].index("worst")
        assert cells[1][at] == 0.5
        if name == "rows":
            assert cells[1][at + 1] == "at 2"

    out = folder / "rows.html"
    daemon.ctl("compare", "report", "c-000001", "--out", str(out))
    page = out.read_text()
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    at = data["metrics"].index("worst")
    assert data["custom"] == ["worst"] and len(data["metrics"]) == at + 1
    assert data["rows"][0][16 + at] == 0.5 and data["rows"][1][16 + at] is None
    assert data["texts"][data["rows"][0][17 + at]] == "at 2"


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_the_page_shows_them_and_finds_their_texts(
    daemon: Daemon, plugin: str, tmp_path: Path
) -> None:
    record_pairs(daemon)
    flags = (*PYTHON, "--plugin", f"{plugin}:worst")
    daemon.ctl("compare", "run", "g", "t", *flags, expect=FAILED)
    out = tmp_path / "rows.html"
    daemon.ctl("compare", "report", "c-000001", "--out", str(out))
    script = """
        const $=s=>document.querySelector(s);
        const heads=[...document.querySelectorAll('.rows th')].map(th=>th.dataset.column);
        const cells=[...document.querySelectorAll('.rows tbody tr')].map(tr=>
          [...tr.children].slice(heads.indexOf('worst')).map(td=>td.textContent));
        const find=$('input[type=search]');find.value='five\\\\nis';
        for(const name of ['input','change'])find.dispatchEvent(new Event(name));
        const found={heads:heads.slice(-3),cells,count:$('.count').textContent,
          options:[...$('.metric').options].map(o=>o.textContent)};
        document.title='FOUND'+JSON.stringify(found)+'END';
    """
    page = tmp_path / "page.html"
    page.write_text(
        out.read_text().replace("</body>", f"<script>{script}</script></body>")
    )
    result = subprocess.run(
        [
            *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu"),
            *(f"--user-data-dir={tmp_path}/profile", "--dump-dom", page.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    text = result.stdout.split("FOUND", 1)[1].split("END", 1)[0]
    found = json.loads(html.unescape(text))
    assert found["heads"] == ["worst", "worst:text", "origin"]
    assert found["cells"][0][:2] == ["0.5", "at 2"]
    assert found["cells"][1][:2] == ["-", "ValueError: five\\nis out"]
    assert found["count"] == "1 of 6 rows"
    assert "worst" in found["options"]


def test_reports_without_custom_metrics_have_no_column_for_them(
    daemon: Daemon, tmp_path: Path
) -> None:
    record_pairs(daemon)
    daemon.ctl("compare", "run", "g", "t", "--metrics", "msit,msprobe", expect=FAILED)
    for format_, last in (("msit", "cmp_fail_reason"), ("msprobe", "Data_name")):
        result = daemon.ctl("compare", "report", "c-000001", "--format", format_)
        assert result.stdout.split("\n")[0].endswith("," + last)
    lines = daemon.ctl("compare", "rows", "c-000001", "-o", "csv").stdout
    assert "custom" not in lines.split("\n")[0]
