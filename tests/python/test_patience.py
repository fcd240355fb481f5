"""A daemon that is gone delays a program once, and not in each step."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msitd._core.daemon.patience import SHORT_S, Patience
from msitd.probe.settings import read_settings
from msitd.probe.step_writer import StepWriter


class Away:
    """A client whose daemon answers, or does not."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.is_away = True
        self.recorded_count = 0
        self.acknowledged_count = 0
        # Number of records that it acknowledges during a failed wait.
        self.progress = 0

    def stream_error(self) -> str:
        return ""

    def flush(self, timeout: float) -> None:
        self.waits.append(timeout)
        self.acknowledged_count += self.progress
        if self.is_away:
            raise TimeoutError("no answer in time")

    def counters(self) -> Any:
        return SimpleNamespace(
            recorded_count=self.recorded_count,
            acknowledged_count=self.acknowledged_count,
        )


def flush_in_vain(patience: Patience, count: int) -> None:
    for _ in range(count):
        with pytest.raises(TimeoutError):
            patience.flush()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that shows its only element."""
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def test_waits_after_one_in_vain_are_short_and_rare(clock: list[float]) -> None:
    client: Any = Away()
    patience = Patience(client, 60.0)
    flush_in_vain(patience, 4)
    assert client.waits == [60.0, SHORT_S, 0.0, 0.0]
    assert patience.is_away
    clock[0] += 30.0
    flush_in_vain(patience, 2)
    assert client.waits[4:] == [SHORT_S, 0.0]
    # All instances of the program share this state.
    assert Patience(client, 5.0).is_away
    assert not Patience(Away(), 5.0).is_away  # type: ignore[arg-type]


def test_waits_are_long_again_after_an_acknowledgement(clock: list[float]) -> None:
    client: Any = Away()
    patience = Patience(client, 60.0)
    flush_in_vain(patience, 3)
    client.acknowledged_count += 1
    assert not patience.is_away
    flush_in_vain(patience, 2)
    client.is_away = False
    patience.flush()
    assert not patience.is_away
    patience.flush()
    assert client.waits == [60.0, SHORT_S, 0.0, 60.0, SHORT_S, 0.0, 60.0]
    client.is_away = True
    flush_in_vain(patience, 2)
    with pytest.raises(TimeoutError):
        patience.flush(is_last=True)
    assert client.waits[7:] == [60.0, SHORT_S, 60.0]


def test_a_slow_daemon_is_not_away(clock: list[float]) -> None:
    client: Any = Away()
    client.progress = 1
    patience = Patience(client, 60.0)
    flush_in_vain(patience, 3)
    assert not patience.is_away
    assert client.waits == [60.0, 60.0, 60.0]


def test_later_steps_of_the_probe_wait_shortly(tmp_path: Path) -> None:
    client = Away()
    recording: Any = SimpleNamespace(client=client, folder=str(tmp_path))
    settings = read_settings(
        None, {"task": "tensor", "dump_path": str(tmp_path), "level": "debug"}
    )
    writer = StepWriter(recording, 0)
    for step in range(3):
        client.recorded_count += 1
        # As `stop` and `step` do.
        for _ in range(2):
            with pytest.raises(TimeoutError):
                writer.write(step, "rank", settings)
    assert client.waits == [60.0, SHORT_S, 0.0, 0.0, 0.0, 0.0]
    assert not writer.is_whole
    with pytest.raises(TimeoutError):
        writer.write_again()
    # The daemon may just be restarting, and no later attempt follows.
    assert client.waits[6:] == [60.0]
