"""The second held-out half: mistakes of norms, linear parts, gates and experts."""

from collections.abc import Callable
from typing import Any

import torch
from anatomy import Place, Truth, own
from seeding import Plot, seed
from subjects import Setup
from torch import Tensor, nn
from torch.nn import functional
from wrong_kernels import changed, stale

HALF = "held_out_2"


@seed(
    HALF,
    "quantized_bias",
    ("quantized",),
    ("OFFSET", "TERM"),
    note=r"only target calls .*add",
)
def bias_of_a_quantized_weight_added_twice(plot: Plot) -> Truth:
    part = plot.part("k")
    part.rescale = lambda y: y * part.scale + part.bias + part.bias
    return [Place(plot.path("k"))]


@seed(HALF, "quantized_bias", ("quantized",), ("OFFSET", "ORDER", "SHIFT"))
def bias_of_a_quantized_weight_is_that_of_the_next_channel(plot: Plot) -> Truth:
    part = plot.part("down")
    part.bias.data = part.bias.data.roll(1)
    return [Place(plot.path("down"))]


@seed(HALF, "quantized_bias", ("vit",), ("OFFSET", "TERM"), kernel="*.linear")
def linear_kernel_subtracts_its_bias(plot: Plot) -> Truth:
    def wrong(
        plain: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor
    ) -> Tensor:
        return plain(x, weight, -bias)

    return plot.break_part("up", functional, "linear", wrong)


@seed(HALF, "quantized_bias", ("gpt2",), ("OFFSET", "TERM"), kernel="*.addmm")
def product_kernel_ignores_its_bias(plot: Plot) -> Truth:
    def wrong(
        plain: Callable[..., Tensor], bias: Tensor, x: Tensor, weight: Tensor
    ) -> Tensor:
        return plain(torch.zeros_like(bias), x, weight)

    return plot.break_part("up", torch, "addmm", wrong)


@seed(HALF, "eps", ("llama", "moe"), ("EPS",), note=r"target 0\.2, golden 1e-06")
def eps_of_the_second_norm_is_large(plot: Plot) -> Truth:
    plot.part("norm2").variance_epsilon = 0.2
    return [Place(plot.path("norm2"))]


@seed(HALF, "eps", ("vit",), ("EPS",), note=r"target 0\.5, golden 1e-12")
def eps_of_the_first_norm_is_large(plot: Plot) -> Truth:
    plot.part("norm1").eps = 0.5
    return [Place(plot.path("norm1"))]


@seed(HALF, "eps", ("gpt2",), ("EPS",), kernel="*.layer_norm")
def norm_kernel_adds_a_large_eps(plot: Plot) -> Truth:
    def wrong(plain: Callable[..., Tensor], *args: Any, **_: Any) -> Tensor:
        return plain(*args[:4], 0.3)

    return plot.break_part("norm2", functional, "layer_norm", wrong)


@seed(
    HALF,
    "gate_up",
    ("llama",),
    (),
    note=r"has Functional\.linear input/1.* of golden|has .*up_proj weight",
)
def weights_of_gate_and_up_are_exchanged(plot: Plot) -> Truth:
    gate, up = plot.part("gate"), plot.part("up")
    gate.weight.data, up.weight.data = up.weight.data, gate.weight.data
    return [Place(plot.path("gate")), Place(plot.path("up"))]


@seed(
    HALF,
    "gate_up",
    ("moe",),
    (),
    note=r"has Functional\.linear input/1.* of golden|has .*w3 weight",
)
def weights_of_an_expert_are_exchanged(plot: Plot) -> Truth:
    # The first layer, in which both runs choose the same experts.
    plot.layer = 0
    gate, up = plot.part("gate"), plot.part("up")
    gate.weight.data, up.weight.data = up.weight.data, gate.weight.data
    return [Place(plot.path("gate")), Place(plot.path("up"))]


@seed(
    HALF,
    "gate_up",
    ("llama",),
    ("SAME_AS_INPUT",),
    note=r"equal to .*up_proj output/0.* in the target",
)
def gate_is_lost(plot: Plot) -> Truth:
    plot.part("mlp").join = lambda gate, up: up * up
    return [own(plot.path("mlp"), "up_proj", "down_proj")]


