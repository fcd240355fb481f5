"""msitctl exec: processes that a script starts, and signals."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from executing import (
    FORWARD,
    HEAD,
    execute,
    places,
    runs,
    script,
    state,
)

from daemon import BIN_DIR, Daemon

pytestmark = pytest.mark.usefixtures("place")


def test_children_are_followed(daemon: Daemon, place: Path) -> None:
    (place / "child.py").write_text(HEAD + FORWARD)
    script(
        FORWARD + "subprocess.run([sys.executable, 'child.py'], check=True)\n"
        "subprocess.run(['sh', '-c', f'{sys.executable} child.py'], check=True)\n"
    )
    assert runs(daemon) == {"r", "r-2", "r-3"}
    assert places(daemon) == places(daemon, "r-2") == places(daemon, "r-3")
    assert {state(daemon, run) for run in runs(daemon)} == {state(daemon)}


MULTI = """
import multiprocessing
def work(number):
    model(torch.ones(2, 4))
if __name__ == "__main__":
    {before}
    context = multiprocessing.get_context({how!r})
    workers = [context.Process(target=work, args=(n,)) for n in range(2)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0]
"""


@pytest.mark.parametrize("how", ["spawn", "fork"])
@pytest.mark.parametrize("before", ["pass", "model(torch.ones(2, 4))"])
def test_processes_are_followed(how: str, before: str, daemon: Daemon) -> None:
    script(MULTI.format(how=how, before=before))
    expected = 2 if before == "pass" else 3
    assert len(runs(daemon)) == expected
    for run in runs(daemon):
        assert (0, 0, "root.fc", "output 0") in places(daemon, run)


def test_functions_are_recorded_behind_a_fork(daemon: Daemon) -> None:
    before = "model(torch.ones(2, 4))"
    script(MULTI.format(how="fork", before=before), "--level", "api")
    for run in ("r", "r-2", "r-3"):
        found = places(daemon, run)
        assert [place for *_, op, place in found if op == "Torch.relu"] == [
            "input 0",
            "output 0",
        ]


def test_forked_workers_that_stream_lose_nothing(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A client over gRPC has no memory that outlives its process.
    monkeypatch.setenv("MSITCTL_ENDPOINT", daemon.endpoint)
    script(MULTI.format(how="fork", before="pass").replace("(2, 4)", "(999, 4)"))
    for run in runs(daemon):
        assert len(places(daemon, run)) == 4


RANKS = (
    HEAD
    + """
import torch.distributed as dist
dist.init_process_group("gloo")
model(torch.full((2, 4), float(dist.get_rank())))
dist.barrier()
dist.destroy_process_group()
"""
)


def test_ranks_of_torchrun_are_one_run(daemon: Daemon, place: Path) -> None:
    (place / "rank.py").write_text(RANKS)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    execute(*torchrun, "--nproc-per-node=2", "rank.py")
    assert runs(daemon) == {"r"}
    for rank in ("0", "1"):
        found = places(daemon, "r", "--ranks", rank)
        assert (0, 0, "root.fc", "output 0") in found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_the_scripts(
    number: signal.Signals, daemon: Daemon, place: Path
) -> None:
    (place / "script.py").write_text(
        HEAD
        + "def note(*_):\n    print('noted', flush=True)\n    sys.exit(5)\n"
        + f"signal.signal({int(number)}, note)\n"
        + FORWARD
        + "print('ready', flush=True)\nsignal.pause()\n"
    )
    process = subprocess.Popen(
        [BIN_DIR / "msitctl", "exec", "--run", "r", "--", sys.executable, "script.py"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    if number == signal.SIGINT:
        # Like a terminal, which signals the whole process group.
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    assert process.wait(60) == 5
    assert process.stdout.read() == "noted\n"
    process.stdout.close()
    deadline = time.monotonic() + 30
    while "sealed" not in state(daemon).lower():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
@pytest.mark.parametrize("to", ["exec", "group", "both"])
def test_the_script_gets_an_interrupt_once(
    number: signal.Signals, to: str, daemon: Daemon, place: Path
) -> None:
    (place / "script.py").write_text(
        HEAD
        + "got = []\n"
        + f"signal.signal({int(number)}, lambda *_: got.append(1))\n"
        + FORWARD
        + "import time\n"
        + "print('ready', flush=True)\n"
        + "while not got:\n    time.sleep(0.01)\n"
        # Long enough to distinguish a signal from one to a process group.
        + "end = time.monotonic() + 0.5\n"
        + "while time.monotonic() < end:\n    time.sleep(0.05)\n"
        + "print(len(got), flush=True)\nsys.exit(5)\n"
    )
    process = subprocess.Popen(
        [BIN_DIR / "msitctl", "exec", "--run", "r", "--", sys.executable, "script.py"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        if to != "group":
            process.send_signal(number)
        if to != "exec":
            os.killpg(process.pid, number)
        assert process.wait(60) == 5
        assert process.stdout.read() == "1\n"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert "sealed" in state(daemon).lower()


def test_an_interrupt_of_exec_alone_ends_a_script_that_knows_of_none(
    daemon: Daemon, place: Path
) -> None:
    (place / "script.py").write_text(
        HEAD
        + FORWARD
        + "import time\nprint('ready', flush=True)\nwhile True:\n    time.sleep(1)\n"
    )
    process = subprocess.Popen(
        [BIN_DIR / "msitctl", "exec", "--run", "r", "--", sys.executable, "script.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 128 + signal.SIGINT
    assert "KeyboardInterrupt" in said
    assert "sealed" in state(daemon).lower()
