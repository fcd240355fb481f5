"""Runs a daemon with producers, queries and comparisons for a long time, and kills it.

usage: soak.py [--seconds N] [--seed S] [--producers N] [--folder DIR]

A soak has phases: in some of them the daemon and its ranks are killed now and
then; in the others they run undisturbed, so that growth becomes visible. The
seed is printed. Writes soak.json and, if matplotlib is installed, soak.svg to
the folder. The exit code is 0 if no acknowledged data is lost, every query was
answered, and memory and descriptors do not grow.
"""

import argparse
import json
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE.parent / "crash")]

from gauges import Gauges, Series
from load import Load
from recorded import Ledger
from stubs import make_stubs

from daemon import Daemon

FLAGS = ("--segment-bytes", str(16 << 20), "--index-write-buffer-bytes", str(1 << 20))
# Bytes that each run of producers keeps.
KEPT_BYTES = 64 << 20
RANKS_OF_A_RUN = 4
# Maximum pause in seconds of a producer between tokens.
PAUSE_S_MAX = 0.4
# Share of the time with kills; nothing is killed in the rest.
KILL_SHARE = 0.5
PHASES = 4
KILL_PAUSES_S = (4, 20)
RANK_KILL_CHANCE = 0.3
END_PATIENCE_S = 300
SETTLE_S = 3


class Failure(Exception):
    """A promise was broken."""


class Producer:
    """A rank of tests/crash, and its ledger."""

    def __init__(self, folder: Path, number: int, seed: int) -> None:
        self.run = f"run{number // RANKS_OF_A_RUN}"
        self.rank = number % RANKS_OF_A_RUN
        # The last run uses gRPC.
        self.shares_memory = number // RANKS_OF_A_RUN != 3
        self.seed = seed
        self.ledger = Ledger(folder / f"{self.run}-{self.rank}.ledger")
        self.process: subprocess.Popen[str] | None = None

    def start(self, daemon: Daemon, address: str) -> None:
        self.ledger.cut_torn_line()
        first_token = max(self.ledger.read().begun, default=-1) + 1
        options = {
            "seed": self.seed,
            "endpoint": daemon.socket_dir if self.shares_memory else address,
            "run": self.run,
            "rank": self.rank,
            "world-size": RANKS_OF_A_RUN,
            "first-token": first_token,
            "pause-max": PAUSE_S_MAX,
            "ledger": self.ledger.path,
        }
        flags = [word for name in options for word in (f"--{name}", str(options[name]))]
        self.process = subprocess.Popen(
            [sys.executable, HERE.parent / "crash/rank.py", *flags],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)

    def has_begun(self) -> bool:
        return bool(self.ledger.read().begun)

    def end(self) -> None:
        """Ends the rank in an orderly way."""
        assert self.process is not None
        _, errors = self.process.communicate(timeout=END_PATIENCE_S)
        if self.process.returncode != 0:
            raise Failure(f"{self.run} {self.rank} has ended: {errors}")
        self.process = None

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


