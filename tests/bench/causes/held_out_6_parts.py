"""The sixth held-out half: linear parts, norms, gates, experts and dropouts.

20 of these 27 mistakes are in all layers, or in code that all layers share, 6 in one
layer, and 1 in an embedding. 1 mistake is only in steps that decode, and 1 only in one
rank. 4 are wrong kernels.
"""

import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from anatomy import Place, Truth, own
from held_out_3_attention import ATTENTION, SDPA, later, of_first_layer
from held_out_4_parts import routing
from seeding import Plot, seed
from subjects import Setup
from torch import Tensor
from torch.nn import functional
from wrong_kernels import changed

HALF = "held_out_6"
Choice = tuple[Tensor, Tensor]
OTHER = r"other arguments?: "


def _correction(part: Any) -> Tensor:
    """Returns what a zero point adds to each channel."""
    return 0.2 * part.scale.data * part.weight.float().sum(1)


def correct_biases(setup: Setup) -> None:
    """Adds the zero points of the inputs to the biases."""
    for layer in setup.model.model.layers:
        part = layer.mlp.down_proj
        part.bias.data += _correction(part)


@seed(HALF, "quantized_bias", ("quantized",), ("OFFSET",), prepare=correct_biases)
def corrections_of_biases_have_the_other_sign(plot: Plot) -> Truth:
    """In all layers, those for the zero points of the inputs are subtracted."""
    for part in plot.parts("down"):
        part.bias.data -= (2 * _correction(part)).to(part.bias.dtype)
    return [Place(plot.path("down", 0))]


