"""A run that is continued: all records of one recording move to the same tokens."""

import json
import subprocess
import sys

import msitd
import numpy as np
import pytest
import torch
from msitd import query

from daemon import Daemon

TIMEOUT_S = 60
OPS = {"root", "root.0", "root.1"}


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())


def open_client(daemon: Daemon, shm: bool, **options: object) -> msitd.Client:
    endpoint = str(daemon.socket_dir) if shm else daemon.endpoint
    arguments = {"if_exists": "append", **options}
    return msitd.Client("run", endpoint=endpoint, **arguments)


def tokens_of(daemon: Daemon, **filters: object) -> dict[str, set[int]]:
    """Returns the tokens at which each op has records."""
    out: dict[str, set[int]] = {}
    with query.connect(daemon.endpoint) as connection:
        for each in connection.tensors.list("run", query.select(**filters)):
            out.setdefault(each.op, set()).add(each.token)
    return out


def values_of(daemon: Daemon, op: str) -> dict[int, float]:
    """Returns the first element of each output of `op`, by token."""
    with query.connect(daemon.endpoint) as connection:
        listed = connection.tensors.list("run", query.select(ops=op, io="output"))
        return {
            each.token: float(connection.tensors.read(each).ravel()[0])
            for each in listed
        }


def forwards(client: msitd.Client, first: int, count: int = 2) -> list[float]:
    """Runs a hooked model, whose requests have the numbers of the passes."""
    steps = iter(range(first, first + count))
    hooked = model()
    made = []
    with (
        torch.no_grad(),
        msitd.register_hook(
            hooked, client, weights=True, requests=lambda: [f"request{next(steps)}"]
        ),
    ):
        for step in range(first, first + count):
            made.append(float(hooked(torch.full((1, 4), float(step + 1)))[0, 0]))
    return made


# A daemon that restarts has another port.
@pytest.mark.parametrize(
    ("shm", "is_late"), [(True, False), (False, False), (True, True)]
)
def test_hooks_continue_without_waiting(
    daemon: Daemon, shm: bool, is_late: bool
) -> None:
    made = []
    with open_client(daemon, shm) as client:
        made += forwards(client, 0)
    for first in (2, 4):
        if is_late:
            daemon.kill()
        client = open_client(daemon, shm, open_timeout=0)
        made += forwards(client, first, 1)
        if is_late:
            daemon.start()
        client.flush()
        # References from before the answer are still valid.
        made += forwards(client, first + 1, 1)
        client.flush()
        assert client.token == first + 2
        assert client.counters().conflict_count == 0
        client.close()
    tokens = tokens_of(daemon, io="output")
    assert tokens == {op: set(range(6)) for op in OPS}
    weights = tokens_of(daemon, io="weight")
    assert set.union(*weights.values()) == {0, 2, 3, 4, 5}
    documents = tokens_of(daemon, kinds="document")
    for step in range(6):
        assert documents[f"request/request{step}"] == {step}
    assert documents["module_tree.json"] == {0}
    assert values_of(daemon, "root") == pytest.approx(dict(enumerate(made)))


@pytest.mark.parametrize("shm", [True, False])
def test_tokens_of_hooks_count_from_the_first(daemon: Daemon, shm: bool) -> None:
    with open_client(daemon, shm) as client:
        forwards(client, 0)
    hooked = model()
    with (
        torch.no_grad(),
        open_client(daemon, shm, open_timeout=0) as client,
        msitd.register_hook(hooked, client, tokens=[1]),
    ):
        for _ in range(3):
            hooked(torch.ones(1, 4))
        client.flush()
    assert tokens_of(daemon, io="output")["root"] == {0, 1, 3}


@pytest.mark.parametrize("answered", [True, False])
def test_tokens_of_hooks_are_the_steps_that_a_program_sets(
    daemon: Daemon, answered: bool
) -> None:
    with open_client(daemon, True) as client:
        forwards(client, 0)
    hooked = model()
    with (
        torch.no_grad(),
        open_client(daemon, True, open_timeout=0) as client,
        msitd.register_hook(hooked, client, tokens=[61]),
    ):
        if answered:
            client.flush()
        for step in range(60, 63):
            client.token = step
            hooked(torch.ones(1, 4))
        client.flush()
    assert tokens_of(daemon, io="output")["root"] == {0, 1, 61}


