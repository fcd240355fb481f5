"""Edits the text of a dump line by line, in the format that msitctl writes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import IO, Any

# Maximum size of the part before the records of a dump.
_HEAD_BYTES_MAX = 1 << 16
_DATA = b'\n "data": '
_COPY_BYTES = 1 << 20

_SHAPE = b'"shape": '
_NORMS = (b'"Mean": ', b'"Norm": ')


def rewrite_dump(path: str, head: dict[str, Any], has_norms: bool) -> None:
    """Writes other members before `data` of a dump.

    Args:
        has_norms: Whether mean and norm of tensors are kept. Otherwise they
            become null, except for tensors without dimensions, where they equal
            the only element.

    Raises:
        RuntimeError: The file is not a dump.
        OSError: The file cannot be read or written.
    """
    with open(path, "rb") as source:
        begin = source.read(_HEAD_BYTES_MAX)
        place = begin.find(_DATA)
        if place < 0:
            raise RuntimeError(f"{path} is no dump of msprobe")
        source.seek(place)
        with open(path + ".new", "wb") as target:
            text = json.dumps(head, indent=1).removesuffix("\n}") + ","
            target.write(text.encode())
            pieces = _pieces(source) if has_norms else _without_norms(source)
            target.writelines(pieces)
    os.chmod(path + ".new", os.stat(path).st_mode & 0o777)
    os.replace(path + ".new", path)


def _pieces(source: IO[bytes]) -> Iterator[bytes]:
    while piece := source.read(_COPY_BYTES):
        yield piece


def _without_norms(source: IO[bytes]) -> Iterator[bytes]:
    has_one = False
    # A text in a dump contains no line feed, so each line is one member.
    for line in source:
        member = line.lstrip()
        if member.startswith(_SHAPE):
            has_one = b"[]" in member
        elif member.startswith(_NORMS) and not has_one:
            name, _, value = line.partition(b": ")
            # An argument may have the same name, but its value is an object.
            if not value.startswith((b"{", b"[")):
                end = b",\n" if value.endswith(b",\n") else b"\n"
                line = name + b": null" + end
        yield line
