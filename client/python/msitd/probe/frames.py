"""Formats the frames of a stack as msprobe does."""

from __future__ import annotations

import linecache


def frames_of(stack: str) -> list[str]:
    """Returns frames with the source lines; see `Client.record` for `stack`."""
    found = []
    for line in stack.splitlines():
        place, _, function = line.rpartition(" ")
        file, _, number = place.rpartition(":")
        if not number.isdigit():
            # The line states how many more frames there are.
            found.append(line)
            continue
        source = linecache.getline(file, int(number)).strip()
        name = function.rpartition(".")[2]
        found.append(f"File {file}, line {number}, in {name}, \n {source}")
    return found
