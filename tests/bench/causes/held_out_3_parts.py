"""The third held-out half: linear parts, norms, gates, experts, dropouts and heads.

16 of these 34 mistakes are in all layers, 8 in one layer, and 10 in an embedding or a
head. 3 mistakes are only in steps that decode.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from anatomy import Place, Truth, own
from held_out_2_parts import fuse_gates
from held_out_3_attention import later
from seeding import Plot, seed
from subjects import Setup
from torch import Tensor, nn
from torch.nn import functional
from wrong_kernels import changed

HALF = "held_out_3"
EXPERTS = tuple(f"experts.{number}" for number in range(4))


@seed(
    HALF,
    "quantized_bias",
    ("quantized",),
    ("OFFSET",),
    note=r"has .*[kv]_proj.*bias.* of golden",
)
def biases_of_keys_and_values_are_exchanged(plot: Plot) -> Truth:
    """In all layers, as by a loader of fused projections."""
    for k, v in zip(plot.parts("k"), plot.parts("v"), strict=True):
        k.bias.data, v.bias.data = v.bias.data, k.bias.data
    return [Place(plot.path("k", 0)), Place(plot.path("v", 0))]


def _without_bias_in_decodes(part: Any) -> Callable[[Tensor], Tensor]:
    def rescale(y: Tensor) -> Tensor:
        y = y * part.scale
        return y + part.bias if y.shape[1] > 1 else y

    return rescale


@seed(
    HALF,
    "quantized_bias",
    ("quantized",),
    ("OFFSET", "TERM", "SAME_AS_INPUT"),
    note=r"only golden calls .*add",
)
def product_of_a_single_row_has_no_bias(plot: Plot) -> Truth:
    """In all layers, when they decode."""
    for part in plot.parts("gate"):
        part.rescale = _without_bias_in_decodes(part)
    return [Place(plot.path("gate", 0), token=1)]


@seed(HALF, "quantized_bias", ("vit",), ("OFFSET", "TERM"), kernel="*.linear")
def linear_kernel_adds_its_bias_in_both_parts(plot: Plot) -> Truth:
    """In all layers, each half of a sum has the bias."""

    def wrong(
        plain: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Tensor
    ) -> Tensor:
        size = x.shape[-1] // 2
        return plain(x[..., :size], weight[:, :size], bias) + plain(
            x[..., size:], weight[:, size:], bias
        )

    return plot.break_parts("o", functional, "linear", wrong)


@seed(HALF, "quantized_bias", ("gpt2",), ("OFFSET", "TERM"), kernel="*.addmm")
def product_kernel_adds_its_bias_to_the_first_rows(plot: Plot) -> Truth:
    """In one layer. Decodes have only one row, so they are right."""

    def wrong(
        plain: Callable[..., Tensor], bias: Tensor, x: Tensor, weight: Tensor
    ) -> Tensor:
        rows = plain(bias, x[:4], weight), plain(torch.zeros_like(bias), x[4:], weight)
        return torch.cat(rows)

    return plot.break_part("qkv", torch, "addmm", wrong)


@seed(
    HALF,
    "eps",
    ("moe", "train"),
    ("EPS", "FACTOR"),
    note=r"target 0\.08, golden 1e-06",
)
def eps_of_all_norms_is_that_of_another_model(plot: Plot) -> Truth:
    for norm in (*plot.parts("norm1"), *plot.parts("norm2")):
        norm.variance_epsilon = 0.08
    return [Place(plot.path("norm1", 0))]


@seed(HALF, "eps", ("gpt2",), ("EPS", "AFFINE"), kernel="*.layer_norm")
def norm_kernel_adds_eps_to_the_deviation(plot: Plot) -> Truth:
    """In all layers."""

    def wrong(
        plain: Callable[..., Tensor],
        x: Tensor,
        shape: Any,
        weight: Tensor,
        bias: Tensor,
        eps: float,
    ) -> Tensor:
        wide = x.float()
        centered = wide - wide.mean(-1, keepdim=True)
        deviation = centered.square().mean(-1, keepdim=True).sqrt()
        return (centered / (deviation + 0.2) * weight + bias).to(x.dtype)

    return plot.break_parts("norm2", functional, "layer_norm", wrong)


def compute_a_norm_of_zeros(setup: Setup) -> None:
    """Makes a word of zeros, and a norm in the type of the model with a tiny eps."""
    word = setup.inputs[0]["input_ids"][0, 3]
    setup.model.model.embed_tokens.weight.data[word] = 0
    norm = setup.model.model.layers[0].input_layernorm
    norm.variance_epsilon = 1e-8

    def forward(x: Tensor) -> Tensor:
        variance = x.pow(2).mean(-1, keepdim=True)
        return norm.weight * (x * torch.rsqrt(variance + norm.variance_epsilon))

    norm.forward = forward


@seed(
    HALF,
    "eps",
    ("llama",),
    ("EPS", "SATURATED", "ZEROS", "ROUNDED"),
    prepare=compute_a_norm_of_zeros,
    is_infinite=True,
    precisions=("float16",),
)
def eps_is_zero_in_float16(plot: Plot) -> Truth:
    plot.layer = 0
    return [Place(plot.path("norm1"))]


def _pieces(weight: Tensor) -> list[Tensor]:
    """Returns the shards of all ranks."""
    data = weight.data.float()
    found = [torch.zeros_like(data) for _ in range(dist.get_world_size())]
    dist.all_gather(found, data)
    return [one.to(weight.dtype) for one in found]


@seed(
    HALF,
    "gate_up",
    ("ranks",),
    ("ORDER",),
    note=r"has .*(gate_proj|up_proj|Functional\.linear).* of golden",
)
def fused_gates_are_split_after_they_are_joined(plot: Plot) -> Truth:
    """In all layers, rank 0 has both halves of the gate, and rank 1 those of up."""
    rank = dist.get_rank()
    for gate, up in zip(plot.parts("gate"), plot.parts("up"), strict=True):
        fused = [*_pieces(gate.weight), *_pieces(up.weight)]
        gate.weight.data, up.weight.data = fused[2 * rank], fused[2 * rank + 1]
    return [Place(plot.path("gate", 0)), Place(plot.path("up", 0))]


@seed(
    HALF,
    "gate_up",
    ("llama",),
    ("ARRANGEMENT", "ORDER"),
    prepare=fuse_gates,
    note=r"only (golden|target) calls .*(chunk|getitem)",
)
def channels_of_fused_gates_alternate(plot: Plot) -> Truth:
    """In all layers."""
    for mlp in plot.parts("mlp"):
        mlp.split = lambda both: (both[..., ::2], both[..., 1::2])
    return [own(plot.path("mlp", 0), "", "act_fn")]


def _multiplying(expert: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: expert.w2(expert.w1(x) * expert.w3(x))


@seed(
    HALF,
    "gate_up",
    ("moe",),
    ("SAME_AS_INPUT", "ACTIVATION"),
    note=r"only golden calls .*silu",
)
def gates_of_experts_have_no_activation(plot: Plot) -> Truth:
    """In one layer, in all experts."""
    truth = []
    for name in EXPERTS:
        path = f"{plot.path('mlp')}.{name}"
        expert = plot.setup.at(path)
        expert.forward = _multiplying(expert)
        truth += [
            own(path, ("w1", "act_fn", "w3"), ("act_fn", "w3", "w2")),
            Place(f"{path}.act_fn"),
        ]
    return truth


@seed(
    HALF,
    "gate_up",
    ("train",),
    ("ACTIVATION",),
    note=r"only target calls .*gelu",
)
def gates_have_the_activation_of_another_model(plot: Plot) -> Truth:
    """In all layers."""
    for part in plot.parts("act"):
        part.forward = functional.gelu
    return [Place(plot.path("act", 0))]


def _routing(plot: Plot, token: int = 0) -> Truth:
    place = own(plot.path("mlp"), ("gate", *EXPERTS), ("", *EXPERTS))
    return later([place], token)


def _narrow(router: Any) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        return functional.linear(x.bfloat16(), router.weight.bfloat16()).to(x.dtype)

    return forward


@seed(
    HALF,
    "router_ties",
    ("moe",),
    ("ROUNDED",),
    note=r"only target calls .*bfloat16",
    precisions=("float32",),
)
def routers_compute_in_bfloat16(plot: Plot) -> Truth:
    """In all layers."""
    for router in plot.parts("router"):
        router.forward = _narrow(router)
    return [Place(plot.path("router", 0))]


def make_two_experts_tie(setup: Setup) -> None:
    """Gives the two experts in the middle of each layer the same score."""
    for layer in setup.model.model.layers:
        weight = layer.block_sparse_moe.gate.weight.data
        weight[2] = weight[1]


def _choose_in_turn(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the later one of equal experts in each second row."""
    sign = torch.arange(len(scores))[:, None] % 2 * 2 - 1
    preferred = scores * (1 + 1e-6 * sign * torch.arange(scores.shape[-1]))
    chosen = torch.topk(preferred, 2, dim=-1).indices
    return scores.gather(-1, chosen), chosen


