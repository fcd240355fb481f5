"""Runs that call a torch function a different number of times."""

from typing import Any

import msitd
import torch
from torch import Tensor, nn
from torch.nn import functional

from daemon import Daemon

FAILED = 1
ROUNDED = 1  # The block that is rounded in the target run.
PLACE = "the same place in the order of execution"


class Block(nn.Module):
    """Converts tensors of two shapes, as attention does."""

    def __init__(self, is_rounded: bool) -> None:
        super().__init__()
        self.project = nn.Linear(8, 8)
        self.is_rounded = is_rounded

    def forward(self, x: Tensor) -> Tensor:
        heads = self.project(x).reshape(2, 4, 2)
        if self.is_rounded:
            heads = heads.to(torch.bfloat16).to(torch.float32)
        weights = functional.softmax(heads, -1).to(torch.float32)
        return x + (weights * heads).reshape(2, 8).to(torch.float32)


def record(daemon: Daemon, run: str, rounded: int = -1) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(*(Block(i == rounded) for i in range(4)))
    x = torch.randn(2, 8)
    with (
        msitd.Client(run, endpoint=daemon.endpoint) as client,
        msitd.register_hook(model, client),
        msitd.register_api(client),
        torch.no_grad(),
    ):
        model(x)


def compare(daemon: Daemon, golden: str, target: str) -> list[dict[str, Any]]:
    args = ("compare", "run", golden, target, "--rows", "all")
    return daemon.ctl_json(*args, expect=FAILED)["rows"]


def call_of(row: dict[str, Any], side: str) -> int:
    """Returns the call of one side of a row; -1 if the run lacks it."""
    if side not in row:
        return -1
    name = row[side]["name"].split("/")
    return int(name[name.index("calls") + 1])


def pairs_of(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Returns the golden and the target call of each row with an input of `to`."""
    return [
        (call_of(row, "golden"), call_of(row, "target"))
        for row in rows
        if row["op"] == "Tensor.to" and row["io"] == "IO_INPUT"
    ]


def test_calls_after_an_additional_one_have_their_counterparts(daemon: Daemon) -> None:
    record(daemon, "g")
    record(daemon, "t", ROUNDED)
    rows = compare(daemon, "g", "t")
    same = [(0, 0), (1, 1)]
    moved = [(call, call + 2) for call in range(2, 8)]
    assert pairs_of(rows) == [*same, *moved, (-1, 2), (-1, 3)]
    for row in rows:
        if row["op"] != "Tensor.to" or row["call"] < 2 or "golden" not in row:
            continue
        assert row["pairing"] == PLACE
        assert row["reason"].endswith(f"; target call {row['call'] + 2}")
        assert row["golden"]["shape"] == row["target"]["shape"]
    swapped = pairs_of(compare(daemon, "t", "g"))
    expected = [*same, (2, -1), (3, -1), *((target, call) for call, target in moved)]
    assert swapped == expected


def test_followed_runs_have_the_same_pairs(daemon: Daemon) -> None:
    record(daemon, "g")
    record(daemon, "t", ROUNDED)
    for run in ("g", "t"):
        daemon.ctl("run", "seal", run)
    args = ("compare", "run", "g", "t", "--follow", "--rows", "none")
    daemon.ctl(*args, expect=FAILED)
    followed = daemon.ctl_json("compare", "rows", "c-000001")["rows"]
    assert followed == compare(daemon, "g", "t")


def test_the_additional_call_is_found(daemon: Daemon) -> None:
    record(daemon, "g")
    record(daemon, "t", ROUNDED)
    args = ("compare", "run", "g", "t", "--rows", "none")
    out = daemon.ctl(*args, expect=FAILED).stdout
    (line,) = [line for line in out.splitlines() if line.startswith("cause ")]
    assert f"root.{ROUNDED}" in line
