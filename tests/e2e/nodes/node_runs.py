"""Random runs: a golden one, and a target that is partly equal to it."""

import copy
import random
import struct
from collections.abc import Iterator

from chunk_bytes import (
    FLOAT32,
    FLOAT64,
    INPUT,
    INT16,
    INT64,
    OUTPUT,
    STATISTICS,
    TEXT,
    UINT8,
    WEIGHT,
    Chunk,
    Record,
)
from wire import write

from daemon import Daemon

WORLD = 3
TOKENS = 3
SUMMARY_ONLY, SAMPLE = 1, 2
SPECIAL = (float("nan"), float("inf"), float("-inf"), 0.0, -0.0)
FORMATS = {FLOAT32: "f", FLOAT64: "d", INT16: "h", INT64: "q", UINT8: "B"}

# By rank: chunks of records, with the flags of the chunk.
Run = dict[int, list[tuple[int, list[Record]]]]


def _values(rng: random.Random, dtype: int, count: int) -> bytes:
    if dtype in (FLOAT32, FLOAT64):
        values: list[float] = [
            rng.choice(SPECIAL) if rng.random() < 0.02 else rng.gauss(0, 3)
            for _ in range(count)
        ]
    else:
        values = [rng.randrange(100) for _ in range(count)]
    return struct.pack(f"<{count}{FORMATS[dtype]}", *values)


def _tensor(rng: random.Random, op: str, token: int) -> Record:
    dtype = rng.choice(list(FORMATS))
    shape = [rng.randrange(0, 9) for _ in range(rng.randrange(0, 4))]
    if rng.random() < 0.1:
        shape = [rng.choice((1500, 4000))]
    count = 1
    for dim in shape:
        count *= dim
    return Record(
        op,
        _values(rng, dtype, count),
        shape,
        dtype=dtype,
        token=token,
        io=rng.choice((INPUT, OUTPUT, WEIGHT)),
        call=rng.choice((0, 0, 1)),
        index=rng.choice(("0", "1.0", "mask")),
        stack=rng.choice(("", "model.py:7 forward")),
        requires_grad=rng.choice((None, True, False)),
    )


def _records(rng: random.Random, rank: int, token: int) -> Iterator[Record]:
    for op in (f"layer.{i}.{part}" for i in range(2) for part in ("attn", "mlp")):
        tensor = _tensor(rng, op, token)
        yield tensor
        if rng.random() < 0.3:
            twin = copy.deepcopy(tensor)
            twin.op, twin.data = f"{op}.twin", b""
            twin.tensor_bytes = len(tensor.data)
            twin.alias_of = (op, tensor.call, tensor.io, str(tensor.index))
            yield twin
        if rng.random() < 0.3:
            yield Record(
                op,
                b"",
                [0],
                dtype=UINT8,
                token=token,
                kind=TEXT,
                io=INPUT,
                index="mode",
                value=rng.choice(("train", "eval")),
            )
        if rng.random() < 0.3:
            yield Record(
                f"{op}.stat",
                b"",
                [2, 3],
                token=token,
                kind=STATISTICS,
                value=f'{{"max": {rng.randrange(9)}.5, "mean": 1.0}}',
            )
    if rank < 2:
        shard = Record("sharded", _values(rng, FLOAT32, 8), [2, 4], token=token)
        shard.placement = "0+2/1:S(0)"
        yield shard


def golden(seed: int) -> Run:
    """Returns a run of several ranks and tokens."""
    rng = random.Random(seed)
    run: Run = {}
    for rank in range(WORLD):
        run[rank] = []
        for token in range(TOKENS):
            flags = rng.choice((0, 0, 0, SUMMARY_ONLY, SAMPLE))
            run[rank].append((flags, list(_records(rng, rank, token))))
    return run


def target(of: Run, seed: int) -> Run:
    """Returns a run with some ranks and tokens equal to those of another run."""
    rng = random.Random(seed)
    out = copy.deepcopy(of)
    for chunks in out.values():
        for number, (flags, records) in enumerate(chunks):
            if rng.random() < 0.5:
                continue
            if rng.random() < 0.2:
                chunks[number] = (rng.choice((0, SAMPLE)), records)
            originals = {r.alias_of[0] for r in records if r.alias_of}
            for record in list(records):
                if record.alias_of or record.op in originals or rng.random() < 0.7:
                    continue
                change = rng.randrange(4)
                if change == 0:
                    records.remove(record)
                elif change == 1 and record.data:
                    data = bytearray(record.data)
                    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
                    record.data = bytes(data)
                elif change == 2 and record.value is None and not record.placement:
                    record.shape, record.dtype = [4], FLOAT64
                    record.data = _values(rng, FLOAT64, 4)
                elif change == 3:
                    record.op = f"{record.op}.other"
            if not records:
                chunks[number] = (flags, [Record("left", b"\0", [1], dtype=UINT8)])
    return out


def send(daemon: Daemon, name: str, run: Run, seals: bool = True) -> None:
    """Records a run and seals it."""
    for rank, chunks in run.items():
        packed = []
        sequence = 0
        for number, (flags, records) in enumerate(chunks):
            for record in records:
                record.sequence = sequence
                sequence += 1
            chunk = Chunk(
                name,
                records,
                rank=rank,
                sequence=number,
                flags=flags,
                version=_version(records),
            )
            packed.append(chunk.pack())
        write(daemon.channel(), name, packed, rank=rank, world_size=WORLD)
    if seals:
        daemon.ctl("run", "seal", name)


def _version(records: list[Record]) -> int:
    if any(record.kind == STATISTICS for record in records):
        return 3
    return 2
