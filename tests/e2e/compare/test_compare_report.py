"""Reports of a stored comparison: their contents and formats."""

import csv
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import openpyxl
from chunk_bytes import Chunk, Record, float32
from wire import write

from daemon import Daemon

USAGE = 2
NAN, INF = float("nan"), float("inf")

MSIT_COLUMNS = (
    "token_id,data_id,golden_data_path,golden_op_type,golden_dtype,golden_shape,"
    "golden_max_value,golden_min_value,golden_mean_value,my_data_path,my_op_type,"
    "my_dtype,my_shape,my_max_value,my_min_value,my_mean_value,cosine_similarity,"
    "max_relative_error,mean_relative_error,max_absolute_error,"
    "mean_absolute_error,kl_divergence,relative_euclidean_distance,"
    "cmp_fail_reason"
)
MSPROBE_BASIC = (
    "NPU Name,Bench Name,NPU Dtype,Bench Dtype,NPU Tensor Shape,Bench Tensor Shape,"
    "NPU Requires_grad,Bench Requires_grad"
)


def compare(
    daemon: Daemon,
    pairs: dict[str, tuple[list[float], list[float]]],
    *flags: str,
) -> None:
    """Compares golden and target values, op by op."""
    for side, run in enumerate(("g", "t")):
        records = [
            Record(op, float32(*pair[side]), [len(pair[side])], sequence=i)
            for i, (op, pair) in enumerate(pairs.items())
            if pair[side]
        ]
        write(daemon.channel(), run, [Chunk(run, records).pack()])
    daemon.ctl("compare", "run", "g", "t", *flags, expect=None)


def report(daemon: Daemon, *flags: str) -> list[dict[str, str]]:
    text = daemon.ctl("compare", "report", "c-000001", *flags).stdout
    return list(csv.DictReader(io.StringIO(text)))


def test_msit_report_has_its_columns_and_numbers(daemon: Daemon) -> None:
    pairs = {
        "exact": ([1.0, 2.0], [1.0, 2.0]),
        "masked": ([0.0, 2.0], [1.0, 2.5]),
        "tenth": ([0.1, 0.1], [0.2, 0.1]),
        "nan": ([NAN, 1.0], [1.0, 1.0]),
        "count": ([1.0, 2.0, 3.0], [1.0, 2.0]),
        "only golden": ([1.0], []),
    }
    compare(daemon, pairs, "--preset", "msit")
    result = daemon.ctl("compare", "report", "c-000001", "--format", "msit")
    lines = result.stdout.split("\n")
    assert lines[0] == MSIT_COLUMNS
    assert "1 unmatched rows, and 1 that differ" in result.stderr
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [r["data_id"] for r in rows] == ["0", "1", "2", "3"]
    exact, masked, tenth, nan = rows
    assert exact["cosine_similarity"] == "1.0"
    assert exact["kl_divergence"] == "0.0"
    assert exact["golden_dtype"] == "torch.float32"
    assert exact["golden_shape"] == "[2]"
    assert exact["golden_max_value"] == "2.0"
    assert masked["max_absolute_error"] == "0.5"
    assert masked["max_relative_error"] == "0.25"
    assert masked["mean_relative_error"] == "0.125"
    # Values of float32 as doubles.
    assert tenth["golden_min_value"] == "0.10000000149011612"
    assert tenth["cosine_similarity"] == "0.9486832981"
    assert nan["cosine_similarity"] == "" and nan["golden_max_value"] == ""
    assert nan["cmp_fail_reason"] == "golden_data includes NAN or inf."


def test_msit_means_are_those_of_torch_in_float(daemon: Daemon) -> None:
    pairs = {
        "up": ([INF, 1.0], [1.0, -INF]),
        "both": ([INF, -INF], [1.0, 1.0]),
        "sum": ([3e38, 3e38], [3e38, -3e38]),
    }
    compare(daemon, pairs, "--preset", "msit")
    up, both, sums = report(daemon, "--format", "msit")
    assert up["golden_mean_value"] == "inf" and up["my_mean_value"] == "-inf"
    assert up["golden_min_value"] == "1.0"
    assert both["golden_mean_value"] == "" and both["golden_max_value"] == "inf"
    assert sums["golden_mean_value"] == "inf" and sums["my_mean_value"] == "0.0"