def fuse_gates(setup: Setup) -> None:
    """Computes gate and up of each layer in a single product."""
    for layer in setup.model.model.layers:
        _fuse_gate(layer.mlp)


def _fuse_gate(mlp: Any) -> None:
    mlp.split = lambda both: both.chunk(2, -1)

    def forward(x: Tensor) -> Tensor:
        weight = torch.cat((mlp.gate_proj.weight, mlp.up_proj.weight))
        gate, up = mlp.split(functional.linear(x, weight))
        return mlp.down_proj(mlp.act_fn(gate) * up)

    mlp.forward = forward


@seed(
    HALF,
    "gate_up",
    ("llama",),
    ("SWAPPED_INPUTS",),
    prepare=fuse_gates,
    note=r"equal to .*chunk output/0.* in golden, to .*chunk output/1",
)
def halves_of_a_fused_gate_are_exchanged(plot: Plot) -> Truth:
    plot.part("mlp").split = lambda both: both.chunk(2, -1)[::-1]
    return [own(plot.path("mlp"), "", "act_fn")]


def make_the_outer_experts_tie(setup: Setup) -> None:
    """Gives the first and the last expert of each layer the same score."""
    for layer in setup.model.model.layers:
        weight = layer.block_sparse_moe.gate.weight.data
        weight[3] = weight[0]


@seed(HALF, "router_ties", ("moe",), ("FLIP",), prepare=make_the_outer_experts_tie)
def router_prefers_the_last_of_two_equal_experts(plot: Plot) -> Truth:
    def choose(scores: Tensor) -> Any:
        values, chosen = torch.topk(scores.flip(-1), 2, dim=-1)
        return values, scores.shape[-1] - 1 - chosen

    plot.part("mlp").choose = choose
    experts = tuple(f"experts.{number}" for number in range(4))
    return [own(plot.path("mlp"), ("gate", *experts), ("", *experts))]


@seed(HALF, "stale_buffer", ("llama",), ("STALE",), kernel="*.linear")
def linear_kernel_returns_its_last_result(plot: Plot) -> Truth:
    return plot.break_part("down", functional, "linear", stale())


@seed(HALF, "stale_buffer", ("gpt2",), ("STALE",), kernel="*.layer_norm")
def norm_kernel_returns_its_last_result(plot: Plot) -> Truth:
    return plot.break_part("norm1", functional, "layer_norm", stale())


@seed(
    HALF,
    "stale_buffer",
    ("llama",),
    ("STALE",),
    kernel="*.scaled_dot_product_attention",
)
def attention_kernel_returns_its_last_result(plot: Plot) -> Truth:
    name = "scaled_dot_product_attention"
    return plot.break_part("attention", functional, name, stale())


@seed(HALF, "stale_buffer", ("moe", "gpt2"), ("STALE",), kernel="*.embedding")
def embedding_kernel_returns_its_last_result(plot: Plot) -> Truth:
    return plot.break_part("embed", functional, "embedding", stale())


def _without_the_last_channels(y: Tensor) -> Tensor:
    y[..., -8:] = 0
    return y


@seed(HALF, "tile_row", ("vit", "llama"), ("ZEROS", "FACTOR"), kernel="*.linear")
def linear_kernel_drops_its_last_channels(plot: Plot) -> Truth:
    wrong = changed(_without_the_last_channels)
    return plot.break_part("q", functional, "linear", wrong)


def _without_the_last_row(y: Tensor) -> Tensor:
    y[-1] = 0
    return y


@seed(HALF, "tile_row", ("gpt2",), ("ZEROS", "FACTOR"), kernel="*.addmm")
def product_kernel_drops_its_last_row(plot: Plot) -> Truth:
    return plot.break_part("down", torch, "addmm", changed(_without_the_last_row))


def _without_the_last_query(y: Tensor) -> Tensor:
    y[:, :, -1] = 0
    return y


@seed(
    HALF,
    "tile_row",
    ("llama",),
    ("ZEROS", "FACTOR"),
    kernel="*.scaled_dot_product_attention",
)
def attention_kernel_drops_its_last_query(plot: Plot) -> Truth:
    name = "scaled_dot_product_attention"
    wrong = changed(_without_the_last_query)
    return plot.break_part("attention", functional, name, wrong)


def _twice_the_last_row(y: Tensor) -> Tensor:
    y.view(-1, y.shape[-1])[-1] *= 2
    return y


