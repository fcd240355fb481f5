"""Every kind of bad input causes a precise error, and affects no other client."""

from collections.abc import Callable

import grpc
import pytest
from chunk_bytes import FLOAT64, PART, Chunk, Record, float32
from msitd.v1 import (
    comparison_policy_pb2,
    comparison_service_pb2,
    filter_pb2,
    ingest_service_pb2,
    run_service_pb2,
    tensor_service_pb2,
)
from msitd.v1 import comparison_service_pb2_grpc as comparisons_grpc
from msitd.v1 import run_service_pb2_grpc as runs_grpc
from msitd.v1 import tensor_service_pb2_grpc as tensors_grpc
from names import tensor_name
from wire import IngestStream, Refusal, refusal, write

from daemon import Daemon

GOOD = Record("op", float32(1, 2), [2])


def record(**changes: object) -> Record:
    return Record(**{**GOOD.__dict__, **changes})


def chunk(*records: Record, **changes: object) -> bytes:
    return Chunk("r", list(records or (GOOD,)), sequence=1, **changes).pack()


BAD_CHUNKS: list[tuple[str, bytes, str]] = [
    ("empty", b"", "CHUNK_MALFORMED"),
    ("short", b"\0" * 100, "CHUNK_MALFORMED"),
    ("magic", chunk(magic=0), "CHUNK_MALFORMED"),
    ("version", chunk(version=9), "CHUNK_VERSION_UNSUPPORTED"),
    ("flags", chunk(flags=4), "CHUNK_MALFORMED"),
    ("samples and none", chunk(flags=3), "CHUNK_MALFORMED"),
    ("no records", chunk(record_count=0), "CHUNK_MALFORMED"),
    ("a million records", chunk(record_count=1_000_000), "CHUNK_MALFORMED"),
    ("payload cut", chunk(cut_bytes=4096), "CHUNK_MALFORMED"),
    ("bytes behind the end", chunk(tail=b"\0" * 4096), "CHUNK_MALFORMED"),
    ("payload too large", chunk(payload_bytes=1 << 40), "CHUNK_MALFORMED"),
    ("rank negative", chunk(rank=-1), "RANK_OUT_OF_RANGE"),
    ("rank absurd", chunk(rank=1 << 30), "RANK_OUT_OF_RANGE"),
    ("other rank", chunk(rank=1), "CHUNK_MISDIRECTED"),
    ("other stream", chunk(stream_id=999), "CHUNK_MISDIRECTED"),
    ("token negative", chunk(record(token=-1)), "TOKEN_OUT_OF_RANGE"),
    ("token absurd", chunk(record(token=1 << 50)), "TOKEN_OUT_OF_RANGE"),
    ("call negative", chunk(record(call=-1)), "CALL_OUT_OF_RANGE"),
    ("op empty", chunk(record(op="")), "NAME_INVALID"),
    ("op too long", chunk(record(op="x" * 1025)), "NAME_TOO_LONG"),
    ("op of 100 kB", chunk(record(op="x" * 100_000)), "NAME_TOO_LONG"),
    ("op has NUL", chunk(record(op="a\0b")), "NAME_INVALID"),
    ("op not UTF-8", chunk(record(op=b"\xff\xfe")), "NAME_INVALID"),
    ("index too long", chunk(record(index="x" * 129)), "NAME_TOO_LONG"),
    ("device empty", chunk(record(device="")), "NAME_INVALID"),
    ("device too long", chunk(record(device="x" * 33)), "NAME_TOO_LONG"),
    ("io unknown", chunk(record(io=77)), "UNKNOWN_IO"),
    ("dtype zero", chunk(record(dtype=0)), "UNKNOWN_DTYPE"),
    ("dtype unknown", chunk(record(dtype=200)), "UNKNOWN_DTYPE"),
    ("shape too large", chunk(record(shape=[3])), "SHAPE_MISMATCH"),
    ("shape negative", chunk(record(shape=[-2])), "SHAPE_MISMATCH"),
    ("shape overflows", chunk(record(shape=[1 << 62, 1 << 62])), "SHAPE_MISMATCH"),
    ("too many dims", chunk(record(shape=[1] * 32 + [2])), "SHAPE_MISMATCH"),
    ("dtype of other size", chunk(record(dtype=FLOAT64)), "SHAPE_MISMATCH"),
    (
        "part at a wrong place",
        chunk(record(shape=[PART], tensor_bytes=4 * PART, part_offset=8)),
        "PART_MISPLACED",
    ),
    (
        "part of a wrong size",
        chunk(record(shape=[PART], tensor_bytes=4 * PART, part_offset=PART)),
        "PART_MISPLACED",
    ),
    (
        "sequence decreases",
        chunk(record(sequence=5), record(op="b", sequence=4)),
        "CHUNK_MALFORMED",
    ),
]


