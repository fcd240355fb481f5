"""Compares two evaluations of a model with pandas, for `msit llm analyze` and
`bcanalyze`.

msit runs this program in python3. Its arguments are the verb, the log level, and the
paths of the golden CSV file and of the other one.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import os
import re
import sys
from datetime import datetime, timedelta, timezone
from typing import Any

CSV_BYTES_MAX = 1 << 30
# Limits the rows that result from equal keys in both files.
JOINED_ROWS_MAX = 1 << 24
SHOWN_UNMATCHED = 5

FOLDER = "msit_bad_case/analyzer"
LOG_FORMAT = "%(asctime)s - %(process)d - %(name)s - %(levelname)s - %(message)s"
CHINA = timezone(timedelta(hours=8))
TOKENS = ["input_token_ids", "output_token_ids"]


def on_one_line(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f]", "_", text)


def log(level: int, text: str) -> None:
    logging.getLogger("msit_llm_logger").log(level, "%s", on_one_line(text))


def info(text: str) -> None:
    log(logging.INFO, text)


def read(pandas: Any, path: str) -> Any:
    """Returns the rows of a file in which no column lacks a value."""
    info(f"Checking if path {path!r} is valid...")
    if not path.endswith(".csv"):
        raise ValueError("Invalid csv path, only path with suffix '.csv' is allowed")
    with open(path, "rb") as file:
        data = file.read(CSV_BYTES_MAX + 1)
    if len(data) > CSV_BYTES_MAX:
        raise ValueError(f"it has more than {CSV_BYTES_MAX} bytes")
    if b"\0" in data:
        raise ValueError("it has a NUL character")
    # Bytes that are not UTF-8 are kept.
    options = {"low_memory": False, "encoding_errors": "surrogateescape"}
    header = pandas.read_csv(io.BytesIO(data), header=None, nrows=1, **options).iloc[0]
    # pandas would rename the second of two columns with the same name.
    if header.duplicated().any():
        raise ValueError(
            f"column {header[header.duplicated()].iloc[0]!r} appears twice"
        )
    frame = pandas.read_csv(io.BytesIO(data), **options)
    # pandas uses the first fields of lines that are longer than the header as names
    # of rows.
    if len(frame) > 0 and not isinstance(frame.index, pandas.RangeIndex):
        raise ValueError("a line has more fields than the header")
    if {"pass", "passed"} <= set(frame):
        raise ValueError("it has both pass and passed")
    return frame.rename(columns={"pass": "passed"}).dropna()


def read_both(pandas: Any, paths: list[str], by_key: bool) -> Any:
    """Returns both tables, the columns to join them by, and the others."""
    tables = []
    for path in paths:
        try:
            tables.append(read(pandas, path))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    keys, others = ["queries"], [*TOKENS, "passed"]
    if by_key:
        keys = ["key", "queries"] if "queries" in tables[0] else ["key"]
        others = others if set(TOKENS) <= set(tables[0]) else ["passed"]
    for i, table in enumerate(tables):
        info("Checking if the header of csv is valid...")
        if not {*keys, *others} <= set(table):
            needed = ", ".join(keys + others)
            raise ValueError(
                f"{paths[i]}: Unmatched csv columns, expected to have {needed}"
            )
        if by_key:
            words = {"correct": "true", "wrong": "false"}
            table["passed"] = table["passed"].astype(str).str.lower().replace(words)
    return (*tables, keys, others)


def save(text: str, stem: str) -> None:
    os.makedirs(os.path.dirname(FOLDER), exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(FOLDER, 0o700)
    for i in itertools.count():
        path = f"{FOLDER}/{stem}{f'_{i}' if i else ''}.csv"
        try:
            file = open(path, "xb")  # noqa: SIM115  FileExistsError is expected.
            break
        except FileExistsError:
            continue
    try:
        with file:
            file.write(text.encode("utf-8", "surrogateescape"))
    except BaseException as error:
        os.unlink(path)
        if isinstance(error, OSError):
            error.filename = path
        raise
    done = "'Analyzer' has successfully finished the analysis, the result is stored at"
    info(f"{done} {path!r}")


def analyze(pandas: Any, paths: list[str], by_key: bool) -> None:
    if by_key:
        info(
            "'Analyzer' received two csv paths, the golden one is:\n\t"
            f"{paths[0]!r}\nand the test one is:\n\t{paths[1]!r}"
        )
    golden, test, keys, others = read_both(pandas, paths, by_key)
    info("Analyzing...")
    if (golden.value_counts(keys) * test.value_counts(keys)).sum() > JOINED_ROWS_MAX:
        raise ValueError(f"too many rows have equal {' and '.join(keys)}")
    joined = golden[keys + others].merge(
        test[keys + others], "left", keys, suffixes=("_golden", "_test"), indicator=True
    )
    is_matched = joined["_merge"] == "both"
    differs = is_matched & (joined["passed_golden"] != joined["passed_test"])
    columns = keys + [
        f"{name}_{side}" for name in others for side in ("golden", "test")
    ]
    if differs.any():
        prefix = "msit_bad_case_result_" if by_key else ""
        now = datetime.now(CHINA).strftime("%Y%m%d%H%M%S")
        save(joined.loc[differs, columns].to_csv(index=False), prefix + now)
    else:
        log(
            logging.WARNING,
            "'Analyzer' detected that there is no difference between the given golden "
            "result and test result. Hence no result is saved",
        )
    unmatched = joined.loc[~is_matched, keys[0]]
    if len(unmatched) > 0:
        what = "unmatched query's key" if by_key else "unmatched queries"
        shown = unmatched.head(SHOWN_UNMATCHED).to_string()
        log(
            logging.WARNING,
            f"There are '{len(unmatched)}' quer(ies) not matched, below is a partial "
            f"display of these {what}:\n\t '{shown}'",
        )


def main() -> int | str:
    verb, level, *paths = sys.argv[1:]
    logging.basicConfig(format=LOG_FORMAT, level=level.upper())
    try:
        import pandas

        pandas.set_option("mode.string_storage", "python")
        pandas.set_option("display.max_colwidth", None)
        pandas.set_option("display.unicode.east_asian_width", True)
        analyze(pandas, paths, verb == "bcanalyze")
    except KeyboardInterrupt:
        return 130
    except ImportError as error:
        text = f"{verb} requires pandas, and {sys.executable} does not have it: {error}"
    except OSError as error:
        text = f"{error.filename or verb}: {error.strerror or error}"
    except Exception as error:  # noqa: BLE001  An error is one line.
        text = str(error) or type(error).__name__
    else:
        return 0
    return on_one_line(f"msit: {' '.join(text.split())}")


if __name__ == "__main__":
    sys.exit(main())
