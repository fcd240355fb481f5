"""Random sizes, tensors and noise of a case, all of which follow from its seed."""

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

PRECISIONS = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
UNITS = {torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
SETTINGS = ("same", "other kernels", "noisy inputs", "against float32")
# The share of cases that have one row: a token that was decoded.
DECODED_SHARE = 0.1

Compute = Callable[..., Tensor]


@dataclasses.dataclass
class Made:
    """A fault: what the op computes in both runs, from which tensors."""

    golden: Compute
    target: Compute
    inputs: dict[str, Tensor]
    """By io and index, such as `input/0`, in the order of the arguments."""
    expected: tuple[str, ...]
    """The kinds of explanations that are right; none for a negative."""
    hidden: tuple[str, ...] = ()
    """Inputs that the runs did not record."""
    is_stale: bool = False
    """The target is equal to that of an earlier token."""


class Draw:
    """Draws sizes and tensors."""

    def __init__(self, seed: int) -> None:
        self.random = torch.Generator().manual_seed(seed)
        self.batch = self.pick(1, 2, 4)
        self.length = self.between(6, 24)
        if self.uniform() < DECODED_SHARE:
            self.batch, self.length = 1, 1
        self.heads = self.pick(2, 4, 8)
        self.width = self.pick(8, 16, 32)
        self.hidden = self.heads * self.width

    def uniform(self) -> float:
        return float(torch.rand((), generator=self.random))

    def between(self, low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=self.random))

    def pick(self, *values):
        return values[self.between(0, len(values) - 1)]

    def normal(self, *shape: int, scale: float = 1.0) -> Tensor:
        return torch.randn(*shape, generator=self.random) * scale

    def order(self, count: int) -> Tensor:
        """Returns an order of `count` things that is not the usual one."""
        while True:
            out = torch.randperm(count, generator=self.random)
            if count < 2 or not torch.equal(out, torch.arange(count)):
                return out

    def rows(self) -> Tensor:
        """Returns a hidden state, with a few large channels in a third of all cases."""
        out = self.normal(self.batch, self.length, self.hidden)
        out = out * (
            0.3 + 2 * torch.rand(self.batch, self.length, 1, generator=self.random)
        )
        if self.uniform() < 0.33:
            channels = torch.randint(self.hidden, (2,), generator=self.random)
            out[..., channels] *= 50
        return out

    def of_heads(self) -> Tensor:
        return self.normal(self.batch, self.heads, self.length, self.width)

    def weight(self, rows: int, columns: int) -> Tensor:
        return self.normal(rows, columns, scale=columns**-0.5)


def nl2(target: Tensor, golden: Tensor) -> float:
    a, b = target.double(), golden.double()
    norm = float(b.norm())
    return float((a - b).norm()) / norm if norm > 0 else 0.0


def perturbed(draw: Draw, x: Tensor, unit: float) -> Tensor:
    return x * (1 + unit * torch.randn(x.shape, generator=draw.random)).to(x.dtype)
