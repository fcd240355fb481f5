"""Helpers of tests of exports."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from chunk_bytes import Chunk, Record
from wire import write

from daemon import Daemon

EVIL_OPS = [
    "../../../etc/passwd",
    "..",
    ".",
    "/abs",
    "a/b",
    "a\\b",
    "new\nline",
    "x" * 1024,
    "y/" * 512,
    "Case",
    "case",
    "CASE",
    "con",
    "NUL.weight",
    "ünïcode",
    "a,b~c%2f",
    "-rf",
    ".hidden",
    " blank ",
    "~~" + "0" * 32,
]


def send(daemon: Daemon, run: str, records: list[Record], **chunk: Any) -> None:
    """Writes records in chunks of a hundred."""
    chunks = []
    for begin in range(0, len(records), 100):
        part = [
            replace(record, sequence=begin + i)
            for i, record in enumerate(records[begin : begin + 100])
        ]
        number = begin // 100
        chunks.append(Chunk(run, part, sequence=number, version=3, **chunk).pack())
    write(daemon.channel(), run, chunks)


def export(daemon: Daemon, out: Path, *flags: str, expect: int = 0) -> dict[str, Any]:
    """Exports the run `r` and returns the final line."""
    line = daemon.ctl(
        "run", "export", "r", "--out", str(out), *flags, "-o", "json", expect=expect
    )
    return json.loads(line.stdout)


def index(out: Path) -> dict[str, dict[str, Any]]:
    """Returns the lines of tensors.jsonl by op."""
    lines = (out / "tensors.jsonl").read_text().splitlines()
    return {line["op"]: line for line in map(json.loads, lines)}
