"""Held out: single parts of a model."""

from collections.abc import Callable
from typing import Any

import torch
from anatomy import Place, Truth, own
from calibration import make_experts_tie
from seeding import Plot, seed
from subjects import Setup
from torch import Tensor
from torch.nn import functional
from wrong_kernels import changed, stale, without_bias

HALF = "held_out"
DROPPED = "target True, golden False"


@seed(
    HALF,
    "quantized_bias",
    ("quantized",),
    ("OFFSET", "TERM", "SAME_AS_INPUT"),
    note=r"only golden calls .*add",
)
def bias_of_a_quantized_result_missing(plot: Plot) -> Truth:
    part = plot.part("o")
    part.rescale = lambda y: y * part.scale
    return [Place(plot.path("o"))]


@seed(HALF, "quantized_bias", ("quantized",), ("OFFSET", "TERM"))
def bias_is_added_before_the_scale(plot: Plot) -> Truth:
    part = plot.part("gate")
    part.rescale = lambda y: (y + part.bias) * part.scale
    return [Place(plot.path("gate"))]


@seed(HALF, "quantized_bias", ("vit",), ("OFFSET", "TERM"), kernel="*.linear")
def linear_kernel_of_values_without_bias(plot: Plot) -> Truth:
    return plot.break_part("v", functional, "linear", without_bias)


@seed(HALF, "eps", ("llama",), ("EPS",), note=r"calls .*sqrt")
def eps_outside_of_the_root(plot: Plot) -> Truth:
    module = plot.part("norm2")

    def forward(x: Tensor) -> Tensor:
        wide = x.float()
        root = wide.pow(2).mean(-1, keepdim=True).sqrt() + 0.1
        return module.weight * (wide / root).to(x.dtype)

    module.forward = forward
    return [Place(plot.path("norm2"))]


@seed(HALF, "eps", ("llama", "moe"), ("EPS", "OFFSET"), note=r"target 0\.3, golden 1e-")
def eps_of_the_last_norm_is_large(plot: Plot) -> Truth:
    plot.part("final").variance_epsilon = 0.3
    return [Place(plot.path("final"))]


@seed(HALF, "eps", ("vit",), ("EPS",), kernel="*.layer_norm")
def norm_kernel_adds_a_tenth(plot: Plot) -> Truth:
    def wrong(plain: Callable[..., Tensor], *args: Any, **_: Any) -> Tensor:
        return plain(*args[:4], 0.1)

    return plot.break_part("norm2", functional, "layer_norm", wrong)


@seed(HALF, "gate_up", ("llama", "moe"))
def weights_of_gate_and_up_exchanged(plot: Plot) -> Truth:
    gate, up = plot.part("gate"), plot.part("up")
    gate.weight.data, up.weight.data = up.weight.data, gate.weight.data
    return [Place(plot.path("gate")), Place(plot.path("up"))]


@seed(HALF, "gate_up", ("llama",), ("SWAPPED_INPUTS",))
def halves_of_a_fused_gate_exchanged(plot: Plot) -> Truth:
    mlp = plot.part("mlp")

    def forward(x: Tensor) -> Tensor:
        both = torch.cat((mlp.gate_proj(x), mlp.up_proj(x)), -1)
        up, gate = both.chunk(2, -1)
        return mlp.down_proj(mlp.join(mlp.act_fn(gate), up))

    mlp.forward = forward
    return [own(plot.path("mlp"), ("gate_proj", "up_proj"), "act_fn")]


def _routing(plot: Plot) -> Truth:
    experts = tuple(f"experts.{number}" for number in range(4))
    return [own(plot.path("mlp"), ("gate", *experts), ("", *experts))]


