"""Changes the text of a dump, line by line, as msitctl writes it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import IO, Any

# What is before the records in a dump.
_HEAD_BYTES_MAX = 1 << 16
_DATA = b'\n "data": '
_COPY_BYTES = 1 << 20

_SHAPE = b'"shape": '
_NORMS = (b'"Mean": ', b'"Norm": ')


def rewrite_dump(path: str, head: dict[str, Any], has_norms: bool) -> None:
    """Writes other members before `data` of a dump.

    Args:
        has_norms: Whether mean and norm of tensors stay. Otherwise they are null, but
            for tensors of no dimension, whose only element they are.

    Raises:
        RuntimeError: The file is no dump.
        OSError: It cannot be read or written.
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
    # A text in a dump has no line feed: each line is one member.
    for line in source:
        member = line.lstrip()
        if member.startswith(_SHAPE):
            has_one = b"[]" in member
        elif member.startswith(_NORMS) and not has_one:
            name, _, value = line.partition(b": ")
            # An argument may have such a name; it is an object.
            if not value.startswith((b"{", b"[")):
                end = b",\n" if value.endswith(b",\n") else b"\n"
                line = name + b": null" + end
        yield line
