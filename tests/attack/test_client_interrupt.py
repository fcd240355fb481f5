"""Ctrl-C ends every call that waits for a daemon that hangs."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import interrupted_rank as rank
import pytest

from daemon import Daemon

# 200 ms are promised; a busy machine may take as long again to run a thread.
SOON_S = 0.5
# The rest of the interpreter's exit.
EXIT_S = 1.0
PATIENCE_S = 30


@pytest.mark.parametrize("call", ["open", "record", "flush", "close", "exit"])
@pytest.mark.parametrize("transport", ["shm", "grpc"])
def test_interrupt_ends_the_call(daemon: Daemon, transport: str, call: str) -> None:
    assert daemon.process is not None
    endpoint = str(daemon.socket_dir) if transport == "shm" else daemon.endpoint
    process = subprocess.Popen(
        [sys.executable, str(Path(rank.__file__)), endpoint, call],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()
        daemon.process.send_signal(signal.SIGSTOP)
        # Before that, a thread may still answer.
        os.waitpid(daemon.process.pid, os.WUNTRACED)
        out, error = process.communicate("go\n", timeout=PATIENCE_S)
        end = time.monotonic()
    finally:
        daemon.process.send_signal(signal.SIGCONT)
        process.kill()
    assert process.returncode == 0, error
    assert "Traceback" not in error
    interrupted, *ended = map(float, out.split())
    if call == "exit":
        took = end - interrupted
    else:
        assert len(ended) == 1, "no KeyboardInterrupt came"
        took = ended[0] - interrupted
    print(f"{took:.3f} s")
    assert took < (SOON_S + EXIT_S if call == "exit" else SOON_S)