def test_msit_sees_the_real_parts_of_complex_elements(daemon: Daemon) -> None:
    complex64 = 16
    for run, values in (("g", (1, 1, 3.5, -1, 0.25, 1)), ("t", (1, 2, 3, NAN, 0, 1))):
        chunk = Chunk(run, [Record("op", float32(*values), [3], complex64)])
        write(daemon.channel(), run, [chunk.pack()])
    daemon.ctl("compare", "run", "g", "t", "--preset", "msit", expect=None)
    (row,) = report(daemon, "--format", "msit")
    assert row["golden_dtype"] == "torch.complex64"
    assert row["cosine_similarity"] == "0.996708197"
    assert row["max_absolute_error"] == "0.5"
    assert abs(float(row["kl_divergence"]) - 0.0104851592) < 1e-9
    assert row["golden_max_value"] == "" and row["cmp_fail_reason"] == ""


def test_tables_of_other_tools_are_json_lines_on_request(
    daemon: Daemon, tmp_path: Path
) -> None:
    compare(daemon, {"a": ([0.5, INF], [0.5, 1.0])}, "--preset", "msit")
    for format_, cells in (
        ("msit", {"token_id": "0", "data_id": 0, "golden_min_value": 0.5}),
        ("msprobe", {"Bench min": 0.5, "Bench max": " inf", "Bench mean": " inf"}),
    ):
        out = tmp_path / f"{format_}.jsonl"
        flags = ("--format", format_, "--mode", "summary", "--out", str(out))
        daemon.ctl("compare", "report", "c-000001", *flags)
        (row,) = [json.loads(line) for line in out.read_text().splitlines()]
        assert {name: row[name] for name in cells} == cells
        (line,) = report(daemon, *flags[:4])
        assert list(row) == list(line)


def test_compatible_reports_need_their_metrics(daemon: Daemon) -> None:
    compare(daemon, {"a": ([1.0, 2.0], [1.0, 3.0])})
    for format_ in ("msit", "msprobe"):
        result = daemon.ctl(
            "compare", "report", "c-000001", "--format", format_, expect=USAGE
        )
        assert f"--metrics {format_}" in result.stderr
    for mode in ("summary", "md5"):
        flags = ("--format", "msprobe", "--mode", mode)
        assert len(report(daemon, *flags)) == 1


def test_msprobe_tensor_report(daemon: Daemon) -> None:
    pairs = {
        "ratio": ([1.0, 1.0], [1.0, 2.0]),
        "euclid": ([4.0, 5.0, 6.0], [1.0, 2.0, 3.0]),
        "zero": ([1.0, 2.0], [0.0, 0.0]),
        "one": ([1.0], [2.0]),
        "nan": ([1.0, NAN], [1.0, 2.0]),
        "both nan": ([1.0, NAN, 3.0], [1.0, NAN, 4.0]),
        "shape": ([1.0, 2.0], [1.0]),
        "only target": ([], [1.0]),
        "only golden": ([1.0], []),
        "inf": ([1.0, 1.0], [1.0, INF]),
    }
    compare(daemon, pairs, "--preset", "msprobe")
    result = daemon.ctl("compare", "report", "c-000001", "--format", "msprobe")
    assert result.stdout.split("\n")[0] == (
        MSPROBE_BASIC + ",Cosine,EucDist,MaxAbsErr,MaxRelativeErr,"
        "One Thousandth Err Ratio,Five Thousandths Err Ratio,"
        "NPU max,NPU min,NPU mean,NPU l2norm,Bench max,Bench min,Bench mean,"
        "Bench l2norm,Requires_grad Consistent,Result,Err_message,Data_name"
    )
    rows = {
        r["NPU Name"].split(".")[0]: r
        for r in csv.DictReader(io.StringIO(result.stdout))
    }
    assert "only golden" not in rows
    ratio = rows["ratio"]
    assert ratio["NPU Name"] == "ratio.0.forward.output.0"
    assert ratio["MaxAbsErr"] == "1.0" and ratio["MaxRelativeErr"] == "1.0"
    assert ratio["One Thousandth Err Ratio"] == "0.5"
    assert float(rows["euclid"]["EucDist"]) == 5.196152422706632
    assert rows["zero"]["Cosine"] == "Nan"
    assert rows["one"]["Cosine"] == "unsupported"
    assert rows["nan"]["Cosine"] == "N/A"
    assert rows["both nan"]["MaxAbsErr"] == "1.0"
    assert rows["shape"]["Cosine"] == "shape unmatched"
    assert rows["shape"]["Result"] == "error"
    assert rows["only target"]["Bench Name"] == "N/A"
    assert rows["only target"]["Result"] == "warning"
    assert rows["inf"]["NPU max"] == " inf" and rows["inf"]["Result"] == "error"