@seed(HALF, "router_ties", ("moe",), ("FLIP",), prepare=make_two_experts_tie)
def routers_take_equal_experts_in_turn(plot: Plot) -> Truth:
    """In all layers."""
    for block in plot.parts("mlp"):
        block.choose = _choose_in_turn
    plot.layer = 0
    return _routing(plot)


@seed(
    HALF,
    "router_ties",
    ("moe",),
    ("FACTOR", "SAME_AS_INPUT"),
    note=r"only golden calls .*(div|sum)",
)
def weights_of_chosen_experts_are_not_normalized(plot: Plot) -> Truth:
    """In all layers."""
    for block in plot.parts("mlp"):
        block.normalise = lambda weights: weights
    plot.layer = 0
    return _routing(plot)


@seed(
    HALF,
    "router_ties",
    ("moe",),
    (),
    note=r"target 1, golden 2",
)
def decodes_choose_one_expert(plot: Plot) -> Truth:
    """In one layer."""
    plot.part("mlp").choose = lambda scores: torch.topk(
        scores, 1 if len(scores) == 1 else 2, dim=-1
    )
    return _routing(plot, 1)


@seed(
    HALF,
    "router_ties",
    ("moe",),
    ("ORDER",),
    note=r"has .*(experts|Functional\.linear).* of golden",
)
def experts_are_placed_in_another_order(plot: Plot) -> Truth:
    """In all layers, two experts have the weights of each other."""
    for block in plot.parts("mlp"):
        one, two = block.experts[2], block.experts[3]
        for name in ("w1", "w2", "w3"):
            a, b = getattr(one, name).weight, getattr(two, name).weight
            a.data, b.data = b.data, a.data
    paths = [f"{plot.path('mlp', 0)}.{name}" for name in EXPERTS[2:]]
    parts = ("", ".w1", ".w2", ".w3")
    return [Place(path + part) for path in paths for part in parts]


