"""Some rounds of the crash loop, and tests of its parts."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from crash_loop import run
from kill_point import Call, KillPoint, KillSwitch, Phase, When

ROUNDS = 52
# Fixed, so that a failure is caused by the change; `tests/nightly crash` draws
# one.
SEED = int(os.environ.get("MSITD_CRASH_SEED", "20261121"))


def test_daemon_and_ranks_survive_kills(tmp_path: Path) -> None:
    print(f"MSITD_CRASH_SEED={SEED}")
    tally = run(ROUNDS, SEED, tmp_path)
    assert tally.rounds == ROUNDS
    assert tally.kills.total() >= ROUNDS
    assert tally.acknowledged_count > ROUNDS
    assert tally.read_count > tally.acknowledged_count
    # msitd reaches most of the named points.
    missed = sum(n for name, n in tally.kills.items() if name.endswith("reached)"))
    assert missed < tally.kills.total() / 2, tally.kills


WRITER = """
import os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600)
for i in range(4):
    os.pwrite(file, bytes([65 + i]) * 16384, i * 16384)
    os.fsync(file)
"""


@pytest.mark.parametrize(
    ("phase", "call", "size"),
    [
        (Phase.BEFORE, Call.WRITE, 2 * 16384),
        (Phase.TORN, Call.WRITE, 2 * 16384 + 8192),
        (Phase.AFTER, Call.WRITE, 3 * 16384),
        (Phase.BEFORE, Call.SYNC, 3 * 16384),
    ],
)
def test_process_dies_at_the_call_that_was_named(
    tmp_path: Path, phase: Phase, call: Call, size: int
) -> None:
    switch = KillSwitch(tmp_path)
    point = KillPoint("test", When.SERVES, phase, call, "*.seg", count_max=3)
    seed = next(s for s in range(99) if draws_three(s))
    switch.arm(point, random.Random(seed))
    assert write(tmp_path / "a.other", switch) == 0
    assert not switch.has_fired
    assert write(tmp_path / "a.seg", switch) == -9
    assert switch.has_fired
    assert (tmp_path / "a.seg").stat().st_size == size
    # The switch kills only once.
    assert write(tmp_path / "b.seg", switch) == 0


def draws_three(seed: int) -> bool:
    """Returns true if `arm` draws the third call with this seed."""
    rng = random.Random(seed)
    rng.randint(0, 0)
    return rng.randint(1, 3) == 3


def write(path: Path, switch: KillSwitch) -> int:
    """Runs a process that writes four blocks; returns its exit status."""
    return subprocess.run(
        [sys.executable, "-c", WRITER, path],
        env={**os.environ, **switch.environment},
        check=False,
    ).returncode
