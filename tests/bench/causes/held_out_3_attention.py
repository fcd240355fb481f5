"""The third held-out half: mistakes of attentions, positions and masks.

Most follow reports about ports of models: masks of SDPA that are aligned at the top
left, projections in the layout of Megatron, keys that a cache turns again.

20 of these 25 mistakes are in all layers, or in code that all layers share. The other 5
are in one layer. 5 mistakes are only in steps that decode, and 2 only in one rank.
"""

from collections.abc import Callable
from typing import Any

import gpt2
import torch
import torch.distributed as dist
from anatomy import Place, Truth, own
from attention import Cache, apply_rope
from seeding import Plot, seed
from subjects import Setup
from torch import Tensor
from torch.nn import functional
from wrong_kernels import changed

HALF = "held_out_3"
ATTENTION = "*.scaled_dot_product_attention"
SDPA = "scaled_dot_product_attention"
Embeddings = tuple[Tensor, Tensor]


def position_code(plot: Plot, token: int = 0) -> Truth:
    """Returns the code that makes the positions."""
    if plot.setup.name == "gpt2":
        place = own("transformer", "wte", "wpe")
    else:
        place = own("model", "embed_tokens", "rotary_emb")
    return later([place], token)


def later(truth: Truth, token: int) -> Truth:
    """Returns the places from a token on."""
    return [Place(one.op, one.after, one.before, token=token) for one in truth]


def of_first_layer(plot: Plot, token: int = 0) -> Truth:
    """Returns the attention of the first layer, for a mistake in all of them."""
    plot.layer = 0
    return later(plot.attention_weights(), token)


@seed(
    HALF,
    "rope",
    ("moe",),
    ("SWAPPED_INPUTS",),
    note=r"changed places|in golden, to .*rotary_emb output/\d.* in the target",
)
def sines_and_cosines_are_exchanged(plot: Plot) -> Truth:
    def rope(q: Tensor, k: Tensor, embeddings: Embeddings) -> Embeddings:
        sin, cos = embeddings
        return apply_rope(q, (cos, sin)), apply_rope(k, (cos, sin))

    for attention in plot.parts("attention"):
        attention.rope = rope
    return of_first_layer(plot)


@seed(
    HALF,
    "rope",
    ("llama",),
    ("ROPE_PAIRS", "ORDER", "ARRANGEMENT"),
    note=r"only (golden|target) calls .*(cat|repeat_interleave)",
)
def rotary_table_is_that_of_adjacent_pairs(plot: Plot) -> Truth:
    """All layers rotate halves by a table in which both channels of a pair adjoin."""
    rotary = plot.setup.at("model.rotary_emb")

    def forward(x: Tensor, position_ids: Tensor) -> Embeddings:
        rates = rotary.rates()[None, :, None].expand(position_ids.shape[0], -1, 1)
        angles = (rates @ position_ids[:, None, :].float()).transpose(1, 2)
        both = angles.repeat_interleave(2, -1)
        return both.cos().to(x.dtype), both.sin().to(x.dtype)

    rotary.forward = forward
    return [Place("model.rotary_emb")]


def begin_at_a_far_position(setup: Setup) -> None:
    """Moves the text to positions of which bfloat16 has only each second one."""
    setup.model.model.first_position = 500


@seed(
    HALF,
    "rope",
    ("llama",),
    ("ROUNDED", "ROPE_POSITIONS", "ORDER"),
    prepare=begin_at_a_far_position,
    note=r"only target calls .*bfloat16",
)
def positions_are_rounded_to_bfloat16(plot: Plot) -> Truth:
    rotary = plot.setup.at("model.rotary_emb")
    plain = rotary.forward
    rotary.forward = lambda x, position_ids: plain(x, position_ids.bfloat16())
    return [Place("model.rotary_emb")]


@seed(
    HALF,
    "rope",
    ("llama",),
    ("ROPE_POSITIONS",),
    note=r"only target calls .*(mul|neg|chunk)",
)
def cached_keys_are_turned_again(plot: Plot) -> Truth:
    """In one layer, all keys turn by the position of the new word."""
    attention = plot.part("attention")
    rope, remember, last = attention.rope, attention.remember, []

    def keep(q: Tensor, k: Tensor, embeddings: Embeddings) -> Embeddings:
        last[:] = [embeddings]
        return rope(q, k, embeddings)

    def turn(past: Cache | None, k: Tensor, v: Tensor) -> Embeddings:
        keys, values = remember(past, k, v)
        return apply_rope(keys, last[0]) if k.shape[2] == 1 else keys, values

    attention.rope, attention.remember = keep, turn
    return later(plot.attention_weights(), 1)


@seed(
    HALF,
    "scale",
    ("llama",),
    ("SOFTMAX_SCALE", "FACTOR"),
    note=r"target 0\.0912\d*, golden 0\.223",
)
def scale_is_that_of_all_channels(plot: Plot) -> Truth:
    for attention in plot.parts("attention"):
        attention.scaling = plot.setup.model.config.hidden**-0.5
    return of_first_layer(plot)


