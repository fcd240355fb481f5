"""Tensors of a run that are kept for later calls."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msitd.query.errors import QueryError
from msitd.verify import records
from msitd.verify.unchecked import Unchecked


class Daemon:
    """Returns bytes, and counts how often it is asked for them."""

    def __init__(self) -> None:
        self.tensors = self
        self.count = 0
        self.batches: list[list[str]] = []
        # Names of tensors that are left out of batches.
        self.left_out: set[str] = set()
        self.is_old = False

    def _read_bytes(self, record: Any, _: bool) -> bytes:
        self.count += 1
        return np.full(record.shape, float(record.hash), np.float32).tobytes()

    def _read_small(self, wanted: Any) -> Iterator[tuple[Any, bytes]]:
        self.batches.append([each.name for each in wanted])
        if self.is_old:
            raise QueryError("UNIMPLEMENTED", "", "an old daemon")
        for each in wanted:
            if each.name not in self.left_out:
                value = float(each.hash)
                yield each, np.full(each.shape, value, np.float32).tobytes()


def record(number: int, length: int = 2) -> Any:
    return SimpleNamespace(
        name=f"t{number}",
        has_bytes=True,
        placement="",
        size_bytes=4 * length,
        hash=str(number),
        dtype="float32",
        shape=(length,),
    )


def test_few_tensors_are_kept_even_if_they_are_small(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(records, "_CACHE_TENSORS_MAX", 4)
    daemon: Any = Daemon()
    reader = records.TensorReader(daemon, 1 << 20)
    for number in range(100):
        assert reader.read(record(number)).tolist() == [number] * 2
    assert len(reader._known) == 4
    assert reader._known_bytes == 4 * 8
    for number in range(96, 100):
        reader.read(record(number))
    assert daemon.count == 100
    reader.read(record(0))
    assert daemon.count == 101


def test_the_bytes_of_kept_tensors_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(records, "_CACHE_BYTES_MAX", 100)
    reader = records.TensorReader(Daemon(), 1 << 20)  # type: ignore[arg-type]
    for number in range(10):
        reader.read(record(number, 10))
    assert len(reader._known) == 2
    # A tensor that is larger than the limit is kept until the next one.
    reader.read(record(11, 1000))
    assert len(reader._known) == 1


def test_small_tensors_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_TOGETHER_MAX", 4)
    daemon: Any = Daemon()
    reader = records.TensorReader(daemon, 1 << 20)
    expected = [record(number) for number in (0, 1, 1, 2, 3, 4, 0, 5, 6)]
    for at, each in enumerate(expected):
        each.name = f"n{at}"
    reader.expect(expected)
    for each in expected:
        assert reader.read(each).tolist() == [int(each.hash)] * 2
    assert daemon.batches == [["n0", "n1", "n3", "n4"], ["n5", "n7", "n8"]]
    assert daemon.count == 0


def test_tensors_that_a_batch_lacks_are_read_alone() -> None:
    daemon: Any = Daemon()
    reader = records.TensorReader(daemon, 1 << 20)
    expected = [record(number) for number in range(8)]
    expected[3].dtype = "float4_e2m1fn_x2"
    expected[4].has_bytes = False
    expected[5].placement = "shard"
    expected[6].size_bytes = 1 << 21
    daemon.left_out = {"t1", "t2"}
    reader.expect(expected)
    for number in (0, 1, 2, 7):
        assert reader.read(expected[number]).tolist() == [number] * 2
    for number in (3, 4, 5, 6):
        with pytest.raises(Unchecked):
            reader.read(expected[number])
    assert daemon.batches == [["t0", "t1", "t2", "t7"]]
    assert daemon.count == 2


def test_an_old_daemon_is_asked_for_each_tensor() -> None:
    daemon: Any = Daemon()
    daemon.is_old = True
    reader = records.TensorReader(daemon, 1 << 20)
    expected = [record(number) for number in range(5)]
    reader.expect(expected)
    for each in expected:
        assert reader.read(each).tolist() == [int(each.hash)] * 2
    assert (len(daemon.batches), daemon.count) == (1, 5)


def test_a_batch_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_TOGETHER_BYTES_MAX", 100)
    daemon: Any = Daemon()
    reader = records.TensorReader(daemon, 1 << 20)
    expected = [record(number, 10) for number in range(7)]
    reader.expect(expected)
    for each in expected:
        reader.read(each)
    assert daemon.batches == [["t0", "t1"], ["t2", "t3"], ["t4", "t5"]]
    assert daemon.count == 1