def test_bad_chunks_are_refused_one_by_one(daemon: Daemon) -> None:
    """One daemon receives all of them, and keeps the data that it has acknowledged."""
    acknowledged = Chunk("r", [record(op="good")], sequence=0).pack()
    write(daemon.channel(), "r", [acknowledged])
    wrong = {}
    for name, bad, reason in BAD_CHUNKS:
        stream = IngestStream(daemon.channel(), "r")
        assert stream.opened() == 1
        stream.send_chunk(bad)
        refused = stream.refused()
        found = (refused.code, refused.reason, bool(refused.message))
        if found != (grpc.StatusCode.INVALID_ARGUMENT, reason, True):
            wrong[name] = refused
    assert wrong == {}
    names = daemon.ctl("-o", "name", "tensor", "list", "--run", "r").stdout.split()
    assert names == [tensor_name("r", "good")]
    status = daemon.ctl_json("node", "status")
    assert int(status["refused_chunk_count"]) == len(BAD_CHUNKS)


def test_chunk_of_another_run_is_misdirected(daemon: Daemon) -> None:
    stream = IngestStream(daemon.channel(), "r")
    stream.opened()
    stream.send_chunk(Chunk("other", [GOOD]).pack())
    assert stream.refused().reason == "CHUNK_MISDIRECTED"


def test_chunk_that_skips_ahead_is_out_of_order(daemon: Daemon) -> None:
    stream = IngestStream(daemon.channel(), "r")
    stream.opened()
    stream.send_chunk(Chunk("r", [GOOD], sequence=0).pack())
    stream.send_chunk(Chunk("r", [GOOD], sequence=2).pack())
    refused = stream.refused()
    assert refused.code == grpc.StatusCode.OUT_OF_RANGE
    assert refused.reason == "CHUNK_OUT_OF_ORDER"
    assert refused.metadata == {"expected": "1", "received": "2"}
    # The preceding chunk is acknowledged, and nothing else is stored.
    assert stream.committed == 1


OPENINGS = [
    ("run empty", {"run": ""}, "NAME_INVALID"),
    ("run too long", {"run": "x" * 129}, "NAME_TOO_LONG"),
    ("run has NUL", {"run": "a\0"}, "NAME_INVALID"),
    ("rank negative", {"rank": -1}, "RANK_OUT_OF_RANGE"),
    ("rank not below world size", {"rank": 1}, "RANK_OUT_OF_RANGE"),
    ("world size zero", {"world_size": 0}, "FIELD_INVALID"),
    ("stream id zero", {"stream_id": 0}, "FIELD_INVALID"),
]


@pytest.mark.parametrize(
    ("change", "reason"), [o[1:] for o in OPENINGS], ids=[o[0] for o in OPENINGS]
)
def test_bad_opening_is_refused(
    daemon: Daemon, change: dict[str, object], reason: str
) -> None:
    opening = {"run": "r", "rank": 0, "world_size": 1, "stream_id": 1, **change}
    refused = IngestStream(daemon.channel(), **opening).refused()
    assert refused.code == grpc.StatusCode.INVALID_ARGUMENT
    assert refused.reason == reason


def test_chunk_before_the_opening_is_refused(daemon: Daemon) -> None:
    channel = daemon.channel()
    call = channel.stream_stream(
        "/msitd.v1.IngestService/WriteChunks",
        request_serializer=ingest_service_pb2.WriteChunksRequest.SerializeToString,
        response_deserializer=ingest_service_pb2.WriteChunksResponse.FromString,
    )(iter([ingest_service_pb2.WriteChunksRequest(chunk=chunk())]), timeout=30)
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


Call = Callable[[grpc.Channel], object]


def _list(channel: grpc.Channel, **fields: object) -> object:
    request = tensor_service_pb2.ListTensorsRequest(**{"run": "r", **fields})
    return tensors_grpc.TensorServiceStub(channel).ListTensors(request)


def _read(channel: grpc.Channel, **fields: object) -> object:
    fields = {"name": tensor_name("r", "op"), **fields}
    request = tensor_service_pb2.ReadTensorRequest(**fields)
    return list(tensors_grpc.TensorServiceStub(channel).ReadTensor(request))