def _with_rows_of_the_last_tile(y: Tensor) -> Tensor:
    rows = y.view(-1, y.shape[-1])
    rest = len(rows) % 16
    rows[-rest:] = rows[-rest - 16 : -16]
    return y


@seed(HALF, "tile_row", ("vit",), ("ORDER",), kernel="*.linear")
def linear_kernel_writes_rows_of_another_tile(plot: Plot) -> Truth:
    """In all layers, the rows after the last whole tile are those of that tile."""
    wrong = changed(_with_rows_of_the_last_tile)
    return plot.break_parts("up", functional, "linear", wrong)


@seed(HALF, "tile_row", ("quantized",), ("TERM",), kernel="*.linear")
def linear_kernel_sums_only_whole_tiles(plot: Plot) -> Truth:
    """In all layers, 96 of 120 columns."""

    def wrong(plain: Callable[..., Tensor], x: Tensor, weight: Tensor) -> Tensor:
        size = x.shape[-1] // 32 * 32
        return plain(x[..., :size], weight[:, :size])

    return plot.break_parts("up", functional, "linear", wrong)


def _without_the_last_patches(y: Tensor) -> Tensor:
    y[..., -1, :] = 0
    return y


@seed(HALF, "tile_row", ("vit",), ("ZEROS", "FACTOR"), kernel="*.conv2d")
def convolution_kernel_drops_its_last_patches(plot: Plot) -> Truth:
    wrong = changed(_without_the_last_patches)
    return plot.break_part("embed", functional, "conv2d", wrong)


