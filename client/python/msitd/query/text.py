"""Texts for people, in the form in which msitctl prints them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

# Characters that are invisible or change the order of their neighbors. Terminals
# treat unassigned code points (Cn) differently. Surrogates (Cs) cannot be encoded.
_HIDDEN = ("Cc", "Cf", "Zl", "Zp", "Cn", "Cs")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def printable(text: str) -> str:
    """Replaces characters that could move the cursor or end the line with escapes.

    The same as `Printable` in client/ask/text.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        _escape(c) if unicodedata.category(c) in _HIDDEN else c for c in text
    )


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{{{code:x}}}"


def shorten(text: str, width: int) -> str:
    """Replaces the middle of a text that has more than `width` characters.

    Names of ops differ at both ends.
    """
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}\u2026{text[len(text) - tail :]}"


def human_size(size_bytes: int) -> str:
    """Returns `512 B`, `1.5 MiB`, `20 GiB`."""
    value, unit = float(size_bytes), 0
    # 1023.95 would be shown as 1024.0.
    while abs(value) >= 1023.95 and unit + 1 < len(_UNITS):
        value /= 1024
        unit += 1
    return f"{f'{value:.1f}'.removesuffix('.0')} {_UNITS[unit]}"


def human_duration(seconds: float) -> str:
    """Returns `0.25s`, `42s`, `3m07s`, `2h00m05s`, `3d01h`."""
    if seconds < 10:
        return f"{seconds:.3g}s"
    whole = int(seconds)
    minutes, hours, days = whole // 60 % 60, whole // 3600 % 24, whole // 86400
    if days:
        return f"{days}d{hours:02d}h"
    if hours:
        return f"{hours}h{minutes:02d}m{whole % 60:02d}s"
    return f"{minutes}m{whole % 60:02d}s" if minutes else f"{whole}s"


def ranks_text(ranks: Iterable[int]) -> str:
    """Returns single ranks as a text of ranges: `0-3,7`."""
    ranges: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if ranges and ranges[-1][1] == rank - 1:
            ranges[-1][1] = rank
        else:
            ranges.append([rank, rank])
    return ",".join(
        str(first) if first == last else f"{first}-{last}" for first, last in ranges
    )
