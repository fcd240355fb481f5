"""Joins the reports of several ranks, for `msprobe merge_result`.

msprobe runs this program in python3. Its arguments are the folder of the reports, the
folder of the result, and the APIs and columns as JSON lists. Without columns, all
columns that compare both sides are joined.

The workbook has a sheet for each column. Its rows are the names that contain one of the
APIs, sorted, and its columns are the ranks. A cell is empty if the rank has no such
row.
"""

from __future__ import annotations

import csv
import json
import math
import os
import re
import sys
import time
import zipfile
from pathlib import Path
from xml.etree import ElementTree
from xml.sax.saxutils import escape

FILE_BYTES_MAX = 1 << 30
# The limit of the format.
COLUMNS_MAX = 16384
# The cells of a workbook, with those that its rows skip.
CELLS_MAX = 1 << 26
PREFIX = "compare_result_"
REPORT = re.compile(
    PREFIX + r"(?P<rank>(?:rank|proc)\d+)(?:-(?:rank|proc)\d+)?"
    r"_(?P<time>\d+)(?:_(?P<number>\d+))?\.(?:csv|xlsx)"
)
CELL = re.compile(r"(?P<column>[A-Z]{1,3})[0-9]*")
NAME = "NPU Name"
# The columns between those of both sides and those of their statistics.
BEFORE = "Bench Requires_grad"
BEHIND = "NPU max"
AGREEMENT = "Requires_grad Consistent"
HASH = "NPU MD5"
TRUTHS = {"True": 1, "False": 0}

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
SCHEMAS = "http://schemas.openxmlformats.org"
RELATIONS = f"{SCHEMAS}/officeDocument/2006/relationships"
HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
SHEET_NAME_MAX = 31

Rows = list[list[str]]


def log(level: str, text: str) -> None:
    """Writes a line in the format of msprobe."""
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    text = re.sub(r"[\x00-\x1f\x7f]", "_", text)
    print(f"{now} ({os.getpid()}) [{level}] {text}")


def member(book: zipfile.ZipFile, name: str) -> bytes:
    """Returns a file of a workbook."""
    if book.getinfo(name).file_size > FILE_BYTES_MAX:
        raise ValueError(f"{name} has more than {FILE_BYTES_MAX} bytes")
    return book.read(name)


def text_of(element: ElementTree.Element) -> str:
    return "".join(each.text or "" for each in element.iter(f"{MAIN}t"))


def column_of(reference: str) -> int:
    """Returns 0 for A1 and 27 for AB3."""
    match = CELL.fullmatch(reference)
    number = 0
    for letter in match["column"] if match else "":
        number = number * 26 + ord(letter) - ord("A") + 1
    if not 0 < number <= COLUMNS_MAX:
        raise ValueError(f"{reference[:20]!r} is not a cell")
    return number - 1


def shared_text(shared: list[str], index: str) -> str:
    """Returns a text of the table that all cells share."""
    if not 0 <= int(index) < len(shared):
        raise ValueError(f"there is no shared text {int(index)}")
    return shared[int(index)]


def read_sheet(path: Path) -> Rows:
    """Returns the cells of the first sheet of a workbook."""
    with zipfile.ZipFile(path) as book:
        shared: list[str] = []
        if "xl/sharedStrings.xml" in book.namelist():
            table = ElementTree.fromstring(member(book, "xl/sharedStrings.xml"))
            shared = [text_of(each) for each in table]
        sheet = ElementTree.fromstring(member(book, "xl/worksheets/sheet1.xml"))
    rows: Rows = []
    count = 0
    for row in sheet.iter(f"{MAIN}row"):
        cells: list[str] = []
        for cell in row:
            value = cell.find(f"{MAIN}v")
            text = text_of(cell) if value is None else value.text or ""
            if cell.get("t") == "s":
                text = shared_text(shared, text)
            elif cell.get("t") == "b":
                text = "True" if text == "1" else "False"
            place = column_of(cell.get("r", "")) if cell.get("r") else len(cells)
            if place < len(cells):
                raise ValueError(f"{cell.get('r')} is not in the order of the columns")
            cells += [""] * (place - len(cells)) + [text]
        rows.append(cells)
        count += len(cells)
        if count > CELLS_MAX:
            raise ValueError(f"it has more than {CELLS_MAX} cells")
    return rows


def read_rows(path: Path) -> Rows:
    """Returns the cells of a report."""
    if path.stat().st_size > FILE_BYTES_MAX:
        raise ValueError(f"it has more than {FILE_BYTES_MAX} bytes")
    if path.suffix == ".xlsx":
        return read_sheet(path)
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


class Report:
    """The wanted rows of one rank, by name."""

    def __init__(self, path: Path, apis: list[str]) -> None:
        try:
            rows = read_rows(path)
        except (KeyError, ValueError, IndexError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path}: it cannot be read: {error}") from None
        except (ElementTree.ParseError, csv.Error) as error:
            raise ValueError(f"{path}: it cannot be read: {error}") from None
        self.header = rows[0] if rows else []
        if NAME not in self.header:
            raise ValueError(f"{path}: it has no column {NAME!r}")
        if HASH in self.header:
            raise ValueError(f"{path}: reports of checksums have no numbers to join")
        name = self.header.index(NAME)
        width = len(self.header)
        self.rows = {
            row[name]: row + [""] * (width - len(row))
            for row in rows[1:]
            if len(row) > name and any(api in row[name] for api in apis)
        }

    def compared(self) -> list[str]:
        """Returns the columns that compare both sides."""
        if BEFORE not in self.header or BEHIND not in self.header:
            return []
        first, last = self.header.index(BEFORE) + 1, self.header.index(BEHIND)
        agreement = [AGREEMENT] if AGREEMENT in self.header else []
        return self.header[first:last] + agreement


