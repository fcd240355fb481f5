"""Compares the documents and `--help` with the output of the programs."""

import csv
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from chunk_bytes import Chunk, Record
from msitd.v1 import node_service_pb2, node_service_pb2_grpc
from wire import write

from daemon import BIN_DIR, Daemon, help_of

DOCS = Path(__file__).resolve().parents[3] / "docs"
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
USERS_PAGES = (
    "cli.md",
    "exec.md",
    "reports.md",
    "comparison.md",
    "comparison_details.md",
    "error_model.md",
    "predicates.md",
    "metrics.md",
)


def text_of(page: str) -> str:
    return (DOCS / page).read_text()


def names_below(*words: str) -> list[str]:
    _, _, commands = help_of(*words).partition("\nCommands:\n")
    return re.findall(r"^  ([a-z][a-z-]*)[ ,]", commands, re.MULTILINE)


def verbs() -> list[tuple[str, ...]]:
    out: list[tuple[str, ...]] = []
    for noun in names_below():
        below = names_below(noun)
        out += [(noun, verb) for verb in below] if below else [(noun,)]
    return out


def table_of(text: str, heading: str) -> list[list[str]]:
    """Returns the cells of the table below this heading line."""
    lines = text[text.index(heading) :].splitlines()[2:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        cells = re.split(r"(?<!\\)\|", line)[1:-1]
        rows.append([cell.strip() for cell in cells])
    return rows


def test_every_flag_of_the_help_is_in_the_manual() -> None:
    pages = ("cli.md", "reports.md", "comparison.md", "exec.md")
    manual = "".join(map(text_of, pages))
    told = set(FLAG.findall(manual))
    missing = [
        f"{' '.join(words)} {flag}"
        for words in [(), *verbs()]
        for flag in set(FLAG.findall(help_of(*words)))
        if flag not in told
    ]
    assert not missing


def test_every_flag_of_the_manual_is_in_the_help() -> None:
    known = {flag for words in [(), *verbs()] for flag in FLAG.findall(help_of(*words))}
    for program in ("msitd", "msitd-inspect"):
        result = subprocess.run(
            [BIN_DIR / program, "--help"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        known |= set(FLAG.findall(result.stdout + result.stderr))
    unknown = {
        (page, flag)
        for page in USERS_PAGES
        for flag in FLAG.findall(text_of(page))
        if flag not in known
    }
    assert not unknown


def metrics_of(daemon: Daemon) -> list[str]:
    stub = node_service_pb2_grpc.NodeServiceStub(daemon.channel())
    request = node_service_pb2.GetCapabilitiesRequest()
    return list(stub.GetCapabilities(request, timeout=30).metrics)


def test_every_metric_of_the_daemon_has_its_formula(daemon: Daemon) -> None:
    page = text_of("metrics.md")
    told: set[str] = set()
    for heading in ("| name | formula |", "| set | name | formula |"):
        column = heading.split("|").index(" name ") - 1
        for row in table_of(page, heading):
            told |= set(re.findall(r"`(\w+)`", row[column])) - {"shares"}
    metrics = set(metrics_of(daemon))
    assert told == metrics
    predicates = text_of("predicates.md")
    for metric in metrics:
        family = f"`{metric.split('_')[0]}_*`"
        assert f"`{metric}`" in predicates or family in predicates, metric


NUMBERS = {
    "bool": 1,
    "int64": 5,
    "float16": 10,
    "bfloat16": 11,
    "float32": 12,
    "float64": 13,
    "float8_e4m3fn": 14,
    "float8_e5m2": 15,
    "complex64": 16,
    "complex128": 17,
}
BYTES = {1: 1, 5: 8, 10: 2, 11: 2, 12: 4, 13: 8, 14: 1, 15: 1, 16: 8, 17: 16}


def test_default_tolerances_are_those_of_the_table(daemon: Daemon) -> None:
    # One rank each, so that none is computed from another.
    names = [name for name in NUMBERS if name != "bool"]
    for run, byte in (("g", b"\1"), ("t", b"\2")):
        for rank, name in enumerate(names):
            number = NUMBERS[name]
            record = Record(name, byte * BYTES[number] * 2, [2], number)
            chunk = Chunk(run, [record], rank=rank)
            write(
                daemon.channel(),
                run,
                [chunk.pack()],
                rank=rank,
                world_size=len(names),
            )
    daemon.ctl("compare", "run", "g", "t", expect=None)
    text = daemon.ctl("compare", "rows", "c-000001", "-o", "csv").stdout
    applied = {row["op"]: row["predicate"] for row in csv.DictReader(io.StringIO(text))}
    table = {}
    page = text_of("predicates.md")
    for types, nl2, scaled, _ in table_of(page, "| element types, strict to loose |"):
        for name in types.split(", "):
            table[name] = (nl2, scaled)
    for name, predicate in applied.items():
        found = re.search(
            r"and nl2 <= (\S+) and scaled_max_abs <= (\S+) (?:and|or)", predicate
        )
        if found is None:
            assert predicate == "mismatch_count == 0" and table["integers"][0] == ""
        else:
            assert found.groups() == table[name], name


@pytest.mark.parametrize("format_", ["csv", "msit", "msprobe"])
def test_reports_name_the_columns_that_they_have(daemon: Daemon, format_: str) -> None:
    for run in ("g", "t"):
        chunk = Chunk(run, [Record("op", bytes(8), [2])])
        write(daemon.channel(), run, [chunk.pack()])
    daemon.ctl("compare", "run", "g", "t", "--metrics", "msit,msprobe")
    report = ("compare", "report", "c-000001", "--format", format_)
    heading = daemon.ctl(*report).stdout.splitlines()[0].split(",")
    page = text_of("reports.md")
    if format_ == "msit":
        count = re.search(r"the (\d+) columns of msit's", page)
        assert count is not None and len(heading) == int(count[1])
    if format_ == "csv":
        metrics = metrics_of(daemon)
        assert heading[-len(metrics) :] == metrics
    if format_ == "msprobe":
        for name in (
            "Cosine",
            "MaxAbsErr",
            "MaxRelativeErr",
            "Err_message",
            "Data_name",
        ):
            assert name in heading and name in page
    # The table of formats describes this one.
    assert f"| `{format_}` |" in page


def test_words_that_a_flag_takes_are_those_of_the_help(daemon: Daemon) -> None:
    """A list of words in the help contains exactly the words that the flag accepts."""
    for run in ("g", "t"):
        chunk = Chunk(run, [Record("op", bytes(8), [2])])
        write(daemon.channel(), run, [chunk.pack()])
    _, _, text = help_of("compare", "run").partition("\nOptions:\n")
    for flag in ("--preset", "--metrics", "--shapes"):
        entry = re.search(rf"{flag}\b(.*?)(?=\n\s+--|\n\n)", text, re.DOTALL)
        assert entry is not None, flag
        words = re.sub(r"\([^)]*\)", "", " ".join(entry[1].split()))
        listed = re.findall(r"(?:^|[:,] | or )([a-z0-9-]+)(?=[,;\s]|$)", words)
        taken = 0
        for word in listed:
            result = daemon.ctl("compare", "run", "g", "t", flag, word, expect=None)
            taken += result.returncode != 2
        assert taken >= 3, (flag, listed)
        daemon.ctl("compare", "run", "g", "t", flag, "nonsense", expect=2)


def entries_of(*words: str) -> dict[str, str]:
    """Returns the help text of each flag of a verb."""
    _, _, text = help_of(*words).partition("\nOptions:\n")
    out: dict[str, str] = {}
    # Groups of flags have headings.
    text = re.sub(r"\n\n+\w+:(?=\n)", "", text)
    for entry in re.split(r"\n(?=  -)", text.partition("\n\n")[0]):
        flags = FLAG.findall(entry.split("  ", 3)[1] if "  " in entry else entry)
        for flag in flags[:1]:
            out[flag] = " ".join(entry.split())
    return out


def manual_of(words: tuple[str, ...], flag: str) -> str:
    """Returns the manual's lines on a flag of a verb, which may refer to
    another verb.
    """
    page = text_of("cli.md")
    _, _, own = page.partition(f"\n### {' '.join(words)}\n")
    _, _, selection = page.partition("\n## Selecting tensors\n")
    own = re.split(r"\n##+ ", own)[0] + re.split(r"\n##+ ", selection)[0]
    for text in (own, page):
        lines = [t for t in text.splitlines() if re.search(rf"{flag}(?![\w-])", t)]
        if lines:
            return "\n".join(lines)
    return ""


def test_defaults_of_the_help_are_those_of_the_manual() -> None:
    wrong = []
    for words in verbs():
        for flag, text in entries_of(*words).items():
            manual = manual_of(words, flag)
            for default in re.findall(r"[Dd]efault:? (\d+[a-zA-Z]*)", text):
                if not re.search(rf"default:? `?{default}\b", manual):
                    wrong.append((*words, flag, default))
    assert not wrong


@pytest.mark.parametrize(
    ("verb", "flag"),
    [
        (("compare", "report"), "--format"),
        (("compare", "report"), "--mode"),
        (("compare", "report"), "--verdict"),
        (("compare", "run"), "--preset"),
        (("compare", "run"), "--metrics"),
        (("compare", "run"), "--shapes"),
        (("compare", "metric"), "--plugin-arrays"),
        (("tensor", "list"), "--io"),
        (("tensor", "stats"), "--by"),
    ],
)
def test_words_of_a_flag_are_those_of_the_manual(
    verb: tuple[str, ...], flag: str
) -> None:
    # An apposition, such as "Of msprobe: ", is not a word that the flag
    # accepts.
    _, _, said = entries_of(*verb)[flag].partition(" ")[2].partition(" ")
    said = re.sub(r"\([^)]*\)|^[A-Z][^:]*: ", "", said).split("; ")[0]
    listed = set(re.split(r", | or | and ", said.strip()))
    manual = manual_of(verb, flag)
    told = set(re.findall(r"`([a-z][a-z0-9_-]*)`", manual)) - {"msprobe"}
    for group in re.findall(rf"{flag} ([a-z]+(?:\|[a-z]+)+)", manual):
        told |= set(group.split("|"))
    assert {word.strip() for word in listed} - {"msprobe"} == told


TIME_AND_PROCESS = re.compile(r"^[\d-]{10} [\d:,]{12} - \d+ - ", re.MULTILINE)
FILE_TIME = re.compile(r"\d{14}")


def without_times(text: str) -> str:
    """Returns a text without the parts that differ between two calls of msit."""
    return FILE_TIME.sub("TIME", TIME_AND_PROCESS.sub("TIME - ", text)).strip()


def run_example(folder: Path, command: str, shown: str) -> None:
    """Runs a command of an example; `cat` of a missing file creates it."""
    words = shlex.split(command)
    if words[0] == "cat" and not FILE_TIME.search(words[1]):
        (folder / words[1]).write_text(shown)
        return
    if words[0] == "cat":
        (path,) = folder.glob(FILE_TIME.sub("*", words[1]))
        assert path.read_text().strip() == shown.strip()
        return
    assert words[0] == "msit", command
    done = subprocess.run(
        [BIN_DIR / "msit", *words[1:]],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
        # Some verbs require a python3 that has pandas.
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
    )
    assert without_times(done.stdout) == without_times(shown), command


def test_examples_of_msit_print_what_the_page_says(tmp_path: Path) -> None:
    # Other examples require dumps.
    blocks = re.findall(r"```\n(\$ cat .*?)```", text_of("msit.md"), re.DOTALL)
    assert len(blocks) > 2
    for number, block in enumerate(blocks):
        folder = tmp_path / str(number)
        folder.mkdir()
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = example.partition("\n")
            run_example(folder, command, shown)