@seed(
    HALF,
    "scale",
    ("gpt2",),
    ("SOFTMAX_SCALE", "FACTOR"),
    note=r"target 0\.125, golden 0\.25",
)
def scores_are_divided_by_the_number_of_the_layer(plot: Plot) -> Truth:
    """The first layer is right, as it is divided by 1."""
    for number, attention in enumerate(plot.parts("attention"), 1):
        attention.scaling /= number
    plot.layer = 1
    return plot.attention_weights()


@seed(HALF, "scale", ("moe",), ("SATURATED",), note=r"only target calls .*tanh")
def scores_are_capped(plot: Plot) -> Truth:
    """One layer has the soft limit of another model."""
    attention = plot.part("attention")
    plain = attention.masked
    attention.masked = lambda scores, mask: plain(0.8 * torch.tanh(scores / 0.8), mask)
    return plot.attention_weights()


@seed(HALF, "scale", ("llama",), ("SOFTMAX_SCALE", "FACTOR"), kernel=ATTENTION)
def attention_kernel_of_decodes_has_no_scale(plot: Plot) -> Truth:
    def wrong(
        plain: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, **kwargs: Any
    ) -> Tensor:
        scale = 1.0 if q.shape[2] == 1 else kwargs["scale"]
        return plain(q, k, v, **{**kwargs, "scale": scale})

    return later(plot.break_parts("attention", functional, SDPA, wrong), 1)


def _attend_causally(attention: Any) -> Callable[..., Any]:
    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Any:
        out = functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=True, scale=attention.scaling
        )
        return attention.merge(out), None

    return attend


@seed(HALF, "mask", ("llama",), ("MASK",), note=r"is_causal: target True, golden False")
def decodes_have_the_mask_of_a_prompt(plot: Plot) -> Truth:
    """The mask begins at the top left, so only the first key is open to a single query."""
    for attention in plot.parts("attention"):
        attention.attend = _attend_causally(attention)
    return of_first_layer(plot, 1)


@seed(HALF, "mask", ("moe",), ("MASK",), note=r"only target calls .*(eq|to)(_|\b)")
def mask_of_booleans_is_added(plot: Plot) -> Truth:
    for attention in plot.parts("attention"):
        attention.mask_of = lambda mask: (mask == 0).to(mask.dtype)
    return of_first_layer(plot)


@seed(
    HALF,
    "mask",
    ("gpt2",),
    ("MASK", "FACTOR", "SATURATED"),
    note=r"target -2(\.0)?, golden -",
)
def mask_is_too_weak(plot: Plot) -> Truth:
    """All layers share the mask."""
    plot.part("body").mask_value = -2.0
    return [own("transformer", "wpe", "drop")]


@seed(HALF, "mask", ("vit",), ("MASK",), note=r"is_causal: target True, golden False")
def patches_see_only_earlier_ones(plot: Plot) -> Truth:
    for attention in plot.parts("attention"):
        attention.is_causal = True
    return of_first_layer(plot)