def find_reports(folder: Path) -> dict[str, Path]:
    """Returns the newest report of each rank, in the order of their numbers."""
    dated = []
    for path in sorted(folder.iterdir(), key=lambda each: each.name):
        match = REPORT.fullmatch(path.name)
        if match is not None:
            age = int(match["time"]), int(match["number"] or 0)
            dated.append((age, path.name, match["rank"], path))
        elif path.name.startswith(PREFIX):
            log("WARNING", f"{path.name} is not used: its name has no rank and time")
    found: dict[str, Path] = {}
    for _, name, rank, path in sorted(dated):
        if rank in found:
            log("WARNING", f"{found[rank].name} is not used: {name} is newer")
        found[rank] = path
    if not found:
        raise ValueError(
            f"{folder}: it has no report compare_result_rank<N>_<time>.xlsx or .csv"
        )
    return dict(sorted(found.items(), key=lambda each: int(each[0][4:])))


def is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def sheet_of(reports: dict[str, Report], names: list[str], column: str) -> str:
    """Returns the XML of one sheet."""
    table: Rows = []
    for name in names:
        cells = [name]
        for report in reports.values():
            row = report.rows.get(name)
            at = report.header.index(column)
            cells.append("" if row is None else row[at].strip())
        table.append(cells)
    # As in msprobe, a column is a number only if all of its cells are.
    values = [cell for row in table for cell in row[1:] if cell]
    has_numbers = all(map(is_number, values))
    has_truths = all(cell in TRUTHS for cell in values)

    def cell_xml(text: str, at: int) -> str:
        if at > 0 and has_truths and text:
            return f'<c t="b"><v>{TRUTHS[text]}</v></c>'
        if at > 0 and has_numbers and text:
            return f"<c><v>{escape(text)}</v></c>"
        if at > 0 and not text:
            return "<c/>"
        text = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "_", text)
        return (
            f'<c t="inlineStr"><is><t xml:space="preserve">{escape(text)}</t></is></c>'
        )

    rows = [
        "<row>"
        + "".join(cell_xml(text, at) for at, text in enumerate(cells))
        + "</row>"
        for cells in table
    ]
    heading = "".join(cell_xml(text, 0) for text in [NAME, *reports])
    return (
        f'{HEAD}<worksheet xmlns="{MAIN[1:-1]}"><sheetData><row>{heading}</row>'
        f"{''.join(rows)}</sheetData></worksheet>"
    )


def parts_of(sheets: dict[str, str]) -> dict[str, str]:
    """Returns the files of a workbook."""
    count = range(1, len(sheets) + 1)
    types = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    overrides = "".join(
        f'<Override PartName="/xl/worksheets/sheet{i}.xml" '
        f'ContentType="{types}.worksheet+xml"/>'
        for i in count
    )
    listed = "".join(
        f'<sheet name="{escape(name)}" sheetId="{i}" r:id="rId{i}"/>'
        for i, name in zip(count, sheets, strict=True)
    )
    relations = "".join(
        f'<Relationship Id="rId{i}" Type="{RELATIONS}/worksheet" '
        f'Target="worksheets/sheet{i}.xml"/>'
        for i in count
    )
    package = f"{SCHEMAS}/package/2006"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types">'
        '<Default Extension="rels" ContentType='
        '"application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{types}.sheet.main+xml"/>'
        f"{overrides}</Types>",
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships">'
        f'<Relationship Id="rId1" Type="{RELATIONS}/officeDocument" '
        'Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN[1:-1]}" xmlns:r="{RELATIONS}">'
        f"<sheets>{listed}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
        f"{relations}</Relationships>",
    }
    parts = {name: HEAD + text for name, text in parts.items()}
    for i, sheet in zip(count, sheets.values(), strict=True):
        parts[f"xl/worksheets/sheet{i}.xml"] = sheet
    return parts


def write(folder: Path, sheets: dict[str, str]) -> Path:
    """Writes the workbook, completely or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"multi_ranks_compare_merge_{time.strftime('%Y%m%d%H%M%S', time.gmtime())}"
    path, number = folder / f"{stem}.xlsx", 0
    while path.exists():
        number += 1
        path = folder / f"{stem}_{number}.xlsx"
    temporary = folder / f".{path.name}.{os.getpid()}"
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as book:
            for name, text in parts_of(sheets).items():
                book.writestr(name, text)
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def join(folder: str, output: str, apis: list[str], wanted: list[str]) -> Path:
    """Joins the reports of a folder."""
    reports = {
        rank: Report(path, apis) for rank, path in find_reports(Path(folder)).items()
    }
    columns = wanted or next(iter(reports.values())).compared()
    for rank, report in reports.items():
        lacking = [column for column in columns if column not in report.header]
        if lacking:
            raise ValueError(f"the report of {rank} has no column {lacking[0]!r}")
    names = sorted({name for report in reports.values() for name in report.rows})
    if not names:
        raise ValueError(f"no report has a row of {', '.join(apis)}")
    missing = sum(name not in r.rows for r in reports.values() for name in names)
    if missing:
        log("WARNING", f"{missing} cells of each sheet are empty: no such row")
    sheets = {c[:SHEET_NAME_MAX]: sheet_of(reports, names, c) for c in columns}
    return write(Path(output), sheets)


def main(folder: str, output: str, apis: str, columns: str) -> int:
    """Joins the reports. Returns the exit code."""
    try:
        path = join(folder, output, json.loads(apis), json.loads(columns))
    except (OSError, ValueError) as error:
        print(f"msprobe: {error}", file=sys.stderr)
        return 1
    log(
        "INFO",
        f"The compare results of the multi-ranks are merged and saved in: {path}.",
    )
    return 0


sys.exit(main(*sys.argv[1:]))
