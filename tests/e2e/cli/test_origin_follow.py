"""`msitctl run origin --follow` while clients record the run."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import msitd
import numpy as np

from daemon import BIN_DIR, Daemon

NAN = float("nan")
FOUND = 1


def client(daemon: Daemon, rank: int = 0, world_size: int = 1) -> msitd.Client:
    endpoint = f"unix:{daemon.socket_dir}"
    return msitd.Client("r", rank, world_size, endpoint=endpoint, if_exists="append")


def record(one: msitd.Client, token: int, op: str, given: float, made: float) -> None:
    for io, value in (("input", given), ("output", made)):
        tensor = np.full(4, value, np.float32)
        one.record(tensor, op=op, io=io, index="0", token=token)
    one.flush()


class Following:
    """A following msitctl."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def is_running_after(self, seconds: float) -> bool:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def end(self, expect: int) -> str:
        out, err = self._process.communicate(timeout=60)
        assert self._process.returncode == expect, (out, err)
        return out


@contextmanager
def following(daemon: Daemon, *flags: str) -> Iterator[Following]:
    process = subprocess.Popen(
        [BIN_DIR / "msitctl", "run", "origin", "r", "--follow", *flags],
        # A daemon that restarts has the same socket, and another port.
        env={**os.environ, "MSITCTL_ENDPOINT": f"unix:{daemon.socket_dir}/msitd.sock"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # A command that never ends fails the test instead of blocking it.
    alarm = threading.Timer(90, process.kill)
    alarm.start()
    try:
        yield Following(process)
    finally:
        alarm.cancel()
        process.kill()
        process.wait()


def test_the_first_nan_ends_it_while_the_run_continues(daemon: Daemon) -> None:
    with following(daemon) as one, client(daemon) as rank:
        for token in range(3):
            record(rank, token, "Torch.exp", 1, 2)
        assert one.is_running_after(2)
        record(rank, 3, "Torch.log", 1, NAN)
        # The token may lack records that change the origin.
        assert one.is_running_after(2)
        record(rank, 4, "Torch.exp", NAN, NAN)
        out = one.end(FOUND)
    assert "origin     Torch.log output/0 at token 3, rank 0\n" in out


def test_a_rank_that_is_late_can_have_the_origin(daemon: Daemon) -> None:
    with following(daemon) as one, client(daemon, 0, 2) as late:
        record(late, 0, "Torch.exp", 1, 2)
        with client(daemon, 1, 2) as early:
            record(early, 0, "Torch.exp", 1, 2)
            record(early, 1, "Distributed.all_reduce", 1, NAN)
            record(early, 2, "Torch.exp", NAN, NAN)
            assert one.is_running_after(3)
            record(late, 1, "Torch.log", 1, NAN)
            record(late, 1, "Distributed.all_reduce", NAN, NAN)
            record(late, 2, "Torch.exp", NAN, NAN)
            out = one.end(FOUND)
    assert "origin     Torch.log output/0 at token 1, rank 0\n" in out


def test_a_run_that_is_sealed_ends_it(daemon: Daemon) -> None:
    with following(daemon, "--where", "abs_max > 9") as one:
        with client(daemon) as rank:
            record(rank, 0, "Torch.exp", 1, 2)
        assert one.is_running_after(2)
        daemon.ctl("run", "seal", "r")
        assert one.end(0).startswith("origin     none")


def test_a_program_that_ends_or_stands_still_ends_it(daemon: Daemon) -> None:
    with following(daemon, "--where", "abs_max > 9") as none:
        with following(daemon) as nan, client(daemon) as rank:
            record(rank, 0, "Torch.log", 1, NAN)
            # The program goes no further, but keeps its client.
            assert "Torch.log output/0 at token 0" in nan.end(FOUND)
        assert none.end(0).startswith("origin     none")


def test_a_killed_client_hides_nothing(daemon: Daemon) -> None:
    code = f"""
import os, msitd, numpy
client = msitd.Client("r", endpoint="unix:{daemon.socket_dir}")
tensor = numpy.full(4, numpy.inf, "float32")
client.record(numpy.ones(4, "float32"), op="Torch.exp", io="input", index="0", token=7)
client.record(tensor, op="Torch.exp", io="output", index="0", token=7)
client.flush()
os.kill(os.getpid(), 9)
"""
    with following(daemon) as one:
        subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
        assert "Torch.exp output/0 at token 7" in one.end(FOUND)


def test_a_daemon_that_restarts_is_found_again(daemon: Daemon) -> None:
    with client(daemon) as rank:
        record(rank, 0, "Torch.exp", 1, 2)
    with following(daemon) as one:
        assert one.is_running_after(2)
        daemon.kill()
        daemon.start()
        with client(daemon) as rank:
            record(rank, 1, "Torch.log", 1, NAN)
            out = one.end(FOUND)
    assert "Torch.log output/0 at token 1" in out


def test_several_daemons_are_refused(daemon: Daemon) -> None:
    place = f"unix:{daemon.socket_dir}/msitd.sock"
    words = ("run", "origin", "r", "--follow")
    refused = daemon.ctl("--endpoints", place, *words, expect=2)
    assert "--follow requires a single daemon" in refused.stderr
