"""Foreign clients that make the daemon store data: its peak stays near its buffers."""

import gzip
import re
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import http2
import pytest
from chunk_bytes import Chunk, Record, float32
from msitd.v1 import (
    capture_service_pb2,
    comparison_service_pb2,
    ingest_service_pb2,
    node_service_pb2,
    run_reader_service_pb2,
    run_service_pb2,
    tensor_service_pb2,
)
from wire import refusal, write

from daemon import Daemon

MIB = 1 << 20
BUFFERS_MIB = 64
# Memory that an attack may cost in addition to the buffers.
SLACK_MIB = 128
LIMITS = (
    *("--ingest-buffer-bytes", str(BUFFERS_MIB * MIB)),
    *("--index-write-buffer-bytes", str(MIB)),
    *("--index-cache-bytes", str(MIB)),
)

WRITE = "/msitd.v1.IngestService/WriteChunks"
LIST = "/msitd.v1.TensorService/ListTensors"
API = (
    capture_service_pb2,
    comparison_service_pb2,
    ingest_service_pb2,
    node_service_pb2,
    run_reader_service_pb2,
    run_service_pb2,
    tensor_service_pb2,
)

MESSAGE_BYTES = 4_600_000
ATTACK_S = 6


def memory_mib(daemon: Daemon, key: str) -> int:
    assert daemon.process is not None
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    found = re.search(rf"^{key}:\s*(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) >> 10


def address(daemon: Daemon) -> tuple[str, int]:
    host, port = daemon.endpoint.rsplit(":", 1)
    return host, int(port)


@pytest.fixture
def target(daemon: Daemon) -> Iterator[Daemon]:
    """A daemon with small buffers, whose peak is checked after the attack."""
    assert daemon.stop() == 0
    daemon.start(*LIMITS)
    before = memory_mib(daemon, "VmHWM")
    yield daemon
    peak = memory_mib(daemon, "VmHWM")
    assert peak - before <= BUFFERS_MIB + SLACK_MIB
    assert daemon.ctl_json("node", "status")["storage_state"] == "OK"
    write(daemon.channel(), "after", [chunk("after")])


def chunk(run: str) -> bytes:
    return Chunk(run, [Record("op", float32(1, 2), (2,))]).pack()


# Connections, streams per connection, announced bytes, sent bytes, bytes per
# frame.
UNFINISHED = [
    pytest.param(4, 250, MESSAGE_BYTES, MESSAGE_BYTES - 1, 16384, id="streams"),
    pytest.param(40, 32, MESSAGE_BYTES, MESSAGE_BYTES - 1, 16384, id="connections"),
    pytest.param(1, 2, 2_000_000_000, 400 * MIB, 16384, id="long"),
]


@pytest.mark.parametrize("path", [WRITE, LIST], ids=["stream", "unary"])
@pytest.mark.parametrize(("connections", "streams", "says", "sends", "cut"), UNFINISHED)
def test_unfinished_messages(
    target: Daemon,
    path: str,
    connections: int,
    streams: int,
    says: int,
    sends: int,
    cut: int,
) -> None:
    strangers = [http2.Connection(address(target)) for _ in range(connections)]
    for stranger in strangers:
        for _ in range(streams):
            stranger.open(path, http2.message(b"", says), sends, cut)
    http2.run(strangers, ATTACK_S)
    for stranger in strangers:
        stranger.sock.close()


def test_bombs_of_gzip(target: Daemon) -> None:
    bomb = gzip.compress(bytes(512 * MIB), 6)
    strangers = [http2.Connection(address(target)) for _ in range(4)]
    for stranger in strangers:
        for path in (WRITE, LIST):
            encoding = (b"grpc-encoding", b"gzip")
            stranger.open(path, http2.message(bomb, flag=1), 0, more=[encoding])
    http2.run(strangers, ATTACK_S)
    for stranger in strangers:
        assert all(stream.is_over for stream in stranger.streams.values())
        stranger.sock.close()


def empty_patterns(count: int) -> bytes:
    """Returns a ListTensorsRequest with that many empty patterns, two bytes each."""
    patterns = b"\x22\x00" * count
    length, rest = bytearray(), len(patterns)
    while rest >= 128:
        length.append(rest % 128 + 128)
        rest //= 128
    return b"\x12" + bytes([*length, rest]) + patterns


# An empty group of an unknown field; protobuf continues to parse after it.
GROUP = b"\x9b\x3e\x9c\x3e"


@pytest.mark.parametrize(
    ("count", "prefix", "reason"),
    [
        pytest.param(2_200_000, b"", "REQUEST_TOO_LARGE", id="many"),
        pytest.param(200_000, b"", "REQUEST_TOO_LARGE", id="fewer"),
        pytest.param(250_000, GROUP, "FIELD_INVALID", id="group"),
    ],
)
def test_requests_of_empty_patterns(
    target: Daemon, count: int, prefix: bytes, reason: str
) -> None:
    call = target.channel().unary_unary(LIST, lambda x: x, lambda x: x)
    request = prefix + empty_patterns(count)
    calls = [call.future(request, timeout=60) for _ in range(40)]
    for pending in calls:
        error = pending.exception()
        assert isinstance(error, grpc.RpcError)
        assert refusal(error).reason == reason
    # Proves that the encoding above is that of the field.
    with pytest.raises(grpc.RpcError) as caught:
        call(empty_patterns(65), timeout=60)
    assert "filter.op_patterns" in refusal(caught.value).message


def test_every_method_but_one_takes_small_requests_only(target: Daemon) -> None:
    for file in API:
        for service in file.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                path = f"/{service.full_name}/{method.name}"
                # An unknown field, so that only the size can be invalid.
                request = b"\xfa\x3f\x81\x80\x80\x02" + bytes(4 * MIB + 1)
                call = target.channel().stream_stream(path, lambda x: x, lambda x: x)
                with pytest.raises(grpc.RpcError) as caught:
                    list(call(iter([request]), timeout=60))
                if path == WRITE:
                    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
                else:
                    assert refusal(caught.value).reason == "REQUEST_TOO_LARGE", path


def test_floods_of_headers(target: Daemon) -> None:
    strangers = [http2.Connection(address(target)) for _ in range(20)]
    field = http2.header_block([(b"x-much", bytes(65) * 200)])
    for stranger in strangers:
        headers = http2.call_headers(WRITE)
        stranger.send(http2.frame(http2.HEADERS, 0, 1, headers))
        for _ in range(200):
            stranger.send(http2.frame(http2.CONTINUATION, 0, 1, field))
    http2.run(strangers, ATTACK_S)
    for stranger in strangers:
        stranger.sock.close()


def test_calls_that_ask_for_nothing(target: Daemon) -> None:
    strangers = [http2.Connection(address(target)) for _ in range(400)]
    for stranger in strangers:
        for _ in range(32):
            stranger.open(WRITE, b"", 0)
    http2.run(strangers, ATTACK_S)
    # Clients of the Unix socket are served in the meantime.
    local = f"unix:{target.socket_dir}/msitd.sock"
    target.ctl("--endpoint", local, "node", "status")
    for stranger in strangers:
        stranger.sock.close()


def test_silent_calls_hurry_nobody_but_their_own(target: Daemon) -> None:
    """Five calls on one connection, which may have four, affect no other connection."""
    stranger, slow = (http2.Connection(address(target)) for _ in range(2))
    for _ in range(5):
        stranger.open(LIST, http2.message(b"", 1000), 0)
    slow.open(LIST, http2.message(b"", 1000), 0)
    deadline = time.monotonic() + 10
    while not any(stream.is_over for stream in stranger.streams.values()):
        assert time.monotonic() < deadline
        http2.run([stranger, slow], 2)
    http2.run([stranger, slow], 2)
    assert not any(stream.is_over for stream in slow.streams.values())
    for connection in (stranger, slow):
        connection.sock.close()


def test_memory_of_a_burst_is_given_back(target: Daemon) -> None:
    before = memory_mib(target, "VmRSS")
    strangers = [http2.Connection(address(target)) for _ in range(4)]
    for stranger in strangers:
        for _ in range(30):
            stranger.open(WRITE, http2.message(b"", MESSAGE_BYTES), MESSAGE_BYTES - 1)
    http2.run(strangers, ATTACK_S)
    for stranger in strangers:
        stranger.sock.close()
    assert memory_mib(target, "VmHWM") - before > BUFFERS_MIB / 2
    deadline = time.monotonic() + 20
    while memory_mib(target, "VmRSS") - before > 48:
        assert time.monotonic() < deadline, memory_mib(target, "VmRSS")
        time.sleep(0.1)
