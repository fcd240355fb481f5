"""The fifth held-out half: linear parts, norms, gates, experts and dropouts.

23 of these 30 mistakes are in all layers, 3 in one layer, and 4 in an embedding. 2
mistakes are only in steps that decode. 7 are wrong kernels.
"""

from collections.abc import Callable
from typing import Any

import torch
from anatomy import Place, Truth, own
from held_out_3_attention import later
from held_out_3_parts import EXPERTS
from held_out_4_attention import gathered
from held_out_4_parts import norms_of, routing
from seeding import Plot, seed
from subjects import Setup
from torch import Tensor, nn
from torch.nn import functional
from wrong_kernels import changed

HALF = "held_out_5"
Choice = tuple[Tensor, Tensor]


@seed(HALF, "quantized_bias", ("quantized",), ("OFFSET", "TERM", "FACTOR"))
def biases_are_divided_by_the_ranks(plot: Plot) -> Truth:
    """In all layers, as if two ranks each added a half."""
    for part in plot.parts("down"):
        part.bias.data /= 2
    return [Place(plot.path("down", 0))]


@seed(
    HALF,
    "quantized_bias",
    ("quantized",),
    # The bias of each channel is that of the first one.
    ("OFFSET", "AFFINE", "ORDER"),
    note=r"only target calls .*getitem",
)
def all_channels_have_the_first_bias(plot: Plot) -> Truth:
    """In all layers, the bias is taken for a scalar."""
    for part in (*plot.parts("gate"), *plot.parts("up")):
        part.rescale = _with_the_first_bias(part)
    return [Place(plot.path("gate", 0)), Place(plot.path("up", 0))]


def _with_the_first_bias(part: Any) -> Callable[[Tensor], Tensor]:
    return lambda y: y * part.scale + part.bias[0]


