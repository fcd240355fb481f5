"""msit llm analyze and bcanalyze, which compare two evaluations with pandas."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from msit_command import PYTHON, log_of, msit, only_file

RESULT = "msit_bad_case/analyzer"

GOLDEN = """queries,input_token_ids,output_token_ids,passed
"What, now?","[1, 2]",[3],True
same,[1],[4],True
single,[1],[4],False
empty,[1],,True
"""
TEST = """queries,input_token_ids,output_token_ids,pass
"What, now?",[1],[5],False
same,[1],[4],true
"""


def analyze(
    folder: Path, golden: str, test: str, *words: str, expect: int = 0
) -> "subprocess.CompletedProcess[str]":
    """Runs `msit llm analyze` on files with these contents."""
    (folder / "g.csv").write_text(golden)
    (folder / "t.csv").write_text(test)
    verb = ("llm", "analyze", "-g", "g.csv", "-t", "t.csv", *words)
    return msit(folder, *verb, expect=expect, environment=PYTHON)


def bcanalyze(
    folder: Path, golden: bytes, test: bytes, expect: int = 0, **environment: str
) -> "subprocess.CompletedProcess[str]":
    (folder / "g.csv").write_bytes(golden)
    (folder / "t.csv").write_bytes(test)
    verb = ("llm", "bcanalyze", "-gp", "g.csv", "--my", "t.csv")
    return msit(folder, *verb, expect=expect, environment={**PYTHON, **environment})


def bad_cases(folder: Path, golden: bytes, test: bytes) -> list[list[str]]:
    """Returns the rows that `msit llm bcanalyze` writes, without their header."""
    bcanalyze(folder, golden, test)
    with only_file(folder / RESULT).open(newline="") as file:
        return list(csv.reader(file))[1:]


def test_analyze_writes_what_differs(tmp_path: Path) -> None:
    done = analyze(tmp_path, GOLDEN, TEST)
    path = only_file(tmp_path / RESULT)
    assert re.fullmatch(r"\d{14}\.csv", path.name)
    assert path.read_text() == (
        "queries,input_token_ids_golden,input_token_ids_test,"
        "output_token_ids_golden,output_token_ids_test,"
        "passed_golden,passed_test\n"
        '"What, now?","[1, 2]",[1],[3],[5],True,False\n'
    )
    valid = "Checking if the header of csv is valid..."
    assert log_of(done.stderr) == [
        ("msit_llm_logger", level, text)
        for level, text in (
            ("INFO", "Checking if path 'g.csv' is valid..."),
            ("INFO", "Checking if path 't.csv' is valid..."),
            ("INFO", valid),
            ("INFO", valid),
            ("INFO", "Analyzing..."),
            (
                "INFO",
                (
                    "'Analyzer' has successfully finished the analysis, the result is "
                    f"stored at '{RESULT}/{path.name}'"
                ),
            ),
            (
                "WARNING",
                (
                    "There are '1' quer(ies) not matched, below is a partial display of "
                    "these unmatched queries:__ '2    single'"
                ),
            ),
        )
    ]


def test_analyze_twice_in_a_second_keeps_both_files(tmp_path: Path) -> None:
    for _ in range(3):
        analyze(tmp_path, GOLDEN, TEST)
    assert len(list((tmp_path / RESULT).iterdir())) == 3


def test_bcanalyze_joins_by_key_in_any_spelling(tmp_path: Path) -> None:
    golden = b"key,passed\n1,Correct\n2,Wrong\n3,Correct\n4,Correct\n"
    test = b"key,passed,x\n4,Wrong,1\n3,TRUE,1\n2,false,1\n1,False,1\n1,Correct,1\n"
    assert bad_cases(tmp_path, golden, test) == [
        ["1", "true", "false"],
        ["4", "true", "false"],
    ]
    name = only_file(tmp_path / RESULT).name
    assert re.fullmatch(r"msit_bad_case_result_\d{14}\.csv", name)


def test_bcanalyze_also_joins_by_queries(tmp_path: Path) -> None:
    columns = b"key,queries,input_token_ids,output_token_ids,passed\n"
    golden = columns + b"1,a,1,2,True\n1,b,3,4,True\n2,c,5,6,True\n"
    rows = bad_cases(tmp_path, golden, columns + b"1,b,3,7,False\n1,x,3,7,False\n")
    # A column in which some rows have no value has no integers.
    assert rows == [["1", "b", "3", "3.0", "4", "7.0", "true", "false"]]


@pytest.mark.parametrize(
    ("golden", "test", "keys"),
    [
        (" 1\n2", "1.0\n2", ["1", "2"]),
        ("1e-05\n0.25", "0.00001\n0.250", ["1e-05", "0.25"]),
        ("007\n+2", "7\n2", ["7", "2"]),
        # Whole numbers beyond 64 bits stay apart.
        ("99999999999999999991\nx", "99999999999999999992\nx", ["x"]),
        ("a\nNULL\n\nnan", "a\nNULL\nnan", ["a"]),
        ('"a\r\n""b"""', '"a\r\n""b"""', ['a\r\n"b"']),
    ],
)
def test_pandas_decides_which_keys_are_equal(
    tmp_path: Path, golden: str, test: str, keys: list[str]
) -> None:
    def table(rows: str, passed: str) -> bytes:
        lines = re.sub("([^\r])(\n|$)", rf"\1,{passed}\2", rows)
        return b"\xef\xbb\xbfkey,passed\n" + lines.encode()

    rows = bad_cases(tmp_path, table(golden, "True"), table(test, "False"))
    assert [row[0] for row in rows] == keys


