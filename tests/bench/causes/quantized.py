"""Linear parts with weights of 8 bits, a scale for each channel, and a bias.

Such a bias has corrections for the zero points in addition to that of the model, so
models without biases have one.
"""

import torch
from subjects import Setup
from torch import Tensor, nn
from torch.nn import functional

PARTS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class QuantizedLinear(nn.Module):
    """Multiplies by integers, and scales the result."""

    def __init__(self, linear: nn.Linear, seed: int) -> None:
        super().__init__()
        data = linear.weight.data
        scale = data.abs().amax(1) / 127
        self.register_buffer("weight", (data / scale[:, None]).round().to(torch.int8))
        self.scale = nn.Parameter(scale)
        generator = torch.Generator().manual_seed(seed)
        self.bias = nn.Parameter(0.3 * torch.randn(len(data), generator=generator))

    def rescale(self, y: Tensor) -> Tensor:
        """Returns the result for the products of the integers."""
        return y * self.scale + self.bias

    def forward(self, x: Tensor) -> Tensor:
        return self.rescale(functional.linear(x, self.weight.to(x.dtype)))


def quantize(setup: Setup) -> None:
    """Replaces the linear parts of all layers."""
    seed = 0
    for layer in setup.model.model.layers:
        for holder in (layer.self_attn, layer.mlp):
            for name in PARTS:
                if hasattr(holder, name):
                    seed += 1
                    setattr(holder, name, QuantizedLinear(getattr(holder, name), seed))