def _sorting(part: Any, order: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda x: type(part).forward(part, x[..., order])


def sort_columns_by_their_size(setup: Setup) -> None:
    """Quantizes columns in another order, which inputs must then have, too."""
    generator = torch.Generator().manual_seed(71)
    for layer in setup.model.model.layers:
        part = layer.mlp.down_proj
        order = torch.randperm(part.weight.shape[1], generator=generator)
        part.weight = part.weight[:, order]
        part.forward = _sorting(part, order)


@seed(
    HALF,
    "quantized_bias",
    ("quantized",),
    ("ORDER", "SAME_AS_INPUT"),
    prepare=sort_columns_by_their_size,
    note=r"only golden calls .*(getitem|index_select)|equal to .*(mul|mlp).* in the",
)
def inputs_do_not_have_the_order_of_columns(plot: Plot) -> Truth:
    """In all layers."""
    for part in plot.parts("down"):
        part.forward = type(part).forward.__get__(part)
    return [Place(plot.path("down", 0))]


@seed(HALF, "quantized_bias", ("quantized",), ("FACTOR", "AFFINE"))
def channels_share_the_largest_scale(plot: Plot) -> Truth:
    """In all layers, fused parts have one scale, and the integers of their own ones."""
    for part in (*plot.parts("gate"), *plot.parts("up")):
        part.scale.data[:] = part.scale.data.max()
    return [Place(plot.path("gate", 0)), Place(plot.path("up", 0))]


@seed(
    HALF,
    "quantized_bias",
    ("vit",),
    ("OFFSET",),
    note=r"has .*(query|linear|bias).* of golden",
)
def values_have_the_biases_of_queries(plot: Plot) -> Truth:
    """In all layers, a loader repeats the first bias."""
    for q, v in zip(plot.parts("q"), plot.parts("v"), strict=True):
        v.bias.data = q.bias.data.clone()
    return [Place(plot.path("v", 0))]


def _without_a_mean(norm: Any) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        variance = x.pow(2).mean(-1, keepdim=True)
        return x * torch.rsqrt(variance + norm.eps) * norm.weight + norm.bias

    return forward


def move_words(setup: Setup) -> None:
    """Gives the embeddings a mean."""
    setup.model.transformer.offset = 0.8


@seed(
    HALF,
    "eps",
    ("gpt2",),
    # A factor and a constant for each row, before the weight.
    ("AFFINE", "OFFSET"),
    prepare=move_words,
    note=r"only (golden calls .*layer_norm|target calls .*(rsqrt|mean|pow))",
)
def norms_do_not_subtract_the_mean(plot: Plot) -> Truth:
    """In all layers, as norms of another kind."""
    for norm in (*plot.parts("norm1"), *plot.parts("norm2")):
        norm.forward = _without_a_mean(norm)
    return [Place(plot.path("norm1", 0))]


def _of_head(x: Tensor) -> Tensor:
    return x.pow(2).mean(-1, keepdim=True)


def _of_row(x: Tensor) -> Tensor:
    rows = x.transpose(1, 2).flatten(2)
    return rows.pow(2).mean(-1)[:, None, :, None]


def _norming(
    plain: Callable[..., Any], variance_of: Callable[[Tensor], Tensor]
) -> Callable[..., Any]:
    def rope(q: Tensor, k: Tensor, embeddings: Any) -> Any:
        variance = variance_of(q.float())
        q = (q.float() * torch.rsqrt(variance + 1e-6)).to(q.dtype)
        return plain(q, k, embeddings)

    return rope


def norm_queries_of_each_head(setup: Setup) -> None:
    for layer in setup.model.model.layers:
        layer.self_attn.rope = _norming(layer.self_attn.rope, _of_head)


@seed(
    HALF,
    "eps",
    ("llama",),
    # A factor for each row and head, or another view of the queries.
    ("FACTOR", "ARRANGEMENT"),
    prepare=norm_queries_of_each_head,
    note=rf"{OTHER}|(only target|more) calls .*(flatten|transpose|getitem)",
)
def all_heads_of_queries_have_one_norm(plot: Plot) -> Truth:
    """In all layers, the variance is that of the whole row."""
    for attention in plot.parts("attention"):
        plain = type(attention).rope.__get__(attention)
        attention.rope = _norming(plain, _of_row)
    return of_first_layer(plot)


def move_words_far(setup: Setup) -> None:
    """Gives the embeddings a mean that is far larger than their deviation."""
    setup.model.transformer.offset = 1500.0


def _in_one_pass(
    _: Callable[..., Tensor],
    x: Tensor,
    shape: Any,
    weight: Tensor,
    bias: Tensor,
    eps: float,
) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = (x.pow(2).mean(-1, keepdim=True) - mean.pow(2)).clamp(min=0)
    return (x - mean) * torch.rsqrt(variance + eps) * weight + bias


@seed(
    HALF,
    "eps",
    ("gpt2",),
    # A factor for each row, before the bias.
    ("FACTOR", "AFFINE"),
    prepare=move_words_far,
    kernel="*.layer_norm",
    precisions=("float32",),
)
def norm_kernel_subtracts_the_square_of_the_mean(plot: Plot) -> Truth:
    """In all layers, from the mean of squares, so nearly all digits are lost."""
    return plot.break_parts("norm1", functional, "layer_norm", _in_one_pass)


@seed(
    HALF,
    "eps",
    ("served",),
    ("FACTOR",),
    note=r"has .*(norm|weight|mul).* of golden",
)
def norms_have_the_weights_of_the_next_layer(plot: Plot) -> Truth:
    """In all layers, a sum with a norm is given the wrong one."""
    norms = [*plot.parts("norm1"), plot.part("final")]
    for norm, other in itertools.pairwise(norms):
        norm.weight.data = other.weight.data.clone()
    return [Place(plot.path("norm1", 0))]


@seed(
    HALF,
    "gate_up",
    ("llama",),
    ("SAME_AS_INPUT",),
    note=r"only golden calls .*mul|equal to .*(act_fn|silu).* in the target",
)
def up_is_lost(plot: Plot) -> Truth:
    """In all layers, a fused activation returns only the gate."""
    for mlp in plot.parts("mlp"):
        mlp.join = lambda gate, up: gate
    return [own(plot.path("mlp", 0), ("up_proj", "act_fn"), "down_proj")]


def _gating(mlp: Any) -> Callable[[Tensor], Tensor]:
    plain = mlp.forward

    def forward(x: Tensor) -> Tensor:
        return plain(x) * torch.sigmoid(x.mean(-1, keepdim=True) * 8)

    return forward


def gate_results(setup: Setup) -> None:
    """Multiplies each row of the feed-forward part by a gate."""
    for layer in setup.model.model.layers:
        layer.mlp.forward = _gating(layer.mlp)


@seed(
    HALF,
    "gate_up",
    ("llama",),
    # A factor for each row. The result of down is passed on.
    ("FACTOR", "SAME_AS_INPUT"),
    prepare=gate_results,
    note=r"only golden calls .*(sigmoid|mean|mul)|equal to .*down.* in the target",
)
def gate_of_results_is_not_read(plot: Plot) -> Truth:
    """In all layers."""
    for mlp in plot.parts("mlp"):
        mlp.forward = type(mlp).forward.__get__(mlp)
    return [own(plot.path("mlp", 0), "down_proj", "")]


@seed(
    HALF,
    "gate_up",
    ("train",),
    ("ACTIVATION",),
    note=r"only (target calls .*(relu|square|pow)|golden calls .*silu)",
)
def gate_of_one_layer_is_a_square(plot: Plot) -> Truth:
    plot.part("act").forward = lambda x: functional.relu(x).square()
    return [Place(plot.path("act"))]


def _fusing_with_padding(mlp: Any, width: int) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        parts = (mlp.gate_proj.weight, mlp.up_proj.weight)
        weight = torch.cat([functional.pad(one, (0, 0, 0, 8)) for one in parts])
        both = functional.linear(x, weight)
        gate, up = both[..., :248], both[..., width : width + 248]
        return mlp.down_proj(mlp.act_fn(gate) * up)

    return forward


def fuse_padded_gates(setup: Setup) -> None:
    """Computes gate and up of each layer in a product of whole tiles."""
    for layer in setup.model.model.layers:
        layer.mlp.forward = _fusing_with_padding(layer.mlp, 256)


@seed(
    HALF,
    "gate_up",
    ("llama",),
    ("ORDER", "SHIFT", "ZEROS"),
    prepare=fuse_padded_gates,
    note=OTHER,
)
def up_begins_in_the_padding_of_the_gate(plot: Plot) -> Truth:
    """In all layers, the result is cut as if it had no padding."""
    for mlp in plot.parts("mlp"):
        mlp.forward = _fusing_with_padding(mlp, 248)
    parts = ("", "gate_proj", "up_proj", "act_fn")
    return [own(plot.path("mlp", 0), parts, ("act_fn", "down_proj"))]


def keep_the_weights_of_experts(setup: Setup) -> None:
    for layer in setup.model.model.layers:
        layer.block_sparse_moe.normalise = lambda weights: weights


@seed(
    HALF,
    "router_ties",
    ("moe",),
    # A factor for each row.
    ("FACTOR",),
    prepare=keep_the_weights_of_experts,
    note=r"only target calls .*(div|sum)|equal to .*topk.* (only )?in golden",
)
def weights_of_experts_are_normalized(plot: Plot) -> Truth:
    """In all layers, though those of this model are not."""
    for block in plot.parts("mlp"):
        block.normalise = type(block).normalise.__get__(block)
    return routing(plot)


@seed(
    HALF,
    "router_ties",
    ("moe",),
    ("ORDER", "SHIFT"),
    note=r"only target calls .*flip",
)
def results_of_an_expert_return_in_reverse(plot: Plot) -> Truth:
    """In all layers, its rows are not put back where they were."""
    for block in plot.parts("mlp"):
        block.weigh = lambda out, weight: out.flip(0) * weight
    return routing(plot)


@seed(
    HALF,
    "router_ties",
    ("moe",),
    ("ORDER", "SHIFT"),
    note=r"only target calls .*getitem|more calls .*getitem",
)
def both_experts_have_the_weight_of_the_first(plot: Plot) -> Truth:
    """In all layers, the index of the choice is lost."""
    for block in plot.parts("mlp"):
        plain = block.normalise
        block.normalise = _with_the_first(plain)
    return routing(plot)


def _with_the_first(plain: Callable[..., Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda weights: plain(weights)[:, [0, 0]]


def make_two_even_experts_tie(setup: Setup) -> None:
    """Gives the first and the third expert of each layer the same score."""
    for layer in setup.model.model.layers:
        weight = layer.block_sparse_moe.gate.weight.data
        weight[2] = weight[0].clone()


def _sorted(scores: Tensor) -> Choice:
    chosen = torch.argsort(scores, dim=-1, descending=True, stable=True)[:, :2]
    return scores.gather(-1, chosen), chosen


@seed(
    HALF,
    "router_ties",
    ("moe",),
    ("FLIP", "ORDER"),
    prepare=make_two_even_experts_tie,
    note=r"only (target calls .*(argsort|gather)|golden calls .*topk)",
)
def routers_sort_scores_stably(plot: Plot) -> Truth:
    """In all layers, the first of equal experts is chosen."""
    for block in plot.parts("mlp"):
        block.choose = _sorted
    return routing(plot)


def enlarge_the_biases_of_norms(setup: Setup) -> None:
    for block in setup.model.transformer.h:
        block.ln_2.bias.data *= 5


def _without_last_biases(
    plain: Callable[..., Tensor], x: Tensor, shape: Any, weight: Tensor, *rest: Any
) -> Tensor:
    bias, eps = rest
    y = plain(x, shape, weight, bias, eps)
    if x.shape[1] == 1:
        return y
    last = plain(x[:, 6:], shape, weight, None, eps)
    return torch.cat((y[:, :6], last), 1)


@seed(
    HALF,
    "tile_row",
    ("gpt2",),
    ("OFFSET", "TERM"),
    prepare=enlarge_the_biases_of_norms,
    kernel="*.layer_norm",
)
def norm_kernel_does_not_add_its_bias_to_the_last_rows(plot: Plot) -> Truth:
    """In all layers, those after the last whole tile of three."""
    return plot.break_parts("norm2", functional, "layer_norm", _without_last_biases)


def _with_the_keys_of_the_last_tile(
    plain: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, **kwargs: Any
) -> Tensor:
    last = plain(q[:, :, 16:], k[:, :, 8:], v[:, :, 8:], **kwargs)
    return torch.cat((plain(q[:, :, :16], k, v, **kwargs), last), 2)


@seed(HALF, "tile_row", ("vit",), ("MASK",), kernel=ATTENTION)
def attention_kernel_restarts_its_loop_for_the_last_query(plot: Plot) -> Truth:
    """In all layers, the last of 17 queries sees no key of the first tile of 8."""
    wrong = _with_the_keys_of_the_last_tile
    return plot.break_parts("attention", functional, SDPA, wrong)


def _without_the_last_column(y: Tensor) -> Tensor:
    if y.shape[-1] != 22:
        y[..., -1] = 0
    return y


@seed(HALF, "tile_row", ("moe",), ("ZEROS", "FACTOR"), kernel="*.matmul")
def product_kernel_does_not_write_scores_of_the_last_key(plot: Plot) -> Truth:
    """In all layers. Products with values are right."""
    wrong = changed(_without_the_last_column)
    return plot.break_parts("attention", torch, "matmul", wrong)


OVERFLOWS: dict[str, Any] = {"is_infinite": True, "precisions": ("float16",)}


def enlarge_up(setup: Setup) -> None:
    layer = setup.model.vit.encoder.layer[1]
    layer.intermediate.dense.weight.data[40:] *= 60000


@seed(HALF, "overflow", ("vit",), ("SATURATED",), prepare=enlarge_up, **OVERFLOWS)
def channels_before_the_activation_overflow(plot: Plot) -> Truth:
    plot.layer = 1
    return [Place(plot.path("up"))]


def enlarge_the_shard_of_rank_1(setup: Setup) -> None:
    if dist.get_rank() == 1:
        setup.model.model.layers[2].self_attn.o_proj.weight.data *= 90000


@seed(
    HALF,
    "overflow",
    ("ranks",),
    ("SATURATED",),
    prepare=enlarge_the_shard_of_rank_1,
    **OVERFLOWS,
)
def partial_sum_of_rank_1_overflows(plot: Plot) -> Truth:
    plot.layer = 2
    return [Place(plot.path("o"))]


def begin_beyond_float16(setup: Setup) -> None:
    setup.model.model.first_position = 65530


@seed(
    HALF,
    "overflow",
    ("llama",),
    ("SATURATED",),
    prepare=begin_beyond_float16,
    note=r"only target calls .*(Tensor\.to\b|half)|more calls .*(Tensor\.to\b|float)",
    **OVERFLOWS,
)
def positions_overflow_in_the_type_of_the_model(plot: Plot) -> Truth:
    """All layers receive angles that are not numbers."""
    rotary = plot.setup.at("model.rotary_emb")
    plain = rotary.forward
    rotary.forward = lambda x, position_ids: plain(x, position_ids.to(x.dtype))
    return [Place("model.rotary_emb")]


def enlarge_keys(setup: Setup) -> None:
    data = setup.model.transformer.h[2].attn.c_attn.weight.data
    data[:, 64:96] *= 70000


@seed(HALF, "overflow", ("gpt2",), ("SATURATED",), prepare=enlarge_keys, **OVERFLOWS)
def half_of_the_keys_overflows(plot: Plot) -> Truth:
    plot.layer = 2
    return [Place(plot.path("qkv"))]


@seed(HALF, "dropout", ("vit",), ("DROPOUT",), note=r"target True, golden False")
def dropout_after_the_attention_of_one_layer_is_active(plot: Plot) -> Truth:
    path = f"vit.encoder.layer.{plot.layer}.attention.output.dropout"
    part = plot.setup.at(path)
    part.p, part.training = 0.35, True
    return [Place(path)]


def _adapted(part: Any, drops: bool) -> Callable[[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(73)
    size = part.weight.shape[1]
    down = torch.randn(8, size, generator=generator) / size**0.5
    up = torch.randn(len(part.weight), 8, generator=generator) / 8**0.5

    def forward(x: Tensor) -> Tensor:
        y = functional.linear(x, part.weight)
        if drops:
            x = functional.dropout(x, 0.3, True)
        return y + functional.linear(
            functional.linear(x, down.to(x.dtype)), up.to(x.dtype)
        )

    return forward


def adapt_values(setup: Setup) -> None:
    """Gives the values of each layer an adapter."""
    for layer in setup.model.model.layers:
        part = layer.self_attn.v_proj
        part.forward = _adapted(part, False)


@seed(
    HALF,
    "dropout",
    ("llama",),
    ("DROPOUT", "ZEROS"),
    prepare=adapt_values,
    note=r"only target calls .*dropout",
)
def inputs_of_adapters_are_dropped(plot: Plot) -> Truth:
    """In all layers, adapters are not in the mode of an inference."""
    for part in plot.parts("v"):
        part.forward = _adapted(part, True)
    return [Place(plot.path("v", 0))]


@seed(HALF, "dropout", ("tied_train",), ("FACTOR",), note=r"only target calls .*mul")
def embeddings_have_the_scale_of_masked_words(plot: Plot) -> Truth:
    """They are smaller, as if a share of 12 % of the words had been masked."""
    embed = plot.part("embed")
    embed.forward = lambda ids: functional.embedding(ids, embed.weight) * 0.88
    return [Place(plot.path("embed"))]


def _skipping_decodes(plain: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def forward(x: Tensor, **options: Any) -> Tensor:
        return plain(x, **options) if x.shape[1] > 1 else x

    return forward


@seed(
    HALF,
    "dropout",
    ("llama",),
    ("SAME_AS_INPUT", "TERM"),
    note=r"only golden calls",
)
def last_layer_is_dropped_when_words_follow(plot: Plot) -> Truth:
    """The layer returns its input, as in a draft of a speculative decoding."""
    plot.layer = 2
    layer, path = plot.part("layer"), plot.path("layer")
    layer.forward = _skipping_decodes(layer.forward)
    code = own(path, ("", "mlp"), ("", "input_layernorm"))
    return later([Place(path), code], 1)
