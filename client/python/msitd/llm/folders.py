"""The folder into which msit dumps a torch model, and how parts of it are moved
there.
"""

from __future__ import annotations

import datetime
import os
import re
import threading

TENSORS = "torch_tensors"
WEIGHTS = "weights"
ORDER = "execution_order"
TENSOR_SUFFIX = ".pth"

_CLOCK_TICKS_S = os.sysconf("SC_CLK_TCK")
_taken: set[str] = set()
_lock = threading.Lock()


def new_root(dump_path: str, world_size: int) -> str:
    """Returns the path `dump_path`/msit_dump_<time>. Creates nothing.

    The time is UTC. Ranks that were started by the same launcher get the same
    time, if they call this function equally often. Within a process, all times
    are different.
    """
    start = _launch_time() if world_size > 1 else None
    when = start or datetime.datetime.now(datetime.timezone.utc)
    parent = os.path.abspath(dump_path)
    with _lock:
        while True:
            name = f"msit_dump_{when:%Y%m%d_%H%M%S}"
            path = os.path.join(parent, name)
            # With one rank, an existing folder belongs to another program.
            if name not in _taken and not (world_size == 1 and os.path.exists(path)):
                _taken.add(name)
                return path
            when += datetime.timedelta(seconds=1)


def device_folders(staging: str, rank: int) -> list[tuple[str, str]]:
    """Returns the path and the device of each folder that an export has created."""
    found = []
    for dump in _folders(staging):
        for folder in _folders(os.path.join(dump, TENSORS)):
            device, _, number = os.path.basename(folder).rpartition("_")
            if number == str(rank):
                found.append((folder, device))
    return found


def merge_orders(device_folder: str, target: str) -> None:
    """Orders the modules of a token in `target` before those of a later export.

    The files of `device_folder` then contain the order of both, and can replace
    those of `target`.
    """
    for name in _names(os.path.join(device_folder, ORDER)):
        written = os.path.join(target, ORDER, name)
        if not os.path.exists(written):
            continue
        with open(written, encoding="utf-8") as file:
            lines = file.read().splitlines()
        path = os.path.join(device_folder, ORDER, name)
        with open(path, encoding="utf-8") as file:
            lines += file.read().splitlines()
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in dict.fromkeys(lines))


def remove_tensors(device_folder: str) -> None:
    """Removes the tensor files of the tokens and keeps the statistics."""
    for folder, _, files in os.walk(device_folder):
        if os.path.basename(folder) == WEIGHTS:
            continue
        for file in files:
            if file.endswith(TENSOR_SUFFIX):
                os.remove(os.path.join(folder, file))


def _names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except FileNotFoundError:
        return []


def _folders(path: str) -> list[str]:
    try:
        return sorted(entry.path for entry in os.scandir(path) if entry.is_dir())
    except FileNotFoundError:
        return []


def _launch_time() -> datetime.datetime | None:
    """Returns the start time of the parent process, which the ranks of a node share."""
    try:
        with open(f"/proc/{os.getppid()}/stat", encoding="utf-8") as file:
            # The process name, in parentheses, may contain spaces.
            ticks = int(file.read().rpartition(")")[2].split()[19])
        with open("/proc/stat", encoding="utf-8") as file:
            boot = re.search(r"^btime (\d+)$", file.read(), re.MULTILINE)
    except (OSError, ValueError, IndexError):
        return None
    if boot is None:
        return None
    seconds = int(boot[1]) + ticks // _CLOCK_TICKS_S
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