def test_other_encodings_are_kept(tmp_path: Path) -> None:
    golden = "key,passed,note\n你,True,好\n".encode("gbk")
    bcanalyze(tmp_path, golden, golden.replace(b"True", b"wrong"))
    written = only_file(tmp_path / RESULT).read_bytes()
    assert written.splitlines()[1] == "你,true,false".encode("gbk")


def test_nothing_is_written_without_a_difference(tmp_path: Path) -> None:
    done = bcanalyze(tmp_path, b"key,passed\na,True\n", b"key,passed\na,correct\n")
    (_, level, text) = log_of(done.stderr)[-1]
    assert level == "WARNING" and text.endswith("Hence no result is saved")
    assert not (tmp_path / "msit_bad_case").exists()


def test_files_are_not_for_others(tmp_path: Path) -> None:
    analyze(tmp_path, GOLDEN, TEST)
    folder = tmp_path / "msit_bad_case"
    assert folder.stat().st_mode & 0o777 == 0o750
    assert (folder / "analyzer").stat().st_mode & 0o777 == 0o700
    assert only_file(folder / "analyzer").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("golden", "said"),
    [
        ("queries,passed\na,True\n", "Unmatched csv columns"),
        ("", "No columns to parse from file"),
        (GOLDEN + '"', "EOF inside string"),
        ("queries,passed\na,True,x\n", "a line has more fields than the header"),
        ("queries,passed\na,True\nb,True,x\n", "Expected 2 fields in line 3, saw 3"),
        ("queries,passed,queries\na,True,b\n", "column 'queries' appears twice"),
        ("queries,passed,pass\na,True,x\n", "it has both pass and passed"),
        (GOLDEN + "a\0b,1,1,True\n", "a NUL character"),
    ],
)
def test_an_error_is_one_line(tmp_path: Path, golden: str, said: str) -> None:
    done = analyze(tmp_path, golden, TEST, "-l", "critical", expect=1)
    assert done.stderr.startswith("msit: g.csv: ") and said in done.stderr
    assert done.stderr.count("\n") == 1


def test_too_many_rows_are_refused(tmp_path: Path) -> None:
    table = b"key,passed\n" + b"a,True\n" * 4100
    done = bcanalyze(tmp_path, table, table, expect=1)
    assert done.stderr.endswith("msit: too many rows have equal key\n")


def test_keys_of_other_types_are_refused(tmp_path: Path) -> None:
    done = bcanalyze(
        tmp_path, b"key,passed\n1,True\n", b"key,passed\nx,True\n", expect=1
    )
    assert done.stderr.splitlines()[-1].startswith("msit: You are trying to merge on ")


def python3(folder: Path, command: str) -> str:
    """Returns a PATH whose `python3` runs this command."""
    folder.mkdir()
    program = folder / "python3"
    program.write_text(f"#!/bin/sh\n{command}\n")
    program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (f'exec {sys.executable} -S -I "$@"', "bcanalyze requires pandas, and "),
        ("kill -9 $$", "python3 was ended by: Killed"),
    ],
)
def test_another_python_is_reported(tmp_path: Path, command: str, said: str) -> None:
    path = python3(tmp_path / "bin", command)
    done = bcanalyze(tmp_path, b"", b"", expect=1, PATH=path)
    assert done.stderr.startswith(f"msit: {said}") and done.stderr.count("\n") == 1


def test_no_python_is_reported(tmp_path: Path) -> None:
    done = bcanalyze(tmp_path, b"", b"", expect=1, PATH=str(tmp_path))
    assert done.stderr.startswith("msit: bcanalyze requires pandas: start python3: ")


def test_modules_of_the_working_directory_are_not_imported(tmp_path: Path) -> None:
    for name in ("csv", "logging", "pandas"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')\n")
    bcanalyze(tmp_path, b"key,passed\na,True\n", b"key,passed\na,False\n")
    only_file(tmp_path / RESULT)
