"""Tensors of a run that are kept for later calls."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msitd.verify import records


class Daemon:
    """Returns bytes, and counts how often it is asked for them."""

    def __init__(self) -> None:
        self.tensors = self
        self.count = 0

    def _read_bytes(self, record: Any, _: bool) -> bytes:
        self.count += 1
        return np.full(record.shape, float(record.hash), np.float32).tobytes()


def record(number: int, length: int = 2) -> Any:
    return SimpleNamespace(
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
