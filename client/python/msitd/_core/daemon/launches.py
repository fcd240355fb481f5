"""Tells the runs apart that one process begins, one behind the other."""

from __future__ import annotations

import os
from collections import Counter

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


def next_job(face: str, world_size: int) -> str | None:
    """Returns the `job` of the next run that a face begins in this process.

    Ranks that begin as many get the same. The first one is None, which is what a
    client takes by itself.
    """
    number = _begun[face]
    _begun[face] += 1
    if number == 0:
        return None
    shared = [os.environ[name] for name in _SHARED if os.environ.get(name)]
    if world_size == 1:
        shared = [str(os.getpid())]
    elif not shared:
        shared = [str(os.getppid())]
    return "/".join([*shared, face, str(number)])
