"""Gradients of trainings on several ranks."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from msitd import query

from daemon import Daemon

# Timeout of two processes that import torch at the same time.
TIMEOUT_S = 300
# Token, op, call and index of a parameter.
Place = tuple[int, str, int, str]


def train(daemon: Daemon, run: str, way: str, folder: Path) -> None:
    world = 1 if way == "whole" else 2
    ranks = [
        subprocess.Popen(
            [
                *(sys.executable, Path(__file__).parent / "train_rank.py"),
                *(daemon.endpoint, run, str(rank), str(world), folder / run, way),
            ],
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
        )
        for rank in range(world)
    ]
    try:
        assert [rank.wait(TIMEOUT_S) for rank in ranks] == [0] * world
    finally:
        for rank in ranks:
            rank.kill()


def arrays(
    connection: query.Connection, run: str, rank: int, io: str
) -> dict[Place, np.ndarray]:
    tensors = connection.tensors
    return {
        (t.token, t.op, t.call, t.index): np.asarray(tensors.read(t))
        for t in tensors.list(run, query.select(io=io, ranks=rank))
    }


def test_under_ddp_each_rank_has_its_share_and_the_optimizer_the_mean(
    daemon: Daemon, tmp_path: Path
) -> None:
    for way in ("whole", "ddp"):
        train(daemon, way, way, tmp_path)
    with query.connect(daemon.endpoint) as connection:
        whole = arrays(connection, "whole", 0, "grad_weight")
        used = arrays(connection, "whole", 0, "state")
        shares = [arrays(connection, "ddp", rank, "grad_weight") for rank in (0, 1)]
        means = [arrays(connection, "ddp", rank, "state") for rank in (0, 1)]
        sides = [arrays(connection, "ddp", rank, "grad_input") for rank in (0, 1)]
        expected = arrays(connection, "whole", 0, "grad_input")
    # Two steps, two backwards in each, four parameters.
    assert set(whole) == set(shares[0]) == set(shares[1])
    assert len(whole) == 2 * 2 * 4
    for place, gradient in whole.items():
        assert not np.array_equal(shares[0][place], shares[1][place])
        mean = (shares[0][place] + shares[1][place]) / 2
        np.testing.assert_allclose(mean, gradient, rtol=1e-4, atol=1e-6)
    assert set(used) == set(means[0]) == set(means[1])
    for place, gradient in used.items():
        assert np.array_equal(means[0][place], means[1][place])
        np.testing.assert_allclose(means[0][place], gradient, rtol=1e-4, atol=1e-6)
    for place, rows in expected.items():
        both = np.stack([sides[0][place], sides[1][place]], axis=1).reshape(rows.shape)
        np.testing.assert_allclose(both / 2, rows, rtol=1e-4, atol=1e-6)


def test_under_fsdp_a_backward_has_whole_gradients_and_the_optimizer_shards(
    daemon: Daemon, tmp_path: Path
) -> None:
    for way in ("whole", "fsdp"):
        train(daemon, way, way, tmp_path)
    with query.connect(daemon.endpoint) as connection:
        whole = arrays(connection, "whole", 0, "grad_weight")
        used = arrays(connection, "whole", 0, "state")
        shares = [arrays(connection, "fsdp", rank, "grad_weight") for rank in (0, 1)]
        shards = [arrays(connection, "fsdp", rank, "state") for rank in (0, 1)]
    assert set(whole) == set(shares[0]) == set(shares[1])
    for place, gradient in whole.items():
        mean = (shares[0][place] + shares[1][place]) / 2
        np.testing.assert_allclose(mean, gradient, rtol=1e-4, atol=1e-6)
    assert set(used) == set(shards[0]) == set(shards[1])
    for place, gradient in used.items():
        rows = np.concatenate([shards[0][place], shards[1][place]])
        np.testing.assert_allclose(rows, gradient, rtol=1e-4, atol=1e-6)
