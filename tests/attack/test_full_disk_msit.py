"""A disk that becomes full under the daemon of an msit command."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from msit_command import msit
from small_disk import MIB, SmallDisk

# Bytes of each side.
SIDE_BYTES = 96 * MIB
# Less than the time for which a daemon may accept nothing without a reason.
SOON_S = 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    made = SmallDisk(tmp_path, "tmpfs", 128 * MIB)
    yield made
    made.unmount()


def fails_soon(folder: Path, disk: SmallDisk, below: str, *words: str) -> None:
    start = time.monotonic()
    done = msit(
        folder,
        *("llm", "compare", "-gp", f"golden{below}", "-mp", f"my{below}", *words),
        expect=1,
        environment={"TMPDIR": str(disk.path)},
    )
    assert time.monotonic() - start < SOON_S
    last = done.stderr.splitlines()[-1]
    assert f"TMPDIR: {disk.path} does not have enough space" in last, done.stderr
    assert "bytes left" in last
    assert not os.listdir(disk.path)


def noise(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(SIDE_BYTES // 4, np.float32)


def test_files_that_the_disk_cannot_hold(tmp_path: Path, disk: SmallDisk) -> None:
    for seed, side in enumerate(("golden", "my")):
        np.save(tmp_path / f"{side}.npy", noise(seed))
    fails_soon(tmp_path, disk, ".npy")


def test_folders_that_the_disk_cannot_hold(tmp_path: Path, disk: SmallDisk) -> None:
    for seed, side in enumerate(("golden", "my")):
        process = tmp_path / side / "cpu_9"
        folder = process / "0" / "root.fc"
        folder.mkdir(parents=True)
        torch.save(torch.from_numpy(noise(seed)), folder / "output.pth")
        (process / "model_tree.json").write_text(
            '{"name": "root", "type": "M", "children": []}'
        )
    fails_soon(tmp_path, disk, "/cpu_9", "-cl", "api", "-o", "out")
    assert not (tmp_path / "out").exists()
