"""Exports of summaries for TensorBoard."""

import math
import struct
from collections.abc import Iterator
from pathlib import Path

import msitd
import numpy as np
from exports import EVIL_OPS, export

from daemon import Daemon

# Values by tag and step.
Scalars = dict[tuple[str, int], float]


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields the fields of a message of protobuf."""
    at = 0

    def varint() -> int:
        nonlocal at
        out = shift = 0
        while True:
            byte = message[at]
            at += 1
            out |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return out

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = varint() if key & 7 == 2 else {1: 8, 5: 4}[key & 7]
        yield key >> 3, message[at : at + size]
        at += size


def scalars(file: Path) -> Scalars:
    data = file.read_bytes()
    out: Scalars = {}
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        event = dict(fields(data[at + 12 : at + 12 + size]))
        at += 16 + size
        if 5 not in event:
            assert event[3] == b"brain.Event:2"
            continue
        for _, value in fields(bytes(event[5])):
            one = dict(fields(bytes(value)))
            (number,) = struct.unpack("<f", bytes(one[2]))
            out[bytes(one[1]).decode(), int(event[2])] = number
    assert at == len(data)
    return out


def exported(daemon: Daemon, out: Path, rank: int = 0) -> Scalars:
    (file,) = (out / f"rank{rank}").iterdir()
    assert "tfevents" in file.name
    return scalars(file)


def test_summaries_are_scalars_over_tokens(daemon: Daemon, tmp_path: Path) -> None:
    for rank in (0, 1):
        with msitd.Client(
            "r", endpoint=str(daemon.socket_dir), rank=rank, world_size=2
        ) as client:
            for token in range(3):
                client.record(np.full(4, token + rank, "f4"), op="a/b", token=token)
                client.record(np.float32(token), op="loss", token=token)
            client.record(np.array([np.nan, np.inf, 1], "f4"), op="bad", token=2)
    counts = export(daemon, tmp_path / "out", "--format", "tensorboard")
    assert (counts["tensor_count"], counts["file_count"]) == (14, 2)
    assert (counts["size_bytes"], counts["problem_count"]) == (0, 0)
    for rank in (0, 1):
        found = exported(daemon, tmp_path / "out", rank)
        for token in range(3):
            assert found["loss/output 0/value", token] == token
            assert found["a/b/output 0/mean", token] == token + rank
            assert found["a/b/output 0/l2_norm", token] == 2 * (token + rank)
        assert found["bad/output 0/nan_count", 2] == 1
        assert found["bad/output 0/infinity_count", 2] == 1
        assert math.isinf(found["bad/output 0/max", 2])
        assert found["bad/output 0/mean", 2] == 1


def test_a_loss_remains_one_curve_when_it_becomes_nan(
    daemon: Daemon, tmp_path: Path
) -> None:
    losses = [1.0, math.nan, math.inf, -math.inf]
    with msitd.Client("r", endpoint=str(daemon.socket_dir)) as client:
        for token, loss in enumerate(losses):
            client.record(np.float32(loss), op="loss", token=token)
    export(daemon, tmp_path / "out", "--format", "tensorboard")
    found = exported(daemon, tmp_path / "out")
    values = [found.pop(("loss/output 0/value", token)) for token in range(4)]
    assert not found
    assert np.array_equal(values, losses, equal_nan=True)


def test_devices_of_a_rank_are_runs_of_their_own(
    daemon: Daemon, tmp_path: Path
) -> None:
    with msitd.Client("r", endpoint=str(daemon.socket_dir)) as client:
        for token in range(2):
            for number in range(2):
                value, device = np.float32(number), f"npu:{number}"
                client.record(value, op="loss", token=token, device=device)
    export(daemon, tmp_path / "out", "--format", "tensorboard")
    folders = sorted(each.name for each in (tmp_path / "out").iterdir())
    assert folders == ["rank0", "rank0.npu%3a1"]
    for number, folder in enumerate(folders):
        (file,) = (tmp_path / "out" / folder).iterdir()
        assert set(scalars(file).values()) == {number}


def test_names_of_ops_are_only_text(daemon: Daemon, tmp_path: Path) -> None:
    with msitd.Client("r", endpoint=str(daemon.socket_dir)) as client:
        for op in EVIL_OPS:
            client.record(np.float32(1), op=op)
    export(daemon, tmp_path / "out", "--format", "tensorboard")
    found = exported(daemon, tmp_path / "out")
    assert sorted(found) == sorted((f"{op}/output 0/value", 0) for op in EVIL_OPS)
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["rank0"]
