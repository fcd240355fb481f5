"""An HTTP/2 client that obeys only flow control, to send what gRPC would not send."""

import selectors
import socket
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, RST_STREAM, SETTINGS, PING = 0, 1, 3, 4, 6
GOAWAY, WINDOW_UPDATE, CONTINUATION = 7, 8, 9
ACK, END_STREAM, END_HEADERS = 1, 1, 4
INITIAL_WINDOW_SIZE = 4

FRAME_BYTES_MAX = 16384
WINDOW_BYTES = 65535
# Bytes passed to the kernel for one connection at a time.
BATCH_BYTES = 1 << 20


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Returns one frame."""
    return (
        struct.pack(">I", len(payload))[1:]
        + struct.pack(">BBI", kind, flags, stream)
        + payload
    )


def header_block(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Encodes fields with HPACK, without its tables and without Huffman codes."""

    def text(value: bytes) -> bytes:
        if len(value) < 127:
            return bytes([len(value)]) + value
        rest, out = len(value) - 127, bytearray([127])
        while rest >= 128:
            out.append(rest % 128 + 128)
            rest //= 128
        return bytes([*out, rest]) + value

    return b"".join(b"\0" + text(name) + text(value) for name, value in fields)


def call_headers(path: str, *more: tuple[bytes, bytes]) -> bytes:
    """Returns the header block of a gRPC call."""
    return header_block(
        [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", path.encode()),
            (b":authority", b"stranger"),
            (b"content-type", b"application/grpc"),
            (b"te", b"trailers"),
            *more,
        ]
    )


def message(payload: bytes, announced: int | None = None, flag: int = 0) -> bytes:
    """Returns a gRPC message, which may announce a length other than its own."""
    length = len(payload) if announced is None else announced
    return struct.pack(">BI", flag, length) + payload


@dataclass
class Stream:
    """One call: what remains to be sent, and what the daemon allows."""

    window: int
    header: bytes
    left: int
    frame_bytes: int = FRAME_BYTES_MAX
    is_over: bool = False

    def take(self, count: int) -> bytes:
        """Returns the next bytes to send, at most `count`."""
        head, self.header = self.header[:count], self.header[count:]
        count = min(count - len(head), self.left)
        self.left -= count
        return head + bytes(count)

    @property
    def has_more(self) -> bool:
        return not self.is_over and bool(self.header or self.left)


@dataclass
class Connection:
    """One connection. Only connecting blocks."""

    address: tuple[str, int] | str
    sock: socket.socket = field(init=False)
    streams: dict[int, Stream] = field(default_factory=dict)
    window: int = WINDOW_BYTES
    stream_window: int = WINDOW_BYTES
    is_over: bool = False
    _in: bytearray = field(default_factory=bytearray)
    _out: bytearray = field(default_factory=bytearray)
    _next_id: int = 1

    def __post_init__(self) -> None:
        family = socket.AF_UNIX if isinstance(self.address, str) else socket.AF_INET
        self.sock = socket.socket(family)
        self.sock.settimeout(10)
        self.sock.connect(self.address)
        self.sock.setblocking(False)
        self._out += PREFACE + frame(SETTINGS, 0, 0)

    def send(self, data: bytes) -> None:
        """Sends frames unchanged."""
        self._out += data

    def open(
        self,
        path: str,
        header: bytes,
        left: int,
        frame_bytes: int = FRAME_BYTES_MAX,
        more: Iterable[tuple[bytes, bytes]] = (),
    ) -> int:
        """Begins a call that sends `header` and then `left` zeros, and never ends."""
        number, self._next_id = self._next_id, self._next_id + 2
        self.streams[number] = Stream(self.stream_window, header, left, frame_bytes)
        self._out += frame(HEADERS, END_HEADERS, number, call_headers(path, *more))
        return number

    def step(self) -> None:
        """Reads what has arrived, then writes as much as flow control allows."""
        if self.is_over:
            return
        try:
            while data := self.sock.recv(1 << 16):
                self._in += data
                self._read_frames()
            self.is_over = True
        except BlockingIOError:
            pass
        except OSError:
            self.is_over = True
        if self.is_over:
            return
        if len(self._out) < BATCH_BYTES:
            self._fill()
        try:
            sent = self.sock.send(self._out)
            del self._out[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self.is_over = True

    @property
    def has_more(self) -> bool:
        """Returns true if something may be sent now."""
        return not self.is_over and bool(self._out)

    def _fill(self) -> None:
        for number, stream in self.streams.items():
            while stream.has_more and min(self.window, stream.window) > 0:
                count = min(stream.frame_bytes, self.window, stream.window)
                payload = stream.take(count)
                stream.window -= len(payload)
                self.window -= len(payload)
                self._out += frame(DATA, 0, number, payload)
                if len(self._out) >= BATCH_BYTES:
                    return

    def _read_frames(self) -> None:
        while len(self._in) >= 9:
            length = int.from_bytes(self._in[:3], "big")
            if len(self._in) < 9 + length:
                return
            kind, flags, number = struct.unpack(">BBI", self._in[3:9])
            payload = bytes(self._in[9 : 9 + length])
            del self._in[: 9 + length]
            self._handle(kind, flags, number & 0x7FFFFFFF, payload)

    def _handle(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == SETTINGS and not flags & ACK:
            for i in range(0, len(payload), 6):
                key, value = struct.unpack(">HI", payload[i : i + 6])
                if key == INITIAL_WINDOW_SIZE:
                    for stream in self.streams.values():
                        stream.window += value - self.stream_window
                    self.stream_window = value
            self._out += frame(SETTINGS, ACK, 0)
        elif kind == PING and not flags & ACK:
            self._out += frame(PING, ACK, 0, payload)
        elif kind == WINDOW_UPDATE:
            (more,) = struct.unpack(">I", payload)
            if number == 0:
                self.window += more
            elif number in self.streams:
                self.streams[number].window += more
        elif number in self.streams and (
            kind == RST_STREAM or (kind == HEADERS and flags & END_STREAM)
        ):
            self.streams[number].is_over = True


def run(connections: list[Connection], seconds: float) -> None:
    """Runs the connections for `seconds`, or until nothing happens for a while."""
    deadline = time.monotonic() + seconds
    quiet_s = 0.5
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection.sock, selectors.EVENT_READ, connection)
        last = time.monotonic()
        while (now := time.monotonic()) < min(deadline, last + quiet_s):
            ready = selector.select(0 if now == last else 0.02)
            for connection in connections:
                connection.step()
            if ready or any(c.has_more for c in connections):
                last = time.monotonic()
            for key, _ in ready:
                if key.data.is_over:
                    selector.unregister(key.fileobj)
