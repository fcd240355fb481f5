"""The interpreter exits in time, even while threads are recording."""

import signal
import subprocess
import sys

from daemon import Daemon

# The interpreter does not wait for these threads, which wait for a daemon.
RANK = """
import sys
import threading
import msitd

client = msitd.Client(
    "exit",
    endpoint=sys.argv[1],
    max_block=60,
    buffer_bytes=0,
    close_timeout=0.2,
    if_exists="new",
)
client.record(b"first", op="op")
client.flush()
print("ready", flush=True)
sys.stdin.readline()
has_begun = threading.Barrier(5)


def work():
    has_begun.wait()
    while True:
        try:
            client.record(bytes(4 << 20), op="op")
        except msitd.MsitError:
            pass


for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
has_begun.wait()
"""
ROUNDS = 3


def test_threads_that_record_do_not_end_the_process(daemon: Daemon) -> None:
    assert daemon.process is not None
    for _ in range(ROUNDS):
        with subprocess.Popen(
            [sys.executable, "-c", RANK, str(daemon.socket_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate()
            daemon.process.send_signal(signal.SIGSTOP)
            try:
                _, error = process.communicate("go\n", timeout=30)
            finally:
                daemon.process.send_signal(signal.SIGCONT)
                process.kill()
        assert process.returncode == 0, error
        assert "terminate" not in error
        assert "nanobind" not in error
