"""The mistakes of the calibration half: those of tests/judge, and others."""

from collections.abc import Callable
from typing import Any

# Registers the faults of tests/judge.
import cases  # noqa: F401
import torch
from anatomy import Place, Truth, own
from seeding import Plot, seed, seed_judged
from serving import EMPTY_BLOCK, batch
from subjects import Setup
from torch import Tensor
from torch.nn import functional
from wrong_kernels import changed, stale, without_bias, zero_rows

HALF = "calibration"
ATTENTION = "*.scaled_dot_product_attention"

for family, name, subjects, note, more in (
    (
        "rope",
        "rope_base_wrong",
        ("llama", "moe"),
        "target 500000.0, golden 10000.0",
        (),
    ),
    ("rope", "rope_interleaved", ("llama", "moe"), "", ("ARRANGEMENT",)),
    ("quantized_bias", "bias_dropped", ("vit",), "", ("ZEROS", "AFFINE")),
    ("eps", "norm_epsilon_wrong", ("llama", "vit"), "target 0.01, golden 1e-", ()),
    (
        "scale",
        "attention_scale_missing",
        ("llama", "moe", "vit"),
        "target 1.0, golden 0.25",
        ("SAME_AS_INPUT",),
    ),
    ("mask", "causal_mask_forgotten", ("llama", "moe"), "is_causal: target False", ()),
    ("mask", "sliding_window_of_4", ("moe",), "", ()),
    (
        "head_order",
        "heads_merged_without_transpose",
        ("llama", "vit"),
        r"(only golden|more) calls .*transpose",
        (),
    ),
    (
        "head_order",
        "heads_split_in_another_order",
        ("vit",),
        r"(only golden|more) calls .*transpose",
        (),
    ),
    ("gqa_repeat", "groups_repeated_in_another_order", ("llama", "moe"), "", ()),
    (
        "gate_up",
        "gate_and_up_exchanged",
        ("llama",),
        r"gate_proj output/0.* in golden, to .*up_proj output/0.* in the target",
        (),
    ),
    ("dropout", "dropout_active", ("vit",), "target True, golden False", ()),
    ("position_ids", "positions_off_by_one", ("llama", "moe"), "", ()),
    (
        "position_ids",
        "positions_of_decodes_off_by_one",
        ("llama",),
        "target 7, golden 8",
        (),
    ),
    (
        "tied_weights",
        "head_untied",
        ("tied",),
        r"equal to .*embed.* only in golden",
        (),
    ),
    ("loss_scale", "loss_is_a_sum", ("train",), "reduction: target sum", ()),
    (
        "loss_scale",
        "loss_not_divided_by_the_steps",
        ("train",),
        r"only target calls .*mul",
        (),
    ),
):
    seed_judged(family, name, subjects, note, more)


