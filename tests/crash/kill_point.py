"""Points at which a process is killed, each at a system call of msitd."""

import mmap
import random
import struct
import subprocess
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

HERE = Path(__file__).resolve().parent

_CONTROL = struct.Struct("<IIIIiI64s")
_ARMED_AT = 0
_FIRED_AT = 20


class Call(IntEnum):
    """Kinds of system calls; the numbers are those of kill_point.c."""

    WRITE = 1
    READ = 2
    SYNC = 3
    RESERVE = 4
    PUNCH = 5
    TRUNCATE = 6
    RENAME = 7
    UNLINK = 8
    SEND = 9


class Phase(IntEnum):
    """Before or after the call; the numbers are those of kill_point.c."""

    BEFORE = 1
    TORN = 2
    AFTER = 3


class When(IntEnum):
    """The activity of msitd when the point is armed."""

    STARTS = 1
    SERVES = 2
    STOPS = 3


@dataclass(frozen=True)
class KillPoint:
    """The death of the daemon at the Nth call of a kind, with N up to `count_max`."""

    name: str
    when: When
    phase: Phase
    call: Call
    pattern: str
    count_max: int = 1
    delay_us_max: int = 0


_SEGMENT = "*.seg"
_TABLE = "*.sst"
_LOG = "*/index/*.log"
_MANIFEST = "*/MANIFEST-*"

POINTS = (
    # The path of a batch from the producer to the acknowledgement.
    KillPoint("frame not written", When.SERVES, Phase.BEFORE, Call.WRITE, _SEGMENT, 24),
    KillPoint("frame torn", When.SERVES, Phase.TORN, Call.WRITE, _SEGMENT, 24),
    KillPoint(
        "frame written, not synced",
        When.SERVES,
        Phase.BEFORE,
        Call.SYNC,
        _SEGMENT,
        12,
    ),
    KillPoint(
        "frame synced, not indexed",
        When.SERVES,
        Phase.AFTER,
        Call.SYNC,
        _SEGMENT,
        12,
    ),
    KillPoint(
        "between sync and acknowledgement",
        When.SERVES,
        Phase.AFTER,
        Call.SYNC,
        _SEGMENT,
        12,
        1500,
    ),
    KillPoint(
        "indexed, not acknowledged",
        When.SERVES,
        Phase.BEFORE,
        Call.SEND,
        "socket:*",
        24,
    ),
    KillPoint("acknowledged", When.SERVES, Phase.AFTER, Call.SEND, "socket:*", 24),
    # The end of a segment and the beginning of the next one.
    KillPoint(
        "segment full, not cut",
        When.SERVES,
        Phase.BEFORE,
        Call.TRUNCATE,
        _SEGMENT,
    ),
    KillPoint("segment cut", When.SERVES, Phase.AFTER, Call.TRUNCATE, _SEGMENT),
    KillPoint(
        "segment made, name not durable",
        When.STARTS,
        Phase.BEFORE,
        Call.SYNC,
        "*/segments",
    ),
    KillPoint(
        "segment named, without header",
        When.STARTS,
        Phase.BEFORE,
        Call.WRITE,
        _SEGMENT,
    ),
    KillPoint(
        "segment with header, without frames",
        When.STARTS,
        Phase.AFTER,
        Call.WRITE,
        _SEGMENT,
    ),
    KillPoint("room not reserved", When.STARTS, Phase.BEFORE, Call.RESERVE, _SEGMENT),
    KillPoint("room reserved", When.STARTS, Phase.AFTER, Call.RESERVE, _SEGMENT),
    # Reading the log after a kill, and the checkpoint after that.
    KillPoint(
        "reading the log back", When.STARTS, Phase.BEFORE, Call.READ, _SEGMENT, 8
    ),
    KillPoint("checkpoint torn", When.STARTS, Phase.TORN, Call.WRITE, _TABLE, 4),
    KillPoint("checkpoint not synced", When.STARTS, Phase.BEFORE, Call.SYNC, _TABLE, 6),
    KillPoint("checkpoint synced", When.STARTS, Phase.AFTER, Call.SYNC, _TABLE, 6),
    KillPoint("manifest torn", When.STARTS, Phase.TORN, Call.WRITE, _MANIFEST, 6),
    KillPoint(
        "manifest not synced", When.STARTS, Phase.BEFORE, Call.SYNC, _MANIFEST, 4
    ),
    KillPoint("manifest synced", When.STARTS, Phase.AFTER, Call.SYNC, _MANIFEST, 4),
    KillPoint(
        "manifest not current", When.STARTS, Phase.BEFORE, Call.RENAME, "*/CURRENT"
    ),
    KillPoint("manifest current", When.STARTS, Phase.AFTER, Call.RENAME, "*/CURRENT"),
    KillPoint("index log torn", When.STARTS, Phase.TORN, Call.WRITE, _LOG, 2),
    KillPoint(
        "old index file stays", When.STARTS, Phase.BEFORE, Call.UNLINK, "*/index/*", 6
    ),
    KillPoint("tail not cut", When.STARTS, Phase.BEFORE, Call.TRUNCATE, _SEGMENT),
    KillPoint("tail cut", When.STARTS, Phase.AFTER, Call.TRUNCATE, _SEGMENT),
    # Deletion of bytes.
    KillPoint("hole not punched", When.STARTS, Phase.BEFORE, Call.PUNCH, _SEGMENT, 3),
    KillPoint("hole punched", When.STARTS, Phase.AFTER, Call.PUNCH, _SEGMENT, 3),
    KillPoint(
        "hole not punched meanwhile", When.SERVES, Phase.BEFORE, Call.PUNCH, _SEGMENT, 3
    ),
    KillPoint(
        "hole punched meanwhile", When.SERVES, Phase.AFTER, Call.PUNCH, _SEGMENT, 3
    ),
    # A stop that is not completed.
    KillPoint(
        "last segment not cut", When.STOPS, Phase.BEFORE, Call.TRUNCATE, _SEGMENT
    ),
    KillPoint("last checkpoint torn", When.STOPS, Phase.TORN, Call.WRITE, _TABLE, 4),
    KillPoint(
        "last checkpoint not synced", When.STOPS, Phase.BEFORE, Call.SYNC, _TABLE, 6
    ),
    KillPoint("last manifest synced", When.STOPS, Phase.AFTER, Call.SYNC, _MANIFEST, 2),
)


