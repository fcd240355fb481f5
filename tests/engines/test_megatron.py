"""Stages of Megatron-core name layers by their numbers in the whole model."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from engine_places import places

from daemon import Daemon

STAGES = 2


def record(run: str, stages: int, daemon: Daemon, folder: Path) -> None:
    rank = Path(__file__).with_name("megatron_rank.py")
    environment = {
        **os.environ,
        "MSITD_RUN": run,
        "MSITD_ENDPOINT": f"unix:{daemon.socket_dir}",
        "OMP_NUM_THREADS": "1",
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, rank, str(each), str(stages), folder / run],
            env=environment,
        )
        for each in range(stages)
    ]
    assert [each.wait(180) for each in ranks] == [0] * stages


@pytest.fixture
def recorded(daemon: Daemon, tmp_path: Path) -> Daemon:
    record("whole", 1, daemon, tmp_path)
    record("stages", STAGES, daemon, tmp_path)
    return daemon


def test_stages_have_the_ops_of_the_whole_model(recorded: Daemon) -> None:
    def layers(run: str, *flags: str) -> set[tuple[int, str]]:
        found = places(recorded, run, "--io", "output", *flags)
        return {(token, op) for token, _, op, _ in found if ".layers." in op}

    whole = layers("whole")
    assert {token for token, _ in whole} == {0, 1}
    assert layers("stages") == whole
    last = {op.split(".")[3] for _, op in layers("stages", "--ranks", "1")}
    assert last == {"2", "3"}
