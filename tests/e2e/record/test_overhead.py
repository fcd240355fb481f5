"""The overhead of recording for a rank, as reported by the daemon."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msitd
import numpy as np
import pytest
import torch
from msitd import query
from scrape import wait_for

from daemon import Daemon, stopped

COUNT = 500


def rank_of(daemon: Daemon) -> dict[str, Any]:
    (rank,) = daemon.ctl_json("capture", "coverage", "r")["ranks"]
    return rank


def seconds(duration: str) -> float:
    return float(duration.removesuffix("s"))


def record(daemon: Daemon, transport: str, first: int, **options: Any) -> float:
    """Records with a new client; returns how long the client existed."""
    begin = time.monotonic()
    place = str(daemon.socket_dir) if transport == "shm" else daemon.endpoint
    with msitd.Client("r", endpoint=place, **options) as client:
        for i in range(first, first + COUNT):
            assert client.record(np.zeros(64), op=f"op.{i}")
    return time.monotonic() - begin


@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_time_of_recording_is_told_and_kept(daemon: Daemon, transport: str) -> None:
    wall = record(daemon, transport, 0)
    first = rank_of(daemon)
    recording = seconds(first["recording_duration"])
    assert 0 < recording < seconds(first["open_duration"]) <= wall
    # A nanosecond per record would be too little, a millisecond too much.
    assert COUNT * 1e-7 < recording < COUNT * 1e-3

    wall += record(daemon, transport, COUNT, if_exists="append")
    both = rank_of(daemon)
    assert both["stream_count"] == "2"
    assert recording < seconds(both["recording_duration"])
    assert seconds(first["open_duration"]) < seconds(both["open_duration"]) <= wall

    daemon.stop()
    daemon.start()
    assert rank_of(daemon)["recording_duration"] == both["recording_duration"]
    header, row = daemon.ctl("capture", "coverage", "r").stdout.splitlines()
    cells = dict(zip(header.split(), row.split(), strict=True))
    share = seconds(both["recording_duration"]) / seconds(both["open_duration"])
    assert float(cells["overhead"]) == pytest.approx(share, rel=1e-3)
    assert both["overhead"] == pytest.approx(share)
    with query.connect(daemon.endpoint) as node:
        (rank,) = node.captures.coverage("r").ranks
    told = timedelta(seconds=seconds(both["recording_duration"]))
    assert rank.recording_duration is not None
    assert abs(rank.recording_duration - told) < timedelta(milliseconds=1)
    assert rank.overhead == both["overhead"]


def test_waits_for_room_and_hooks_count(new_daemon: Callable[[], Daemon]) -> None:
    daemon = new_daemon()
    daemon.start("--metrics-listen", "127.0.0.1:0")
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    begin = time.monotonic()
    client = msitd.Client(
        "r", endpoint=str(daemon.socket_dir), max_block=0.3, buffer_bytes=32 << 20
    )
    with msitd.register_hook(model, client):
        model(torch.zeros(2, 8))
    hooks = client.counters().recording_ns
    assert hooks > 0
    with stopped(daemon):
        # More than the memory holds: one record waits, and later ones do not.
        for i in range(40):
            client.record(np.zeros(1 << 17), op=f"late.{i}")
    client.close(check=False)
    wall = time.monotonic() - begin
    counters = client.counters()
    assert counters.dropped_count > 0
    assert hooks + 0.3e9 <= counters.recording_ns < counters.open_ns
    recording = seconds(rank_of(daemon)["recording_duration"])
    assert 0.3 < recording < wall
    wait_for(daemon, "msitd_client_recording_seconds_total", 0.99 * recording)


def test_top_shows_the_share(daemon: Daemon) -> None:
    with msitd.Client("r", endpoint=str(daemon.socket_dir)) as client:
        deadline = time.monotonic() + 30
        share = 0.0
        # The report at the opening says that nothing was recorded yet, and a
        # later report may arrive before the call that it covers has returned.
        while share == 0 and time.monotonic() < deadline:
            client.record(np.zeros(64), op="a")
            client.flush()
            (stream,) = daemon.ctl_json("node", "top")["streams"]
            if "open_duration" in stream:
                recording = seconds(stream["recording_duration"])
                share = recording / seconds(stream["open_duration"])
        assert 0 < share < 1
        shown = daemon.ctl("node", "top", "--once", "--interval", "10ms").stdout
        assert "overhead" in shown
