"""Other kernels for the same arithmetic, as in another device or library.

`Kernels` replaces operators below autograd and below the hooks of msitd, so a
model that runs with it calls the same modules and functions. Only roundings and
the order of sums differ.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
Product = Callable[[Tensor, Tensor], Tensor]
PARTS = 4


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype.itemsize < 4 else dtype


def _chunks(a: Tensor, b: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Splits the dimension that a product sums over."""
    parts = min(PARTS, a.shape[-1])
    return list(zip(a.chunk(parts, -1), b.chunk(parts, -2), strict=True))


def split_k(a: Tensor, b: Tensor) -> Tensor:
    """Adds partial products in float32, from the last to the first."""
    wide = _wide(a.dtype)
    total: Any = 0.0
    for x, y in reversed(_chunks(a, b)):
        total = total + torch.matmul(x.to(wide), y.to(wide))
    return total.to(a.dtype)


def split_k_rounded(a: Tensor, b: Tensor) -> Tensor:
    """Adds partial products in the dtype of the model, as tensor parallelism does."""
    total: Any = 0.0
    for x, y in _chunks(a, b):
        total = total + torch.matmul(x, y)
    return total


def permuted(a: Tensor, b: Tensor) -> Tensor:
    """Sums in another order."""
    order = torch.arange(a.shape[-1] - 1, -1, -1)
    return torch.matmul(a[..., order], b[..., order, :])


def double(a: Tensor, b: Tensor) -> Tensor:
    """Computes in float64 and rounds once."""
    return torch.matmul(a.double(), b.double()).to(a.dtype)


def in_a_batch(a: Tensor, b: Tensor) -> Tensor:
    """Computes the rows as part of a batch that is four times as large."""
    tall = torch.cat([a, a.flip(-2), a, a * 0.5], -2)
    return torch.matmul(tall, b)[..., : a.shape[-2], :]


def noisy(a: Tensor, b: Tensor) -> Tensor:
    """Changes elements of the first factor by one unit in the last place."""
    generator = torch.Generator().manual_seed(a.numel())
    step = torch.randint(-1, 2, a.shape, generator=generator)
    ulp = torch.finfo(a.dtype).eps
    moved = (a.double() * (1 + ulp * step)).to(a.dtype)
    return torch.matmul(moved, b)


def flipped(a: Tensor, b: Tensor) -> Tensor:
    """Rounds one element in a hundred to the other side."""
    y = torch.matmul(a, b)
    generator = torch.Generator().manual_seed(y.numel())
    chosen = torch.rand(y.shape, generator=generator) < 0.01
    other = (y.double() * (1 + torch.finfo(y.dtype).eps)).to(y.dtype)
    return torch.where(chosen, other, y)


PRODUCTS: dict[str, Product] = {
    "split_k": split_k,
    "split_k_rounded": split_k_rounded,
    "permuted": permuted,
    "double": double,
    "in_a_batch": in_a_batch,
    "noisy": noisy,
    "flipped": flipped,
}


def online_softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    """A softmax in blocks with powers of two, as fused attention computes it."""
    wide = x.to(_wide(x.dtype)).movedim(dim, -1) * 1.4426950408889634
    maximum = torch.full_like(wide[..., :1], -torch.inf)
    total = torch.zeros_like(maximum)
    for block in wide.split(4, -1):
        higher = torch.maximum(maximum, block.amax(-1, keepdim=True))
        total = total * torch.exp2(maximum - higher)
        total = total + torch.exp2(block - higher).sum(-1, keepdim=True)
        maximum = higher
    result = (torch.exp2(wide - maximum) / total).movedim(-1, dim)
    return result if half_to_float else result.to(x.dtype)