@seed(HALF, "scale", ("llama", "vit"), ("SOFTMAX_SCALE", "FACTOR"), kernel=ATTENTION)
def attention_kernel_halves_the_scale(plot: Plot) -> Truth:
    def wrong(plain: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        return plain(*args, **{**kwargs, "scale": kwargs["scale"] / 2})

    name = "scaled_dot_product_attention"
    return plot.break_part("attention", functional, name, wrong)


@seed(HALF, "mask", ("llama",), ("MASK",), kernel=ATTENTION)
def attention_kernel_is_not_causal(plot: Plot) -> Truth:
    def wrong(plain: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        return plain(*args, **{**kwargs, "is_causal": False})

    name = "scaled_dot_product_attention"
    return plot.break_part("attention", functional, name, wrong)


@seed(
    HALF,
    "quantized_bias",
    ("quantized",),
    ("OFFSET", "TERM", "SAME_AS_INPUT"),
    note=r"only golden calls .*add",
)
def bias_of_a_quantized_weight_missing(plot: Plot) -> Truth:
    part = plot.part("up")
    part.rescale = lambda y: y * part.scale
    return [Place(plot.path("up"))]


@seed(HALF, "quantized_bias", ("vit",), ("OFFSET", "TERM"), kernel="*.linear")
def linear_kernel_without_bias(plot: Plot) -> Truth:
    return plot.break_part("down", functional, "linear", without_bias)


@seed(HALF, "eps", ("vit",), ("EPS",), kernel="*.layer_norm")
def norm_kernel_has_its_own_eps(plot: Plot) -> Truth:
    def wrong(plain: Callable[..., Tensor], *args: Any, **_: Any) -> Tensor:
        return plain(*args[:4], 1e-2)

    return plot.break_part("norm1", functional, "layer_norm", wrong)


def make_experts_tie(setup: Setup) -> None:
    """Gives three of the four experts of each layer the same score."""
    for layer in setup.model.model.layers:
        weight = layer.block_sparse_moe.gate.weight.data
        weight[2:] = weight[1]


@seed(HALF, "router_ties", ("moe",), ("FLIP",), prepare=make_experts_tie)
def router_takes_the_last_of_equal_experts(plot: Plot) -> Truth:
    def wrong(plain: Callable[..., Any], x: Tensor, k: int, **kwargs: Any) -> Any:
        values, indices = plain(x.flip(-1), k, **kwargs)
        return torch.return_types.topk((values, x.shape[-1] - 1 - indices))

    plot.break_kernel(plot.part("mlp"), torch, "topk", wrong)
    experts = tuple(f"experts.{number}" for number in range(4))
    return [own(plot.path("mlp"), ("gate", *experts), ("", *experts))]


@seed(HALF, "stale_buffer", ("llama",), ("STALE",), kernel="*.silu")
def activation_kernel_returns_its_last_result(plot: Plot) -> Truth:
    return plot.break_part("act", functional, "silu", stale())


@seed(HALF, "tile_row", ("llama", "vit"), ("ZEROS", "FACTOR"), kernel="*.linear")
def linear_kernel_drops_the_last_row_of_four(plot: Plot) -> Truth:
    return plot.break_part("up", functional, "linear", zero_rows(4))


def enlarge_the_gate(setup: Setup) -> None:
    """Makes products of gates beyond the range of float16."""
    mlp = setup.model.model.layers[1].mlp
    mlp.gate_proj.weight.data *= 200
    mlp.up_proj.weight.data *= 200
    mlp.down_proj.weight.data /= 200 * 200


@seed(
    HALF,
    "overflow",
    ("llama",),
    ("SATURATED",),
    prepare=enlarge_the_gate,
    is_infinite=True,
    precisions=("float16",),
)
def product_of_the_gate_overflows(plot: Plot) -> Truth:
    plot.layer = 1
    parts = ("gate_proj", "up_proj", "act_fn")
    return [own(plot.path("mlp"), parts, "down_proj")]


@seed(HALF, "dropout", ("vit",), ("DROPOUT",), kernel="*.dropout")
def dropout_kernel_ignores_that_it_is_off(plot: Plot) -> Truth:
    def wrong(plain: Callable[..., Tensor], x: Tensor, p: float, *_: Any) -> Tensor:
        return plain(x, p, True)

    return plot.break_part("dropout", functional, "dropout", wrong)


@seed(HALF, "kv_slot", ("served",), ("ORDER", "SHIFT"))
def slot_of_the_other_request_is_read(plot: Plot) -> Truth:
    for step in (2, 3):
        slots, layer = batch(plot.setup, step), plot.layer
        slots.read_of = _with_the_slot_of_the_other(slots.read, layer)
    place = plot.attention_code()
    return [Place(place.op, place.after, place.before, token=2)]


def _with_the_slot_of_the_other(read: Tensor, wrong_in: int) -> Callable[[int], Tensor]:
    other = read.clone()
    other[0, 5] = read[1, 5]
    return lambda layer: other if layer == wrong_in else read


@seed(HALF, "kv_slot", ("served",), ("ORDER", "SHIFT"), kernel="*.index_select")
def gather_kernel_reads_the_next_slot(plot: Plot) -> Truth:
    def wrong(
        plain: Callable[..., Tensor], x: Tensor, dim: int, index: Tensor
    ) -> Tensor:
        index = index.clone()
        index[-1] -= 1
        return plain(x, dim, index)

    return plot.break_part("attention", torch, "index_select", wrong)


@seed(
    HALF,
    "prefix_cache",
    ("served",),
    ("ZEROS", "FACTOR", "OFFSET"),
    is_in_the_caller=True,
)
def prefix_is_read_from_empty_slots(plot: Plot) -> Truth:
    for step in (1, 2, 3):
        slots = batch(plot.setup, step)
        read = slots.read.clone()
        read[-1, :4] = torch.tensor(EMPTY_BLOCK)
        slots.read = read
    plot.layer = 0
    place = plot.attention_code()
    return [Place(place.op, place.after, place.before, token=1)]


@seed(
    HALF,
    "lost_all_reduce",
    ("ranks",),
    ("SAME_AS_INPUT", "TERM"),
    note=r"only golden calls .*all_reduce",
)
def all_reduce_of_the_feed_forward_lost(plot: Plot) -> Truth:
    plot.part("down").reduce = lambda y: y.clone()
    return [Place(plot.path("down"))]


@seed(
    HALF,
    "reduce_order",
    ("ranks",),
    ("ORDER", "SHIFT", "SAME_AS_INPUT"),
    note="changed places",
)
def pieces_joined_in_reverse(plot: Plot) -> Truth:
    plot.part("head").join = lambda pieces: torch.cat(pieces[::-1], -1)
    return [Place(plot.path("head"))]


@seed(HALF, "reduce_order", ("llama",), (), kernel="*.linear")
def linear_kernel_sums_in_bfloat16(plot: Plot) -> Truth:
    def wrong(
        plain: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Any = None
    ) -> Tensor:
        total: Any = 0.0
        for a, b in zip(x.split(4, -1), weight.split(4, -1), strict=True):
            total = (total + plain(a, b)).bfloat16()
        return total.to(x.dtype)

    return plot.break_part("down", functional, "linear", wrong)


@seed(
    HALF,
    "gate_up",
    ("moe",),
    ("SWAPPED_INPUTS",),
    note=r"w1 output/0.* in golden, to .*w3 output/0.* in the target",
)
def gate_and_up_of_an_expert_exchanged(plot: Plot) -> Truth:
    expert = plot.setup.at(f"{plot.path('mlp')}.experts.1")
    expert.forward = lambda x: expert.w2(expert.w1(x) * expert.act_fn(expert.w3(x)))
    return [own(f"{plot.path('mlp')}.experts.1", ("w1", "w3"), "act_fn")]


@seed(HALF, "gqa_repeat", ("llama",), ("ORDER", "SHIFT"), kernel=ATTENTION)
def attention_kernel_takes_the_next_head(plot: Plot) -> Truth:
    def wrong(
        plain: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, **kwargs: Any
    ) -> Tensor:
        return plain(q, k.roll(1, 1), v.roll(1, 1), **kwargs)

    name = "scaled_dot_product_attention"
    return plot.break_part("attention", functional, name, wrong)


@seed(HALF, "stale_buffer", ("moe",), ("STALE",), kernel="*.linear")
def queries_are_those_of_the_last_word(plot: Plot) -> Truth:
    return plot.break_part("q", functional, "linear", stale())


@seed(HALF, "loss_scale", ("train",), ("FACTOR",), kernel="*.cross_entropy")
def loss_kernel_divides_by_the_batch(plot: Plot) -> Truth:
    change = changed(lambda loss: loss * 4.5)
    plot.break_kernel(plot.setup.model, functional, "cross_entropy", change)
    return [own("", "lm_head", "")]
