"""A rank that interrupts itself while its client waits for a daemon that hangs.

test_client_interrupt.py runs it as a separate process, with an endpoint and the
name of a call. It prints `ready` when the daemon has its first record, waits
for a line, then makes the call, which would take a minute, and interrupts
itself. It prints the time of the interrupt and, except for `exit`, the time at
which the call ended as a result.
"""

import os
import signal
import sys
import threading
import time

import msitd
import numpy as np

LONG_S = 60.0
# Time in seconds until the call waits.
BEFORE_S = 0.5


def interrupt() -> None:
    """Has the effect of Ctrl-C."""
    print(time.monotonic(), flush=True)
    os.kill(os.getpid(), signal.SIGINT)


def wait_in(call: str, client: msitd.Client, endpoint: str) -> None:
    """Makes a call that does not end by itself."""
    if call == "record":
        for _ in range(4):
            client.record(np.zeros(4 << 20, np.uint8), op="op")
    elif call == "open":
        msitd.Client("other", endpoint=endpoint, open_timeout=LONG_S)
    elif call == "flush":
        client.flush(LONG_S)
    else:
        client.close(LONG_S)


def main() -> None:
    """Makes one call."""
    endpoint, call = sys.argv[1:]
    # Shells make background processes ignore the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    client = msitd.Client(
        "interrupt",
        endpoint=endpoint,
        max_block=LONG_S,
        buffer_bytes=9 << 20,
        close_timeout=LONG_S,
    )
    client.record(np.zeros(8, np.uint8), op="first")
    client.flush()
    print("ready", flush=True)
    sys.stdin.readline()
    if call != "record":
        client.record(np.zeros(8, np.uint8), op="last")
    timer = threading.Timer(BEFORE_S, interrupt)
    timer.daemon = True
    timer.start()
    if call == "exit":
        return
    try:
        wait_in(call, client, endpoint)
    except KeyboardInterrupt:
        print(time.monotonic(), flush=True)
    client.close(0, check=False)


if __name__ == "__main__":
    main()