@seed(HALF, "mask", ("train",), ("MASK",), kernel=ATTENTION)
def attention_kernel_skips_unfinished_blocks(plot: Plot) -> Truth:
    """In one layer, queries see whole blocks of four keys, and their own key."""

    def wrong(
        plain: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, **kwargs: Any
    ) -> Tensor:
        rows = torch.arange(q.shape[2])[:, None]
        columns = torch.arange(k.shape[2])
        mask = (columns < (rows + 1) // 4 * 4) | (columns == rows)
        return plain(q, k, v, **{**kwargs, "is_causal": False, "attn_mask": mask})

    return plot.break_part("attention", functional, SDPA, wrong)


@seed(
    HALF,
    "head_order",
    ("gpt2",),
    ("ARRANGEMENT", "ORDER"),
    note=r"only (golden|target) calls .*(split|unbind)",
)
def projections_have_the_layout_of_megatron(plot: Plot) -> Truth:
    def split(x: Tensor) -> tuple[Tensor, ...]:
        parts = x.view(*x.shape[:2], gpt2.HEADS, 3, -1).unbind(3)
        return tuple(part.transpose(1, 2) for part in parts)

    for attention in plot.parts("attention"):
        attention.split = split
    return of_first_layer(plot)


@seed(HALF, "head_order", ("llama",), ("ORDER", "ARRANGEMENT"))
def weights_have_pairs_of_adjacent_channels(plot: Plot) -> Truth:
    """The conversion of all queries and keys did not split the pairs of each head."""
    size = plot.part("attention").size
    order = [*range(0, size, 2), *range(1, size, 2)]
    for part in (*plot.parts("q"), *plot.parts("k")):
        data = part.weight.data
        part.weight.data = data.view(-1, size, data.shape[1])[:, order].flatten(0, 1)
    plot.layer = 0
    return [Place(plot.path("q")), Place(plot.path("k"))]


@seed(HALF, "head_order", ("ranks",), ("ORDER",))
def rank_1_has_its_heads_in_reverse(plot: Plot) -> Truth:
    """In one layer of rank 1."""
    part, size = plot.part("q"), plot.part("attention").size
    if dist.get_rank() == 1:
        data = part.weight.data
        part.weight.data = data.view(-1, size, data.shape[1]).flip(0).flatten(0, 1)
    return [Place(plot.path("q"))]


def _with_heads_before_positions(y: Tensor) -> Tensor:
    return y.transpose(1, 2).reshape(y.shape)


@seed(HALF, "head_order", ("vit",), ("ARRANGEMENT", "ORDER"), kernel=ATTENTION)
def attention_kernel_writes_positions_before_heads(plot: Plot) -> Truth:
    wrong = changed(_with_heads_before_positions)
    return plot.break_parts("attention", functional, SDPA, wrong)


@seed(HALF, "gqa_repeat", ("llama",), ("ORDER", "ARRANGEMENT"), kernel=ATTENTION)
def attention_kernel_of_decodes_deals_heads_in_turn(plot: Plot) -> Truth:
    groups = plot.part("attention").groups

    def wrong(
        plain: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, **kwargs: Any
    ) -> Tensor:
        if q.shape[2] > 1:
            return plain(q, k, v, **kwargs)
        count = k.shape[1] // groups
        heads = [head % count * groups for head in range(k.shape[1])]
        return plain(q, k[:, heads], v[:, heads], **kwargs)

    return later(plot.break_parts("attention", functional, SDPA, wrong), 1)


def _of_rank_0(weight: Tensor) -> Tensor:
    data = weight.data.float()
    dist.broadcast(data, 0)
    return data.to(weight.dtype)


@seed(
    HALF,
    "gqa_repeat",
    ("ranks",),
    ("ORDER",),
    note=r"has .*(k_proj|v_proj|Functional\.linear).* of golden",
)
def rank_1_has_the_keys_and_values_of_rank_0(plot: Plot) -> Truth:
    """In one layer of rank 1."""
    for role in ("k", "v"):
        weight = plot.part(role).weight
        weight.data = _of_rank_0(weight)
    return [Place(plot.path("k")), Place(plot.path("v"))]


@seed(
    HALF,
    "gqa_repeat",
    ("moe",),
    ("ORDER",),
    note=r"only (golden|target) calls .*(expand|reshape|getitem)",
)
def groups_have_two_heads_instead_of_three(plot: Plot) -> Truth:
    heads = [min(head // 2, 1) for head in range(6)]
    for attention in plot.parts("attention"):
        attention.repeat = lambda x: x[:, heads]
    return of_first_layer(plot)


@seed(
    HALF,
    "position_ids",
    ("gpt2",),
    ("OFFSET", "SHIFT"),
    note=r"target 2, golden 0",
)
def positions_begin_at_the_offset_of_another_model(plot: Plot) -> Truth:
    plot.part("body").positions = lambda first, length: torch.arange(
        first + 2, first + 2 + length
    )[None]
    return position_code(plot)


@seed(
    HALF,
    "position_ids",
    ("llama",),
    ("SATURATED", "ROPE_POSITIONS", "ORDER", "SHIFT"),
    note=r"only target calls .*clamp",
)
def positions_end_at_a_limit(plot: Plot) -> Truth:
    holder = plot.part("body")
    plain = holder.positions
    holder.positions = lambda first, length: plain(first, length).clamp(max=5)
    return position_code(plot)


@seed(
    HALF,
    "position_ids",
    ("moe",),
    ("ROPE_POSITIONS", "OFFSET", "SHIFT"),
    note=r"target 11, golden 8",
)
def positions_of_decodes_are_moved(plot: Plot) -> Truth:
    """As by the positions of an image, which the prompt does not have."""
    holder = plot.part("body")
    plain = holder.positions
    holder.positions = lambda first, length: plain(first + 3 * (length == 1), length)
    return position_code(plot, 1)


@seed(HALF, "position_ids", ("vit",), ("ORDER",), note=r"only target calls .*expand")
def all_patches_have_the_first_position(plot: Plot) -> Truth:
    embeddings = plot.setup.at("vit.embeddings")
    table = embeddings.position_embeddings
    embeddings.positions = lambda: table[:, :1].expand_as(table)
    return [own("vit.embeddings", "patch_embeddings", "dropout")]


@seed(
    HALF,
    "position_ids",
    ("train",),
    ("ROPE_POSITIONS", "ORDER", "SHIFT", "OFFSET"),
    note=r"only target calls .*(remainder|mod)",
)
def positions_restart_in_the_middle_of_a_text(plot: Plot) -> Truth:
    holder = plot.part("body")
    plain = holder.positions
    holder.positions = lambda first, length: plain(first, length) % 5
    return position_code(plot)
