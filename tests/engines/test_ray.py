"""Workers of Ray record into one run.

Ray listens on all addresses, so it runs in a network namespace with only the
loopback, and in a process namespace, with which its processes end.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from daemon import Daemon

ALONE = ("unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child")
ENTER = 'ip link set lo up && exec "$@"'

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None,
    reason="a network of its own needs root and ip",
)

SCRIPT = """
import os, sys, ray
from msitd.engines.ray import runtime_env

ray.init(
    address="local", num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1",
    runtime_env=runtime_env(run="r"), log_to_driver=False,
)

@ray.remote(num_cpus=1)
class Rank:
    def __init__(self, rank):
        self.rank = rank

    def run(self):
        import msitd, torch
        model = torch.nn.Linear(2, 2)
        with (
            msitd.Client(rank=self.rank, world_size=2, if_exists="new") as client,
            msitd.register_hook(model, client),
        ):
            model(torch.ones(1, 2))
            return client.run

ranks = [Rank.remote(rank) for rank in range(2)]
print(ray.get([rank.run.remote() for rank in ranks]))
ray.shutdown()
"""


def test_actors_are_ranks_of_one_run(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "driver.py").write_text(SCRIPT)
    home = tmp_path / "home"
    home.mkdir()
    for expected in ("r", "r-2"):
        done = subprocess.run(
            [*ALONE, "sh", "-c", ENTER, "sh", sys.executable, "driver.py"],
            cwd=tmp_path,
            env={
                **os.environ,
                "HOME": str(home),
                "MSITD_ENDPOINT": f"unix:{daemon.socket_dir}",
                "RAY_USAGE_STATS_ENABLED": "0",
            },
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.stdout.splitlines()[-1] == str([expected] * 2)
        run = daemon.ctl_json("run", "get", expected)
        # Inputs and outputs of a model of one module.
        assert int(run["counters"]["tensor_count"]) == 2 * 2
