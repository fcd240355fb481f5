"""Says where in the source a record comes from."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

STACK_LEVELS = ("none", "caller", "full")

# The native client cuts what is longer than 8192 bytes. Deeper frames are not even
# looked at.
_FRAMES_MAX = 256


def stack_of_caller(level: str) -> str | None:
    """Returns the Python frames of the caller, the innermost first.

    Each is a line `file:line function`. Frames of this package are left out.

    Args:
        level: `none` for no text at all, `caller` for the innermost frame outside
            of torch, `full` for all of them.
    """
    if level == "none":
        return None
    frames = _frames(sys._getframe(1))
    if level == "full":
        return "\n".join(_line(frame) for frame in frames) or None
    for frame in frames:
        if _package_of(frame) != "torch":
            return _line(frame)
    return None


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    for _ in range(_FRAMES_MAX):
        if frame is None:
            return
        if _package_of(frame) != "msitd":
            yield frame
        frame = frame.f_back


def _package_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _line(frame: FrameType) -> str:
    code = frame.f_code
    # Python 3.10 knows no qualified names.
    name = getattr(code, "co_qualname", code.co_name)
    return f"{code.co_filename}:{frame.f_lineno} {name}"
