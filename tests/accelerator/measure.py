"""Measures the cost of recording a model on an accelerator.

usage: MSITD_BIN_DIR=... python measure.py [--layers N] [--width N] [--rounds N]

Prints a line for each way of recording: milliseconds that it adds to a step
without hooks, which is timed in the same round, and GB/s of the data that
reached the host. A step ends when the device is idle; `drained` adds the time
until the daemon has all records.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msitd
import torch
from msitd import query
from own_daemon import own_daemon
from torch import nn


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = width // 64
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, 64).transpose(1, 2)
            for part in self.qkv(x).chunk(3, -1)
        )
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1 = nn.RMSNorm(width)
        self.attention = Attention(width)
        self.norm2 = nn.RMSNorm(width)
        self.gate = nn.Linear(width, 3 * width, bias=False)
        self.up = nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)
        self.act = nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        y = self.norm2(x)
        return x + self.down(self.act(self.gate(y)) * self.up(y))


def timed(step: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    begin = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return time.perf_counter() - begin


WAYS = [
    ("policy off", "off", {}),
    ("summary, reduced on the device", "summary", {"reduce_on_device": True}),
    ("summary, reduced on the host", "summary", {}),
    ("full", "full", {}),
]


def measure(model: nn.Module, x: torch.Tensor, endpoint: str, rounds: int) -> None:
    def step() -> None:
        with torch.no_grad():
            model(x)

    for _ in range(5):
        step()
    print(f"input {tuple(x.shape)}: {1000 * min(timed(step) for _ in range(5)):.2f} ms")
    with query.connect(endpoint) as daemon:
        for name, level, options in WAYS:
            run = f"{name}-{x.shape[1]}"
            daemon.captures.set(run, level=level)
            client = msitd.Client(run, 0, 1, endpoint, max_block=20, **options)
            without, added, drained = [], [], []
            for number in range(rounds + 1):
                base = timed(step)
                with msitd.register_hook(model, client):
                    begin = time.perf_counter()
                    took = timed(step)
                    client.flush(120)
                    whole = time.perf_counter() - begin
                # The first round pins memory.
                if number:
                    without.append(base)
                    added.append(took - base)
                    drained.append(whole - base)
            counters = client.counters()
            client.close()
            everything = query.select(kinds=("tensor", "statistics"))
            tensors = list(daemon.tensors.list(run, everything))
            count = len(tensors) / (rounds + 1)
            median = [statistics.median(times) for times in (without, added, drained)]
            each = 1e6 * median[1] / count if count else 0
            print(
                f"{name:32} {count:5.0f} tensors  without {1e3 * median[0]:7.2f} ms  "
                f"added {1e3 * median[1]:7.2f} ms ({each:6.1f} us a tensor)  "
                f"drained {1e3 * median[2]:8.2f} ms  lost {counters.dropped_count}"
            )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.manual_seed(0)
    blocks = [Block(options.width) for _ in range(options.layers)]
    model = nn.Sequential(*blocks).to("cuda", torch.bfloat16)
    with tempfile.TemporaryDirectory() as data, own_daemon(Path(data)) as endpoint:
        for shape in ((4, 512), (1, 1)):
            x = torch.randn(*shape, options.width, device="cuda").bfloat16()
            measure(model, x, endpoint, options.rounds)
    # The minimum cost of copying the same bytes to pinned host memory.
    source = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
    to = torch.empty(1 << 28, dtype=torch.uint8, pin_memory=True)
    best = min(timed(lambda: to.copy_(source, non_blocking=True)) for _ in range(5))
    print(f"copies to pinned memory: {(1 << 28) / best / 1e9:.1f} GB/s")


if __name__ == "__main__":
    main()
