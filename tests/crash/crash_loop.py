"""Kills the daemon and its ranks repeatedly, and lets a judge check the store.

usage: crash_loop.py [--rounds N] [--seed S] [--folder DIR]

The seed is printed; with --seed the same kills are drawn again. The exit code
is 0 if every round was survived; otherwise it is 1, and the folder is kept.
"""

import argparse
import itertools
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

from kill_point import POINTS, KillPoint, KillSwitch, When
from recorded import Ledger
from stubs import make_stubs

from daemon import Daemon

# Number of kills per data folder, so that damage accumulates and becomes
# visible.
ROUNDS_PER_STORE = 15
# If a point is not reached in this time, a plain kill replaces it.
POINT_PATIENCE_S = 1.5
START_PATIENCE_S = 30
PROGRESS_PATIENCE_S = 60
# Longer than the patience of the ranks.
END_PATIENCE_S = 200
# Probabilities in a round.
NAMED_CHANCE = 0.7
SECOND_KILL_CHANCE = 0.25
RANK_CHANCE = 0.25
LIVE_VERIFY_CHANCE = 0.15

KEPT_BYTES = 8 << 20
FLAGS = ("--segment-bytes", str(16 << 20), "--index-write-buffer-bytes", str(1 << 20))


@dataclass(frozen=True)
class RankPlan:
    """One rank, and how it connects to the daemon."""

    run: str
    rank: int
    world_size: int
    threads: int = 1
    shares_memory: bool = True


RANKS = (
    RankPlan("shared", 0, 3, threads=2),
    RankPlan("shared", 1, 3),
    RankPlan("streamed", 0, 2, shares_memory=False),
    RankPlan("aged", 0, 1),
)


@dataclass
class RankProcess:
    """A running rank, and its ledger."""

    plan: RankPlan
    ledger: Ledger
    first_token: int
    process: "subprocess.Popen[str]"

    def has_begun(self) -> bool:
        """Returns true once the rank records. From then on, SIGTERM ends it in
        an orderly way.
        """
        return max(self.ledger.read().begun, default=-1) >= self.first_token


class CrashFailure(Exception):
    """A promise was broken."""


@dataclass
class Tally:
    """What was done in all stores."""

    kills: Counter[str] = field(default_factory=Counter)
    acknowledged_count: int = 0
    read_count: int = 0
    rounds: int = 0