def test_msprobe_summary_and_md5_reports(daemon: Daemon) -> None:
    pairs = {
        "double": ([5.0, 1.0], [10.0, 1.0]),
        "zero": ([0.0, -1.0], [5.0, -1.0]),
        "same": ([1.0, 2.0], [1.0, 2.0]),
    }
    compare(daemon, pairs)
    double, zero, same = report(daemon, "--format", "msprobe", "--mode", "summary")
    assert double["Max diff"] == "5.0" and double["MaxRelativeErr"] == "100.0%"
    assert double["Min diff"] == "0" and double["MinRelativeErr"] == "0"
    assert zero["Max diff"] == "5.0" and zero["MaxRelativeErr"] == "inf"
    assert double["Result"] == "error" and same["Result"] == "pass"
    double, _, same = report(daemon, "--format", "msprobe", "--mode", "md5")
    assert list(same) == [
        *MSPROBE_BASIC.split(","),
        *("NPU MD5", "BENCH MD5"),
        *("Requires_grad Consistent", "Result", "Err_message"),
    ]
    assert same["NPU MD5"] == same["BENCH MD5"] and same["Result"] == "pass"
    assert double["NPU MD5"] != double["BENCH MD5"] and double["Result"] == "error"


# The output of msprobe 26.2.0 without a stack file.
MSPROBE_STATISTICS = (
    "NPU max,NPU min,NPU mean,NPU l2norm,Bench max,Bench min,Bench mean,Bench l2norm"
)
MSPROBE_TAIL = "Requires_grad Consistent,Result,Err_message"
MSPROBE_HEADERS = {
    "all": f"{MSPROBE_BASIC},Cosine,EucDist,MaxAbsErr,MaxRelativeErr,"
    f"One Thousandth Err Ratio,Five Thousandths Err Ratio,{MSPROBE_STATISTICS},"
    f"{MSPROBE_TAIL},Data_name",
    "summary": f"{MSPROBE_BASIC},Max diff,Min diff,Mean diff,L2norm diff,"
    "MaxRelativeErr,MinRelativeErr,MeanRelativeErr,NormRelativeErr,"
    f"{MSPROBE_STATISTICS},{MSPROBE_TAIL}",
    "md5": f"{MSPROBE_BASIC},NPU MD5,BENCH MD5,{MSPROBE_TAIL}",
}


def first_row(book: Path) -> list[str]:
    """Returns the texts of the first row of a workbook."""
    sheet = openpyxl.load_workbook(book)["rows"]
    return [str(cell.value) for cell in sheet[1]]


def test_msprobe_headers_are_its_own(daemon: Daemon, tmp_path: Path) -> None:
    compare(daemon, {"a": ([1.0, 2.0], [1.0, 3.0])}, "--preset", "msprobe")
    run = ("compare", "report", "c-000001", "--format", "msprobe")
    for mode, header in MSPROBE_HEADERS.items():
        text = daemon.ctl(*run, "--mode", mode).stdout
        assert text.split("\n")[0] == header
        book = tmp_path / f"{mode}.xlsx"
        daemon.ctl(*run, "--mode", mode, "--out", str(book))
        assert ",".join(first_row(book)) == header


