"""torch functions in two ranks, from the call to a dump of msprobe and back."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from msitd import query

from daemon import Daemon

# Timeout of two processes that import torch at the same time.
TIMEOUT_S = 300


def run_ranks(daemon: Daemon, folder: Path, run: str, world: int) -> None:
    """Runs all ranks of tests/e2e/probe/api_rank.py."""
    program = Path(__file__).parent / "api_rank.py"
    ranks = [
        subprocess.Popen(
            [
                sys.executable,
                program,
                daemon.endpoint,
                run,
                str(rank),
                str(world),
                folder / f"rendezvous-{run}",
            ],
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(world)
    ]
    try:
        for rank in ranks:
            out, _ = rank.communicate(timeout=TIMEOUT_S)
            assert rank.returncode == 0, out
    finally:
        for rank in ranks:
            rank.kill()


OPS = {
    "Torch.arange",
    "Tensor.reshape",
    "Tensor.__add__",
    "Torch.matmul",
    "Tensor.__sub__",
    "Functional.relu",
    "Tensor.mul_",
    "Distributed.all_reduce",
    "Distributed.batch_isend_irecv",
    "Distributed.all_gather",
    "Torch.equal",
}


def test_functions_of_two_ranks_pair_with_msprobe(
    daemon: Daemon, tmp_path: Path
) -> None:
    run_ranks(daemon, tmp_path, "api", 2)
    with query.connect(daemon.endpoint) as connection:
        tensors = connection.tensors
        known = {(t.rank, t.token, t.op, t.io, t.index): t for t in tensors.list("api")}
        assert {(place[1], place[2]) for place in known} >= {
            (token, op) for token in (0, 1) for op in OPS
        }

        def read(rank: int, op: str, io: str, index: str) -> np.ndarray:
            return tensors.read(known[rank, 1, op, io, index])

        terms = [read(r, "Distributed.all_reduce", "input", "0") for r in (0, 1)]
        for rank in (0, 1):
            total = read(rank, "Distributed.all_reduce", "output", "0")
            assert np.array_equal(total, terms[0] + terms[1])
        sent = read(0, "Distributed.batch_isend_irecv", "input", "0.0.tensor")
        received = read(1, "Distributed.batch_isend_irecv", "output", "0.1.tensor")
        assert np.array_equal(sent, received)
    dump = tmp_path / "dump"
    daemon.ctl("run", "export", "api", "--format", "msprobe", "--out", dump)
    entries = json.loads((dump / "step1" / "rank0" / "dump.json").read_text())["data"]
    assert set(entries) == {f"{op}.0.forward" for op in OPS}
    daemon.ctl("run", "import", dump, "--run", "again")
    with query.connect(daemon.endpoint) as connection:
        done = connection.comparisons.run("api", "again")
    assert (done.verdict, done.pass_count) == ("pass", len(known))
