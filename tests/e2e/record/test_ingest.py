"""Chunks over raw gRPC: acknowledged, listed, read back, resumed."""

import hashlib
import random

import grpc
import pytest
from chunk_bytes import PART, Chunk, Record, float32
from msitd.v1 import ingest_service_pb2, run_service_pb2, tensor_service_pb2
from msitd.v1 import run_service_pb2_grpc as runs_grpc
from msitd.v1 import tensor_service_pb2_grpc as tensors_grpc
from names import tensor_name
from wire import IngestStream, write

from daemon import Daemon


def small_chunk(run: str, sequence: int, stream_id: int | None = None) -> bytes:
    data = float32(sequence, -sequence, 0.5)
    record = Record(f"layer.{sequence}", data, [3], sequence=sequence)
    return Chunk(run, [record], stream_id=stream_id, sequence=sequence).pack()


def read(daemon: Daemon, name: str, **request: int) -> bytes:
    stub = tensors_grpc.TensorServiceStub(daemon.channel())
    out = b""
    for piece in stub.ReadTensor(
        tensor_service_pb2.ReadTensorRequest(name=name, **request), timeout=30
    ):
        assert piece.offset_bytes == request.get("offset_bytes", 0) + len(out)
        out += piece.data
    return out


def run_counters(daemon: Daemon, run: str) -> run_service_pb2.RunCounters:
    stub = runs_grpc.RunServiceStub(daemon.channel())
    return stub.GetRun(run_service_pb2.GetRunRequest(run=run)).counters


def test_acknowledged_chunk_is_found_and_reads_back(daemon: Daemon) -> None:
    write(daemon.channel(), "r", [small_chunk("r", i) for i in range(5)])
    names = daemon.ctl("-o", "name", "tensor", "list", "--run", "r").stdout.split()
    assert names == [tensor_name("r", f"layer.{i}") for i in range(5)]
    assert read(daemon, names[3]) == float32(3, -3, 0.5)
    tensor = daemon.ctl_json("tensor", "get", names[3])
    assert tensor["shape"] == ["3"]
    assert tensor["summary"]["min"] == -3
    assert tensor["summary"]["max"] == 3
    assert tensor["summary"]["mean"] == pytest.approx(0.5 / 3)


def test_large_tensor_is_put_together_from_its_parts(daemon: Daemon) -> None:
    data = random.Random(5).randbytes(2 * PART + 12)
    parts = [data[at : at + PART] for at in range(0, len(data), PART)]
    chunks = []
    for i, part in enumerate(parts):
        record = Record(
            "big",
            part,
            [len(data) // 4],
            tensor_bytes=len(data),
            part_offset=i * PART,
        )
        chunks.append(Chunk("r", [record], sequence=i).pack())
    write(daemon.channel(), "r", chunks[:-1])
    assert daemon.ctl_json("tensor", "list", "--run", "r").get("tensors", []) == []
    stream = IngestStream(daemon.channel(), "r")
    assert stream.opened() == 2
    stream.send_chunk(chunks[-1])
    stream.wait_committed(3)
    stream.finish()
    name = tensor_name("r", "big")
    assert hashlib.sha256(read(daemon, name)).digest() == hashlib.sha256(data).digest()
    at = PART - 5
    assert read(daemon, name, offset_bytes=at, limit_bytes=10) == data[at : at + 10]
    assert read(daemon, name, offset_bytes=len(data)) == b""


def test_cut_stream_goes_on_where_the_daemon_says(daemon: Daemon) -> None:
    first = IngestStream(daemon.channel(), "r", stream_id=77)
    assert first.opened() == 0
    for i in range(3):
        first.send_chunk(small_chunk("r", i, stream_id=77))
    first.wait_committed(2)
    first.cut()
    # The daemon may still be ending the first stream.
    second = None
    for _ in range(200):
        second = IngestStream(daemon.channel(), "r", stream_id=77)
        try:
            at = second.opened()
            break
        except grpc.RpcError:
            second.cut()
    assert second is not None
    assert 2 <= at <= 3
    for i in range(at, 6):
        second.send_chunk(small_chunk("r", i, stream_id=77))
    second.wait_committed(6)
    second.finish()
    counters = run_counters(daemon, "r")
    assert (counters.tensor_count, counters.duplicate_count) == (6, 0)


def test_chunk_that_comes_again_is_not_stored_twice(daemon: Daemon) -> None:
    write(daemon.channel(), "r", [small_chunk("r", i) for i in range(3)])
    stream = IngestStream(daemon.channel(), "r")
    assert stream.opened() == 3
    for i in range(1, 4):
        stream.send_chunk(small_chunk("r", i))
    stream.wait_committed(4)
    stream.finish()
    counters = run_counters(daemon, "r")
    assert (counters.tensor_count, counters.duplicate_count) == (4, 0)


def test_tensor_that_comes_again_is_counted_and_the_first_stays(
    daemon: Daemon,
) -> None:
    def chunk(sequence: int, value: float) -> bytes:
        record = Record("op", float32(value), [1], sequence=sequence)
        return Chunk("r", [record], sequence=sequence).pack()

    write(daemon.channel(), "r", [chunk(0, 1), chunk(1, 1), chunk(2, 2)])
    counters = run_counters(daemon, "r")
    assert counters.tensor_count == 1
    assert counters.duplicate_count == 1
    assert counters.conflict_count == 1
    assert read(daemon, tensor_name("r", "op")) == float32(1)


def test_reports_of_a_stream_are_totals(daemon: Daemon) -> None:
    stream = IngestStream(daemon.channel(), "r")
    stream.opened()
    for count in (3, 4):
        report = ingest_service_pb2.CoverageReport(dropped_count=count)
        stream.send(ingest_service_pb2.WriteChunksRequest(coverage=report))
    stream.send_chunk(small_chunk("r", 0))
    stream.wait_committed(1)
    stream.finish()
    assert run_counters(daemon, "r").dropped_count == 4


def test_second_stream_of_a_rank_is_refused(daemon: Daemon) -> None:
    first = IngestStream(daemon.channel(), "r", stream_id=1)
    first.opened()
    second = IngestStream(daemon.channel(), "r", stream_id=2)
    refused = second.refused()
    assert refused.code.name == "ALREADY_EXISTS"
    assert refused.reason == "RANK_BUSY"
    first.send_chunk(small_chunk("r", 0, stream_id=1))
    first.wait_committed(1)
    first.finish()


def test_sealed_run_takes_no_more(daemon: Daemon) -> None:
    stream = IngestStream(daemon.channel(), "r")
    stream.opened()
    stream.send_chunk(small_chunk("r", 0))
    stream.wait_committed(1)
    daemon.ctl("run", "seal", "r")
    assert stream.refused().reason == "RUN_SEALED"
    late = IngestStream(daemon.channel(), "r", stream_id=2).refused()
    assert late.code.name == "FAILED_PRECONDITION"
    assert late.reason == "RUN_SEALED"
    assert read(daemon, tensor_name("r", "layer.0")) == float32(0, 0, 0.5)


def test_run_keeps_its_world_size(daemon: Daemon) -> None:
    write(daemon.channel(), "r", [small_chunk("r", 0)], world_size=2)
    refused = IngestStream(daemon.channel(), "r", world_size=3).refused()
    assert refused.code.name == "FAILED_PRECONDITION"
    assert refused.reason == "RUN_EXISTS"