class Soak:
    """One daemon, its producers, and the threads that query it."""

    def __init__(self, folder: Path, seed: int, producers: int) -> None:
        from crash_loop import free_port
        from judge import Judge, RankLedger

        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.rng = random.Random(seed)
        self.daemon = Daemon(folder)
        self.address = f"127.0.0.1:{free_port()}"
        self.flags = (*FLAGS, "--listen", self.address)
        self.flags += ("--loopback-role", "admin")
        self.producers = [Producer(folder, n, seed) for n in range(producers)]
        self.runs = sorted({producer.run for producer in self.producers})
        self.judge = Judge(
            seed,
            [RankLedger(p.run, p.rank, p.ledger.path) for p in self.producers],
            {run: KEPT_BYTES for run in self.runs},
        )
        self.series = Series()
        self.load = Load(self.daemon.socket_dir, self.address, self.series, seed)
        self.kills: Counter[str] = Counter()
        self.torn_max: Counter[str] = Counter()

    def run(self, seconds: float) -> None:
        self.daemon.start(*self.flags)
        for run in self.runs:
            self.daemon.ctl("run", "create", run, "--world-size", str(RANKS_OF_A_RUN))
            self.daemon.ctl("run", "retain", run, "--bytes", str(KEPT_BYTES))
        for producer in self.producers:
            producer.start(self.daemon, self.address)
        self._await(lambda: all(p.has_begun() for p in self.producers))
        self.load.start()
        begin = time.monotonic()
        phase = seconds / PHASES
        for _ in range(PHASES):
            kill_until = begin + KILL_SHARE * phase
            while time.monotonic() < kill_until:
                pause = self.rng.uniform(*KILL_PAUSES_S)
                time.sleep(min(pause, max(kill_until - time.monotonic(), 0)))
                self._kill()
            self._check()
            # The time that the check took does not count.
            begin = time.monotonic() + (1 - KILL_SHARE) * phase
            self._leave_alone(begin)
        self._end()

    def clean(self) -> None:
        self.load.stop()
        for producer in self.producers:
            producer.kill()
        self.daemon.clean()

    def _kill(self) -> None:
        victims = []
        if self.rng.random() < RANK_KILL_CHANCE:
            victims = [self.rng.choice(self.producers)]
            victims[0].kill()
            self.torn_max[victims[0].run] += 1
            self.kills["a rank"] += 1
        self.series.mark("kill")
        self.daemon.kill()
        self.kills["the daemon"] += 1
        self.daemon.start(*self.flags)
        for victim in victims:
            victim.start(self.daemon, self.address)

    def _leave_alone(self, until: float) -> None:
        """Watches memory and descriptors of a daemon that runs undisturbed."""
        assert self.daemon.process is not None
        time.sleep(SETTLE_S)
        gauges = Gauges(self.daemon.process.pid)
        while time.monotonic() < until:
            time.sleep(0.5)
            if self.daemon.process.poll() is not None:
                raise Failure(f"the daemon has ended: {self.daemon.log()[-2000:]}")
            self.series.add("rss_mib", gauges.rss_mib())
            self.series.add("descriptors", gauges.descriptors())
            gauges.remember()
        if findings := gauges.growth():
            raise Failure("; ".join(findings))

    def _check(self) -> None:
        for producer in self.producers:
            producer.signal(signal.SIGSTOP)
        try:
            self._judge(self.judge.check(self.daemon.channel(), self.rng))
        finally:
            for producer in self.producers:
                producer.signal(signal.SIGCONT)

    def _end(self) -> None:
        self.load.stop()
        for producer in self.producers:
            producer.signal(signal.SIGTERM)
        for producer in self.producers:
            producer.end()
        self._judge(self.judge.check_all(self.daemon.channel(), self.torn_max))
        if self.daemon.stop() != 0:
            raise Failure("the daemon did not stop well")
        if self.load.failures:
            shown = "\n".join(self.load.failures[:10])
            raise Failure(f"{len(self.load.failures)} questions failed:\n{shown}")

    def _judge(self, findings: list[str]) -> None:
        if findings:
            shown = "\n".join(findings[:20])
            raise Failure(f"{len(findings)} findings:\n{shown}")

    def _await(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + END_PATIENCE_S
        while not is_so():
            if time.monotonic() > deadline:
                raise Failure("the producers do not begin")
            time.sleep(0.05)

    def report(self) -> dict[str, object]:
        return {
            "kills": dict(self.kills),
            "acknowledged": self.judge.acknowledged_count,
            "read": self.judge.read_count,
            "asked": dict(self.load.counts),
            "summary": self.series.summary(),
            "series": self.series.points,
            "marks": self.series.marks,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 31))
    parser.add_argument("--producers", type=int, default=16)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="msitd-soak-"))
    stubs = folder / "stubs"
    stubs.mkdir(parents=True)
    make_stubs(stubs)
    soak = Soak(folder, options.seed, options.producers)
    problem = None
    try:
        soak.run(options.seconds)
    except (Failure, AssertionError) as error:
        problem = error
    finally:
        threading.excepthook = lambda _: None
        soak.clean()
    report = soak.report()
    (folder / "soak.json").write_text(json.dumps(report))
    soak.series.plot(folder / "soak.svg")
    shown = {name: report[name] for name in report if name not in ("series", "marks")}
    print(json.dumps(shown, indent=2))
    if problem is not None:
        print(f"FAILED: {problem}\nkept: {folder}", file=sys.stderr)
    return 0 if problem is None else 1


if __name__ == "__main__":
    sys.exit(main())