def free_port() -> int:
    """Returns a port on which nothing is listening now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Store:
    """One data folder, its daemons and its ranks."""

    def __init__(self, folder: Path, seed: int, tally: Tally) -> None:
        from judge import Judge, RankLedger

        folder.mkdir(parents=True)
        self.folder = folder
        self.seed = seed
        self.tally = tally
        self.switch = KillSwitch(folder)
        self.daemon = Daemon(folder)
        self.daemon.environment = dict(self.switch.environment)
        # One address for all starts of the daemon, for ranks that use gRPC.
        self.address = f"127.0.0.1:{free_port()}"
        self.flags = (*FLAGS, "--listen", self.address)
        self.flags += ("--loopback-role", "admin")
        self.ranks: list[RankProcess] = []
        # By run: each thread of a rank may have been in the middle of a tensor.
        self.torn_max: Counter[str] = Counter()
        self.ledgers = {
            plan: Ledger(folder / f"{plan.run}-{plan.rank}.ledger") for plan in RANKS
        }
        self.judge = Judge(
            seed,
            [
                RankLedger(p.run, p.rank, ledger.path)
                for p, ledger in self.ledgers.items()
            ],
            {"aged": KEPT_BYTES},
        )

    def begin(self) -> None:
        """Starts the daemon and all ranks."""
        self.daemon.start(*self.flags)
        self.daemon.ctl("run", "create", "aged", "--world-size", "1")
        self.daemon.ctl("run", "retain", "aged", "--bytes", str(KEPT_BYTES))
        self.ranks = [self._start_rank(plan) for plan in RANKS]
        self._await(
            lambda: all(one.read().acknowledged for one in self.ledgers.values())
        )

    def round(self, rng: random.Random) -> None:
        """Kills, restarts and checks once."""
        point = rng.choice(POINTS) if rng.random() < NAMED_CHANCE else None
        second = rng.choice([p for p in POINTS if p.when == When.STARTS])
        has_second = rng.random() < SECOND_KILL_CHANCE
        victim = rng.choice(RANKS) if rng.random() < RANK_CHANCE else None
        rank_first = rng.random() < 0.5
        if victim is not None and rank_first:
            self._kill_rank(victim)
        if point is None:
            self._await_progress()
            time.sleep(rng.uniform(0, 0.08))
            self._kill("any moment")
        elif point.when == When.STARTS:
            self._await_progress()
            self._kill("any moment")
            self._die_starting(point, rng)
        else:
            self._die_serving(point, rng)
        if has_second:
            self._die_starting(second, rng)
        if victim is not None and not rank_first:
            self._kill_rank(victim)
        if self.daemon.process is None:
            self.daemon.start(*self.flags)
        for i, rank in enumerate(self.ranks):
            if rank.plan == victim:
                self.ranks[i] = self._start_rank(victim)
        self._look(rng)

    def end(self) -> None:
        """Ends ranks and daemon in an orderly way, and checks everything."""
        self._await(lambda: all(rank.has_begun() for rank in self.ranks))
        self._signal_ranks(signal.SIGTERM)
        for rank in self.ranks:
            _, errors = rank.process.communicate(timeout=END_PATIENCE_S)
            if rank.process.returncode != 0:
                raise CrashFailure(
                    f"{rank.plan} ended with {rank.process.returncode}: {errors}"
                )
        import remains

        assert self.daemon.process is not None
        findings = self.judge.check_all(self.daemon.channel(), self.torn_max)
        self._judge(findings)
        self._judge(remains.shared_memory(self.daemon.process.pid))
        if self.daemon.stop() != 0:
            raise CrashFailure("the daemon did not stop well")
        self._judge(remains.in_store(self.daemon.data_dir))
        self._judge(remains.of_sockets(self.daemon.socket_dir, set()))
        self._judge(remains.inspect(self.daemon, is_live=False))
        self.tally.acknowledged_count += self.judge.acknowledged_count
        self.tally.read_count += self.judge.read_count

    def clean(self) -> None:
        """Ends all processes that are still running."""
        for rank in self.ranks:
            rank.process.kill()
            rank.process.wait()
            if rank.process.stderr is not None:
                rank.process.stderr.close()
        self.switch.disarm()
        self.daemon.clean()

    def _look(self, rng: random.Random) -> None:
        import remains

        # Otherwise the amount to read would grow while the judge reads.
        self._signal_ranks(signal.SIGSTOP)
        try:
            self._judge(self.judge.check(self.daemon.channel(), rng))
            if rng.random() < LIVE_VERIFY_CHANCE:
                self._judge(remains.inspect(self.daemon, is_live=True))
        finally:
            self._signal_ranks(signal.SIGCONT)
        for rank in self.ranks:
            if rank.process.poll() is not None:
                _, errors = rank.process.communicate()
                raise CrashFailure(f"{rank.plan} has ended: {errors}")

    def _signal_ranks(self, number: signal.Signals) -> None:
        for rank in self.ranks:
            rank.process.send_signal(number)

    def _judge(self, findings: list[str]) -> None:
        if findings:
            shown = "\n".join(findings[:20])
            raise CrashFailure(f"{len(findings)} findings:\n{shown}")

    def _kill(self, name: str) -> None:
        self.daemon.kill()
        self.tally.kills[name] += 1

    def _die_serving(self, point: KillPoint, rng: random.Random) -> None:
        """Kills the daemon at a point during its service or its stop."""
        assert self.daemon.process is not None
        if point.when == When.STOPS:
            self._await_progress()
        self.switch.arm(point, rng)
        if point.when == When.STOPS:
            self.daemon.process.terminate()
        try:
            self.daemon.process.wait(POINT_PATIENCE_S)
        except subprocess.TimeoutExpired:
            pass
        self._buried(point)

    def _die_starting(self, point: KillPoint, rng: random.Random) -> None:
        """Starts the daemon, if it is not running, and kills it at a point."""
        if self.daemon.process is not None:
            self._kill("any moment")
        self.switch.arm(point, rng)
        self.daemon.process = self.daemon.spawn(*self.flags)
        try:
            self.daemon.process.wait(POINT_PATIENCE_S)
        except subprocess.TimeoutExpired:
            pass
        self._buried(point)

    def _buried(self, point: KillPoint) -> None:
        """Counts how the daemon died; kills it if it is alive."""
        assert self.daemon.process is not None
        self.switch.disarm()
        # A point with a delay may have fired just now.
        if self.switch.has_fired:
            status = self.daemon.process.wait(START_PATIENCE_S)
            if status != -signal.SIGKILL:
                raise CrashFailure(f"{point.name}: the daemon ended with {status}")
            self.daemon.kill()
            self.tally.kills[point.name] += 1
            return
        status = self.daemon.process.poll()
        if status is not None and (status, point.when) != (0, When.STOPS):
            raise CrashFailure(f"{point.name}: the daemon ended with {status}")
        self._kill(f"{point.name} (not reached)")

    def _start_rank(self, plan: RankPlan) -> RankProcess:
        ledger = self.ledgers[plan]
        ledger.cut_torn_line()
        first_token = max(ledger.read().begun, default=-1) + 1
        endpoint = self.daemon.socket_dir if plan.shares_memory else self.address
        options = {
            "seed": self.seed,
            "endpoint": endpoint,
            "run": plan.run,
            "rank": plan.rank,
            "world-size": plan.world_size,
            "threads": plan.threads,
            "first-token": first_token,
            "ledger": ledger.path,
        }
        flags = itertools.chain.from_iterable(
            (f"--{name}", str(value)) for name, value in options.items()
        )
        process = subprocess.Popen(
            [sys.executable, HERE / "rank.py", *flags],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        return RankProcess(plan, ledger, first_token, process)

    def _kill_rank(self, plan: RankPlan) -> None:
        for rank in self.ranks:
            if rank.plan == plan:
                rank.process.kill()
                rank.process.communicate()
                self.torn_max[plan.run] += plan.threads
                self.tally.kills["a rank"] += 1

    def _await_progress(self) -> None:
        """Waits until a rank has logged an acknowledgement."""
        before = self._acknowledged_count()
        self._await(lambda: self._acknowledged_count() > before)

    def _await(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PROGRESS_PATIENCE_S
        while not is_so():
            if time.monotonic() > deadline:
                raise CrashFailure("nothing is acknowledged any more")
            time.sleep(0.005)

    def _acknowledged_count(self) -> int:
        return sum(
            ledger.path.read_bytes().count(b"ack ")
            for ledger in self.ledgers.values()
            if ledger.path.exists()
        )


def run(rounds: int, seed: int, folder: Path) -> Tally:
    """Survives `rounds` kills, or raises CrashFailure."""
    tally = Tally()
    for number in itertools.count():
        store = Store(folder / f"store-{number}", seed + number, tally)
        try:
            store.begin()
            for _ in range(min(ROUNDS_PER_STORE, rounds - tally.rounds)):
                rng = random.Random(f"{seed}/{tally.rounds}")
                try:
                    store.round(rng)
                except Exception as error:
                    raise CrashFailure(f"round {tally.rounds}: {error}") from error
                tally.rounds += 1
            store.end()
        finally:
            store.clean()
        shutil.rmtree(store.folder)
        print(
            f"rounds {tally.rounds} of {rounds}, kills {tally.kills.total()}, "
            f"tensors acknowledged {tally.acknowledged_count}, "
            f"read {tally.read_count}",
            flush=True,
        )
        if tally.rounds >= rounds:
            return tally
    raise AssertionError


def main() -> int:
    """Runs the loop from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 31))
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="msitd-crash-"))
    stubs = tempfile.TemporaryDirectory(prefix="msitd-stubs-")
    make_stubs(Path(stubs.name))
    try:
        tally = run(options.rounds, options.seed, folder)
    except CrashFailure as failure:
        print(
            f"{failure}\nkept: {folder}\n"
            f"again: {sys.argv[0]} --seed {options.seed} --rounds {options.rounds}"
        )
        return 1
    finally:
        stubs.cleanup()
    for name, count in sorted(tally.kills.items()):
        print(f"{count:6} {name}")
    if options.folder is None:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