@seed(HALF, "tile_row", ("moe",), ("ZEROS", "FACTOR"), kernel="*.embedding")
def embedding_kernel_does_not_read_the_last_words(plot: Plot) -> Truth:
    def wrong(
        plain: Callable[..., Tensor], ids: Tensor, *args: Any, **kwargs: Any
    ) -> Tensor:
        y = plain(ids, *args, **kwargs).clone()
        y[ids >= 96] = 0
        return y

    return plot.break_part("embed", functional, "embedding", wrong)


OVERFLOWS: dict[str, Any] = {"is_infinite": True, "precisions": ("float16",)}


def enlarge_the_embeddings(setup: Setup) -> None:
    """Makes words and positions whose sum is beyond the range of float16."""
    body = setup.model.transformer
    setup.model.lm_head.weight = nn.Parameter(body.wte.weight.data.clone())
    for part in (body.wte, body.wpe):
        part.weight.data = part.weight.data.clamp(-3, 3) * 20000


@seed(
    HALF,
    "overflow",
    ("gpt2",),
    ("SATURATED",),
    prepare=enlarge_the_embeddings,
    **OVERFLOWS,
)
def sum_of_words_and_positions_overflows(plot: Plot) -> Truth:
    return [own("transformer", "wpe", "drop")]


def enlarge_the_router(setup: Setup) -> None:
    setup.model.model.layers[2].block_sparse_moe.gate.weight.data *= 40000


@seed(
    HALF, "overflow", ("moe",), ("SATURATED",), prepare=enlarge_the_router, **OVERFLOWS
)
def scores_of_experts_overflow(plot: Plot) -> Truth:
    plot.layer = 2
    return [Place(plot.path("router"))]


def enlarge_products_of_integers(setup: Setup) -> None:
    """Makes products beyond the range of float16, which the scale makes small again."""
    layer = setup.model.model.layers[1]
    layer.post_attention_layernorm.weight.data *= 200
    for part in (layer.mlp.gate_proj, layer.mlp.up_proj):
        part.scale.data /= 200


@seed(
    HALF,
    "overflow",
    ("quantized",),
    ("SATURATED",),
    prepare=enlarge_products_of_integers,
    **OVERFLOWS,
)
def products_of_integers_overflow(plot: Plot) -> Truth:
    plot.layer = 1
    return [Place(plot.path("gate")), Place(plot.path("up"))]


def enlarge_partial_sums(setup: Setup) -> None:
    setup.model.model.layers[2].mlp.down_proj.weight.data *= 40000


@seed(
    HALF,
    "overflow",
    ("ranks",),
    ("SATURATED",),
    prepare=enlarge_partial_sums,
    **OVERFLOWS,
)
def sum_of_the_ranks_overflows(plot: Plot) -> Truth:
    plot.layer = 2
    return [Place(plot.path("down"))]


def enlarge_the_last_norm(setup: Setup) -> None:
    setup.model.model.norm.weight.data *= 5000


@seed(
    HALF,
    "overflow",
    ("tied",),
    ("SATURATED",),
    prepare=enlarge_the_last_norm,
    **OVERFLOWS,
)
def logits_overflow(plot: Plot) -> Truth:
    return [Place(plot.path("head"))]


