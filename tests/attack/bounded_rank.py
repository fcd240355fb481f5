"""A rank that measures how long each call of its client takes.

test_client_bounds.py runs it as a separate process, with an endpoint and an
overflow mode. It prints `ready` when the daemon has its first record, waits for
a line, then prints a JSON object: seconds by call. The remaining time until it
exits is the time that the interpreter's exit needs for a client that is open.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import msitd
import numpy as np

RECORD_BYTES = 3 << 20
# Each record fills a chunk. They exceed the client's memory, three per token.
RECORDS = 40
BUFFER_BYTES = 9 << 20

MAX_BLOCK_S = 0.2
FLUSH_S = 0.2
CLOSE_S = 0.2
OPEN_S = 0.2


def new_client(endpoint: str, overflow: str, rank: int) -> msitd.Client:
    """Opens the client of one of four ranks. The last one opens after the fault."""
    return msitd.Client(
        "bounds",
        rank=rank,
        world_size=4,
        endpoint=endpoint,
        overflow=overflow,
        buffer_bytes=BUFFER_BYTES,
        max_block=MAX_BLOCK_S,
        open_timeout=OPEN_S if rank == 3 else 10,
        close_timeout=CLOSE_S,
    )


def record_all(client: msitd.Client) -> None:
    """Records more than the client's memory can hold."""
    tensor = np.zeros(RECORD_BYTES, np.uint8)
    for number in range(RECORDS):
        if number % 3 == 0:
            client.next_token()
        client.record(tensor, op="op")


def measure(call: Callable[[], Any]) -> float:
    """Returns how long a call took, whether or not it failed."""
    begin = time.monotonic()
    try:
        call()
    except (msitd.MsitError, TimeoutError):
        pass
    return time.monotonic() - begin


def main() -> None:
    """Makes every call of a client while its daemon does not respond."""
    endpoint, overflow = sys.argv[1:]
    busy = new_client(endpoint, overflow, 0)
    idle = new_client(endpoint, overflow, 1)
    # Never closed, so that the exit of the interpreter must close it.
    left = new_client(endpoint, overflow, 2)
    for client in (busy, idle, left):
        client.record(np.zeros(8, np.uint8), op="first")
        client.flush()
    print("ready", flush=True)
    sys.stdin.readline()
    took = {
        "record": measure(lambda: record_all(busy)),
        "flush": measure(lambda: busy.flush(FLUSH_S)),
        "token": measure(lambda: setattr(busy, "token", 1000)),
        "begin_call": measure(lambda: busy.begin_call("op")),
        "selects": measure(lambda: busy.selects("op")),
        "counters": measure(busy.counters),
        "stream_error": measure(busy.stream_error),
        "close": measure(busy.close),
        "close_again": measure(busy.close),
        "close_idle": measure(lambda: idle.close(0)),
        "open": measure(lambda: new_client(endpoint, overflow, 3)),
    }
    left.record(np.zeros(2 * RECORD_BYTES, np.uint8), op="last")
    print(json.dumps(took), flush=True)


if __name__ == "__main__":
    main()
