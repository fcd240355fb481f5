"""Devices that exec maps, and what it reports of them."""

import subprocess
import sys

PROGRAM = """
import torch
from msitd._exec import devices
devices.install((("{old}", "cpu"),), lambda: print("mapped"))
torch.ones(1).to("cpu")
str.partition("{old}", ":")
print("unused")
{use}
torch.ones(1).to("{old}:0")
print("used")
"""


def output_of(old: str, use: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(old=old, use=use)],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    return done.stdout.split()


def test_the_first_device_that_is_mapped_is_reported_once() -> None:
    for old, use in (
        ("xpu", "torch.ones(1, device='xpu')"),
        ("xpu", "torch.device('xpu', 0)"),
        ("xpu", "torch.ones(1).xpu()"),
        ("npu", "torch.ones(1).npu()"),
        ("npu", "torch.nn.Linear(1, 1).npu()"),
    ):
        assert output_of(old, use) == ["unused", "mapped", "used"], use
