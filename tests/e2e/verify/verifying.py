"""Records runs that `msitctl verify` checks, and verifies them."""

import os
import subprocess
import sys
from typing import Any

import msitd
import torch
from torch import nn

from daemon import BIN_DIR, Daemon


class Block(nn.Module):
    """A part of a model, with a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the result for a batch."""
        hidden = nn.functional.gelu(self.up(self.norm(x)))
        return x + self.down(hidden)


def model() -> nn.Module:
    """Returns a small model whose parameters are always the same."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(20, 16), Block(), Block())


def batch(seed: int = 0) -> torch.Tensor:
    """Returns words for the model."""
    return torch.randint(0, 20, (2, 6), generator=torch.Generator().manual_seed(seed))


def record(
    daemon: Daemon,
    run: str,
    *,
    dtype: torch.dtype = torch.float32,
    tokens: int = 1,
    modules: bool = False,
    functions: bool = True,
    gradients: bool = False,
) -> None:
    """Records calls of the model, each as a token."""
    made = model().to(dtype)
    with msitd.Client(run, endpoint=daemon.endpoint) as client:
        handles: list[Any] = []
        if modules:
            handles.append(
                msitd.register_hook(made, client, weights=True, gradients=gradients)
            )
        batches = [batch(seed) for seed in range(tokens)]
        if functions:
            handles.append(msitd.register_api(client, gradients=gradients))
        for token, words in enumerate(batches):
            if not modules and token:
                client.next_token()
            with torch.set_grad_enabled(gradients):
                out = made(words)
            if gradients:
                out.backward(torch.ones_like(out))
        for handle in reversed(handles):
            handle.remove()


def record_values(
    daemon: Daemon, run: str, op: str, values: dict[tuple[str, str], Any], call: int = 0
) -> None:
    """Records one call of an op by its io and index."""
    with msitd.Client(run, endpoint=daemon.endpoint, if_exists="append") as client:
        for (io, index), value in values.items():
            record_one = client.record_value
            if isinstance(value, torch.Tensor):
                record_one = client.record  # type: ignore[assignment]
            record_one(value, op=op, io=io, index=index, token=0, call=call)


def verify(
    daemon: Daemon, run: str, *flags: str, expect: int = 0, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Runs `msitctl verify`, and checks its exit code."""
    done = subprocess.run(
        [
            BIN_DIR / "msitctl",
            "verify",
            run,
            *(() if "--python" in flags else ("--python", sys.executable)),
            *flags,
        ],
        env={**os.environ, "MSITCTL_ENDPOINT": daemon.endpoint, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == expect, (done.stdout, done.stderr)
    return done
