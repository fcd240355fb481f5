"""The fifth held-out half: attentions, positions, masks and tied weights.

Most follow reports about ports of models: keys that are cached before they turn, a
dimension that is read from the wrong axis, padding that a fused attention ignores, and
positions of another image size.

26 of these 31 mistakes are in all layers, or in code that all layers share. The other 5
are in an embedding or a head. 5 mistakes are only in steps that decode, 2 only in one
rank, and 2 only in gradients. 3 are wrong kernels.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import gpt2
import torch
import torch.distributed as dist
from anatomy import Place, Truth, own
from attention import apply_rope
from held_out_3_attention import ATTENTION, SDPA, later, of_first_layer, position_code
from held_out_4_attention import mask_code, pad_a_text_on_the_left
from seeding import Plot, seed
from subjects import Setup
from torch import Tensor, nn
from torch.nn import functional

HALF = "held_out_5"
Embeddings = tuple[Tensor, Tensor]
TURNS = r"(only (golden|target)|more) calls .*(mul|neg|cat|chunk|add|unsqueeze)"


@seed(HALF, "rope", ("llama",), ("ORDER", "FACTOR"), note=r"only target calls .*flip")
def rotary_rates_rise(plot: Plot) -> Truth:
    """The table begins with the lowest rate."""
    rotary = plot.setup.at("model.rotary_emb")
    plain = rotary.rates
    rotary.rates = lambda: plain().flip(0)
    return [Place("model.rotary_emb")]


def _turning_values(attention: Any) -> None:
    rope, remember, last = attention.rope, attention.remember, []

    def keep(q: Tensor, k: Tensor, embeddings: Embeddings) -> Embeddings:
        last[:] = [embeddings]
        return rope(q, k, embeddings)

    attention.rope = keep
    attention.remember = lambda past, k, v: remember(past, k, apply_rope(v, last[0]))


@seed(
    HALF,
    "rope",
    ("moe",),
    # The golden values are those of position 0.
    ("ROPE_POSITIONS",),
    note=rf"{TURNS}|equal to .* only in golden",
)
def values_turn_like_keys(plot: Plot) -> Truth:
    """In all layers, a fused projection is turned as a whole."""
    for attention in plot.parts("attention"):
        _turning_values(attention)
    return of_first_layer(plot)


@seed(
    HALF,
    "rope",
    ("moe",),
    ("ZEROS", "FACTOR", "ROPE_POSITIONS", "AFFINE", "ORDER"),
    note=r"only target calls .*(cat|zeros|getitem|mul)",
)
def last_channels_have_the_positions_of_an_image(plot: Plot) -> Truth:
    """The last pairs of each head belong to a column, which a text does not have."""
    rotary = plot.setup.at("model.rotary_emb")

    def forward(x: Tensor, position_ids: Tensor) -> Embeddings:
        rates = rotary.rates()[None, :, None].expand(position_ids.shape[0], -1, 1)
        angles = (rates @ position_ids[:, None, :].float()).transpose(1, 2)
        still = torch.zeros_like(angles[..., 3:])
        angles = torch.cat((angles[..., :3], still), dim=-1)
        both = torch.cat((angles, angles), dim=-1)
        return both.cos().to(x.dtype), both.sin().to(x.dtype)

    rotary.forward = forward
    return [Place("model.rotary_emb")]


def _turning_queries_of_decodes(plain: Callable[..., Any]) -> Callable[..., Any]:
    def rope(q: Tensor, k: Tensor, embeddings: Embeddings) -> Embeddings:
        if q.shape[2] > 1:
            return plain(q, k, embeddings)
        return apply_rope(q, embeddings), k

    return rope


@seed(
    HALF,
    "rope",
    ("llama",),
    ("SAME_AS_INPUT", "ROPE_POSITIONS"),
    note=rf"{TURNS}|equal to .*k_proj.* in the target",
)
def keys_of_decodes_do_not_turn(plot: Plot) -> Truth:
    """In all layers, they are written to the cache before they turn."""
    for attention in plot.parts("attention"):
        attention.rope = _turning_queries_of_decodes(attention.rope)
    return of_first_layer(plot, 1)


def _scaling_queries_by_a_root(attention: Any) -> Callable[..., Any]:
    root = attention.scaling**0.5

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Any:
        scores = torch.matmul(q * root, k.transpose(2, 3))
        weights = attention.softmax(attention.masked(scores, mask)).to(q.dtype)
        return attention.merge(torch.matmul(weights, v)), weights

    return attend


@seed(
    HALF,
    "scale",
    ("gpt2",),
    ("SOFTMAX_SCALE", "FACTOR", "SAME_AS_INPUT"),
    note=r"other order of calls|other arguments?.*target 0\.5\b.*golden 0\.25|"
    r"only (golden|target) calls .*mul",
)
def keys_lack_their_root_of_the_scale(plot: Plot) -> Truth:
    """In all layers, queries have the other root before their product with keys."""
    for attention in plot.parts("attention"):
        attention.attend = _scaling_queries_by_a_root(attention)
    return of_first_layer(plot)


def _scaling_by_length(attention: Any) -> Callable[..., Any]:
    plain = attention.attend

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Any:
        attention.scaling = k.shape[2] ** -0.5
        return plain(q, k, v, mask)

    return attend


@seed(
    HALF,
    "scale",
    ("llama",),
    ("SOFTMAX_SCALE", "FACTOR"),
    note=r"target 0\.3535\d*, golden 0\.2236",
)
def scale_is_that_of_the_number_of_keys(plot: Plot) -> Truth:
    """In all layers, the size is read from the wrong axis."""
    for attention in plot.parts("attention"):
        attention.attend = _scaling_by_length(attention)
    return of_first_layer(plot)


def _normalizing(plain: Callable[..., Any]) -> Callable[..., Any]:
    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Any:
        q = functional.normalize(q, dim=-1) * math.sqrt(q.shape[-1])
        return plain(q, k, v, mask)

    return attend


@seed(
    HALF,
    "scale",
    ("moe",),
    # A factor for each head and query.
    ("FACTOR",),
    note=r"only target calls .*(normalize|norm|div|mul)",
)
def queries_have_the_norm_of_another_model(plot: Plot) -> Truth:
    """In all layers, each head of the queries has the same length."""
    for attention in plot.parts("attention"):
        attention.attend = _normalizing(attention.attend)
    return of_first_layer(plot)


@seed(HALF, "scale", ("vit",), ("SOFTMAX_SCALE",), kernel=ATTENTION)
def attention_kernel_scales_only_its_first_tiles_of_queries(plot: Plot) -> Truth:
    """In all layers, 8 of 17 queries."""

    def wrong(
        plain: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, **kwargs: Any
    ) -> Tensor:
        rest = plain(q[:, :, 8:], k, v, **{**kwargs, "scale": 1.0})
        return torch.cat((plain(q[:, :, :8], k, v, **kwargs), rest), 2)

    return plot.break_parts("attention", functional, SDPA, wrong)


@seed(
    HALF,
    "mask",
    ("gpt2",),
    ("MASK", "ORDER", "SHIFT", "ZEROS", "AFFINE"),
    prepare=pad_a_text_on_the_left,
    note=r"only target calls .*ones_like|equal to .* only in golden",
)
def padding_is_not_masked(plot: Plot) -> Truth:
    """All layers share the mask, which is only causal."""
    body = plot.part("body")
    plain = body.mask
    body.mask = lambda x, past, padding: plain(x, past, torch.ones_like(padding))
    return mask_code(plot)


@seed(
    HALF,
    "mask",
    ("gpt2",),
    ("OFFSET",),
    prepare=pad_a_text_on_the_left,
    note=r"only target calls .*(arange|mul)|more calls .*add",
)
def scores_have_the_slopes_of_another_model(plot: Plot) -> Truth:
    """In all layers, a constant for each key is added to the mask."""
    for attention in plot.parts("attention"):
        attention.mask_of = lambda mask: (
            mask + (0.4 * torch.arange(mask.shape[-1])).to(mask.dtype)
        )
    return of_first_layer(plot)


@seed(HALF, "mask", ("llama",), ("MASK",), kernel=ATTENTION)
def attention_kernel_does_not_mask_within_a_tile(plot: Plot) -> Truth:
    """In all layers, queries see all keys of the tile of four that has their own."""

    def wrong(
        plain: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, **kwargs: Any
    ) -> Tensor:
        if not kwargs.get("is_causal"):
            return plain(q, k, v, **kwargs)
        tiles = torch.arange(k.shape[2]) // 4
        mask = tiles <= tiles[:, None]
        return plain(q, k, v, **{**kwargs, "is_causal": False, "attn_mask": mask})

    return plot.break_parts("attention", functional, SDPA, wrong)


def _near(_: Tensor | None) -> Tensor:
    patches = torch.arange(17)
    return (patches - patches[:, None]).abs() <= 4


@seed(
    HALF,
    "mask",
    ("vit",),
    ("MASK",),
    note=r"attn_mask|only target calls .*(arange|abs|le|sub)",
)
def patches_see_only_near_ones(plot: Plot) -> Truth:
    """In all layers, as the windows of another model."""
    for attention in plot.parts("attention"):
        attention.mask_of = _near
    return of_first_layer(plot)


def _closing_each_second_key(plain: Callable[..., Any]) -> Callable[..., Any]:
    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Any:
        if q.shape[2] == 1:
            mask = (torch.arange(k.shape[2]) % 2 == 0)[None]
        return plain(q, k, v, mask)

    return attend


@seed(
    HALF,
    "mask",
    ("llama",),
    ("MASK",),
    note=r"attn_mask|only target calls .*(arange|eq|remainder|mod)",
)
def decodes_skip_each_second_key(plot: Plot) -> Truth:
    """In all layers, as a sparse attention."""
    for attention in plot.parts("attention"):
        attention.attend = _closing_each_second_key(attention.attend)
    return of_first_layer(plot, 1)


@seed(HALF, "mask", ("ranks",), ("MASK",), note=r"is_causal: target False")
def rank_1_sees_later_words(plot: Plot) -> Truth:
    """In all layers of rank 1."""
    if dist.get_rank() == 1:
        for attention in plot.parts("attention"):
            attention.is_causal = False
    return of_first_layer(plot)


@seed(HALF, "head_order", ("llama",), ("ORDER", "ARRANGEMENT"))
def queries_are_sorted_by_their_place_in_a_group(plot: Plot) -> Truth:
    """In all layers, the first queries of all groups precede the second ones."""
    for part, attention in zip(plot.parts("q"), plot.parts("attention"), strict=True):
        data = part.weight.data
        heads = data.view(-1, attention.groups, attention.size, data.shape[1])
        part.weight.data = heads.transpose(0, 1).reshape(data.shape)
    return [Place(plot.path("q", 0))]


@seed(HALF, "head_order", ("vit",), ("OFFSET", "ORDER"))
def biases_of_values_keep_the_order_of_a_checkpoint(plot: Plot) -> Truth:
    """In all layers, only the heads of the weight were put in another order."""
    for part in plot.parts("v"):
        part.bias.data = part.bias.data.view(4, -1).flip(0).flatten()
    return [Place(plot.path("v", 0))]


@seed(
    HALF,
    "head_order",
    ("moe",),
    ("ORDER", "ARRANGEMENT"),
    note=r"only target calls .*(getitem|cat)",
)
def even_heads_precede_odd_ones(plot: Plot) -> Truth:
    """In all layers, when heads are merged."""
    for attention in plot.parts("attention"):
        attention.merge = _merging_even_heads_first(attention.merge)
    return of_first_layer(plot)


def _merging_even_heads_first(plain: Callable[..., Any]) -> Callable[..., Any]:
    return lambda out: plain(torch.cat((out[:, ::2], out[:, 1::2]), 1))


def _splitting_channels_first(plain: Callable[..., Any]) -> Callable[..., Any]:
    def split(x: Tensor) -> Any:
        q, k, v = plain(x)
        if x.shape[1] > 1:
            return q, k, v
        only = x[..., : gpt2.HIDDEN].view(*x.shape[:2], -1, gpt2.HEADS)
        return only.permute(0, 3, 1, 2), k, v

    return split


@seed(
    HALF,
    "head_order",
    ("gpt2",),
    ("ARRANGEMENT", "ORDER"),
    note=r"only target calls .*(permute|getitem)",
)
def queries_of_single_rows_have_channels_before_heads(plot: Plot) -> Truth:
    """In all layers, when they decode."""
    for attention in plot.parts("attention"):
        attention.split = _splitting_channels_first(attention.split)
    return of_first_layer(plot, 1)


@seed(HALF, "head_order", ("ranks",), ("ORDER",))
def results_of_rank_1_expect_other_heads(plot: Plot) -> Truth:
    """In all layers of rank 1, the columns of two neighbouring heads are exchanged."""
    if dist.get_rank() == 1:
        for part, attention in zip(
            plot.parts("o"), plot.parts("attention"), strict=True
        ):
            heads = part.weight.data.unflatten(1, (-1, attention.size))
            part.weight.data = heads[:, [1, 0, 3, 2]].flatten(1)
    return [Place(plot.path("o", 0))]


@seed(HALF, "gqa_repeat", ("llama",), ("ORDER", "ARRANGEMENT"), kernel=ATTENTION)
def attention_kernel_of_decodes_returns_packed_heads(plot: Plot) -> Truth:
    """In all layers, the results of a group are not unpacked."""
    groups = plot.part("attention").groups

    def wrong(
        plain: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, **kwargs: Any
    ) -> Tensor:
        y = plain(q, k, v, **kwargs)
        if q.shape[2] > 1:
            return y
        return y.unflatten(1, (-1, groups)).transpose(1, 2).flatten(1, 2)

    return later(plot.break_parts("attention", functional, SDPA, wrong), 1)


def _filling_with_zeros(attention: Any) -> Callable[[Tensor], Tensor]:
    plain, calls = attention.repeat, itertools.count()

    def repeat(x: Tensor) -> Tensor:
        y = plain(x)
        # Keys are repeated before values.
        if next(calls) % 2:
            heads = torch.arange(y.shape[1]) % attention.groups
            y = y * (heads == 0)[:, None, None]
        return y

    return repeat


@seed(
    HALF,
    "gqa_repeat",
    ("moe",),
    ("ZEROS", "FACTOR"),
    note=r"only target calls .*(arange|remainder|mod|eq|getitem)|more calls .*mul",
)
def values_reach_only_the_first_head_of_a_group(plot: Plot) -> Truth:
    """In all layers, the other heads have zeros."""
    for attention in plot.parts("attention"):
        attention.repeat = _filling_with_zeros(attention)
    return of_first_layer(plot)


@seed(HALF, "gqa_repeat", ("tied",), ("ORDER", "SHIFT"))
def values_of_neighbouring_groups_are_exchanged(plot: Plot) -> Truth:
    """In all layers, in the weights. Keys have the right groups."""
    for part, attention in zip(plot.parts("v"), plot.parts("attention"), strict=True):
        heads = part.weight.data.unflatten(0, (-1, attention.size))
        part.weight.data = heads[[1, 0, 3, 2]].flatten(0, 1)
    return [Place(plot.path("v", 0))]


class _FirstOfGroup(torch.autograd.Function):
    """Repeats heads, and keeps the gradient of the first one of each group."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, groups: int) -> Tensor:
        ctx.groups = groups
        return x.repeat_interleave(groups, 1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient[:, :: ctx.groups].contiguous(), None


def _repeating(attention: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: _FirstOfGroup.apply(x, attention.groups)


@seed(
    HALF,
    "gqa_repeat",
    ("train",),
    ("TERM", "SAME_AS_INPUT"),
    note=r"only (golden|target) calls .*(expand|reshape|repeat_interleave|_FirstOfGroup)",
    # The calls that make the gradients.
    also=("*getitem*", "*contiguous*", "*repeat_interleave*", "*_FirstOfGroup*"),
)
def gradients_of_a_group_are_not_added(plot: Plot) -> Truth:
    """In all layers. The last layer has the first gradients."""
    for attention in plot.parts("attention"):
        attention.repeat = _repeating(attention)
    plot.layer = 1
    paths = [plot.path(role) for role in ("attention", "q", "k", "v", "o")]
    kinds = ("grad_output", "grad_input")
    found = [Place(path, io=io) for path in paths for io in kinds]
    parts = ("", "q_proj", "k_proj", "v_proj", "o_proj")
    return [*found, own(plot.path("attention"), parts, parts)]


@seed(
    HALF,
    "position_ids",
    ("vit",),
    ("ORDER", "SHIFT"),
    note=r"only target calls .*(repeat|cat|getitem|flatten|permute)",
)
def positions_are_those_of_a_smaller_image(plot: Plot) -> Truth:
    """Each position of a grid of 2 by 2 is that of four patches."""
    embeddings = plot.setup.at("vit.embeddings")

    def positions() -> Tensor:
        table = embeddings.position_embeddings
        grid = table[:, 1:].unflatten(1, (4, 4))[:, ::2, ::2]
        grid = grid.repeat_interleave(2, 1).repeat_interleave(2, 2)
        return torch.cat((table[:, :1], grid.flatten(1, 2)), 1)

    embeddings.positions = positions
    return [own("vit.embeddings", "patch_embeddings", "dropout")]


def give_each_text_its_positions(setup: Setup) -> None:
    """Makes a prompt of two texts, with a row of positions for each of them."""
    words = setup.inputs[0]["input_ids"]
    setup.inputs = [{"input_ids": torch.cat((words, words.flip(1)))}]
    setup.uses_cache = False
    setup.model.transformer.positions = lambda first, length: torch.arange(
        first, first + length
    ).repeat(2, 1)


@seed(
    HALF,
    "position_ids",
    ("gpt2",),
    ("OFFSET",),
    prepare=give_each_text_its_positions,
    note=r"target 16, golden 8|only (golden|target) calls .*(repeat|view|reshape)",
)
def second_text_continues_the_positions_of_the_first(plot: Plot) -> Truth:
    """All words are counted as those of one text."""
    plot.part("body").positions = lambda first, length: torch.arange(
        first, first + 2 * length
    ).view(2, -1)
    return position_code(plot)


@seed(
    HALF,
    "position_ids",
    ("train",),
    ("ROPE_POSITIONS", "ORDER", "SHIFT", "FACTOR", "OFFSET"),
    note=r"only target calls .*(floor|div)",
)
def positions_are_those_of_the_rows_of_an_image(plot: Plot) -> Truth:
    """Each two words have the same one."""
    body = plot.part("body")
    plain = body.positions
    body.positions = lambda first, length: plain(first, length) // 2
    return position_code(plot)


@seed(
    HALF,
    "position_ids",
    ("llama",),
    ("ROPE_POSITIONS", "OFFSET", "SHIFT", "FACTOR"),
    note=r"target 12, golden 9",
)
def drafts_that_were_rejected_count_as_positions(plot: Plot) -> Truth:
    """In the second word that decodes, three words were rejected before."""
    body = plot.part("body")
    plain = body.positions
    body.positions = lambda first, length: plain(first + 3 * (first >= 9), length)
    return position_code(plot, 2)


COPIED = r"equal to .*(embed|wte).* only in golden"


@seed(HALF, "tied_weights", ("tied",), (), note=r"equal to .* only in golden")
def embedding_is_that_of_another_checkpoint(plot: Plot) -> Truth:
    """The weight of the head is right, and is not that of the embedding."""
    embed = plot.part("embed")
    generator = torch.Generator().manual_seed(31)
    data = torch.randn(embed.weight.shape, generator=generator)
    embed.weight = nn.Parameter(data.to(embed.weight.dtype))
    return [Place(plot.path("embed"))]


@seed(
    HALF,
    "tied_weights",
    ("gpt2",),
    ("OFFSET", "TERM"),
    note=r"only target (gives|calls) .*(bias|2|add)|bias: target",
)
def head_has_the_bias_of_another_model(plot: Plot) -> Truth:
    head = plot.part("head")
    generator = torch.Generator().manual_seed(37)
    bias = torch.randn(len(head.weight), generator=generator).to(head.weight.dtype)
    head.forward = lambda x: functional.linear(x, head.weight, bias)
    return [Place(plot.path("head"))]


@seed(HALF, "tied_weights", ("tied",), ("FACTOR",))
def scale_of_embeddings_is_folded_into_the_shared_weight(plot: Plot) -> Truth:
    """The head has it, too."""
    plot.part("embed").weight.data *= 4
    return [Place(plot.path("embed"))]


@seed(
    HALF,
    "tied_weights",
    ("tied_train",),
    ("TERM", "SAME_AS_INPUT", "ZEROS", "FACTOR"),
    note=r"padding_idx|only target gives",
    # The calls that make the gradients.
    also=("*embedding*",),
)
def one_word_counts_as_padding(plot: Plot) -> Truth:
    """The tied weight has the gradient of the head for this word, and no other."""
    embed = plot.part("embed")
    word = int(plot.setup.inputs[0]["input_ids"][0, 2])
    embed.forward = lambda ids: functional.embedding(ids, embed.weight, word)
    weights = ("model.embed_tokens", "lm_head")
    return [
        Place("model.embed_tokens"),
        *(Place(name, io="grad_weight") for name in weights),
    ]
