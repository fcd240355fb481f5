"""One rank: records tensors, and logs what was acknowledged.

SIGTERM ends it once everything is acknowledged. The exit code is then 0. It is
1, with a line on standard error, if the client library broke a promise.
"""

import argparse
import random
import signal
import sys
import threading
from pathlib import Path

import msitd
from recorded import Key, Ledger, hash_of, ops_of, tensor_bytes

# With daemons that other processes keep busy, a rank may be late several times,
# and it is stopped while the judge reads.
PATIENCE_S = 180
BUFFER_BYTES = 24 << 20
TOKENS_UNACKNOWLEDGED_MAX = 8
# Default maximum pause between two tokens, in seconds. It stands for the
# computation.
PAUSE_S_MAX = 0.06


class Rank:
    """The threads of one rank share a client and take turns with tokens."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.ledger = Ledger(options.ledger)
        self.stopped = threading.Event()
        self.broken: list[str] = []
        self.client = msitd.Client(
            options.run,
            options.rank,
            options.world_size,
            options.endpoint,
            max_block=PATIENCE_S,
            buffer_bytes=BUFFER_BYTES,
            open_timeout=PATIENCE_S,
            close_timeout=PATIENCE_S,
            # A killed rank returns as another process.
            if_exists="append",
        )

    def work(self, thread: int) -> None:
        """Records every token of one thread until the rank is stopped."""
        try:
            self._work(thread)
        except (AssertionError, OSError, RuntimeError) as error:
            self.broken.append(f"{type(error).__name__}: {error}")
            self.stopped.set()

    def _work(self, thread: int) -> None:
        o = self.options
        token = o.first_token + thread
        # A rank that returns after a kill draws other pauses.
        rng = random.Random(f"{o.seed}/{o.run}/{o.rank}/{token}/pauses")
        recorded: list[tuple[int, str, str]] = []
        while not self.stopped.is_set():
            self.ledger.begin(token)
            for op in ops_of(o.seed, o.run, o.rank, token):
                data = tensor_bytes(o.seed, Key(o.run, o.rank, token, op))
                assert self.client.record(data, op=op, token=token, call=0)
                recorded.append((token, op, hash_of(data)))
            token += o.threads
            if rng.randrange(TOKENS_UNACKNOWLEDGED_MAX) < 3:
                self._acknowledge(recorded)
            self.stopped.wait(rng.uniform(0, o.pause_max))
        self._acknowledge(recorded)

    def _acknowledge(self, recorded: list[tuple[int, str, str]]) -> None:
        self.client.flush(PATIENCE_S)
        counters = self.client.counters()
        assert counters.dropped_count == 0, counters
        assert counters.truncated_count == 0, counters
        assert counters.refused_chunk_count == 0, counters
        if recorded:
            self.ledger.acknowledge(recorded)
            recorded.clear()


def parse() -> argparse.Namespace:
    """Returns the options of this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--endpoint", required=True)
    parser.add_argument("--run", required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world-size", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--first-token", type=int, default=0)
    parser.add_argument("--pause-max", type=float, default=PAUSE_S_MAX)
    parser.add_argument("--ledger", type=Path, required=True)
    return parser.parse_args()


def main() -> int:
    """Runs the rank."""
    options = parse()
    rank = Rank(options)
    signal.signal(signal.SIGTERM, lambda *_: rank.stopped.set())
    threads = [
        threading.Thread(target=rank.work, args=(thread,))
        for thread in range(options.threads)
    ]
    for thread in threads:
        thread.start()
    # A signal interrupts only waits of this thread.
    while not rank.stopped.wait(1):
        pass
    for thread in threads:
        thread.join()
    if not rank.broken:
        rank.client.close()
    for line in rank.broken:
        print(line, rank.client.stream_error(), file=sys.stderr)
    return 1 if rank.broken else 0


if __name__ == "__main__":
    sys.exit(main())
