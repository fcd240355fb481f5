"""Finds files and memory that a killed or stopped daemon must not leave."""

import os
import re
import subprocess
import time
from pathlib import Path

from daemon import BIN_DIR, Daemon

WAIT_S = 30

_INDEX_FILE = re.compile(
    r"(\d+\.(sst|log)|MANIFEST-\d+|OPTIONS-\d+|CURRENT|IDENTITY|LOCK|LOG(\.old\.\d+)?)"
)
_SEGMENT = re.compile(r"\d{8,}\.seg")
# Files of RocksDB: the current log, the current manifest, the last two option
# files, and the current and earlier info logs.
_INDEX_COUNTS = {r"\d+\.log": 1, r"MANIFEST-\d+": 1, r"OPTIONS-\d+": 2, r"LOG.*": 2}


def in_store(data_dir: Path) -> list[str]:
    """Returns a line for each file that does not belong in a closed store."""
    findings = []
    expected = {"segments", "index", "LOCK", "ballast"}
    for path in data_dir.iterdir():
        if path.name not in expected:
            findings.append(f"left in the store: {path.name}")
    for path in (data_dir / "segments").iterdir():
        if not _SEGMENT.fullmatch(path.name):
            findings.append(f"left among the segments: {path.name}")
    names = [path.name for path in (data_dir / "index").iterdir()]
    for name in names:
        if not _INDEX_FILE.fullmatch(name):
            findings.append(f"left in the index: {name}")
    for pattern, count in _INDEX_COUNTS.items():
        found = [name for name in names if re.fullmatch(pattern, name)]
        if len(found) > count:
            findings.append(f"left in the index: {sorted(found)}")
    return findings


def of_sockets(socket_dir: Path, expected: set[str]) -> list[str]:
    """Returns a line for each file that a stopped daemon left behind."""
    return [
        f"left among the sockets: {path.name}"
        for path in socket_dir.iterdir()
        if path.name not in expected
    ]


def shared_memory(pid: int) -> list[str]:
    """Returns the memory that a process without ranks still shares after a while."""
    deadline = time.monotonic() + WAIT_S
    while held := _memory_of(pid):
        if time.monotonic() > deadline:
            return [f"the daemon still has {what}" for what in held]
        time.sleep(0.01)
    return []


def _memory_of(pid: int) -> list[str]:
    held = []
    for file in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(file)
        except FileNotFoundError:
            continue
        if target.startswith("/memfd:msitd"):
            held.append(target)
    maps = Path(f"/proc/{pid}/maps").read_text()
    held += [line for line in maps.splitlines() if "/memfd:msitd" in line]
    return held


def inspect(daemon: Daemon, *, is_live: bool) -> list[str]:
    """Returns the findings of `msitd-inspect verify`, and records without an entry."""
    result = subprocess.run(
        [BIN_DIR / "msitd-inspect", "--data-dir", str(daemon.data_dir), "verify"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if result.returncode != 0:
        return [f"msitd-inspect verify: {result.stdout}{result.stderr}"]
    said = re.findall(r"(\w+)=(\d+)", result.stdout)
    numbers = {name: int(number) for name, number in said}
    # A live index is read before the segments, so it lags behind them.
    surplus = numbers["records"] - (numbers["entries"] - numbers["recordless"])
    if not is_live and not 0 <= surplus <= numbers["torn"]:
        return [f"msitd-inspect verify: {result.stdout}"]
    return []
