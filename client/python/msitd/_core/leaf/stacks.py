"""Describes where in the source a record was made."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

STACK_LEVELS = ("none", "caller", "full")

# Maximum number of frames. The native client cuts stacks at 8192 bytes, so
# deeper frames are not read.
_FRAMES_MAX = 256
# Maximum number of lines whose texts are kept.
_LINES_MAX = 1 << 16

# The texts of lines by the id of their code and their number. The entry keeps the
# code, so that no other one gets its id. Code can be equal although its file is not.
_lines: dict[tuple[int, int], tuple[CodeType, str]] = {}


def stack_of_caller(level: str) -> str | None:
    """Returns the Python frames of the caller, innermost first.

    Each frame is a line `file:line function`. Frames of this package are
    omitted.

    Args:
        level: `none` for no text, `caller` for the innermost frame outside
            torch, `full` for all frames.
    """
    if level == "none":
        return None
    if level == "full":
        return _full_stack(sys._getframe(1))
    for frame in _frames(sys._getframe(1)):
        if _package_of(frame) != "torch":
            return _line(frame)
    return None


def _full_stack(frame: FrameType | None) -> str | None:
    known = _lines
    texts = []
    count = 0
    while frame is not None and count < _FRAMES_MAX:
        count += 1
        code = frame.f_code
        key = (id(code), frame.f_lineno)
        found = known.get(key)
        if found is None:
            is_ours = _package_of(frame) == "msitd"
            found = (code, "" if is_ours else _line(frame))
            if len(known) >= _LINES_MAX:
                known.clear()
            known[key] = found
        if found[1]:
            texts.append(found[1])
        frame = frame.f_back
    return "\n".join(texts) or None


def stack_of_dynamo(level: str) -> str:
    """Returns the frames of the code that Dynamo is tracing; "" if there are none.

    For `full` the list is incomplete, and `stack_of_graph` adds the other
    frames.
    """
    if level == "none":
        return ""
    lines = []
    for seen in _translators():
        package = str(seen.f_globals.get("__name__", "")).partition(".")[0]
        line = _text(seen.f_code, seen.lineno)
        if level == "caller" and package not in ("torch", "msitd"):
            return line
        if package != "msitd" and len(lines) < _FRAMES_MAX:
            lines.append(line)
    return "\n".join(lines) if level == "full" else ""


def is_recursive_in_dynamo() -> bool:
    """Returns whether Dynamo traces a call of a module inside another call of
    the module.
    """
    import torch

    code = torch.nn.Module._wrapped_call_impl.__code__
    modules = []
    for seen in _translators():
        if seen.f_code is code:
            module = seen.symbolic_locals.get("self")
            modules.append(getattr(module, "source", None) or module)
    return bool(modules) and modules[0] in modules[1:]


def _translators() -> Iterator[Any]:
    """Yields Dynamo's translators of the functions that it is tracing,
    innermost first.
    """
    last = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "run" and _package_of(frame) == "torch":
            seen = frame.f_locals.get("self")
            if hasattr(seen, "f_code") and seen is not last:
                yield seen
                last = seen
        frame = frame.f_back


def stack_of_graph(level: str, lines: str) -> str | None:
    """Returns the frames of a caller in a graph that is running.

    Args:
        level: See `stack_of_caller`.
        lines: The result of `stack_of_dynamo` when the graph was traced.
    """
    if level == "caller":
        if lines:
            return lines
        for frame in _frames(sys._getframe(1)):
            # The code of a graph does not belong to a module.
            if _package_of(frame) not in ("", "torch"):
                return _line(frame)
        return None
    begin = _place_of(lines.rpartition("\n")[2])
    outer: list[str] | None = None
    for frame in _frames(sys._getframe(1)):
        if outer is not None:
            outer.append(_line(frame))
        elif _place_of(_line(frame)) == begin:
            outer = []
    return "\n".join([lines, *(outer or ())]) if lines else None


def _place_of(line: str) -> tuple[str, str]:
    """Returns the file and the function of a line."""
    place, _, name = line.rpartition(" ")
    return place.rpartition(":")[0], name


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
    return _text(frame.f_code, frame.f_lineno)


def _text(code: CodeType, line: int) -> str:
    # Python 3.10 has no qualified names of code objects.
    name = getattr(code, "co_qualname", code.co_name)
    return f"{code.co_filename}:{line} {name}"