class KillSwitch:
    """The library that kills, and the file that sets the point."""

    def __init__(self, folder: Path) -> None:
        library = folder / "libkill_point.so"
        subprocess.run(
            [
                "cc",
                "-shared",
                "-fPIC",
                "-std=c11",
                "-D_GNU_SOURCE",
                "-O1",
                "-Wall",
                "-Wextra",
                "-Werror",
                HERE / "kill_point.c",
                "-o",
                library,
                "-ldl",
                "-lpthread",
            ],
            check=True,
        )
        path = folder / "kill_point"
        path.write_bytes(bytes(_CONTROL.size))
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _CONTROL.size)
        # Environment of a process that this switch can kill.
        self.environment = {
            "LD_PRELOAD": str(library),
            "MSITD_KILL_FILE": str(path),
        }

    def arm(self, point: KillPoint, rng: random.Random) -> None:
        """Starts counting matching calls."""
        self._memory[:] = _CONTROL.pack(
            0,
            point.call,
            point.phase,
            rng.randint(0, point.delay_us_max),
            rng.randint(1, point.count_max),
            0,
            point.pattern.encode(),
        )
        self._memory[_ARMED_AT : _ARMED_AT + 4] = struct.pack("<I", 1)

    def disarm(self) -> None:
        """Lets the process live."""
        self._memory[_ARMED_AT : _ARMED_AT + 4] = bytes(4)

    @property
    def has_fired(self) -> bool:
        """Returns true if the process was killed since the last arm()."""
        return self._memory[_FIRED_AT : _FIRED_AT + 4] != bytes(4)
