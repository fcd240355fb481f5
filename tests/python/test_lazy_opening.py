"""Engines whose first tensor opens the client do not wait for it at each tensor."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msitd
import pytest
import torch
from fake_daemon import FakeDaemon
from msitd._core.daemon import lazy_opening
from msitd._core.daemon.lazy_opening import FIRST_TRY_S, LazyOpening
from msitd._core.daemon.patience import SHORT_S
from msitd.engines.sglang.config import DumperConfig
from msitd.engines.sglang.dumper import Dumper
from msitd.engines.transformer_engine import feature
from msitd.probe import PrecisionDebugger
from torch import nn

X = torch.ones(3)
# Time in seconds: longer than a tensor takes, shorter than a wait for a daemon.
SOON_S = 0.5
# Number of the field in the opening of a stream.
JOB_FIELD = 7


class Door:
    """Opens, or fails to open, at times that the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.is_open = False
        self.waits: list[float] = []
        monkeypatch.setattr(lazy_opening.time, "monotonic", lambda: self.now)

    def open(self, wait_s: float) -> str:
        self.waits.append(wait_s)
        if not self.is_open:
            raise msitd.MsitError(0, "nobody answers")
        return f"opened {len(self.waits)}"


def test_what_cannot_be_opened_is_tried_again_after_growing_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    door = Door(monkeypatch)
    opening = LazyOpening(door.open)
    tries = []
    for second in range(4000):
        door.now = 100.0 + second
        with pytest.raises(msitd.MsitError, match="nobody answers"):
            opening.get()
        if len(door.waits) > len(tries):
            tries.append(second)
    assert tries == [0, 30, 90, 210, 450, 930, 1890, 2850, 3810]
    assert door.waits == [FIRST_TRY_S] + 8 * [SHORT_S]
    door.is_open = True
    door.now += 960
    assert [opening.get(), opening.get(), opening.opened] == 3 * ["opened 10"]
    assert opening.take() == "opened 10"
    assert opening.opened is None
    assert opening.get() == "opened 11"
    assert door.waits[-1] == FIRST_TRY_S


def test_what_is_forgotten_is_tried_again_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    door = Door(monkeypatch)
    opening = LazyOpening(door.open)
    with pytest.raises(msitd.MsitError):
        opening.get()
    door.is_open = True
    assert opening.take() is None
    assert opening.get() == "opened 2"


def of_transformer_engine(tmp_path: Path) -> tuple[Callable[[], Any], Any]:
    recording = feature._Recording()
    return (
        lambda: recording.record("layer", "activation", "", X, 0),
        recording.close,
    )


def of_sglang(tmp_path: Path) -> tuple[Callable[[], Any], Any]:
    dumper = Dumper(DumperConfig(enable=True))
    return lambda: dumper.dump("x", X), dumper.close


def of_sglang_parameters(tmp_path: Path) -> tuple[Callable[[], Any], Any]:
    dumper = Dumper(DumperConfig(enable=True, enable_model_value=True))
    model = nn.Linear(2, 2, bias=False)
    return lambda: dumper.dump_model(model), dumper.close


FACES = {
    "transformer_engine": of_transformer_engine,
    "sglang": of_sglang,
    "parameters": of_sglang_parameters,
}


@pytest.fixture(autouse=True)
def nobody_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MSITD_ENDPOINT", f"unix:{tmp_path}/none.sock")
    # Another test of this process may have recorded the run `run`.
    monkeypatch.setenv("MSITD_RUN", tmp_path.name)


def seconds(function: Callable[[], Any]) -> float:
    begin = time.monotonic()
    function()
    return time.monotonic() - begin


@pytest.mark.parametrize("face", FACES)
def test_a_tensor_waits_for_a_daemon_once(
    face: str,
    daemon: FakeDaemon,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(lazy_opening, "FIRST_TRY_S", 1.0)
    record, close = FACES[face](tmp_path)
    with caplog.at_level(logging.WARNING, "msitd"):
        assert seconds(record) >= 1.0
        assert sum(seconds(record) for _ in range(20)) < SOON_S
    assert len(caplog.records) == 1
    close()
    monkeypatch.setenv("MSITD_ENDPOINT", daemon.endpoint)
    record()
    close()
    assert len(daemon.records) == 1
    # A recording that was not begun has no number.
    assert b" / recording " not in daemon.opening[JOB_FIELD]


def test_save_waits_for_a_daemon_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(lazy_opening, "FIRST_TRY_S", 1.0)
    debugger = PrecisionDebugger(
        dump_path=os.fspath(tmp_path), task="tensor", level="debug"
    )
    with caplog.at_level(logging.WARNING, "msitd"):
        assert seconds(lambda: debugger.save(X, "x")) >= 1.0
        assert sum(seconds(lambda: debugger.save(X, "x")) for _ in range(20)) < SOON_S
    assert len(caplog.records) == 1
    with pytest.raises(ValueError, match="name"):
        debugger.save(X, "")
    debugger.close()


def test_what_a_function_of_the_program_raises_is_not_kept_from_it() -> None:
    def fail() -> None:
        raise KeyError("of the program")

    dumper = Dumper(DumperConfig(enable=True))
    with pytest.raises(KeyError):
        dumper.dump("x", fail)