def test_msprobe_stacks_are_a_column(daemon: Daemon, tmp_path: Path) -> None:
    entry = "Torch.add.0.forward"
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1.0}
    record = {"input_args": [leaf, leaf], "input_kwargs": {}, "output": [leaf]}
    tree = tmp_path / "tree"
    folder = tree / "step0" / "rank0"
    folder.mkdir(parents=True)
    (folder / "dump.json").write_text(json.dumps({"data": {entry: record}}))
    frames = ["File a.py, line 3, in main, \n f()", "File b.py, line 4, in <module>"]
    (folder / "stack.json").write_text(json.dumps({"0": [[entry], frames]}))
    for run in ("g", "t"):
        daemon.ctl("run", "import", str(tree), "--run", run)
    daemon.ctl("compare", "run", "g", "t", expect=None)
    for mode, header in MSPROBE_HEADERS.items():
        rows = report(daemon, "--format", "msprobe", "--mode", mode)
        tail = f"{MSPROBE_TAIL},NPU_Stack_Info"
        assert ",".join(rows[0]) == header.replace(MSPROBE_TAIL, tail)
        assert [row["NPU_Stack_Info"] for row in rows] == [
            "['File a.py, line 3, in main', 'File b.py, line 4, in <module>']",
            "N/A",
            "N/A",
        ]


def test_msprobe_reports_have_rules_and_advice(daemon: Daemon, tmp_path: Path) -> None:
    pairs = {
        "Torch.add": ([1.0, 2.0], [1.0, 2.0]),
        "Functional.conv2d": ([1.0, 2.0], [1.0, 8.0]),
    }
    compare(daemon, pairs, "--preset", "msprobe")
    mode = ("--mode", "summary")
    flags = ("--format", "msprobe", *mode)
    run = ("compare", "report", "c-000001")
    page = tmp_path / "report.html"
    daemon.ctl(*run, *flags, "--out", str(page))
    assert "<tr><td>Functional.conv2d.0.forward" in page.read_text()
    rules = tmp_path / "rules.yaml"
    rules.write_text("result: {norm_jump: {output_above: 100}}\n")
    before = [row["Result"] for row in report(daemon, *flags)]
    after = [row["Result"] for row in report(daemon, *flags, "--rules", str(rules))]
    assert (before, after) == (["pass", "error"], ["pass", "warning"])

    for more in ((), mode):
        advice = daemon.ctl(*run, "--format", "advice", *more).stdout.splitlines()
        assert advice[:2] == [
            "Line: 1",
            "Suspect Nodes: Functional.conv2d.0.forward.output.0",
        ]
        assert advice[2].startswith("Expert Advice: The results of this op may vary")

    rules.write_text("red: {relative: {output_above: 100}}\n")
    for file in (rules, tmp_path / "absent"):
        daemon.ctl(*run, *flags, "--rules", str(file), expect=USAGE)
    daemon.ctl(*run, "--format", "csv", "--rules", str(rules), expect=USAGE)


def test_csv_and_json_lines_have_every_row(daemon: Daemon, tmp_path: Path) -> None:
    compare(daemon, {"a,b": ([1.0], [2.0]), "c": ([1.0], [1.0]), "d": ([1.0], [])})
    rows = report(daemon)
    assert [(r["op"], r["verdict"]) for r in rows] == [
        ("a,b", "fail"),
        ("c", "pass"),
        ("d", "unmatched"),
    ]
    assert rows[0]["max_abs"] == "1" and rows[2]["max_abs"] == ""
    out = tmp_path / "rows.jsonl"
    daemon.ctl("compare", "report", "c-000001", "--out", str(out))
    comparison, *lines = map(json.loads, out.read_text().splitlines())
    assert comparison["name"] == "c-000001"
    assert [line["op"] for line in lines] == ["a,b", "c", "d"]
    only = report(daemon, "--verdict", "fail")
    assert len(only) == 1
    daemon.ctl("compare", "report", "c-000001", "--format", "pdf", expect=USAGE)
    daemon.ctl("compare", "report", "c-000009", expect=64 + 5)
    assert not list(tmp_path.glob("*.tmp"))


