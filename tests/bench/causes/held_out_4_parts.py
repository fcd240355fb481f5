"""The fourth held-out half: linear parts, norms, gates, experts and dropouts.

26 of these 30 mistakes are in all layers; one of them is in all layers but the first.
3 are in one layer, and 1 in an embedding. 3 mistakes are only in steps that decode, and
3 only in one rank.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from anatomy import Place, Truth, own
from held_out_2_parts import fuse_gates
from held_out_3_attention import ATTENTION, SDPA, later, of_first_layer
from held_out_3_parts import EXPERTS
from seeding import Plot, seed
from subjects import Setup
from torch import Tensor
from torch.nn import functional
from wrong_kernels import changed

HALF = "held_out_4"
Choice = tuple[Tensor, Tensor]


@seed(HALF, "quantized_bias", ("quantized",), ("OFFSET", "ROUNDED"))
def biases_have_few_bits(plot: Plot) -> Truth:
    """In all layers, biases are quantized like weights, with a scale for all of them."""
    for part in plot.parts("down"):
        step = part.bias.data.abs().max() / 3
        part.bias.data = (part.bias.data / step).round() * step
    return [Place(plot.path("down", 0))]


@seed(
    HALF,
    "quantized_bias",
    ("quantized",),
    ("OFFSET",),
    note=r"only target calls .*sub",
)
def zero_points_are_those_of_four_bits(plot: Plot) -> Truth:
    """In all layers, a reader of unsigned weights subtracts eight."""
    for part in (*plot.parts("gate"), *plot.parts("up")):
        part.forward = _with_a_zero_point_of_eight(part)
    return [Place(plot.path("gate", 0)), Place(plot.path("up", 0))]


def _with_a_zero_point_of_eight(part: Any) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        weight = part.weight.to(x.dtype) - 8
        return part.rescale(functional.linear(x, weight))

    return forward


@seed(HALF, "quantized_bias", ("gpt2",), ("OFFSET", "ORDER"))
def fused_biases_begin_with_those_of_keys(plot: Plot) -> Truth:
    """In all layers, the weights begin with those of queries."""
    for part in plot.parts("qkv"):
        q, k, v = part.bias.data.chunk(3)
        part.bias.data = torch.cat((k, q, v))
    return [Place(plot.path("qkv", 0))]


@seed(
    HALF,
    "quantized_bias",
    ("vit",),
    ("OFFSET",),
    note=r"has .*(bias|linear|dense).* of golden",
)
def biases_are_those_of_the_layer_before(plot: Plot) -> Truth:
    """In all layers but the first."""
    parts = plot.parts("up")
    biases = [part.bias.data.clone() for part in parts]
    for part, bias in zip(parts[1:], biases[:-1], strict=True):
        part.bias.data = bias
    return [Place(plot.path("up", 1))]


RMS_EPS = ("EPS", "FACTOR", "OFFSET")


def norms_of(setup: Setup) -> list[Any]:
    """Returns the norms of all layers."""
    layers = setup.model.model.layers
    names = ("input_layernorm", "post_attention_layernorm")
    return [getattr(layer, name) for layer in layers for name in names]


def raise_the_eps(setup: Setup) -> None:
    for norm in norms_of(setup):
        norm.variance_epsilon = 0.3


def _with_a_least_variance(norm: Any) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        wide = x.float()
        variance = wide.pow(2).mean(-1, keepdim=True)
        root = torch.rsqrt(variance.clamp(min=norm.variance_epsilon))
        return norm.weight * (wide * root).to(x.dtype)

    return forward


@seed(
    HALF,
    "eps",
    ("llama",),
    # Nothing is added to a variance that is larger.
    (*RMS_EPS, "SAME_AS_INPUT"),
    prepare=raise_the_eps,
    note=r"only target calls .*clamp",
)
def eps_is_the_least_variance(plot: Plot) -> Truth:
    """In all layers, eps is a limit, and is not added."""
    for norm in norms_of(plot.setup):
        norm.forward = _with_a_least_variance(norm)
    return [Place(plot.path("norm1", 0))]


def _with_the_usual_eps_in_decodes(norm: Any) -> Callable[[Tensor], Tensor]:
    plain = norm.forward

    def forward(x: Tensor) -> Tensor:
        norm.variance_epsilon = 0.3 if x.shape[1] > 1 else 1e-6
        return plain(x)

    return forward


@seed(
    HALF,
    "eps",
    ("moe",),
    # The usual eps hardly changes a variance.
    (*RMS_EPS, "SAME_AS_INPUT"),
    prepare=raise_the_eps,
    note=r"target 1e-0?6, golden 0\.3",
)
def norms_of_decodes_have_the_usual_eps(plot: Plot) -> Truth:
    """In all layers, as a path for single rows does not read it."""
    for norm in norms_of(plot.setup):
        norm.forward = _with_the_usual_eps_in_decodes(norm)
    return [Place(plot.path("norm1", 0), token=1)]


@seed(HALF, "eps", ("ranks",), RMS_EPS, note=r"target 0\.1, golden 1e-0?6")
def norms_of_rank_1_have_another_eps(plot: Plot) -> Truth:
    """In all layers of rank 1."""
    if dist.get_rank() == 1:
        for norm in norms_of(plot.setup):
            norm.variance_epsilon = 0.1
    return [Place(plot.path("norm1", 0))]


def raise_the_eps_of_images(setup: Setup) -> None:
    for layer in setup.model.vit.encoder.layer:
        layer.layernorm_before.eps = layer.layernorm_after.eps = 0.2


@seed(
    HALF,
    "eps",
    ("vit",),
    ("EPS", "AFFINE"),
    prepare=raise_the_eps_of_images,
    kernel="*.layer_norm",
)
def norm_kernel_adds_its_eps_twice(plot: Plot) -> Truth:
    """In all layers, to the variance and under the root."""

    def wrong(
        plain: Callable[..., Tensor],
        x: Tensor,
        shape: Any,
        weight: Tensor,
        bias: Tensor,
        eps: float,
    ) -> Tensor:
        return plain(x, shape, weight, bias, 2 * eps)

    return plot.break_parts("norm1", functional, "layer_norm", wrong)


@seed(HALF, "gate_up", ("llama",), ("SATURATED",), note=r"only target calls .*clamp")
def up_has_the_limit_of_another_model(plot: Plot) -> Truth:
    """In all layers."""
    for mlp in plot.parts("mlp"):
        mlp.join = lambda gate, up: gate * up.clamp(-1, 1)
    return [own(plot.path("mlp", 0), ("up_proj", "act_fn"), "down_proj")]


def _adding_one(expert: Any) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        return expert.w2(expert.act_fn(expert.w1(x)) * (expert.w3(x) + 1))

    return forward


@seed(HALF, "gate_up", ("moe",), ("OFFSET", "TERM"), note=r"only target calls .*add")
def up_of_experts_is_moved_by_one(plot: Plot) -> Truth:
    """In all layers and all experts, as another model does."""
    for block in plot.parts("mlp"):
        for expert in block.experts:
            expert.forward = _adding_one(expert)
    paths = [f"{plot.path('mlp', 0)}.{name}" for name in EXPERTS]
    return [own(path, ("w3", "act_fn"), "w2") for path in paths]


@seed(
    HALF,
    "gate_up",
    ("ranks",),
    ("SWAPPED_INPUTS",),
    note=r"has .*(gate_proj|up_proj|Functional\.linear).* of golden|changed places",
)
def gate_and_up_of_rank_1_are_exchanged(plot: Plot) -> Truth:
    """In all layers of rank 1, the weights have the names of each other."""
    if dist.get_rank() == 1:
        for gate, up in zip(plot.parts("gate"), plot.parts("up"), strict=True):
            gate.weight.data, up.weight.data = up.weight.data, gate.weight.data
    return [Place(plot.path("gate", 0)), Place(plot.path("up", 0))]


def _exchanging_single_rows(both: Tensor) -> Choice:
    first, second = both.chunk(2, -1)
    return (second, first) if both.shape[1] == 1 else (first, second)


@seed(
    HALF,
    "gate_up",
    ("llama",),
    ("SWAPPED_INPUTS",),
    prepare=fuse_gates,
    note=r"changed places|equal to .*chunk output/\d.* in golden, to .*chunk output/\d",
)
def fused_gates_of_single_rows_begin_with_up(plot: Plot) -> Truth:
    """In all layers, when they decode."""
    for mlp in plot.parts("mlp"):
        mlp.split = _exchanging_single_rows
    return later([own(plot.path("mlp", 0), "", "act_fn")], 1)


def routing(plot: Plot, token: int = 0) -> Truth:
    """Returns the code around the experts of the first layer."""
    place = own(plot.path("mlp", 0), ("gate", *EXPERTS), ("", *EXPERTS))
    return later([place], token)


def _choose_in_the_best_half(scores: Tensor) -> Choice:
    best = scores.view(-1, 2, 2).amax(-1).argmax(-1)
    is_open = functional.one_hot(best, 2).bool().repeat_interleave(2, -1)
    return torch.topk(scores.masked_fill(~is_open, 0.0), 2, dim=-1)


@seed(
    HALF,
    "router_ties",
    ("moe",),
    ("ZEROS", "FACTOR", "MASK"),
    note=r"only target calls .*(masked_fill|amax|argmax|view|repeat_interleave|invert)",
)
def routers_choose_in_one_group_of_experts(plot: Plot) -> Truth:
    """In all layers, as another model limits its groups."""
    for block in plot.parts("mlp"):
        block.choose = _choose_in_the_best_half
    return routing(plot)


CORRECTION = (0.3, -0.2, 0.1, 0.0)


def _choose_by_corrected_scores(scores: Tensor) -> Choice:
    corrected = scores + torch.tensor(CORRECTION)
    chosen = torch.topk(corrected, 2, dim=-1).indices
    return scores.gather(-1, chosen), chosen


def correct_the_choices(setup: Setup) -> None:
    """Balances the experts by a correction of the scores that choose them."""
    for layer in setup.model.model.layers:
        layer.block_sparse_moe.choose = _choose_by_corrected_scores


@seed(
    HALF,
    "router_ties",
    ("moe",),
    (),
    prepare=correct_the_choices,
    note=r"only golden calls .*gather",
)
def weights_of_experts_keep_the_correction(plot: Plot) -> Truth:
    """In all layers."""
    for block in plot.parts("mlp"):
        block.choose = lambda scores: torch.topk(
            scores + torch.tensor(CORRECTION), 2, dim=-1
        )
    return routing(plot)


def make_the_first_experts_tie(setup: Setup) -> None:
    """Gives the first three experts of each layer the same score."""
    for layer in setup.model.model.layers:
        weight = layer.block_sparse_moe.gate.weight.data
        weight[:3] = weight[0].clone()


def _choose_the_last_in_decodes(scores: Tensor) -> Choice:
    if len(scores) > 1:
        return torch.topk(scores, 2, dim=-1)
    values, chosen = torch.topk(scores.flip(-1), 2, dim=-1)
    return values, scores.shape[-1] - 1 - chosen


@seed(
    HALF,
    "router_ties",
    ("moe",),
    # The scores are also given to the choice in another order.
    ("FLIP", "ORDER"),
    prepare=make_the_first_experts_tie,
    note=r"only target calls .*flip",
)
def routers_of_decodes_prefer_later_experts(plot: Plot) -> Truth:
    """In all layers, as single rows have a kernel of their own."""
    for block in plot.parts("mlp"):
        block.choose = _choose_the_last_in_decodes
    return routing(plot, 1)


def _dropping(out: Tensor, weight: Tensor) -> Tensor:
    return out * weight * (torch.arange(len(out)) < 3)[:, None]


@seed(
    HALF,
    "router_ties",
    ("moe",),
    ("ZEROS", "FACTOR"),
    note=r"only target calls .*(arange|\.lt\b|__lt__|getitem|mul)",
)
def experts_drop_rows_beyond_their_capacity(plot: Plot) -> Truth:
    """In all layers, each expert takes three rows."""
    for block in plot.parts("mlp"):
        block.weigh = _dropping
    return routing(plot)


def _scaling(plain: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda weights: plain(weights) * 2.5


@seed(HALF, "router_ties", ("moe",), ("FACTOR",), note=r"only target calls .*mul")
def weights_of_experts_have_the_factor_of_another_model(plot: Plot) -> Truth:
    """In all layers."""
    for block in plot.parts("mlp"):
        block.normalise = _scaling(block.normalise)
    return routing(plot)


@seed(HALF, "tile_row", ("vit",), ("MASK",), kernel=ATTENTION)
def attention_kernel_reads_only_whole_tiles_of_keys(plot: Plot) -> Truth:
    """In all layers, 16 of 17 keys."""

    def wrong(
        plain: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, **kwargs: Any
    ) -> Tensor:
        size = k.shape[2] // 16 * 16
        return plain(q, k[:, :, :size], v[:, :, :size], **kwargs)

    return plot.break_parts("attention", functional, SDPA, wrong)


def _with_a_late_second_tile(y: Tensor) -> Tensor:
    if len(y) > 4:
        y[4:] = y[3:-1].clone()
    return y


@seed(HALF, "tile_row", ("gpt2",), ("SHIFT", "ORDER"), kernel="*.addmm")
def product_kernel_writes_its_second_tile_one_row_late(plot: Plot) -> Truth:
    """In all layers. Decodes have only one row, so they are right."""
    wrong = changed(_with_a_late_second_tile)
    return plot.break_parts("qkv", torch, "addmm", wrong)


@seed(HALF, "tile_row", ("llama",), ("SAME_AS_INPUT", "ACTIVATION"), kernel="*.silu")
def activation_kernel_copies_what_follows_its_last_vector(plot: Plot) -> Truth:
    """In all layers, 8 of 200 channels."""

    def wrong(
        plain: Callable[..., Tensor], x: Tensor, *args: Any, **kwargs: Any
    ) -> Tensor:
        size = x.shape[-1] // 64 * 64
        return torch.cat((plain(x, *args, **kwargs)[..., :size], x[..., size:]), -1)

    return plot.break_parts("act", functional, "silu", wrong)


@seed(HALF, "tile_row", ("vit",), ("SAME_AS_INPUT",), kernel="*.layer_norm")
def norm_kernel_copies_its_last_rows(plot: Plot) -> Truth:
    """In all layers, the 10 rows after two tiles of 12, which are in the second image."""

    def wrong(
        plain: Callable[..., Tensor], x: Tensor, *args: Any, **kwargs: Any
    ) -> Tensor:
        y = plain(x, *args, **kwargs).clone()
        y[-1, -10:] = x[-1, -10:]
        return y

    return plot.break_parts("norm2", functional, "layer_norm", wrong)


@seed(
    HALF,
    "tile_row",
    ("moe",),
    ("ZEROS", "FACTOR", "TERM", "SAME_AS_INPUT"),
    kernel="*.index_add_",
)
def scatter_kernel_does_not_add_the_last_row_of_an_expert(plot: Plot) -> Truth:
    """In all layers. A single row is added."""

    def wrong(
        plain: Callable[..., Tensor], x: Tensor, dim: int, index: Tensor, rows: Tensor
    ) -> Tensor:
        count = max(len(index) - 1, 1)
        return plain(x, dim, index[:count], rows[:count])

    plot.break_parts("mlp", torch.Tensor, "index_add_", wrong)
    return routing(plot)


OVERFLOWS: dict[str, Any] = {"is_infinite": True, "precisions": ("float16",)}


def enlarge_the_patches(setup: Setup) -> None:
    setup.at("vit.embeddings.patch_embeddings.projection").weight.data *= 50000


@seed(
    HALF,
    "overflow",
    ("vit",),
    ("SATURATED",),
    prepare=enlarge_the_patches,
    **OVERFLOWS,
)
def patches_overflow(plot: Plot) -> Truth:
    return [Place(plot.path("embed"))]


def enlarge_a_channel(setup: Setup) -> None:
    """Makes a sum beyond the range of float16 in one channel of the second layer."""
    setup.at("vit.embeddings").position_embeddings.data[..., 5] = 40000
    setup.at("vit.encoder.layer.1.output.dense").bias.data[5] = 40000


@seed(
    HALF,
    "overflow",
    ("vit",),
    ("SATURATED",),
    prepare=enlarge_a_channel,
    **OVERFLOWS,
)
def sum_with_the_residual_overflows(plot: Plot) -> Truth:
    plot.layer = 1
    return plot.feed_forward_residual()


def enlarge_an_expert(setup: Setup) -> None:
    expert = setup.model.model.layers[1].block_sparse_moe.experts[1]
    expert.w2.weight.data *= 120000


@seed(
    HALF, "overflow", ("moe",), ("SATURATED",), prepare=enlarge_an_expert, **OVERFLOWS
)
def result_of_one_expert_overflows(plot: Plot) -> Truth:
    plot.layer = 1
    return [Place(plot.path("down"))]


def enlarge_a_norm(setup: Setup) -> None:
    """Makes products of a norm that are too large for float16 and then made small."""
    layer = setup.model.model.layers[1]
    layer.post_attention_layernorm.weight.data *= 40000
    for part in (layer.mlp.gate_proj, layer.mlp.up_proj):
        part.weight.data /= 40000


@seed(
    HALF, "overflow", ("served",), ("SATURATED",), prepare=enlarge_a_norm, **OVERFLOWS
)
def product_of_a_norm_overflows(plot: Plot) -> Truth:
    plot.layer = 1
    return [Place(plot.path("norm2"))]


@seed(
    HALF,
    "dropout",
    ("gpt2",),
    ("FACTOR",),
    note=r"only (target calls .*mul|golden calls .*dropout)",
)
def dropouts_scale_when_they_are_off(plot: Plot) -> Truth:
    """In all layers, as the first definition of a dropout does."""
    for part in plot.parts("dropout"):
        part.forward = lambda x: x * (1 - 0.1)
    return [Place(plot.path("dropout", 0))]


def _dropping_channels(part: Any) -> Callable[[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(17)

    def forward(x: Tensor) -> Tensor:
        keep = torch.rand(x.shape[-1], generator=generator) < 0.8
        return x * (keep.to(x.dtype) / 0.8)

    return forward


@seed(
    HALF,
    "dropout",
    ("vit",),
    ("DROPOUT", "ZEROS", "FACTOR"),
    note=r"only (target calls .*(mul|rand|div)|golden calls .*dropout)",
)
def channels_are_dropped_in_whole(plot: Plot) -> Truth:
    """In all layers."""
    for part in plot.parts("dropout"):
        part.forward = _dropping_channels(part)
    return [Place(plot.path("dropout", 0))]


def _add_dropped(x: Tensor, change: Tensor) -> Tensor:
    return x + functional.dropout(change, 0.2, True)


@seed(
    HALF,
    "dropout",
    ("ranks",),
    ("DROPOUT",),
    note=r"only target calls .*dropout",
)
def rank_1_drops_results_of_feed_forward_parts(plot: Plot) -> Truth:
    """In all layers of rank 1, which is not in the mode of an inference."""
    if dist.get_rank() == 1:
        for layer in plot.parts("layer"):
            layer.add_feed_forward = _add_dropped
    plot.layer = 0
    return plot.feed_forward_residual()


def _of_dropped_scores(plain: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda scores: plain(functional.dropout(scores, 0.2, True))


@seed(
    HALF,
    "dropout",
    ("moe",),
    ("DROPOUT", "ZEROS"),
    note=r"only target calls .*dropout",
)
def scores_are_dropped_before_the_softmax(plot: Plot) -> Truth:
    """In all layers, although there is no dropout in the golden run."""
    for attention in plot.parts("attention"):
        attention.softmax = _of_dropped_scores(attention.softmax)
    return of_first_layer(plot)
