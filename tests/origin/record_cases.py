"""Records cases, those with several ranks in a process for each rank.

usage: record_cases.py RANK WORLD_SIZE RENDEZVOUS_FILE ENDPOINT CASE...
"""

import logging
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import forward_cases  # noqa: F401
import function_cases  # noqa: F401
import gap_cases  # noqa: F401
import generation_cases  # noqa: F401
import later_cases  # noqa: F401
import rank_cases  # noqa: F401
import torch
import torch.distributed as dist
import training_cases  # noqa: F401
import unseen_cases  # noqa: F401
from case import CASES, Case, Recording

TIMEOUT_S = 300


def run_of(case: Case) -> str:
    return case.name


def record_all(endpoint: str, cases: Iterable[Case]) -> None:
    """Records each case under its name."""
    # Suppresses warnings about modules that a case does not call.
    logging.getLogger("msitd").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    spread: dict[int, list[str]] = {}
    for case in cases:
        if case.world_size > 1:
            spread.setdefault(case.world_size, []).append(case.name)
        else:
            case.record(Recording(endpoint, run_of(case)))
    for world_size, names in spread.items():
        _record_ranks(endpoint, world_size, names)


def _record_ranks(endpoint: str, world_size: int, names: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="msitd-origin-") as folder:
        meeting = Path(folder) / "meeting"
        started = [
            subprocess.Popen(
                [
                    *(sys.executable, __file__),
                    *(str(rank), str(world_size), str(meeting), endpoint, *names),
                ]
            )
            for rank in range(world_size)
        ]
        try:
            statuses = [process.wait(TIMEOUT_S) for process in started]
        finally:
            for process in started:
                process.kill()
    assert not any(statuses), f"ranks failed: {statuses}"


def main() -> None:
    rank, world_size = int(sys.argv[1]), int(sys.argv[2])
    logging.getLogger("msitd").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{sys.argv[3]}",
        rank=rank,
        world_size=world_size,
    )
    for name in sys.argv[5:]:
        case = CASES[name]
        run = run_of(case) if rank in case.recorded else ""
        case.record(Recording(sys.argv[4], run, rank, world_size))
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