@seed(HALF, "tile_row", ("moe",), ("FACTOR",), kernel="*.linear")
def linear_kernel_adds_its_last_row_twice(plot: Plot) -> Truth:
    return plot.break_part("o", functional, "linear", changed(_twice_the_last_row))


@seed(HALF, "reduce_order", ("vit",), (), kernel="*.linear")
def linear_kernel_adds_its_last_part_twice(plot: Plot) -> Truth:
    def wrong(
        plain: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor
    ) -> Tensor:
        return plain(x, weight, bias) + plain(x[..., -16:], weight[:, -16:])

    return plot.break_part("down", functional, "linear", wrong)


def enlarge_queries_and_keys(setup: Setup) -> None:
    """Makes scores beyond the range of float16."""
    for block in setup.model.transformer.h:
        block.attn.c_attn.weight.data[:, :128] *= 110


@seed(
    HALF,
    "overflow",
    ("gpt2",),
    ("SATURATED",),
    prepare=enlarge_queries_and_keys,
    is_infinite=True,
    precisions=("float16",),
)
def scores_overflow(plot: Plot) -> Truth:
    plot.layer = 0
    return plot.attention_weights()


def enlarge_down(setup: Setup) -> None:
    """Makes results of a linear part beyond the range of float16."""
    setup.model.model.layers[2].mlp.down_proj.weight.data *= 60000


@seed(
    HALF,
    "overflow",
    ("llama",),
    ("SATURATED",),
    prepare=enlarge_down,
    is_infinite=True,
    precisions=("float16",),
)
def result_of_the_feed_forward_part_overflows(plot: Plot) -> Truth:
    plot.layer = 2
    return [Place(plot.path("down"))]


@seed(HALF, "dropout", ("vit",), ("DROPOUT",), note="target True, golden False")
def dropout_of_the_embeddings_is_active(plot: Plot) -> Truth:
    plot.setup.at("vit.embeddings.dropout").train()
    return [Place("vit.embeddings.dropout")]


@seed(HALF, "dropout", ("gpt2",), ("DROPOUT",), note="target True, golden False")
def dropout_of_the_residual_is_active(plot: Plot) -> Truth:
    part = plot.part("attention").resid_dropout
    part.train()
    return [Place(f"{plot.path('attention')}.resid_dropout")]


@seed(HALF, "dropout", ("gpt2",), ("FACTOR",), kernel="*.dropout")
def dropout_kernel_scales_what_it_keeps(plot: Plot) -> Truth:
    wrong = changed(lambda y: y / 0.9)
    return plot.break_part("dropout", functional, "dropout", wrong)


@seed(HALF, "dropout", ("llama",), (), note=r"dropout_p: target 0\.3")
def dropout_of_the_attention_is_active(plot: Plot) -> Truth:
    attention = plot.part("attention")

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Any:
        out = functional.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=mask,
            is_causal=q.shape[2] > 1,
            scale=attention.scaling,
            dropout_p=0.3,
        )
        return attention.merge(out), None

    attention.attend = attend
    return plot.attention_weights()


@seed(
    HALF,
    "tied_weights",
    ("tied",),
    ("ORDER", "SHIFT"),
    note=r"equal to .*embed.* only in golden",
)
def head_has_the_words_of_another_order(plot: Plot) -> Truth:
    head = plot.part("head")
    head.weight = nn.Parameter(head.weight.data.roll(1, 0))
    return [Place(plot.path("head"))]


@seed(
    HALF,
    "tied_weights",
    ("tied",),
    ("FACTOR",),
    note=r"equal to .*embed.* only in golden",
)
def head_is_an_old_copy_of_the_embedding(plot: Plot) -> Truth:
    head = plot.part("head")
    head.weight = nn.Parameter(head.weight.data * 1.125)
    return [Place(plot.path("head"))]


@seed(HALF, "tied_weights", ("gpt2",), (), note=r"equal to .*embed.* only in golden")
def head_has_weights_of_its_own(plot: Plot) -> Truth:
    head = plot.part("head")
    generator = torch.Generator().manual_seed(11)
    weight = torch.randn(head.weight.shape, generator=generator)
    head.weight = nn.Parameter(weight.to(head.weight.dtype))
    return [Place(plot.path("head"))]
