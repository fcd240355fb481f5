"""Readers that request whole runs and read nothing."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc
import http2
from chunk_bytes import Chunk, Record, float32
from msitd.v1 import run_reader_service_pb2 as pb
from msitd.v1 import run_reader_service_pb2_grpc as pb_grpc
from msitd.v1 import run_service_pb2 as run_pb
from msitd.v1 import run_service_pb2_grpc as run_grpc
from wire import refusal, write

from daemon import Daemon, stopped

RUN = "much"
READERS = 200
CONNECTIONS = 20
TOKENS, OPS = 60, 1000
ENTRIES = TOKENS * OPS
SOON_S = 2.0
TIMEOUT_S = 60
# Timeout of a message that the client does not read.
TAKE_TIMEOUT_S = 5
# Memory limit of all streams together, 192 MiB, plus the overhead of
# allocators.
GROWTH_MIB_MAX = 256


def record(daemon: Daemon, value: float = 1.0) -> None:
    """Records entries of several messages."""
    chunks = []
    for number in range(TOKENS):
        records = [
            Record(f"op.{'x' * 200}.{i}", float32(value), [1], token=number, sequence=i)
            for i in range(OPS)
        ]
        for one in records:
            one.sequence += OPS * number
        chunks.append(Chunk(RUN, records, sequence=number).pack())
    write(daemon.channel(), RUN, chunks)


def memory_mib(daemon: Daemon) -> float:
    """Returns the peak memory so far."""
    assert daemon.process is not None
    with open(f"/proc/{daemon.process.pid}/status") as status:
        line = next(line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


class Stalled:
    """Streams of foreign clients that read one window and no more."""

    def __init__(self, daemon: Daemon) -> None:
        host, port = daemon.endpoint.rsplit(":", 1)
        path = "/msitd.v1.RunReaderService/ScanTensors"
        request = pb.ScanTensorsRequest(run=RUN).SerializeToString()
        self.connections = [
            http2.Connection((host, int(port))) for _ in range(CONNECTIONS)
        ]
        for connection in self.connections:
            for _ in range(READERS // CONNECTIONS):
                connection.open(path, http2.message(request), 0)
        # Waits until most of them are refused.
        deadline = time.monotonic() + 20
        while self.live_count >= READERS / 2:
            assert time.monotonic() < deadline
            self.run(0.2)

    def run(self, seconds: float) -> None:
        http2.run(self.connections, seconds)

    @property
    def live_count(self) -> int:
        streams = (s for c in self.connections for s in c.streams.values())
        return sum(not stream.is_over for stream in streams)

    def close(self) -> None:
        for connection in self.connections:
            connection.sock.close()


@contextmanager
def stalled(daemon: Daemon) -> Iterator[Stalled]:
    streams = Stalled(daemon)
    yield streams
    streams.close()


def read_all(channel: grpc.Channel) -> int:
    """Reads all entries as a comparing daemon does, and resumes after interruptions."""
    request = pb.ScanTensorsRequest(run=RUN)
    stub = pb_grpc.RunReaderServiceStub(channel)
    count = 0
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            for message in stub.ScanTensors(request, timeout=TIMEOUT_S):
                count += message.entry_count
                request.position = message.position
                if message.is_last:
                    return count
        except grpc.RpcError as error:
            assert refusal(error).reason == "REQUESTS_EXHAUSTED"
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_stalled_readers_take_bounded_memory_and_are_ended(daemon: Daemon) -> None:
    record(daemon)
    before = memory_mib(daemon)
    local = grpc.insecure_channel(f"unix:{daemon.socket_dir}/msitd.sock")
    with stalled(daemon) as streams:
        begin = time.monotonic()
        run_grpc.RunServiceStub(daemon.channel()).GetRun(
            run_pb.GetRunRequest(run=RUN), timeout=SOON_S
        )
        assert read_all(local) == ENTRIES
        assert time.monotonic() - begin < SOON_S
        # Foreign clients that do read are served in turn.
        assert read_all(daemon.channel()) == ENTRIES
        deadline = begin + TAKE_TIMEOUT_S + 5
        while streams.live_count > 0:
            assert time.monotonic() < deadline
            streams.run(0.2)
    local.close()
    assert memory_mib(daemon) - before < GROWTH_MIB_MAX


def test_a_comparison_goes_on_beside_stalled_readers(
    new_daemon: Callable[[], Daemon],
) -> None:
    far, near = new_daemon(), new_daemon()
    far.start()
    near.start("--peers", far.endpoint, "--peer-timeout-ms", "20000")
    for daemon, value in ((far, 1.0), (near, 2.0)):
        record(daemon, value)
        daemon.ctl("run", "seal", RUN)
    with stalled(far):
        flags = ("--golden-endpoint", far.endpoint, "--rows", "none")
        done = near.ctl("compare", "run", RUN, RUN, *flags, expect=1)
        assert f"{ENTRIES} fail" in done.stdout


def test_a_reader_that_pauses_goes_on(new_daemon: Callable[[], Daemon]) -> None:
    far, near = new_daemon(), new_daemon()
    far.start()
    near.start("--peers", far.endpoint)
    for daemon, value in ((far, 1.0), (near, 2.0)):
        record(daemon, value)
        daemon.ctl("run", "seal", RUN)
    flags = ("--golden-endpoint", far.endpoint, "--detach", "-o", "name")
    name = near.ctl("compare", "run", RUN, RUN, *flags).stdout.strip()
    with stopped(near):
        # The streams of the stalled client are ended during this time.
        time.sleep(TAKE_TIMEOUT_S + 2)
    done = near.ctl("compare", "get", name, "--wait", expect=1)
    assert f"{ENTRIES} fail" in done.stdout
