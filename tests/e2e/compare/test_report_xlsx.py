"""Workbooks of a stored comparison, read back with openpyxl."""

import csv
import io
import sys
from pathlib import Path

import openpyxl
from chunk_bytes import Chunk, Record, float32
from openpyxl.utils.escape import unescape
from openpyxl.worksheet.worksheet import Worksheet
from wire import write

from daemon import Daemon

NAN, INF = float("nan"), float("inf")
# Names that a spreadsheet might interpret as something else.
PAIRS: dict[str, tuple[list[float], list[float]]] = {
    "exact": ([1.0, 2.0], [1.0, 2.0]),
    "tenth": ([0.1, 0.3], [0.2, 0.3]),
    "=1+1": ([1.0], [2.0]),
    "12": ([INF, 1.0], [1.0, 1.0]),
    '<a & "b", é>': ([1.0, 2.0, 3.0], [1.0, 2.0]),
    "only golden": ([1.0], []),
}


def compare(daemon: Daemon, *flags: str) -> None:
    for side, run in enumerate(("g", "t")):
        records = [
            Record(op, float32(*pair[side]), [len(pair[side])], sequence=i)
            for i, (op, pair) in enumerate(PAIRS.items())
            if pair[side]
        ]
        write(daemon.channel(), run, [Chunk(run, records).pack()])
    daemon.ctl("compare", "run", "g", "t", *flags, expect=None)


def sheet_of(daemon: Daemon, file: Path, *flags: str) -> Worksheet:
    daemon.ctl("compare", "report", "c-000001", "--out", str(file), *flags)
    book = openpyxl.load_workbook(file)
    assert book.sheetnames == ["rows"]
    return book["rows"]


def table(sheet: Worksheet) -> list[dict[str, object]]:
    heading, *rows = sheet.iter_rows(values_only=True)
    return [dict(zip(map(str, heading), row, strict=True)) for row in rows]


def test_workbook_holds_what_the_csv_does(daemon: Daemon, tmp_path: Path) -> None:
    compare(daemon)
    text = daemon.ctl("compare", "report", "c-000001").stdout
    lines = list(csv.DictReader(io.StringIO(text)))
    sheet = sheet_of(daemon, tmp_path / "report.xlsx")
    assert sheet.freeze_panes == "A2"
    # The filter covers the whole table, and columns are wide enough for their
    # texts.
    assert sheet.auto_filter.ref == sheet.dimensions
    widths = sheet.column_dimensions
    assert len('<a & "b", é>') <= widths["D"].width < widths["I"].width <= 61
    rows = table(sheet)
    assert [row["op"] for row in rows] == list(PAIRS)
    assert len(rows) == len(lines)
    for row, line in zip(rows, lines, strict=True):
        assert list(row) == list(line)
        for name, cell in row.items():
            if cell is None:
                assert line[name] == ""
            elif isinstance(cell, bool):
                assert str(cell).lower() == line[name], name
            elif isinstance(cell, str):
                assert cell == line[name], name
            else:
                # The digits of a double that Excel keeps.
                assert float(f"{float(line[name]):.16g}") == cell, name
    by_op = {str(row["op"]): row for row in rows}
    assert by_op["exact"]["cosine"] == 1
    assert by_op["12"]["golden_max"] == "inf"
    # A text, not a formula.
    assert sheet.cell(4, 4).value == "=1+1"
    assert sheet.cell(4, 4).data_type in ("s", "inlineStr")


def test_workbook_replaces_what_xml_has_not(daemon: Daemon, tmp_path: Path) -> None:
    record = Record("a\ufffeb\uffffc", float32(1.0), [1])
    for run in ("g", "t"):
        write(daemon.channel(), run, [Chunk(run, [record]).pack()])
    daemon.ctl("compare", "run", "g", "t")
    rows = table(sheet_of(daemon, tmp_path / "report.xlsx"))
    assert [row["op"] for row in rows] == ["a\ufffdb\ufffdc"]


def test_msit_workbook_keeps_what_its_csv_leaves_out(
    daemon: Daemon, tmp_path: Path
) -> None:
    compare(daemon, "--metrics", "msit")
    text = daemon.ctl("compare", "report", "c-000001", "--format", "msit").stdout
    lines = list(csv.DictReader(io.StringIO(text)))
    sheet = sheet_of(daemon, tmp_path / "m.xlsx", "--format", "msit")
    rows = table(sheet)
    assert len(rows[0]) == 24
    assert list(rows[0]) == list(lines[0])
    assert [row["data_id"] for row in rows] == [0, 1, 2, 3, 4]
    assert len(lines) == 4
    assert rows[0]["token_id"] == "0"
    assert rows[4]["cmp_fail_reason"] == "data shape doesn't match."
    assert rows[4]["cosine_similarity"] is None
    for row, line in zip(rows, lines, strict=False):
        for name, cell in row.items():
            if isinstance(cell, int | float):
                assert cell == float(f"{float(line[name]):.16g}"), name


def test_msprobe_workbook_has_its_columns(daemon: Daemon, tmp_path: Path) -> None:
    compare(daemon)
    flags = ("--format", "msprobe", "--mode", "md5")
    text = daemon.ctl("compare", "report", "c-000001", *flags).stdout
    lines = list(csv.DictReader(io.StringIO(text)))
    rows = table(sheet_of(daemon, tmp_path / "p.xlsx", *flags))
    assert [[cell or "" for cell in row.values()] for row in rows] == [
        list(line.values()) for line in lines
    ]


def test_texts_that_look_like_escapes_come_back(daemon: Daemon, tmp_path: Path) -> None:
    names = ["_x0041_", "a_x000d_b", "_x005F_x0041_", "_x41_", "_x0041", "x\ty"]
    records = [Record(op, float32(1.0), [1]) for op in names]
    for run in ("g", "t"):
        write(daemon.channel(), run, [Chunk(run, records).pack()])
    daemon.ctl("compare", "run", "g", "t")
    rows = table(sheet_of(daemon, tmp_path / "report.xlsx"))
    # Unescaped as a spreadsheet does; openpyxl leaves that to its caller.
    assert sorted(unescape(str(row["op"])) for row in rows) == sorted(names)


def test_truths_and_own_metrics_are_no_texts(daemon: Daemon, tmp_path: Path) -> None:
    plugin = tmp_path / "own.py"
    plugin.write_text("def x_path(golden, target):\n    return 0.5, '7'\n")
    compare(daemon, "--python", sys.executable, "--plugin", f"{plugin}:x_path")
    rows = table(sheet_of(daemon, tmp_path / "report.xlsx"))
    by_op = {str(row["op"]): row for row in rows}
    assert by_op["exact"]["bitwise_equal"] is True
    assert by_op["tenth"]["bitwise_equal"] is False
    assert by_op["exact"]["x_path"] == 0.5
    assert by_op["exact"]["x_path:text"] == "7"
    # A name that looks like a number stays a text.
    assert "12" in by_op
