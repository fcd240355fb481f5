"""Records that a run lost without a reason make its comparisons partial."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msitd
import numpy as np
import pytest

from daemon import BIN_DIR, Daemon

PARTIAL = 4


def record_twice(daemon: Daemon, run: str) -> None:
    """Records ten tensors in two frames, both acknowledged."""
    endpoint = str(daemon.socket_dir)
    with msitd.Client(run, endpoint=endpoint, linger=60) as client:
        for half in range(2):
            for number in range(5):
                values = np.full(1000, number, np.float32)
                client.record(values, op=f"half{half}.op{number}", token=0)
            client.flush()


def frames_of(daemon: Daemon) -> list[int]:
    """Returns the offsets of the frames in the first segment."""
    dumped = subprocess.run(
        [BIN_DIR / "msitd-inspect", "dump", "--data-dir", daemon.data_dir],
        capture_output=True,
        text=True,
        check=True,
    )
    return [
        int(offset)
        for offset in re.findall(
            r"^frame segment=1 offset=(\d+)", dumped.stdout, re.MULTILINE
        )
    ]


def damage(daemon: Daemon, frames: list[int]) -> None:
    """Flips a bit in the head of some frames."""
    offsets = frames_of(daemon)
    (segment,) = sorted((daemon.data_dir / "segments").glob("*.seg"))
    data = bytearray(segment.read_bytes())
    for frame in frames:
        data[offsets[frame] + 4] ^= 0x40
    segment.write_bytes(data)


def header_of(daemon: Daemon, expect: int) -> str:
    return daemon.ctl(
        "compare", "run", "a", "b", "--rows", "none", expect=expect
    ).stdout


@pytest.mark.parametrize("frames", [[0, 2], [0], [2]])
def test_frames_that_the_replay_skips_are_lost(
    daemon: Daemon, frames: list[int]
) -> None:
    record_twice(daemon, "a")
    record_twice(daemon, "b")
    assert "PASS" in header_of(daemon, expect=0)
    daemon.kill()
    damage(daemon, frames)
    daemon.start()
    for _ in range(2):
        expect = PARTIAL if len(frames) == 2 else 1
        header = header_of(daemon, expect)
        for frame, run in ((0, "a"), (2, "b")):
            lost = f"partial: run {run} lacks 5 lost records\n"
            assert (lost in header) == (frame in frames)
        # Nothing else remembers the damage.
        daemon.stop()
        daemon.start()


def test_restored_runs_have_lost_nothing(
    new_daemon: Callable[[], Daemon], tmp_path: Path
) -> None:
    url = f"file://{tmp_path / 'archives'}"
    (tmp_path / "archives").mkdir()
    daemon = new_daemon()
    daemon.start("--archives", url)
    record_twice(daemon, "a")
    # Equal records come again and are not stored again.
    with msitd.Client(
        "a", endpoint=str(daemon.socket_dir), if_exists="append"
    ) as client:
        client.record(np.zeros(1000, np.float32), op="half0.op0", token=0)
    daemon.ctl("run", "seal", "a")
    daemon.ctl("run", "archive", "a", url)
    daemon.ctl("run", "restore", f"{url}/a", "--as", "b")
    assert "partial:" not in header_of(daemon, expect=0)


def test_records_of_an_open_stream_are_not_lost(daemon: Daemon) -> None:
    record_twice(daemon, "a")
    with msitd.Client("b", endpoint=str(daemon.socket_dir)) as client:
        for half in range(2):
            for number in range(5):
                values = np.full(1000, number, np.float32)
                client.record(values, op=f"half{half}.op{number}", token=0)
        client.flush()
        client.record(np.zeros(3), op="later", token=1)
        assert (
            "lost"
            not in daemon.ctl(
                "compare", "run", "a", "b", "--rows", "none", "--tokens", "0"
            ).stdout
        )


def test_processes_that_are_killed_lose_no_acknowledged_record(
    daemon: Daemon, tmp_path: Path
) -> None:
    program = tmp_path / "rank.py"
    program.write_text(
        "import sys, time, msitd, numpy\n"
        "client = msitd.Client(sys.argv[1], endpoint=sys.argv[2])\n"
        "client.record(numpy.zeros(1000, numpy.float32), op='op', token=0)\n"
        "client.flush()\n"
        "print('flushed', flush=True)\n"
        "time.sleep(60)\n"
    )
    for run in ("a", "b"):
        rank = subprocess.Popen(
            [sys.executable, program, run, str(daemon.socket_dir)],
            stdout=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert rank.stdout is not None
        assert rank.stdout.readline() == b"flushed\n"
        rank.send_signal(signal.SIGKILL)
        rank.wait()
    assert "PASS" in header_of(daemon, expect=0)