def _without_bias(part: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: functional.linear(x, part.weight)


def _adding(part: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: functional.gelu(x) + part.bias


@seed(
    HALF,
    "quantized_bias",
    ("vit",),
    ("OFFSET", "TERM"),
    note=r"only golden gives|bias|only target calls .*add",
)
def biases_follow_the_activation(plot: Plot) -> Truth:
    """In all layers, a fused product adds them after its activation."""
    for part, act in zip(plot.parts("up"), plot.parts("act"), strict=True):
        part.forward, act.forward = _without_bias(part), _adding(part)
    return [Place(plot.path("up", 0))]


@seed(HALF, "quantized_bias", ("gpt2",), ("OFFSET",), kernel="*.addmm")
def product_kernel_repeats_the_first_tile_of_its_bias(plot: Plot) -> Truth:
    """In all layers, each 32 channels have the biases of the first ones."""

    def wrong(
        plain: Callable[..., Tensor], bias: Tensor, x: Tensor, weight: Tensor
    ) -> Tensor:
        return plain(bias[:32].repeat(len(bias) // 32), x, weight)

    return plot.break_parts("up", torch, "addmm", wrong)


def _with_an_unbiased_variance(norm: Any) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        centered = x - x.mean(-1, keepdim=True)
        deviation = torch.sqrt(x.var(-1, keepdim=True) + norm.eps)
        return centered / deviation * norm.weight + norm.bias

    return forward


@seed(
    HALF,
    "eps",
    ("gpt2",),
    ("AFFINE",),
    note=r"only (golden|target) calls .*(layer_norm|var|sub|sqrt|mean)",
    precisions=("float32",),
)
def variances_are_unbiased(plot: Plot) -> Truth:
    """In all layers, the squares are divided by 63 in place of 64."""
    for norm in (*plot.parts("norm1"), *plot.parts("norm2")):
        norm.forward = _with_an_unbiased_variance(norm)
    return [Place(plot.path("norm1", 0))]


def _by_length(norm: Any) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        wide = x.float()
        length = wide.pow(2).sum(-1, keepdim=True).sqrt() + norm.variance_epsilon
        return norm.weight * (wide / length).to(x.dtype)

    return forward


@seed(
    HALF,
    "eps",
    ("llama",),
    ("FACTOR",),
    note=r"only target calls .*(sum|sqrt|div)|only golden calls .*(mean|rsqrt)",
)
def norms_divide_by_the_length(plot: Plot) -> Truth:
    """In all layers, squares are added and not averaged."""
    for norm in norms_of(plot.setup):
        norm.forward = _by_length(norm)
    return [Place(plot.path("norm1", 0))]


def _in_two_halves(norm: Any) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        wide = x.float().unflatten(-1, (2, -1))
        variance = wide.pow(2).mean(-1, keepdim=True)
        y = wide * torch.rsqrt(variance + norm.variance_epsilon)
        return norm.weight * y.flatten(-2).to(x.dtype)

    return forward


@seed(
    HALF,
    "eps",
    ("moe",),
    # A factor for each row and half.
    ("FACTOR",),
    note=r"only target calls .*(unflatten|flatten|view)",
)
def halves_of_a_row_have_norms_of_their_own(plot: Plot) -> Truth:
    """In all layers, as two ranks would compute them that have a half each."""
    for norm in norms_of(plot.setup):
        norm.forward = _in_two_halves(norm)
    return [Place(plot.path("norm1", 0))]


def raise_the_eps_of_second_norms(setup: Setup) -> None:
    for block in setup.model.transformer.h:
        block.ln_2.eps = 0.4


@seed(
    HALF,
    "eps",
    ("gpt2",),
    ("EPS", "AFFINE"),
    prepare=raise_the_eps_of_second_norms,
    kernel="*.layer_norm",
)
def norm_kernel_does_not_read_its_eps(plot: Plot) -> Truth:
    """In all layers."""

    def wrong(plain: Callable[..., Tensor], *args: Any, **_: Any) -> Tensor:
        return plain(*args[:4], 1e-5)

    return plot.break_parts("norm2", functional, "layer_norm", wrong)


def _multiplying_first(mlp: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: mlp.down_proj(mlp.act_fn(mlp.gate_proj(x) * mlp.up_proj(x)))


PARTS = ("gate_proj", "up_proj", "act_fn")


@seed(
    HALF,
    "gate_up",
    ("llama",),
    (),
    note=r"other order of calls|equal to .*gate_proj.* in golden",
)
def activation_follows_the_product_of_gate_and_up(plot: Plot) -> Truth:
    """In all layers."""
    for mlp in plot.parts("mlp"):
        mlp.forward = _multiplying_first(mlp)
    return [own(plot.path("mlp", 0), PARTS, ("act_fn", "up_proj", "down_proj"))]


def _quick(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


@seed(
    HALF,
    "gate_up",
    ("moe",),
    ("ACTIVATION",),
    note=r"only (target calls .*(sigmoid|mul)|golden calls .*silu)",
)
def gates_of_experts_are_steeper(plot: Plot) -> Truth:
    """In all layers and all experts, as the gates of another model."""
    for block in plot.parts("mlp"):
        for expert in block.experts:
            expert.act_fn.forward = _quick
    return [Place(f"{plot.path('mlp', 0)}.{name}.act_fn") for name in EXPERTS]


@seed(
    HALF,
    "gate_up",
    ("ranks",),
    ("ORDER",),
    note=r"has .*(up_proj|Functional\.linear).* of golden",
)
def shards_of_up_belong_to_the_other_rank(plot: Plot) -> Truth:
    """In all layers. Each rank has its own shard of the gate."""
    for part in plot.parts("up"):
        first, second = gathered(part.weight).chunk(2)
        is_first = torch.equal(part.weight.data, first)
        part.weight.data = (second if is_first else first).clone()
    return [Place(plot.path("up", 0))]


def _without_gates_at_the_end(gate: Tensor, up: Tensor) -> Tensor:
    if gate.shape[1] > 1:
        return gate * up
    return torch.cat((gate[..., :192] * up[..., :192], up[..., 192:]), -1)


@seed(
    HALF,
    "gate_up",
    ("llama",),
    ("SAME_AS_INPUT",),
    note=r"only target calls .*(cat|getitem)",
)
def last_channels_of_single_rows_have_no_gate(plot: Plot) -> Truth:
    """In all layers, when they decode, the channels after three tiles of 64."""
    for mlp in plot.parts("mlp"):
        mlp.join = _without_gates_at_the_end
    return later([own(plot.path("mlp", 0), ("up_proj", "act_fn"), "down_proj")], 1)


def _keeping_logits(block: Any) -> Callable[[Tensor], Tensor]:
    plain = block.gate.forward

    def forward(x: Tensor) -> Tensor:
        block.last = plain(x)
        return block.last

    return forward


def _choosing_by_sigmoids(block: Any) -> Callable[[Tensor], Choice]:
    return lambda _: torch.topk(torch.sigmoid(block.last.float()), 2, dim=-1)


@seed(HALF, "router_ties", ("moe",), (), note=r"only target calls .*sigmoid")
def scores_of_experts_are_sigmoids(plot: Plot) -> Truth:
    """In all layers, the same experts have weights of another function."""
    for block in plot.parts("mlp"):
        block.gate.forward = _keeping_logits(block)
        block.choose = _choosing_by_sigmoids(block)
    return routing(plot)


def _weighing_inputs(block: Any) -> Callable[[Tensor], Choice]:
    def forward(hidden_states: Tensor) -> Choice:
        x = hidden_states.view(-1, hidden_states.shape[-1])
        logits = block.gate(x)
        scores = functional.softmax(logits, dim=1, dtype=torch.float32)
        weights, chosen = block.choose(scores)
        weights = block.normalise(weights).to(x.dtype)
        result = torch.zeros_like(x)
        hits = functional.one_hot(chosen, num_classes=block.count).permute(2, 1, 0)
        for number in block.order():
            place, row = torch.where(hits[number])
            if len(row):
                rows = x[None, row].reshape(-1, x.shape[-1])
                out = block.experts[number](rows * weights[row, place, None])
                result.index_add_(0, row, out.to(x.dtype))
        return result.reshape(hidden_states.shape), logits

    return forward


@seed(
    HALF,
    "router_ties",
    ("moe",),
    ("FACTOR",),
    note=r"other order of calls|(only target|more) calls .*mul",
)
def inputs_of_experts_are_weighed(plot: Plot) -> Truth:
    """In all layers, and not their results."""
    for block in plot.parts("mlp"):
        block.forward = _weighing_inputs(block)
    return routing(plot)


@seed(
    HALF,
    "router_ties",
    ("moe",),
    (),
    note=r"only (target calls .*softmax|golden calls .*(div|sum))",
)
def weights_of_experts_have_a_second_softmax(plot: Plot) -> Truth:
    """In all layers, that of the chosen ones is applied to probabilities."""
    for block in plot.parts("mlp"):
        block.normalise = lambda weights: torch.softmax(weights, -1)
    return routing(plot)


def _with_places_of_experts(plain: Callable[..., Any]) -> Callable[..., Any]:
    def choose(scores: Tensor) -> Choice:
        values, chosen = plain(scores)
        if len(scores) > 1:
            return values, chosen
        return values, torch.tensor([2, 0, 3, 1])[chosen]

    return choose


@seed(
    HALF,
    "router_ties",
    ("moe",),
    # The choices of a single row, and its table of experts.
    ("ORDER", "SHIFT", "OFFSET"),
    note=r"only target calls .*(getitem|tensor)",
)
def experts_of_decodes_are_numbered_by_their_places(plot: Plot) -> Truth:
    """In all layers, as experts were moved to balance devices."""
    for block in plot.parts("mlp"):
        block.choose = _with_places_of_experts(block.choose)
    return routing(plot, 1)


def _replacing(
    _: Callable[..., Any], x: Tensor, dim: int, index: Tensor, rows: Tensor
) -> Tensor:
    return x.index_copy_(dim, index, rows)


@seed(
    HALF,
    "router_ties",
    ("moe",),
    ("TERM", "SAME_AS_INPUT"),
    kernel="*.index_add_",
)
def scatter_kernel_replaces_rows(plot: Plot) -> Truth:
    """In all layers, each row has the result of its last expert only."""
    plot.break_parts("mlp", torch.Tensor, "index_add_", _replacing)
    return routing(plot)


def make_the_odd_experts_tie(setup: Setup) -> None:
    """Gives the second and the last expert of each layer the same score."""
    for layer in setup.model.model.layers:
        weight = layer.block_sparse_moe.gate.weight.data
        weight[3] = weight[1].clone()


def _choosing_by_chance() -> Callable[[Tensor], Choice]:
    generator = torch.Generator().manual_seed(43)

    def choose(scores: Tensor) -> Choice:
        noise = torch.rand(scores.shape, generator=generator)
        chosen = torch.topk(scores * (1 + 1e-6 * noise), 2, dim=-1).indices
        return scores.gather(-1, chosen), chosen

    return choose


@seed(
    HALF,
    "router_ties",
    ("moe",),
    ("FLIP",),
    prepare=make_the_odd_experts_tie,
    note=r"only target calls .*(rand|gather|mul)",
)
def routers_choose_equal_experts_by_chance(plot: Plot) -> Truth:
    """In all layers, their noise of a training is not off."""
    for block in plot.parts("mlp"):
        block.choose = _choosing_by_chance()
    return routing(plot)


def _with_an_unfinished_row(y: Tensor) -> Tensor:
    if y.shape[-2] > 1:
        y[..., -1, :] *= 2.5
    return y


@seed(HALF, "tile_row", ("moe",), ("FACTOR",), kernel="*.softmax")
def softmax_kernel_does_not_divide_its_last_row(plot: Plot) -> Truth:
    """In all layers, the row has the sum of another row of its tile."""
    wrong = changed(_with_an_unfinished_row)
    return plot.break_parts("attention", functional, "softmax", wrong)


def _with_roots_of_the_row_before(y: Tensor) -> Tensor:
    if y.shape[1] > 1:
        y[:, -3:] = y[:, 2:5].clone()
    return y


@seed(
    HALF,
    "tile_row",
    ("llama",),
    ("ORDER", "SHIFT", "FACTOR", "OFFSET"),
    kernel="*.rsqrt",
)
def root_kernel_repeats_rows_of_its_first_tile(plot: Plot) -> Truth:
    """In all layers, the last three rows."""
    wrong = changed(_with_roots_of_the_row_before)
    return plot.break_parts("norm1", torch, "rsqrt", wrong)


def _with_patches_of_the_first_row(y: Tensor) -> Tensor:
    y[..., -1, :] = y[..., 0, :]
    return y


@seed(HALF, "tile_row", ("vit",), ("ORDER", "SHIFT"), kernel="*.conv2d")
def convolution_kernel_ends_with_its_first_patches(plot: Plot) -> Truth:
    wrong = changed(_with_patches_of_the_first_row)
    return plot.break_part("embed", functional, "conv2d", wrong)


def _with_the_last_rows_exchanged(y: Tensor) -> Tensor:
    if y.shape[-2] > 1:
        y[..., -2:, :] = y[..., -2:, :].flip(-2)
    return y


@seed(HALF, "tile_row", ("quantized",), ("ORDER", "SHIFT"), kernel="*.linear")
def linear_kernel_exchanges_its_last_rows(plot: Plot) -> Truth:
    """In all layers."""
    wrong = changed(_with_the_last_rows_exchanged)
    return plot.break_parts("down", functional, "linear", wrong)


OVERFLOWS: dict[str, Any] = {"is_infinite": True, "precisions": ("float16",)}


def enlarge_values(setup: Setup) -> None:
    setup.model.model.layers[1].self_attn.v_proj.weight.data *= 60000


@seed(HALF, "overflow", ("moe",), ("SATURATED",), prepare=enlarge_values, **OVERFLOWS)
def values_overflow(plot: Plot) -> Truth:
    plot.layer = 1
    return [Place(plot.path("v"))]


def scale_the_embeddings(setup: Setup) -> None:
    """Scales embeddings as some models do, and makes them large."""
    embed, head = setup.model.model.embed_tokens, setup.model.lm_head
    head.weight = nn.Parameter(embed.weight.data.clone())
    embed.weight.data *= 4000
    embed.forward = lambda ids: functional.embedding(ids, embed.weight) * 160**0.5


@seed(
    HALF,
    "overflow",
    ("tied",),
    ("SATURATED",),
    prepare=scale_the_embeddings,
    **OVERFLOWS,
)
def scaled_embeddings_overflow(plot: Plot) -> Truth:
    return [Place(plot.path("embed"))]


def enlarge_a_bias(setup: Setup) -> None:
    """Makes a bias that float16 does not have."""
    setup.model.transformer.h[1].mlp.c_proj.bias.data[7] = 70000


@seed(HALF, "overflow", ("gpt2",), ("SATURATED",), prepare=enlarge_a_bias, **OVERFLOWS)
def converted_bias_is_infinite(plot: Plot) -> Truth:
    plot.layer = 1
    return [Place(plot.path("down"))]


def enlarge_a_channel_of_words(setup: Setup) -> None:
    """Makes a channel of words and one of results whose sum overflows."""
    setup.model.model.embed_tokens.weight.data[:, 5] = 52000
    layer = setup.model.model.layers[0]
    layer.input_layernorm.weight.data[5] = 0
    layer.input_layernorm.weight.data *= 4000
    layer.self_attn.o_proj.weight.data[5] *= 40000


@seed(
    HALF,
    "overflow",
    ("llama",),
    ("SATURATED",),
    prepare=enlarge_a_channel_of_words,
    **OVERFLOWS,
)
def sum_with_the_result_of_attention_overflows(plot: Plot) -> Truth:
    plot.layer = 0
    return plot.attention_residual()


def _with_noise() -> Callable[[Tensor], Tensor]:
    generator = torch.Generator().manual_seed(47)

    def forward(x: Tensor) -> Tensor:
        return x * (1 + 0.3 * torch.randn(x.shape, generator=generator)).to(x.dtype)

    return forward


@seed(
    HALF,
    "dropout",
    ("gpt2",),
    (),
    note=r"only (target calls .*(randn|mul|add)|golden calls .*dropout)",
)
def dropouts_multiply_by_normal_noise(plot: Plot) -> Truth:
    """In all layers, a dropout of another kind is not off."""
    for part in plot.parts("dropout"):
        part.forward = _with_noise()
    return [Place(plot.path("dropout", 0))]


def _without_some_patches(x: Tensor) -> Tensor:
    keep = torch.arange(x.shape[1]) % 4 != 2
    return x * (keep.to(x.dtype) / 0.75)[:, None]


@seed(
    HALF,
    "dropout",
    ("vit",),
    ("DROPOUT", "ZEROS", "FACTOR"),
    note=r"only (target calls .*(arange|mul|div|ne)|golden calls .*dropout)",
)
def patches_are_dropped_in_whole(plot: Plot) -> Truth:
    """All layers receive the other patches, which are larger in return."""
    plot.setup.at("vit.embeddings.dropout").forward = _without_some_patches
    return [Place("vit.embeddings.dropout")]


@seed(HALF, "dropout", ("llama",), (), note=r"only target calls .*(rand|add|mul)")
def embeddings_have_the_noise_of_a_fine_tuning(plot: Plot) -> Truth:
    embed = plot.part("embed")
    generator = torch.Generator().manual_seed(53)

    def forward(ids: Tensor) -> Tensor:
        x = functional.embedding(ids, embed.weight)
        noise = 2 * torch.rand(x.shape, generator=generator) - 1
        return x + (noise * 15 / (ids.shape[1] * x.shape[-1]) ** 0.5).to(x.dtype)

    embed.forward = forward
    return [Place(plot.path("embed"))]


def _weighing_dropped(out: Tensor, weight: Tensor) -> Tensor:
    return functional.dropout(out, 0.3, True) * weight


@seed(
    HALF,
    "dropout",
    ("moe",),
    ("DROPOUT", "ZEROS"),
    note=r"only target calls .*dropout",
)
def results_of_experts_are_dropped(plot: Plot) -> Truth:
    """In all layers, although there is no dropout in the golden run."""
    for block in plot.parts("mlp"):
        block.weigh = _weighing_dropped
    return routing(plot)
