"""Peers that request much of a run, and read little of it."""

import time
from collections.abc import Callable
from pathlib import Path

import grpc
from chunk_bytes import Chunk, Record
from msitd.v1 import run_reader_service_pb2 as run_reader
from msitd.v1 import run_reader_service_pb2_grpc as run_reader_grpc
from wire import write

from daemon import Daemon

MIB = 1 << 20
TOKENS = 50_000
CHUNK_RECORDS = 1000
DEVICES = ("npu:1", "cpu:0")
STREAMS = 64
# The limit of gRPC per connection.
STREAMS_PER_CHANNEL = 16


def resident_bytes(daemon: Daemon) -> int:
    assert daemon.process is not None
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def test_unread_coordinates_take_no_memory(new_daemon: Callable[[], Daemon]) -> None:
    daemon = new_daemon()
    daemon.start()
    chunks = []
    for sequence in range(len(DEVICES) * TOKENS // CHUNK_RECORDS):
        first = sequence * CHUNK_RECORDS
        records = [
            Record(
                "op",
                bytes(4),
                [1],
                token=i % TOKENS,
                sequence=i,
                device=DEVICES[i // TOKENS],
            )
            for i in range(first, first + CHUNK_RECORDS)
        ]
        chunks.append(Chunk("r", records, sequence=sequence).pack())
    write(daemon.channel(), "r", chunks)
    # The memory used for recording is not measured.
    daemon.stop()
    daemon.start()
    stub = run_reader_grpc.RunReaderServiceStub(daemon.channel())
    described = next(iter(stub.DescribeRun(run_reader.DescribeRunRequest(run="r"))))
    request = run_reader.ListCoordinatesRequest(run="r", run_id=described.run_id)

    found: dict[str, list[int]] = {}
    for message in stub.ListCoordinates(request):
        for tokens in message.tokens:
            token = 0
            for step in tokens.steps:
                token += step
                found.setdefault(tokens.device, []).append(token)
    assert found == {device: list(range(TOKENS)) for device in DEVICES}

    before = resident_bytes(daemon)
    channels = [
        grpc.insecure_channel(daemon.endpoint, [("grpc.use_local_subchannel_pool", 1)])
        for _ in range(STREAMS // STREAMS_PER_CHANNEL)
    ]
    calls = [
        run_reader_grpc.RunReaderServiceStub(channel).ListCoordinates(request)
        for channel in channels
        for _ in range(STREAMS_PER_CHANNEL)
    ]
    most = 0
    for _ in range(40):
        time.sleep(0.1)
        most = max(most, resident_bytes(daemon) - before)
    for call in calls:
        call.cancel()
    for channel in channels:
        channel.close()
    # The coordinates of all streams would take 300 MiB.
    assert most < 80 * MIB