@seed(HALF, "router_ties", ("moe",), ("FLIP",), prepare=make_experts_tie)
def router_sorts_equal_experts_in_another_order(plot: Plot) -> Truth:
    def wrong(plain: Callable[..., Any], x: Tensor, k: int, **kwargs: Any) -> Any:
        preferred = x * (1 + 1e-6 * torch.arange(x.shape[-1]))
        indices = plain(preferred, k, **kwargs)[1]
        return torch.return_types.topk((x.gather(-1, indices), indices))

    plot.break_kernel(plot.part("mlp"), torch, "topk", wrong)
    return _routing(plot)


def _wrong_choice(column: int) -> Callable[..., Any]:
    """Returns a topk whose second choice is that of another rank."""

    def wrong(plain: Callable[..., Any], x: Tensor, k: int, **kwargs: Any) -> Any:
        values, indices = plain(x, k + 1, **kwargs)
        columns = [0, column]
        return torch.return_types.topk((values[:, columns], indices[:, columns]))

    return wrong


@seed(HALF, "router_ties", ("moe",), (), kernel="*.topk")
def topk_kernel_takes_the_third(plot: Plot) -> Truth:
    plot.break_kernel(plot.part("mlp"), torch, "topk", _wrong_choice(2))
    return _routing(plot)


@seed(HALF, "router_ties", ("moe",), (), kernel="*.topk")
def topk_kernel_repeats_the_first(plot: Plot) -> Truth:
    plot.break_kernel(plot.part("mlp"), torch, "topk", _wrong_choice(0))
    return _routing(plot)


@seed(HALF, "stale_buffer", ("llama",), ("STALE",), kernel="*.linear")
def keys_are_those_of_the_last_word(plot: Plot) -> Truth:
    return plot.break_part("k", functional, "linear", stale())


@seed(HALF, "stale_buffer", ("moe", "llama"), ("STALE",), kernel="*.linear")
def result_of_attention_is_that_of_the_last_word(plot: Plot) -> Truth:
    return plot.break_part("o", functional, "linear", stale())


