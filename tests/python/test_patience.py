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
    """A client whose daemon answers, or not."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.is_away = True
        self.recorded_count = 0

    def flush(self, timeout: float) -> None:
        self.waits.append(timeout)
        if self.is_away:
            raise TimeoutError("no answer in time")

    def counters(self) -> Any:
        return SimpleNamespace(recorded_count=self.recorded_count)


def test_waits_are_short_after_one_in_vain() -> None:
    client: Any = Away()
    patience = Patience(client, 60.0)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            patience.flush()
    client.is_away = False
    patience.flush()
    patience.flush()
    assert client.waits == [60.0, SHORT_S, SHORT_S, SHORT_S, 60.0]
    client.is_away = True
    for _ in range(2):
        with pytest.raises(TimeoutError):
            patience.flush()
    with pytest.raises(TimeoutError):
        patience.flush(is_last=True)
    assert client.waits[5:] == [60.0, SHORT_S, 60.0]


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
    assert client.waits == [60.0, *[SHORT_S] * 5]
    assert not writer.is_whole
    with pytest.raises(TimeoutError):
        writer.write_again()
    # The daemon may be just restarting, and no later attempt follows.
    assert client.waits[6:] == [60.0]
