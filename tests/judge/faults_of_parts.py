"""Faults in single modules: weights, norms, activations, and results of a module."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from anatomy import Body, Place, Truth, own, roles
from kinds import ALL, INFERRED, LLAMAS, fault
from torch import Tensor, nn
from torch.nn import functional

LINEARS = ("q", "k", "v", "o", "up", "down", "gate", "qkv")
SQUARE = ("q", "o")


def _linear(body: Body, among: Iterable[str] = LINEARS) -> tuple[Any, Truth]:
    """Draws one of the linear parts of the layer."""
    names = sorted(set(among) & roles(body.setup.name))
    role = body.draw.choice(names)
    return body.part(role), [Place(body.path(role))]


def _rows(body: Body, module: Any) -> Tensor:
    """Returns the weight as [outputs, inputs]."""
    data = module.weight.data
    return data.t() if body.setup.name == "gpt2" else data


def _norm(body: Body) -> tuple[Any, Truth]:
    role = body.draw.choice(("norm1", "norm2"))
    return body.part(role), [Place(body.path(role))]


@fault(ALL)
def weight_times_3(body: Body) -> Truth:
    module, truth = _linear(body)
    module.weight.data *= 3
    return truth


@fault(ALL)
def weight_off_by_2_percent(body: Body) -> Truth:
    module, truth = _linear(body)
    module.weight.data *= 1.02
    return truth


@fault(ALL)
def weight_row_zeroed(body: Body) -> Truth:
    module, truth = _linear(body)
    rows = _rows(body, module)
    rows[body.draw.randrange(len(rows))] = 0
    return truth


@fault(ALL)
def weight_transposed(body: Body) -> Truth:
    module, truth = _linear(body, SQUARE)
    module.weight.data = module.weight.data.t().contiguous()
    return truth


@fault(ALL)
def weight_of_the_neighbour_layer(body: Body) -> Truth:
    names = sorted(set(LINEARS) & roles(body.setup.name))
    role = body.draw.choice(names)
    other = body.layer + (1 if body.layer == 0 else -1)
    one, two = body.part(role), body.part(role, other)
    one.weight.data, two.weight.data = two.weight.data, one.weight.data
    return [Place(body.path(role)), Place(body.path(role, other))]


@fault(ALL)
def weight_rows_rolled(body: Body) -> Truth:
    """Like a shard that starts at the wrong row."""
    module, truth = _linear(body)
    rows = _rows(body, module)
    rows.copy_(rows.roll(rows.shape[0] // 4, 0))
    return truth


@fault(INFERRED)
def weight_in_4_bits(body: Body) -> Truth:
    module, truth = _linear(body)
    data = module.weight.data
    step = data.float().abs().max() / 7
    module.weight.data = ((data.float() / step).round() * step).to(data.dtype)
    return truth


@fault(INFERRED)
def weight_in_8_bits(body: Body) -> Truth:
    module, truth = _linear(body)
    data = module.weight.data
    step = data.float().abs().max() / 127
    module.weight.data = ((data.float() / step).round() * step).to(data.dtype)
    return truth


@fault(("gpt2", "vit"))
def bias_dropped(body: Body) -> Truth:
    module, truth = _linear(body)
    module.bias.data.zero_()
    return truth


@fault(("gpt2", "vit"))
def bias_added_twice(body: Body) -> Truth:
    module, truth = _linear(body)
    module.bias.data *= 2
    return truth


@fault(ALL)
def norm_epsilon_wrong(body: Body) -> Truth:
    module, truth = _norm(body)
    if isinstance(module, nn.LayerNorm):
        module.eps = 1e-2
    else:
        module.variance_epsilon = 1e-2
    return truth


@fault(ALL)
def norm_weight_plus_one(body: Body) -> Truth:
    module, truth = _norm(body)
    module.weight.data += 1
    return truth


@fault(INFERRED)
def norm_does_nothing(body: Body) -> Truth:
    module, truth = _norm(body)
    module.forward = lambda x: x.clone()
    return truth


@fault(("gpt2", "vit"))
def norm_without_mean(body: Body) -> Truth:
    """RMSNorm instead of LayerNorm."""
    module, truth = _norm(body)

    def forward(x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + module.eps)
        return (wide * module.weight + module.bias).to(x.dtype)

    module.forward = forward
    return truth


@fault(LLAMAS)
def norm_computes_in_the_low_type(body: Body) -> Truth:
    module, truth = _norm(body)

    def forward(x: Tensor) -> Tensor:
        low = x.bfloat16()
        scale = torch.rsqrt(low.pow(2).mean(-1, keepdim=True) + module.variance_epsilon)
        return module.weight * (low * scale).to(x.dtype)

    module.forward = forward
    return truth


@fault(INFERRED)
def final_norm_weight_lost(body: Body) -> Truth:
    module = body.part("final")
    module.weight.data.fill_(1)
    return [Place(body.path("final"))]


@fault(ALL)
def activation_is_another_one(body: Body) -> Truth:
    module = body.part("act")
    name = body.setup.name
    function: Callable[[Tensor], Tensor] = functional.relu
    if name == "t5":
        function = functional.gelu
    module.forward = function
    return [Place(body.path("act"))]


@fault(("gpt2", "vit"))
def gelu_of_the_other_kind(body: Body) -> Truth:
    approximate = "none" if body.setup.name == "gpt2" else "tanh"
    body.part("act").forward = lambda x: functional.gelu(x, approximate=approximate)
    return [Place(body.path("act"))]


@fault(("llama", "massive", "mixtral", "gpt2", "train"))
def embedding_shifted_by_a_row(body: Body) -> Truth:
    weight = body.part("embed").weight
    weight.data = weight.data.roll(1, 0)
    if body.setup.name == "gpt2":
        # The head keeps its own weight.
        body.part("head").weight = nn.Parameter(weight.data.roll(-1, 0))
    return [Place(body.path("embed"))]


@fault(("gpt2", "t5"))
def head_untied(body: Body) -> Truth:
    head = body.part("head")
    noise = torch.randn(head.weight.shape, generator=torch.Generator().manual_seed(7))
    data = head.weight.data
    head.weight = nn.Parameter(data + 0.5 * noise.to(data.dtype))
    return [Place(body.path("head"))]


@fault(("gpt2", "vit", "t5"))
def dropout_active(body: Body) -> Truth:
    module = body.part("dropout")
    module.train()
    return [Place(body.path("dropout"))]


def _after(body: Body, change: Callable[[Tensor], Tensor]) -> Truth:
    """Changes the result of a linear part."""
    module, truth = _linear(body)
    module.forward = _changed(module.forward, change)
    return truth


def _changed(
    forward: Callable[[Tensor], Tensor], change: Callable[[Tensor], Tensor]
) -> Callable[[Tensor], Tensor]:
    return lambda x: change(forward(x))


@fault(INFERRED)
def one_position_wrong(body: Body) -> Truth:
    def change(y: Tensor) -> Tensor:
        y = y.clone()
        y[..., -1, :] *= -1
        return y

    return _after(body, change)


@fault(INFERRED)
def one_channel_zeroed(body: Body) -> Truth:
    channel = body.draw.randrange(32)

    def change(y: Tensor) -> Tensor:
        y = y.clone()
        y[..., channel] = 0
        return y

    return _after(body, change)


@fault(("massive", "llama", "gpt2"))
def all_but_large_channels_zeroed(body: Body) -> Truth:
    """A fault that only tensors with huge channels hide."""
    body.layer = 0

    def change(y: Tensor) -> Tensor:
        large = y.abs().amax(tuple(range(y.dim() - 1))).topk(2).indices
        kept = torch.zeros_like(y)
        kept[..., large] = y[..., large]
        return kept

    module = body.part("down")
    module.forward = _changed(module.forward, change)
    return [Place(body.path("down"))]


@fault(INFERRED)
def linear_in_bfloat16(body: Body) -> Truth:
    return _after(body, lambda y: (y.bfloat16().float() * (1 + 2**-9)).to(y.dtype))


@fault(INFERRED)
def result_clamped(body: Body) -> Truth:
    return _after(body, lambda y: y.clamp(-1, 1))


@fault(INFERRED)
def nan_in_one_element(body: Body) -> Truth:
    def change(y: Tensor) -> Tensor:
        y = y.clone()
        y.view(-1)[body.draw.randrange(y.numel())] = float("nan")
        return y

    return _after(body, change)


@fault(INFERRED)
def result_too_large_by_a_little(body: Body) -> Truth:
    """Close to the rounding of bfloat16."""
    return _after(body, lambda y: y * 1.006)


@fault(INFERRED)
def layers_swapped(body: Body) -> Truth:
    name = body.setup.name
    if name == "t5":
        # The first layer of either stack has the bias.
        body.layer = body.draw.choice((1, 4))
    first = min(body.layer, 1 if name != "t5" else body.layer)
    holder = body.setup.at(body.path("layer", first).rpartition(".")[0])
    index = int(body.path("layer", first).rpartition(".")[2])
    holder[index], holder[index + 1] = holder[index + 1], holder[index]
    for at, part in enumerate(holder):
        # Caches are indexed by the number of the layer.
        for module in part.modules():
            if hasattr(module, "layer") and isinstance(module.layer, int):
                module.layer = at
    # Each has the weights of the other.
    return [Place(f"{body.path('layer', at)}.*") for at in (first, first + 1)]


@fault(("vit",))
def patches_flattened_in_columns(body: Body) -> Truth:
    part = body.setup.at("vit.embeddings.patch_embeddings")
    part.flatten = lambda x: x.transpose(2, 3).flatten(2).transpose(1, 2)
    return [own("vit.embeddings.patch_embeddings", "projection", "")]


@fault(("vit",))
def channels_of_pixels_reversed(body: Body) -> Truth:
    """BGR instead of RGB, inside the model."""
    module = body.part("embed")
    module.weight.data = module.weight.data.flip(1)
    return [Place(body.path("embed"))]
