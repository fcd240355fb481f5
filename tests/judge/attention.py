"""Attention as in transformers: eager and fused, with a cache.

Everything that a fault replaces is a method or an attribute of its module, so a
fault is an assignment to one instance.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

Embeddings = tuple[Tensor, Tensor]


class Cache:
    """Keys and values of all layers up to now."""

    def __init__(self) -> None:
        self.layers: dict[int, tuple[Tensor, Tensor]] = {}

    def length(self) -> int:
        """Returns the number of positions that the cache holds."""
        return self.layers[0][0].shape[2] if self.layers else 0

    def update(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Appends to a layer and returns all of its keys and values."""
        if layer in self.layers:
            keys, values = self.layers[layer]
            k, v = torch.cat((keys, k), dim=2), torch.cat((values, v), dim=2)
        self.layers[layer] = k, v
        return k, v


def repeat_kv(x: Tensor, groups: int) -> Tensor:
    """Gives each head of keys or values to its group of query heads."""
    batch, heads, length, size = x.shape
    x = x[:, :, None].expand(batch, heads, groups, length, size)
    return x.reshape(batch, heads * groups, length, size)


def rotate_half(x: Tensor) -> Tensor:
    left, right = x.chunk(2, dim=-1)
    return torch.cat((-right, left), dim=-1)


def apply_rope(x: Tensor, embeddings: Embeddings) -> Tensor:
    """Rotates pairs of channels by the angles of their positions."""
    cos, sin = (one.unsqueeze(1) for one in embeddings)
    return x * cos + rotate_half(x) * sin


class Core(nn.Module):
    """The part that all attentions share between their projections.

    Subclasses inherit this code, so it counts as the module's own code.
    """

    is_fused: bool
    is_causal: bool
    scaling: float

    def softmax(self, scores: Tensor) -> Tensor:
        """Normalizes the scores, in float32 as in most models."""
        return functional.softmax(scores, dim=-1, dtype=torch.float32)

    def masked(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores + mask

    def mask_of(self, mask: Tensor | None) -> Tensor | None:
        """Returns the mask that this layer uses."""
        return mask

    def merge(self, out: Tensor) -> Tensor:
        """Reshapes [batch, heads, length, size] to [batch, length, channels]."""
        out = out.transpose(1, 2).contiguous()
        return out.reshape(*out.shape[:2], -1)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the merged result and, if the attention computes them, the
        weights.
        """
        mask = self.mask_of(mask)
        if self.is_fused:
            is_causal = self.is_causal and mask is None and q.shape[2] > 1
            out = functional.scaled_dot_product_attention(
                q, k, v, attn_mask=mask, is_causal=is_causal, scale=self.scaling
            )
            return self.merge(out), None
        scores = torch.matmul(q, k.transpose(2, 3)) * self.scaling
        weights = self.softmax(self.masked(scores, mask)).to(q.dtype)
        return self.merge(torch.matmul(weights, v)), weights


def causal_mask(
    length: int, total: int, dtype: torch.dtype, padding: Tensor | None, value: float
) -> Tensor:
    """Returns an additive mask [batch or 1, 1, length, total]."""
    allowed = torch.ones(length, total, dtype=torch.bool).tril(total - length)
    allowed = allowed[None, None]
    if padding is not None:
        allowed = allowed & padding[:, None, None, :].bool()
    mask = torch.zeros(allowed.shape, dtype=dtype)
    return mask.masked_fill(~allowed, value)


def mask_of_layers(
    attention: Core, x: Tensor, past: int, padding: Tensor | None, value: float | None
) -> Tensor | None:
    """Returns the mask for layers with this attention; `value` defaults to the
    least one.

    Fused attention needs no mask without padding.
    """
    if attention.is_fused and padding is None:
        return None
    if value is None:
        value = torch.finfo(x.dtype).min
    length = x.shape[1]
    return causal_mask(length, past + length, x.dtype, padding, value)


Residual = Callable[[Tensor, Tensor], Tensor]


def add(x: Tensor, change: Tensor) -> Tensor:
    """The residual connection of all models."""
    return x + change
