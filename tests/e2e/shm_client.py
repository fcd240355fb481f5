"""A producer written only from docs/format/session.md and ring.md.

It does not use the library, and can do things that the library never does.
"""

import array
import mmap
import os
import select
import socket
import struct
from pathlib import Path

MAGIC = 0x48534D49
VERSION = 3
HELLO, WELCOME, DROPS, FINISH, END, COMMITTED = range(1, 7)
IF_EXISTS_FAIL = 1
PAGE = 4096
TABLE_BYTES = 36864
ENTRIES_AT = 192
ENTRY_COUNT = 1024
PUBLISHED_AT = 64
COMMITTED_AT = 128
CONFLICTS_AT = 136
ARENA_BYTES = 9 << 20
TIMEOUT_S = 60


def hello(run: str, rank: int = 0, stream_id: int = 7) -> bytes:
    """Returns the first packet of a rank."""
    name, agent = run.encode(), b"test"
    return (
        struct.pack("<IHH", MAGIC, VERSION, HELLO)
        + struct.pack("<iiQQ", rank, 64, stream_id, ARENA_BYTES)
        + struct.pack("<IIII", len(name), len(agent), 0, IF_EXISTS_FAIL)
        + name.ljust(128, b"\0")
        + bytes(128)
        + agent.ljust(256, b"\0")
    )


class ShmProducer:
    """One session with the daemon in `socket_dir`."""

    def __init__(self, socket_dir: Path, run: str, rank: int, stream_id: int):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(str(socket_dir / "ingest.sock"))
        self.socket.send(hello(run, rank, stream_id))
        packet, fds = self._receive()
        kind, body = packet
        assert kind == WELCOME, packet
        self.committed_at_open, arena_bytes = struct.unpack_from("<QQ", body)
        table_fd, self._event, arena_fd = fds
        self.table = mmap.mmap(table_fd, TABLE_BYTES)
        self.arena = mmap.mmap(arena_fd, arena_bytes)
        os.close(table_fd)
        os.close(arena_fd)
        self._published = self.committed_at_open

    def _receive(self) -> tuple[tuple[int, bytes], list[int]]:
        fds = array.array("i")
        packet, ancillary, _, _ = self.socket.recvmsg(
            1024, socket.CMSG_SPACE(3 * fds.itemsize)
        )
        for level, kind, data in ancillary:
            assert (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        if not packet:
            return (0, b""), []
        magic, version, kind = struct.unpack_from("<IHH", packet)
        assert (magic, version) == (MAGIC, VERSION)
        return (kind, packet[8:]), list(fds)

    def publish(self, chunk: bytes, offset: int) -> None:
        """Writes a chunk at `offset` of the arena and publishes it."""
        self.arena[offset : offset + len(chunk)] = chunk
        self.publish_entry(self._published, offset, len(chunk))

    def publish_entry(self, sequence: int, offset: int, size: int) -> None:
        """Publishes an entry, whether or not it is valid."""
        at = ENTRIES_AT + self._published % ENTRY_COUNT * 32
        # Not pack_into, which writes zeros first that the daemon might read.
        self.table[at : at + 24] = struct.pack("<QQQ", sequence, offset, size)
        self._published += 1
        count = struct.pack("<Q", self._published)
        self.table[PUBLISHED_AT : PUBLISHED_AT + 8] = count
        self.wake()

    def wake(self) -> None:
        os.write(self._event, struct.pack("<Q", 1))

    def committed(self) -> int:
        return struct.unpack_from("<Q", self.table, COMMITTED_AT)[0]

    def conflicts(self) -> int:
        return struct.unpack_from("<Q", self.table, CONFLICTS_AT)[0]

    def wait_committed(self, count: int) -> None:
        while self.committed() < count:
            (kind, body), _ = self._receive()
            assert kind == COMMITTED, (kind, body)

    def finish(self) -> None:
        self.socket.send(struct.pack("<IHH", MAGIC, VERSION, FINISH))

    def wait_end(self) -> tuple[int, str]:
        """Waits for the end; returns its code and reason, or -1 if none arrived."""
        while True:
            (kind, body), _ = self._receive()
            if kind == 0:
                return -1, ""
            if kind == END:
                code, reason_bytes = struct.unpack_from("<iI", body)
                return code, body[16 : 16 + reason_bytes].decode()

    def is_open(self) -> bool:
        return not select.select([self.socket], [], [], 0)[0]

    def close(self) -> None:
        self.socket.close()
        os.close(self._event)