def test_html_report_needs_nothing_else(daemon: Daemon, tmp_path: Path) -> None:
    odd = "</script><script>alert(1)</script>\u6ce8"
    compare(daemon, {odd: ([1.0, 2.0], [1.0, 3.0]), "nan": ([NAN], [1.0])})
    out = tmp_path / "report.html"
    daemon.ctl("compare", "report", "c-000001", "--out", str(out))
    page = out.read_text()
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)\s*=|https?://|@import|url\(", page)
    # The data and the program, and no third script injected by a name.
    assert page.count("<script") == 2 and page.count("</script>") == 2
    text = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL
    )
    data = json.loads(text.group(1)) if text else json.loads("null")
    assert data["texts"][data["rows"][0][3]] == odd
    assert [row[9] for row in data["rows"]] == [1, 1]
    nl2 = data["metrics"].index("nl2")
    assert data["rows"][0][16 + nl2] == 1 / np.sqrt(5)
    assert data["comparison"]["verdict"] == "FAIL"


def test_a_report_has_nothing_of_a_run_that_took_the_name(
    daemon: Daemon, tmp_path: Path
) -> None:
    compare(daemon, {"op": ([1.0, 2.0], [1.0, 3.0])})
    out = tmp_path / "report.html"
    words = ("compare", "report", "c-000001", "--out", str(out), "--histograms", "1")

    def histograms() -> dict[str, object]:
        text = re.search(
            r'<script type="application/json" id="data">(.*?)</script>',
            out.read_text(),
            re.DOTALL,
        )
        return json.loads(text.group(1))["histograms"]["rows"] if text else {}

    assert daemon.ctl(*words).stderr == ""
    assert len(histograms()) == 1
    daemon.ctl("run", "delete", "g", "--yes")
    chunk = Chunk("g", [Record("op", float32(50.0, 60.0), [2])], stream_id=9 << 32)
    write(daemon.channel(), "g", [chunk.pack()], stream_id=9 << 32)
    noted = daemon.ctl(*words).stderr
    assert "run g was deleted, and another run has its name now" in noted
    assert len(histograms()) == 0


def test_reports_for_ci_systems_count_what_does_not_pass(
    daemon: Daemon, tmp_path: Path
) -> None:
    evil = "</testcase>|`@all` <b>"
    pairs = {"good": ([1.0], [1.0]), evil: ([1.0], [9.0]), "lost": ([1.0], [])}
    compare(daemon, pairs, "--out", str(tmp_path / "run.xml"))
    suite = ElementTree.parse(tmp_path / "run.xml").getroot()[0]
    assert suite.attrib["tests"] == "4"
    assert suite.attrib["failures"] == "3"
    results = {case.attrib["name"]: [each.tag for each in case] for case in suite}
    assert results == {
        "verdict": ["failure"],
        "good": [],
        evil: ["failure"],
        "lost": ["failure"],
    }
    (failure,) = suite[0]
    assert "differs from g" in failure.attrib["message"]
    assert failure.text is not None and "first divergence" in failure.text

    daemon.ctl("compare", "report", "latest", "--out", str(tmp_path / "a.md"))
    text = (tmp_path / "a.md").read_text()
    assert text.startswith("## FAIL\n\nt differs from g")
    assert "| 1 | fail | \\</testcase\\>\\|\\``@`all\\` \\<b\\> | output/0 |" in text
    assert "| unmatched | lost |" in text


def test_a_partial_comparison_is_an_error_for_ci_systems(daemon: Daemon) -> None:
    for run in ("g", "t"):
        records = [Record("op", float32(1.0), [1])]
        write(daemon.channel(), run, [Chunk(run, records).pack()], world_size=2)
    daemon.ctl("compare", "run", "g", "t", expect=None)
    words = ("compare", "report", "latest", "--format", "junit")
    partial = ElementTree.fromstring(daemon.ctl(*words, expect=None).stdout)
    assert (partial.attrib["failures"], partial.attrib["errors"]) == ("0", "1")
    allowed = ElementTree.fromstring(daemon.ctl(*words, "--allow-partial").stdout)
    assert allowed.attrib["errors"] == "0"
