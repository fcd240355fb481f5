"""Writes chunks, independently of the C++ code, from docs/format/chunk.md."""

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

MAGIC = 0x4354534D
PART = 4 << 20
PAGE = 4096
LINE = 64

HEADER = struct.Struct("<IHHIIQIIQQqiI64x")
EXTRA = struct.Struct("<IIIIIIIIiBBH")
DESCRIPTOR = struct.Struct("<QqIIIIIIiBBBBIIQQQQII128x")
assert HEADER.size == 128
assert DESCRIPTOR.size == 224

INPUT, OUTPUT, WEIGHT = 1, 2, 3
STATE = 7
INT16, INT64, UINT8, FLOAT32, FLOAT64 = 3, 5, 6, 12, 13
ELEMENT_BYTES = {3: 2, 5: 8, 6: 1, 12: 4, 13: 8}
TENSOR, NUMBER, TEXT, NONE, DTYPE, OTHER, DOCUMENT, STATISTICS = range(8)
HAS_EXTRA = 32


@dataclass
class Record:
    """One tensor, or one part of a large one."""

    op: str | bytes
    data: bytes
    shape: Sequence[int]
    dtype: int = FLOAT32
    token: int = 0
    call: int = 0
    io: int = OUTPUT
    index: str | bytes = "0"
    device: str | bytes = "cpu:0"
    sequence: int = 0
    part_offset: int = 0
    tensor_bytes: int | None = None
    flags: int = 0
    placement: str | bytes = ""
    # Kinds exist since version 2; statistics since version 3.
    kind: int = TENSOR
    requires_grad: bool | None = None
    value: str | None = None
    stack: str = ""
    alias_of: tuple[str, int, int, str] | None = None  # Op, call, io and index.

    @property
    def has_extra(self) -> bool:
        """Returns true if an extra follows the dims."""
        return bool(self.value is not None or self.stack or self.alias_of)

    @property
    def all_flags(self) -> int:
        """Returns the flags of the descriptor."""
        grad = 0 if self.requires_grad is None else 1 + self.requires_grad
        extra = HAS_EXTRA if self.has_extra else 0
        return self.flags | self.kind | grad << 3 | extra


@dataclass
class Chunk:
    """A chunk to write. Tests may corrupt its attributes."""

    run: str | bytes
    records: list[Record]
    rank: int = 0
    stream_id: int | None = None
    sequence: int = 0
    magic: int = MAGIC
    version: int = 1
    flags: int = 0
    record_count: int | None = None
    payload_bytes: int | None = None
    cut_bytes: int = 0
    tail: bytes = field(default=b"", repr=False)

    @staticmethod
    def _put_extra(
        r: Record, text: bytearray, put: Callable[[str], tuple[int, int]]
    ) -> None:
        at = len(text)
        text.extend(bytes(EXTRA.size))
        op, call, io, index = r.alias_of or ("", 0, 0, "")
        EXTRA.pack_into(
            text,
            at,
            *(put(r.value) if r.value is not None else (0, 0)),
            *(put(r.stack) if r.stack else (0, 0)),
            *(put(op) if r.alias_of else (0, 0)),
            *(put(index) if r.alias_of else (0, 0)),
            call,
            io,
            (1 if r.alias_of else 0) | (2 if r.value is not None else 0),
            0,
        )

    def pack(self) -> bytes:
        """Returns the bytes of the chunk."""
        table_end = HEADER.size + DESCRIPTOR.size * len(self.records)
        text = bytearray()

        def put(value: str | bytes) -> tuple[int, int]:
            raw = value.encode() if isinstance(value, str) else value
            at = table_end + len(text)
            text.extend(raw)
            return at, len(raw)

        run = put(self.run)
        payload = bytearray()
        table = bytearray()
        for r in self.records:
            op, index, device = put(r.op), put(r.index), put(r.device)
            placement = put(r.placement) if r.placement else (0, 0)
            text.extend(b"\0" * (-len(text) % 8))
            dims_at = table_end + len(text)
            text.extend(struct.pack(f"<{len(r.shape)}q", *r.shape))
            if r.has_extra:
                self._put_extra(r, text, put)
            payload.extend(b"\0" * (-len(payload) % LINE))
            table += DESCRIPTOR.pack(
                r.sequence,
                r.token,
                *op,
                *index,
                *device,
                r.call,
                r.io,
                r.dtype,
                len(r.shape),
                r.all_flags,
                dims_at,
                0,
                len(payload),
                len(r.data),
                len(r.data) if r.tensor_bytes is None else r.tensor_bytes,
                r.part_offset,
                *placement,
            )
            payload.extend(r.data)
        header = self._header(table_end + len(text), len(payload), run)
        head = header + bytes(table) + bytes(text)
        out = head + b"\0" * (-len(head) % PAGE)
        out += bytes(payload) + b"\0" * (-len(payload) % PAGE)
        return out[: len(out) - self.cut_bytes] + self.tail

    def _header(
        self, head_bytes: int, payload_bytes: int, run: tuple[int, int]
    ) -> bytes:
        return HEADER.pack(
            self.magic,
            self.version,
            0,
            head_bytes,
            len(self.records) if self.record_count is None else self.record_count,
            payload_bytes if self.payload_bytes is None else self.payload_bytes,
            *run,
            stream_id_of(self.run, self.rank)
            if self.stream_id is None
            else self.stream_id,
            self.sequence,
            1_700_000_000_000_000_000,
            self.rank,
            self.flags,
        )


def stream_id_of(run: str | bytes, rank: int) -> int:
    """Returns a stream id for tests that need no particular one: one per rank
    of a run.
    """
    raw = run.encode() if isinstance(run, str) else run
    return (zlib.crc32(raw) << 24) + rank % (1 << 20) + 1


def float32(*values: float) -> bytes:
    """Returns the bytes of a float32 tensor."""
    return struct.pack(f"<{len(values)}f", *values)