@seed(HALF, "dropout", ("vit",), ("DROPOUT",), note=r"target True, golden False")
def dropouts_of_all_layers_are_active(plot: Plot) -> Truth:
    for module in plot.setup.at("vit.encoder").modules():
        if isinstance(module, nn.Dropout):
            module.train()
    return [Place(f"{plot.path('layer', 0)}.attention.output.dropout")]


@seed(HALF, "dropout", ("gpt2",), ("DROPOUT",), note=r"target True, golden False")
def dropout_is_active_in_decodes(plot: Plot) -> Truth:
    """In the dropout of the embeddings."""
    drop = plot.setup.at("transformer.drop")
    drop.forward = lambda x: functional.dropout(x, drop.p, x.shape[1] == 1, False)
    return [Place("transformer.drop", token=1)]


def _add_dropped(x: Tensor, change: Tensor) -> Tensor:
    return x + functional.dropout(change, 0.2, True)


@seed(HALF, "dropout", ("train",), ("DROPOUT",), note=r"only target calls .*dropout")
def results_of_feed_forward_parts_are_dropped(plot: Plot) -> Truth:
    """In all layers, although the golden run trains without a dropout."""
    for layer in plot.parts("layer"):
        layer.add_feed_forward = _add_dropped
    plot.layer = 0
    return plot.feed_forward_residual()


@seed(
    HALF,
    "dropout",
    ("vit",),
    ("DROPOUT", "ZEROS", "FACTOR"),
    note=r"only target calls .*mul",
)
def path_of_an_image_is_dropped(plot: Plot) -> Truth:
    """In one layer, the feed-forward part of one of two images."""

    def forward(x: Tensor) -> Tensor:
        return x * torch.tensor([0.0, 2.0], dtype=x.dtype)[:, None, None]

    plot.part("dropout").forward = forward
    return [Place(plot.path("dropout"))]


@seed(HALF, "tied_weights", ("tied",), ("FACTOR",), note=r"only target calls .*mul")
def head_has_the_scale_of_another_model(plot: Plot) -> Truth:
    head = plot.part("head")
    scale = plot.setup.model.config.hidden**-0.5
    head.forward = lambda x: functional.linear(x * scale, head.weight)
    return [Place(plot.path("head"))]


@seed(
    HALF,
    "tied_weights",
    ("tied",),
    ("SUBSET",),
    note=r"equal to .*embed.* only in golden",
)
def head_has_new_words_of_its_own(plot: Plot) -> Truth:
    """The head was resized: its last words are the mean of the others."""
    head = plot.part("head")
    data = head.weight.data.clone()
    data[100:] = data[:100].mean(0)
    head.weight = nn.Parameter(data)
    return [Place(plot.path("head"))]


@seed(HALF, "tied_weights", ("gpt2",), ("FACTOR",), note=r"only target calls .*mul")
def embedding_has_the_scale_of_another_model(plot: Plot) -> Truth:
    embed = plot.part("embed")
    embed.forward = lambda ids: functional.embedding(ids, embed.weight) * 8.0
    return [Place(plot.path("embed"))]


@seed(
    HALF,
    "tied_weights",
    ("gpt2",),
    ("ROUNDED",),
    note=r"equal to .*(wte|embed).* only in golden",
)
def head_is_a_copy_of_few_bits(plot: Plot) -> Truth:
    head = plot.part("head")
    data = head.weight.data
    step = data.abs().amax(1, keepdim=True) / 7
    head.weight = nn.Parameter((data / step).round() * step)
    return [Place(plot.path("head"))]


@seed(
    HALF,
    "tied_weights",
    ("tied_train",),
    ("TERM", "SAME_AS_INPUT"),
    note=r"only target calls .*detach",
)
def embedding_has_no_gradient_of_the_head(plot: Plot) -> Truth:
    head = plot.part("head")
    head.forward = lambda x: functional.linear(x, head.weight.detach())
    weights = ("model.embed_tokens", "lm_head")
    return [
        Place("lm_head"),
        *(Place(name, io="grad_weight") for name in weights),
    ]
