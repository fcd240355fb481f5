"""Patterns of ops."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any


def compile_patterns(patterns: str | Iterable[str] | None) -> Any:
    """Returns a function that tests whether one of the patterns matches a whole op.

    `*` matches any bytes, `?` matches one byte. None matches all ops.
    """
    if patterns is None:
        return lambda op: True
    if isinstance(patterns, str):
        patterns = [patterns]
    # Matches bytes, as GlobMatch of the capture policy does.
    regex = b"|".join(
        re.escape(_bytes_of(pattern)).replace(rb"\*", b".*").replace(rb"\?", b".")
        for pattern in patterns
    )
    matches = re.compile(regex, re.DOTALL).fullmatch
    return lambda op: matches(_bytes_of(op))


def _bytes_of(name: str) -> bytes:
    # An unpaired surrogate is refused when it is recorded, not here.
    return name.encode(errors="surrogatepass")