@seed(HALF, "stale_buffer", ("llama", "moe"), ("STALE",))
def rotary_table_is_that_of_the_last_word(plot: Plot) -> Truth:
    rotary = plot.setup.at("model.rotary_emb")
    plain, last = rotary.forward, []

    def forward(x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        if not last or last[0][0].shape[1] != position_ids.shape[1]:
            last[:] = [plain(x, position_ids)]
        return last[0]

    rotary.forward = forward
    return [Place("model.rotary_emb", token=2)]


@seed(HALF, "tile_row", ("llama", "vit"), ("ZEROS", "FACTOR"), kernel="*.linear")
def linear_kernel_drops_the_last_columns(plot: Plot) -> Truth:
    def change(y: Tensor) -> Tensor:
        y[..., -16:] = 0
        return y

    return plot.break_part("down", functional, "linear", changed(change))


@seed(HALF, "tile_row", ("llama", "vit"), ("SUBSET",), kernel="*.linear")
def linear_kernel_leaves_garbage_in_the_last_row(plot: Plot) -> Truth:
    def change(y: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(11)
        rows = y.view(-1, y.shape[-1])[6::7]
        rows.copy_(torch.randn(rows.shape, generator=generator))
        return y

    return plot.break_part("q", functional, "linear", changed(change))


@seed(HALF, "tile_row", ("moe",), ("FACTOR",), kernel="*.softmax")
def softmax_kernel_sums_without_the_last_column(plot: Plot) -> Truth:
    def change(y: Tensor) -> Tensor:
        return y / (1 - y[..., -1:]).clamp(0.05)

    return plot.break_part("attention", functional, "softmax", changed(change))


def enlarge_the_scores(setup: Setup) -> None:
    """Makes scores beyond the range of float16, which the scale makes small again."""
    attention = setup.model.model.layers[1].self_attn
    attention.q_proj.weight.data *= 120
    attention.k_proj.weight.data *= 120
    attention.scaling /= 120 * 120


def square_in_the_type_of_the_model(setup: Setup) -> None:
    """Makes a large residual, and a norm that squares it without float32."""
    setup.model.model.layers[-1].mlp.down_proj.weight.data *= 3000
    norm = setup.model.model.norm

    def forward(x: Tensor) -> Tensor:
        variance = x.pow(2).mean(-1, keepdim=True)
        return norm.weight * (x * torch.rsqrt(variance + norm.variance_epsilon))

    norm.forward = forward


def divide_exponentials(setup: Setup) -> None:
    """Computes a softmax of large scores without their maximum."""
    attention = setup.model.model.layers[1].self_attn
    attention.scaling *= 8

    def softmax(scores: Tensor) -> Tensor:
        powers = torch.exp(scores)
        return powers / powers.sum(-1, keepdim=True)

    attention.softmax = softmax


@seed(
    HALF,
    "overflow",
    ("moe",),
    ("SATURATED",),
    prepare=enlarge_the_scores,
    is_infinite=True,
    precisions=("float16",),
)
def scores_overflow_before_the_scale(plot: Plot) -> Truth:
    plot.layer = 1
    return plot.attention_weights()


@seed(
    HALF,
    "overflow",
    ("llama",),
    ("SATURATED", "ZEROS"),
    prepare=square_in_the_type_of_the_model,
    is_infinite=True,
    precisions=("float16",),
)
def squares_of_a_norm_overflow(plot: Plot) -> Truth:
    return [Place(plot.path("final"))]


@seed(
    HALF,
    "overflow",
    ("moe",),
    ("SATURATED",),
    prepare=divide_exponentials,
    is_infinite=True,
    precisions=("float16",),
)
def exponentials_overflow(plot: Plot) -> Truth:
    plot.layer = 1
    return plot.attention_weights()


def drop_probabilities(setup: Setup) -> None:
    """Gives the attention a dropout, which is off."""
    for layer in setup.model.vit.encoder.layer:
        _add_dropout(layer.attention.attention)


def _add_dropout(attention: Any) -> None:
    attention.is_fused = False
    plain = attention.softmax
    attention.softmax = lambda scores: functional.dropout(
        plain(scores), 0.1, attention.training
    )


@seed(HALF, "dropout", ("vit",), ("DROPOUT",), prepare=drop_probabilities, note=DROPPED)
def probabilities_dropped(plot: Plot) -> Truth:
    plot.part("attention").training = True
    return plot.attention_weights()


@seed(HALF, "dropout", ("vit",), ("DROPOUT",), note=DROPPED)
def embeddings_dropped(plot: Plot) -> Truth:
    plot.setup.at("vit.embeddings.dropout").train()
    return [Place("vit.embeddings.dropout")]


@seed(HALF, "dropout", ("vit",), ("DROPOUT", "ZEROS"), kernel="*.dropout")
def dropout_kernel_drops_without_a_scale(plot: Plot) -> Truth:
    def wrong(plain: Callable[..., Tensor], x: Tensor, p: float, *_: Any) -> Tensor:
        return plain(x, p, True) * (1 - p)

    path = plot.path("attention").rpartition(".")[0] + ".output.dropout"
    plot.break_kernel(plot.setup.at(path), functional, "dropout", wrong)
    return [Place(path)]


@seed(HALF, "tied_weights", ("tied",), ("SHIFT", "ORDER"))
def head_begins_at_the_next_word(plot: Plot) -> Truth:
    head = plot.part("head")
    head.weight = torch.nn.Parameter(head.weight.data.roll(1, 0))
    return [Place(plot.path("head"))]


@seed(HALF, "tied_weights", ("tied",))
def head_keeps_its_first_weights(plot: Plot) -> Truth:
    head = plot.part("head")
    generator = torch.Generator().manual_seed(13)
    data = torch.randn(head.weight.shape, generator=generator)
    head.weight = torch.nn.Parameter(data.to(head.weight.dtype))
    return [Place(plot.path("head"))]