@pytest.mark.parametrize("shm", [True, False])
def test_gradients_and_functions_continue_without_waiting(
    daemon: Daemon, shm: bool
) -> None:
    for first in (0, 2):
        client = open_client(daemon, shm, open_timeout=0)
        hooked = model()
        optimizer = torch.optim.SGD(hooked.parameters(), 0.1)
        with (
            msitd.register_hook(hooked, client, gradients=True),
            msitd.register_api(client),
        ):
            for _ in range(2):
                optimizer.zero_grad()
                hooked(torch.full((1, 4), float(first + 1))).sum().backward()
                optimizer.step()
        client.flush()
        assert client.token == first + 2
        assert client.counters().conflict_count == 0
        client.close()
    for io in ("output", "grad_output", "grad_weight"):
        tokens = tokens_of(daemon, io=io)
        assert tokens["root.0"] == {0, 1, 2, 3}, io
    functions = tokens_of(daemon, ops="Functional.linear*")
    assert all(tokens == {0, 1, 2, 3} for tokens in functions.values())
    assert functions


# One rank of a launch: waits for a line before it continues.
RANK = """
import json, sys
import msitd
import numpy as np
options = json.loads(sys.argv[1])
count = options.pop("count")
for number in range(count):
    with msitd.Client("run", world_size=2, if_exists="append", **options) as client:
        for step in range(2):
            value = 100 * number + 10 * step + options["rank"]
            client.record(np.full(3, value, np.float32), op="op")
            client.next_token()
        client.flush()
        print(client.token - 2, client.counters().conflict_count, flush=True)
        sys.stdin.readline()
"""


class Rank:
    """A process that records twice, and waits after each recording."""

    def __init__(self, daemon: Daemon, rank: int, job: str, count: int = 2) -> None:
        options = {
            "rank": rank,
            "endpoint": str(daemon.socket_dir),
            "job": job,
            "count": count,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", RANK, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def next(self) -> tuple[int, int]:
        """Waits for a recording. Returns its first token and its conflicts."""
        assert self.process.stdout is not None
        first, conflicts = self.process.stdout.readline().split()
        return int(first), int(conflicts)

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.communicate(timeout=TIMEOUT_S)
        assert self.process.returncode == 0


def test_ranks_of_a_launch_continue_alike_over_restarts(daemon: Daemon) -> None:
    expected = {}
    for launch in range(2):
        ranks = []
        for rank in range(2):
            ranks.append(Rank(daemon, rank, f"launch{launch}"))
            # Rank 1 starts after rank 0 has recorded, and the daemon has
            # crashed.
            assert ranks[rank].next() == (4 * launch, 0)
            daemon.kill()
            daemon.start()
        for number in range(2):
            for rank in range(2):
                ranks[rank].go_on()
                if number == 0:
                    assert ranks[rank].next() == (4 * launch + 2, 0)
                    daemon.kill()
                    daemon.start()
        for rank in range(2):
            ranks[rank].end()
            for number in range(2):
                for step in range(2):
                    token = 4 * launch + 2 * number + step
                    expected[rank, token] = 100 * number + 10 * step + rank
    with query.connect(daemon.endpoint) as connection:
        read = {
            (each.rank, each.token): connection.tensors.read(each).tolist()
            for each in connection.tensors.list("run", query.select(ops="op"))
        }
    assert read == {key: [value] * 3 for key, value in expected.items()}
    assert np.sum([len(value) for value in read.values()]) == 48


def test_ranks_that_record_unequally_often_are_named(daemon: Daemon) -> None:
    def coverage() -> str:
        return daemon.ctl("capture", "coverage", "run").stderr

    def record(rank: int) -> None:
        with open_client(daemon, True, rank=rank, world_size=2) as client:
            client.record(np.zeros(3), op="op")

    for rank in (0, 1, 0):
        record(rank)
    assert "rank 0 has recorded 2 times, and rank 1 1 time." in coverage()
    with open_client(daemon, True, rank=1, world_size=2) as client:
        client.record(np.zeros(3), op="op")
        client.flush()
        assert "has recorded" not in coverage()
    assert "has recorded" not in coverage()
