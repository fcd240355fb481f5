"""An IngestService in this process, which keeps the records that arrive."""

import struct
import threading
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass
from typing import Any

import grpc

METHOD = "WriteChunks"
SERVICE = "msitd.v1.IngestService"

HEADER = struct.Struct("<IHHIIQIIQQqiI64x")
DESCRIPTOR = struct.Struct("<QqIIIIIIiBBBBIIQQQQII128x")
EXTRA = struct.Struct("<IIIIIIIIiBBH")
PAGE = 4096

KINDS = ["tensor", "number", "text", "none", "dtype", "other", "document", "statistics"]

DTYPES = [
    "unspecified",
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "float8_e4m3fn",
    "float8_e5m2",
    "complex64",
    "complex128",
    *("int1", "uint1", "int2", "uint2", "int4", "uint4"),
    *("float4_e2m1fn", "float4_e1m2", "float6_e2m3fn", "float6_e3m2fn"),
    *("hifloat8", "float8_e8m0fnu", "complex32"),
    *("float8_e4m3fnuz", "float8_e5m2fnuz"),
    *(f"{kind}{bits}" for bits in (3, 5, 6, 7) for kind in ("int", "uint")),
    *("bits8", "bits16", "bits1x8", "bits2x4", "bits4x2"),
]
IOS = [
    "unspecified",
    "input",
    "output",
    "weight",
    "grad_input",
    "grad_output",
    "grad_weight",
    "state",
]


@dataclass
class Record:
    """One tensor, or one part of a large one; a value; or a document."""

    sequence: int
    device: str
    token: int
    op: str
    call: int
    io: str
    index: str
    dtype: str
    shape: tuple[int, ...]
    part_offset: int
    placement: str
    data: bytes
    kind: str
    requires_grad: bool | None
    value: str | None
    stack: str
    # op, call, io and index of the original.
    alias_of: tuple[str, int, str, str] | None

    @property
    def place(self) -> tuple[int, str, int, str, str]:
        return (self.token, self.op, self.call, self.io, self.index)


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if byte < 0x80:
            return value, at


def read_message(message: bytes) -> dict[int, Any]:
    """Returns the fields of a protobuf message that has only numbers and bytes."""
    fields: dict[int, Any] = {}
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        value, at = _read_varint(message, at)
        if tag & 7 == 2:
            fields[tag >> 3] = message[at : at + value]
            at += value
        else:
            assert tag & 7 == 0
            fields[tag >> 3] = value
    return fields


def read_chunk(chunk: bytes) -> list[Record]:
    """Returns the records of a chunk."""
    header = HEADER.unpack_from(chunk)
    head_bytes, record_count = header[3], header[4]
    payload_at = -(-head_bytes // PAGE) * PAGE

    def text(offset: int, length: int) -> str:
        return chunk[offset : offset + length].decode()

    records = []
    for i in range(record_count):
        d = DESCRIPTOR.unpack_from(chunk, HEADER.size + i * DESCRIPTOR.size)
        dims = struct.unpack_from(f"<{d[11]}q", chunk, d[13])
        begin = payload_at + d[15]
        flags = d[12]
        extra = (0,) * 12
        if flags & 32:
            extra = EXTRA.unpack_from(chunk, d[13] + 8 * d[11])
        value, stack, alias_op, alias_index = (
            text(*extra[i : i + 2]) for i in range(0, 8, 2)
        )
        records.append(
            Record(
                sequence=d[0],
                token=d[1],
                op=text(d[2], d[3]),
                index=text(d[4], d[5]),
                device=text(d[6], d[7]),
                call=d[8],
                io=IOS[d[9]],
                dtype=DTYPES[d[10]],
                shape=dims,
                part_offset=d[18],
                placement=text(d[19], d[20]),
                data=chunk[begin : begin + d[16]],
                kind=KINDS[flags & 7],
                requires_grad=(None, False, True)[flags >> 3 & 3],
                value=value if extra[10] & 2 else None,
                stack=stack,
                alias_of=(alias_op, extra[8], IOS[extra[9]], alias_index)
                if extra[10] & 1
                else None,
            )
        )
    return records


class FakeDaemon:
    """Acknowledges every chunk, unless a test holds them."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._chunks: list[bytes] = []
        self._holds = False
        self.opening: dict[int, Any] = {}
        # Sent when a stream opens.
        self.chunk_version = 3
        self.dropped_count = 0
        self.refusal: tuple[grpc.StatusCode, str] | None = None
        self._server = grpc.server(
            futures.ThreadPoolExecutor(max_workers=4),
            options=[("grpc.max_receive_message_length", -1)],
        )
        handler = grpc.stream_stream_rpc_method_handler(self._write_chunks)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),)
        )
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.endpoint = f"127.0.0.1:{port}"
        self._server.start()

    def stop(self) -> None:
        self.release()
        self._server.stop(None).wait()

    def hold(self) -> None:
        """Stops accepting chunks until `release`."""
        with self._lock:
            self._holds = True

    def release(self) -> None:
        with self._lock:
            self._holds = False
            self._lock.notify_all()

    @property
    def records(self) -> list[Record]:
        """Tensors that have been acknowledged, in order."""
        return [r for r in self.all_records if r.kind == "tensor"]

    @property
    def values(self) -> list[Record]:
        """Values and statistics that have been acknowledged, in order."""
        kinds = ("tensor", "document")
        return [r for r in self.all_records if r.kind not in kinds]

    @property
    def documents(self) -> dict[str, str]:
        """Documents that have been acknowledged, by name; the last one of each."""
        texts: dict[str, bytes] = {}
        for record in self.all_records:
            if record.kind == "document":
                before = texts[record.op] if record.part_offset else b""
                texts[record.op] = before + record.data
        return {name: text.decode() for name, text in texts.items()}

    @property
    def all_records(self) -> list[Record]:
        """All acknowledged records, in order."""
        with self._lock:
            return [r for chunk in self._chunks for r in read_chunk(chunk)]

    def _write_chunks(
        self, requests: Iterator[bytes], context: grpc.ServicerContext
    ) -> Iterator[bytes]:
        self.opening = read_message(read_message(next(requests))[1])
        if self.refusal is not None:
            context.abort(*self.refusal)
        yield self._answer() + bytes([5 << 3, self.chunk_version])
        for request in requests:
            fields = read_message(request)
            if 3 in fields:
                self.dropped_count = read_message(fields[3]).get(1, 0)
                continue
            with self._lock:
                self._lock.wait_for(lambda: not self._holds)
                self._chunks.append(fields[2])
            yield self._answer()

    def _answer(self) -> bytes:
        count = len(self._chunks)
        answer = bytearray(b"\x08")
        while count >= 0x80:
            answer.append(count & 0x7F | 0x80)
            count >>= 7
        answer.append(count)
        return bytes(answer)
