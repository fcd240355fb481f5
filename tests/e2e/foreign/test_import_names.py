"""`msitctl run import` with the names and files that users make themselves."""

from pathlib import Path

import numpy as np
import pytest
import torch

from daemon import Daemon

PATTERN = "rank{rank}_step{token}_{op}"
PARTIAL = 4
USAGE = 2
LOCAL = 3


def save(path: Path, value: float = 1.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.full(2, value, np.float32))


def keys(daemon: Daemon, run: str = "r") -> list[str]:
    """Returns the keys of all tensors."""
    listed = daemon.ctl_json("tensor", "list", "--run", run)["tensors"]
    return sorted(one["name"].removeprefix(f"runs/{run}/ranks/") for one in listed)


def test_names_have_rank_token_and_op(daemon: Daemon, tmp_path: Path) -> None:
    for rank in (0, 1):
        for step in (3, 12):
            save(tmp_path / "d" / f"rank{rank}_step{step}_layers.0.mlp.npy")
    flags = ("--run", "r", "--name-pattern", PATTERN)
    told = daemon.ctl("run", "import", str(tmp_path / "d"), *flags)
    assert "imported 4 files" in told.stdout and "0 problems" in told.stdout
    assert keys(daemon) == [
        f"{rank}/devices/cpu:0/tokens/{step}/ops/layers.0.mlp/calls/0/output/0"
        for rank in (0, 1)
        for step in (12, 3)
    ]


def test_other_files_are_problems_and_not_dropped(
    daemon: Daemon, tmp_path: Path
) -> None:
    save(tmp_path / "d/rank0_step1_a.npy")
    (tmp_path / "d/readme.txt").write_text("x")
    save(tmp_path / "d/rank0_a.npy")
    flags = ("--run", "r", "--name-pattern", PATTERN)
    told = daemon.ctl("run", "import", str(tmp_path / "d"), *flags, expect=PARTIAL)
    assert "imported 1 files" in told.stdout and "2 problems" in told.stdout
    for name in ("readme.txt", "rank0_a.npy"):
        assert f"{name}: its name does not match the pattern" in told.stderr


def test_two_files_with_one_place_are_an_error(daemon: Daemon, tmp_path: Path) -> None:
    save(tmp_path / "d/x/rank0_step1_a.npy", 1.0)
    save(tmp_path / "d/y/rank0_step01_a.npy", 2.0)
    flags = ("--run", "r", "--name-pattern", PATTERN)
    told = daemon.ctl("run", "import", str(tmp_path / "d"), *flags, expect=LOCAL)
    assert "x/rank0_step1_a.npy" in told.stderr
    assert "y/rank0_step01_a.npy" in told.stderr
    # With the folder in the pattern, they are ops of their own.
    flags = ("--run", "r", "--name-pattern", "{op}_step{token}_{index}.{io}")
    daemon.ctl("run", "import", str(tmp_path / "d"), *flags, expect=PARTIAL)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--name-pattern", "{step}_{op}"), "{step} is not a field"),
        (("--name-pattern", "x"), "has none of the fields"),
        (("--name-pattern", PATTERN, "--rank", "1"), "--rank does not go with"),
        (("--name-pattern", PATTERN, "--token", "1"), "--token does not go with"),
        (("--name-pattern", PATTERN, "--source", "ge"), "only for files"),
    ],
)
def test_wrong_flags_are_refused(
    daemon: Daemon, tmp_path: Path, flags: tuple[str, ...], words: str
) -> None:
    save(tmp_path / "d/rank0_step1_a.npy")
    told = daemon.ctl(
        *("run", "import", str(tmp_path / "d"), "--run", "r", *flags), expect=USAGE
    )
    assert words in told.stderr


def test_a_repeated_import_adds_new_files(daemon: Daemon, tmp_path: Path) -> None:
    flags = ("--run", "r", "--name-pattern", PATTERN, "--keep-open")
    for step in (1, 2):
        save(tmp_path / "d" / f"rank0_step{step}_a.npy", step)
        told = daemon.ctl("run", "import", str(tmp_path / "d"), *flags)
        assert f"{step - 1} skipped" in told.stdout


def test_objects_beside_tensors_are_named(daemon: Daemon, tmp_path: Path) -> None:
    value = {"x": torch.ones(2), "loss": np.float32(1.5), "step": 7}
    torch.save(value, tmp_path / "d.pt")
    for flags in (("--dry-run",), ("--run", "r")):
        told = daemon.ctl("run", "import", str(tmp_path / "d.pt"), *flags)
        assert "1 tensors" in told.stdout and "1 objects not imported" in told.stdout
        assert "d.pt: loss (a NumPy number)" in told.stderr
    (key,) = keys(daemon)
    assert key.endswith("/output/0")


@pytest.mark.parametrize("descr", ["|V2", "<V2", "bfloat16"])
def test_bfloat16_of_ml_dtypes_is_read(
    daemon: Daemon, tmp_path: Path, descr: str
) -> None:
    raw = torch.arange(4).bfloat16()
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': (4,), }}"
    text = head.ljust(117).encode() + b"\n"
    magic = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little")
    data = raw.view(torch.int16).numpy().tobytes()
    (tmp_path / "a.npy").write_bytes(magic + text + data)
    daemon.ctl("run", "import", str(tmp_path / "a.npy"), "--run", "r")
    (tensor,) = daemon.ctl_json("tensor", "list", "--run", "r")["tensors"]
    assert tensor["dtype"] == "D_TYPE_BFLOAT16"
    read = ("tensor", "read", tensor["name"], "--out", "-", "--format", "raw")
    assert daemon.ctl(*read, binary=True).stdout == data