def _compare(channel: grpc.Channel, **fields: object) -> object:
    fields = {"golden_run": "r", "target_run": "r", **fields}
    comparison = comparison_service_pb2.Comparison(**fields)
    return comparisons_grpc.ComparisonServiceStub(channel).CreateComparison(
        comparison_service_pb2.CreateComparisonRequest(comparison=comparison)
    )


def _policy(predicate: str) -> comparison_policy_pb2.Policy:
    rule = comparison_policy_pb2.Policy.Rule(op_pattern="*", predicate=predicate)
    return comparison_policy_pb2.Policy(rules=[rule])


BAD_REQUESTS: list[tuple[str, Call, str, str]] = [
    (
        "no such run",
        lambda c: _list(c, run="absent"),
        "NOT_FOUND",
        "RUN_NOT_FOUND",
    ),
    (
        "page size negative",
        lambda c: _list(c, page_size=-1),
        "INVALID_ARGUMENT",
        "FIELD_INVALID",
    ),
    (
        "page token foreign",
        lambda c: _list(c, page_token="bm9uc2Vuc2U"),
        "INVALID_ARGUMENT",
        "PAGE_TOKEN_INVALID",
    ),
    (
        "condition does not parse",
        lambda c: _list(c, where="nan_count >"),
        "INVALID_ARGUMENT",
        "PREDICATE_INVALID",
    ),
    (
        "condition on nothing known",
        lambda c: _list(c, where="colour == 3"),
        "INVALID_ARGUMENT",
        "PREDICATE_INVALID",
    ),
    (
        "token range turned round",
        lambda c: _list(
            c,
            filter=filter_pb2.TensorFilter(
                tokens=[filter_pb2.TokenRange(first=5, last=4)]
            ),
        ),
        "INVALID_ARGUMENT",
        "FIELD_INVALID",
    ),
    (
        "io unspecified in a filter",
        lambda c: _list(c, filter=filter_pb2.TensorFilter(ios=[0])),
        "INVALID_ARGUMENT",
        "FIELD_INVALID",
    ),
    (
        "name of no form",
        lambda c: _read(c, name="runs/r"),
        "INVALID_ARGUMENT",
        "NAME_INVALID",
    ),
    (
        "no such tensor",
        lambda c: _read(c, name=tensor_name("r", "absent")),
        "NOT_FOUND",
        "TENSOR_NOT_FOUND",
    ),
    (
        "offset behind the end",
        lambda c: _read(c, offset_bytes=9),
        "OUT_OF_RANGE",
        "OFFSET_OUT_OF_RANGE",
    ),
    (
        "golden run absent",
        lambda c: _compare(c, golden_run="absent"),
        "NOT_FOUND",
        "RUN_NOT_FOUND",
    ),
    (
        "policy names no metric",
        lambda c: _compare(c, policy=_policy("beauty >= 1")),
        "INVALID_ARGUMENT",
        "PREDICATE_INVALID",
    ),
    (
        "no such comparison",
        lambda c: comparisons_grpc.ComparisonServiceStub(c).GetComparison(
            comparison_service_pb2.GetComparisonRequest(comparison="c-000099")
        ),
        "NOT_FOUND",
        "COMPARISON_NOT_FOUND",
    ),
    (
        "run exists",
        lambda c: runs_grpc.RunServiceStub(c).CreateRun(
            run_service_pb2.CreateRunRequest(run=run_service_pb2.Run(name="r"))
        ),
        "ALREADY_EXISTS",
        "RUN_EXISTS",
    ),
    (
        "run name too long",
        lambda c: runs_grpc.RunServiceStub(c).CreateRun(
            run_service_pb2.CreateRunRequest(run=run_service_pb2.Run(name="x" * 129))
        ),
        "INVALID_ARGUMENT",
        "NAME_TOO_LONG",
    ),
]


def test_bad_requests_get_code_and_reason(daemon: Daemon) -> None:
    channel = daemon.channel()
    write(channel, "r", [Chunk("r", [GOOD]).pack()])
    wrong: dict[str, Refusal | str] = {}
    for name, call, code, reason in BAD_REQUESTS:
        try:
            call(channel)
            wrong[name] = "was accepted"
        except grpc.RpcError as error:
            found = refusal(error)
            if (found.code.name, found.reason) != (code, reason):
                wrong[name] = found
    assert wrong == {}
