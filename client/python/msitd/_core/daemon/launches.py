"""Tells the runs apart that one process begins, one after the other."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator

# What ranks of one launch share; `msitd.Client` has the same in mind.
_SHARED = (
    "MSITD_JOB",
    "TORCHELASTIC_RUN_ID",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "PMI_JOBID",
    "MASTER_ADDR",
    "MASTER_PORT",
)

_begun: Counter[str] = Counter()


@contextlib.contextmanager
def next_job(face: str, world_size: int) -> Iterator[str | None]:
    """Gives the `job` of the next run that a face begins in this process.

    The body opens the run. If it raises, the run does not count, since the ranks that
    have begun as many runs get the same job. The first one is None, which a client
    chooses by itself.
    """
    yield _job(face, world_size, _begun[face])
    _begun[face] += 1


def _job(face: str, world_size: int, number: int) -> str | None:
    if number == 0:
        return None
    shared = [os.environ[name] for name in _SHARED if os.environ.get(name)]
    if world_size == 1:
        shared = [str(os.getpid())]
    elif not shared:
        shared = [str(os.getppid())]
    return "/".join([*shared, face, str(number)])