def one_pass_norm(
    x: Tensor,
    shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """LayerNorm whose mean and variance are merged from blocks (Chan's method)."""
    assert len(shape) == 1
    wide = x.to(_wide(x.dtype))
    blocks = wide.unflatten(-1, (PARTS, -1))
    means = blocks.mean(-1)
    mean = means.mean(-1, keepdim=True)
    spread = blocks.var(-1, unbiased=False) + (means - mean).square()
    rstd = torch.rsqrt(spread.mean(-1, keepdim=True) + eps)
    y = wide * rstd - mean * rstd if mean.abs().max() < 1 else (wide - mean) * rstd
    if weight is not None:
        y = y * weight.to(wide.dtype)
    if bias is not None:
        y = y + bias.to(wide.dtype)
    return y.to(x.dtype), mean, rstd


def split_mean(
    x: Tensor, dim: Sequence[int], keepdim: bool = False, **_: Any
) -> Tensor:
    """A mean whose sum is computed in blocks."""
    return split_sum(x, dim, keepdim) / x.shape[dim[0]]


def split_sum(
    x: Tensor, dim: Sequence[int] | None, keepdim: bool = False, **_: Any
) -> Tensor:
    """A sum that is computed in blocks, the last one first."""
    if not dim or len(dim) != 1:
        return x.sum(list(dim or ()), keepdim)
    total: Any = 0.0
    for block in reversed(x.to(_wide(x.dtype)).split(8, dim[0])):
        total = total + block.sum(dim, keepdim)
    return total.to(x.dtype)


def silu(x: Tensor) -> Tensor:
    wide = x.to(_wide(x.dtype))
    return (wide * (0.5 * torch.tanh(0.5 * wide) + 0.5)).to(x.dtype)


def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    wide = x.to(_wide(x.dtype))
    if approximate == "tanh":
        inner = 1.5957691216057308 * (wide + 0.044715 * wide**3)
        return (wide * torch.sigmoid(inner)).to(x.dtype)
    return (wide * torch.special.ndtr(wide)).to(x.dtype)


def tanh(x: Tensor) -> Tensor:
    wide = x.to(_wide(x.dtype))
    return (2 * torch.sigmoid(2 * wide) - 1).to(x.dtype)


OTHERS: dict[str, dict[Any, Callable[..., Any]]] = {
    "softmax": {aten._softmax.default: online_softmax},
    "norm": {
        aten.native_layer_norm.default: one_pass_norm,
        aten.mean.dim: split_mean,
        aten.sum.dim_IntList: split_sum,
    },
    "activation": {
        aten.silu.default: silu,
        aten.gelu.default: gelu,
        aten.tanh.default: tanh,
    },
}


class Kernels(TorchDispatchMode):
    """Replaces operators while it is entered.

    `product` names one of PRODUCTS, `others` some of OTHERS. With `only`, only
    products whose second factor has this shape are replaced.
    """

    def __init__(
        self,
        product: str = "",
        others: Sequence[str] = (),
        only: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        self.only = only
        self.table: dict[Any, Callable[..., Any]] = {}
        for name in others:
            self.table.update(OTHERS[name])
        if product:
            self._replace_products(PRODUCTS[product])
        self.count = 0

    def _replace_products(self, product: Product) -> None:
        def addmm(bias: Tensor, a: Tensor, b: Tensor, **_: Any) -> Tensor:
            return product(a, b) + bias

        def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
            y = product(x, weight.t())
            return y if bias is None else y + bias

        self.table[aten.mm.default] = self.table[aten.bmm.default] = product
        self.table[aten.addmm.default] = addmm
        self.table[aten.linear.default] = linear

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        other = self.table.get(func)
        if other is None or not _is_float(args) or not self._is_meant(args):
            return func(*args, **kwargs)
        self.count += 1
        return other(*args, **kwargs)

    def _is_meant(self, args: Any) -> bool:
        if self.only is None:
            return True
        return any(
            isinstance(arg, Tensor) and tuple(arg.shape[-2:]) == self.only
            for arg in args
        )


def _is_float(args: Any) -> bool:
    return all(arg.is_floating_point() for arg in args if isinstance(arg, Tensor))
