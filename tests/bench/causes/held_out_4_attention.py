"""The fourth held-out half: attentions, positions, masks and tied weights.

Most follow reports about ports of models: texts that are padded on the left, windows
that are too long by one, fused projections of groups, and bases that grow with a text.

25 of these 30 mistakes are in all layers, or in code that all layers share. The other 5
are in an embedding or a head. 5 mistakes are only in steps that decode, and 1 only in
one rank.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from anatomy import Place, Truth, own
from attention import Cache
from held_out_3_attention import ATTENTION, SDPA, later, of_first_layer, position_code
from seeding import Plot, seed
from subjects import Setup
from torch import Tensor, nn
from torch.nn import functional

HALF = "held_out_4"
# A mask with which no kernel overflows.
CLOSED = -1e4
Embeddings = tuple[Tensor, Tensor]


def mask_code(plot: Plot, token: int = 0) -> Truth:
    """Returns the code that makes the mask of all layers."""
    if plot.setup.name == "gpt2":
        place = own("transformer", ("wpe", "drop"), ("drop", "h.0"))
    else:
        after, before = ("embed_tokens", "rotary_emb"), ("rotary_emb", "layers.0")
        place = own("model", after, before)
    return later([place], token)


@seed(
    HALF,
    "rope",
    ("llama",),
    ("FACTOR", "ROPE_POSITIONS"),
    note=r"only target calls .*(where|div|\.lt\b|__lt__)",
)
def low_rotary_rates_are_those_of_a_longer_context(plot: Plot) -> Truth:
    """All but the highest rate are divided, as by the scaling of another model."""
    rotary = plot.setup.at("model.rotary_emb")
    plain = rotary.rates

    def rates() -> Tensor:
        found = plain()
        return torch.where(found < 0.5, found / 8, found)

    rotary.rates = rates
    return [Place("model.rotary_emb")]


@seed(
    HALF,
    "rope",
    ("moe",),
    ("ROPE_BASE", "FACTOR"),
    note=r"target 160000(\.0)?, golden 10000(\.0)?",
)
def base_grows_when_words_follow(plot: Plot) -> Truth:
    """Cached keys have the base of the prompt."""
    rotary = plot.setup.at("model.rotary_emb")
    plain = rotary.forward

    def forward(x: Tensor, position_ids: Tensor) -> Embeddings:
        rotary.base = 10000.0 if position_ids.shape[1] > 1 else 160000.0
        return plain(x, position_ids)

    rotary.forward = forward
    return [Place("model.rotary_emb", token=1)]


def begin_at_seven_hundred(setup: Setup) -> None:
    """Moves the text to positions whose angles bfloat16 does not have."""
    setup.model.model.first_position = 700


@seed(
    HALF,
    "rope",
    ("llama",),
    ("ROUNDED",),
    prepare=begin_at_seven_hundred,
    note=r"only target calls .*bfloat16",
)
def angles_are_rounded_to_bfloat16(plot: Plot) -> Truth:
    rotary = plot.setup.at("model.rotary_emb")

    def forward(x: Tensor, position_ids: Tensor) -> Embeddings:
        rates = rotary.rates()[None, :, None].expand(position_ids.shape[0], -1, 1)
        angles = (rates @ position_ids[:, None, :].float()).transpose(1, 2)
        angles = angles.bfloat16().float()
        both = torch.cat((angles, angles), dim=-1)
        return both.cos().to(x.dtype), both.sin().to(x.dtype)

    rotary.forward = forward
    return [Place("model.rotary_emb")]


def _turn_adjacent(x: Tensor, embeddings: Embeddings) -> Tensor:
    cos, sin = (one[..., : one.shape[-1] // 2].unsqueeze(1) for one in embeddings)
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)


def _adjacent_in_decodes(plain: Callable[..., Embeddings]) -> Callable[..., Embeddings]:
    def rope(q: Tensor, k: Tensor, embeddings: Embeddings) -> Embeddings:
        if q.shape[2] > 1:
            return plain(q, k, embeddings)
        return _turn_adjacent(q, embeddings), _turn_adjacent(k, embeddings)

    return rope


@seed(
    HALF,
    "rope",
    ("llama",),
    ("ROPE_PAIRS",),
    note=r"only (golden|target) calls .*(stack|getitem|chunk|cat|neg|sub|flatten)",
)
def rope_of_decodes_has_adjacent_pairs(plot: Plot) -> Truth:
    """In all layers. Cached keys of the prompt have the right pairs."""
    for attention in plot.parts("attention"):
        attention.rope = _adjacent_in_decodes(attention.rope)
    return of_first_layer(plot, 1)


@seed(HALF, "rope", ("moe",), ("FACTOR",), note=r"only target calls .*mul")
def rotary_tables_have_the_factor_of_yarn(plot: Plot) -> Truth:
    rotary = plot.setup.at("model.rotary_emb")
    plain = rotary.forward

    def forward(x: Tensor, position_ids: Tensor) -> Embeddings:
        cos, sin = plain(x, position_ids)
        return cos * 1.25, sin * 1.25

    rotary.forward = forward
    return [Place("model.rotary_emb")]


def _with_far_queries_scaled(plain: Callable[..., Any]) -> Callable[..., Any]:
    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Any:
        if q.shape[2] == 1:
            q = q * (math.log(k.shape[2]) / math.log(4))
        return plain(q, k, v, mask)

    return attend


@seed(
    HALF,
    "scale",
    ("llama",),
    ("SOFTMAX_SCALE", "FACTOR"),
    note=r"only target calls .*mul",
)
def queries_of_far_words_are_scaled(plot: Plot) -> Truth:
    """In all layers, by the logarithm of the position, as another model does."""
    for attention in plot.parts("attention"):
        attention.attend = _with_far_queries_scaled(attention.attend)
    return of_first_layer(plot, 1)


@seed(HALF, "scale", ("vit",), ("SOFTMAX_SCALE",), kernel=ATTENTION)
def attention_kernel_does_not_scale_its_last_head(plot: Plot) -> Truth:
    """In all layers."""

    def wrong(
        plain: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, **kwargs: Any
    ) -> Tensor:
        y = plain(q, k, v, **kwargs).clone()
        last = (x[:, -1:] for x in (q, k, v))
        y[:, -1:] = plain(*last, **{**kwargs, "scale": 1.0})
        return y

    return plot.break_parts("attention", functional, SDPA, wrong)


@seed(HALF, "scale", ("gpt2",), ("FACTOR", "SOFTMAX_SCALE"))
def weights_of_queries_have_the_scale_too(plot: Plot) -> Truth:
    """In all layers, the conversion has folded the scale into the projection."""
    for part, attention in zip(plot.parts("qkv"), plot.parts("attention"), strict=True):
        size = part.weight.shape[0]
        part.weight.data[:, :size] *= attention.scaling
        part.bias.data[:size] *= attention.scaling
    return [Place(plot.path("qkv", 0))]


def _scaling_weights(attention: Any) -> Callable[..., Any]:
    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Any:
        scores = attention.masked(torch.matmul(q, k.transpose(2, 3)), mask)
        weights = attention.softmax(scores).to(q.dtype)
        out = torch.matmul(weights * attention.scaling, v)
        return attention.merge(out), weights

    return attend


@seed(
    HALF,
    "scale",
    ("moe",),
    ("SOFTMAX_SCALE", "FACTOR", "SAME_AS_INPUT"),
    note=r"other order of calls|only (golden|target) calls .*mul",
)
def scale_follows_the_softmax(plot: Plot) -> Truth:
    """In all layers, the probabilities have the scale in place of the scores."""
    for attention in plot.parts("attention"):
        attention.attend = _scaling_weights(attention)
    return of_first_layer(plot)


def pad_a_text_on_the_left(setup: Setup) -> None:
    """Makes a prompt of two texts, the second of which is padded at its beginning."""
    words = setup.inputs[0]["input_ids"]
    padding = torch.ones(2, words.shape[1], dtype=torch.int64)
    padding[1, :3] = 0
    words = torch.cat((words, words.flip(1)))
    setup.inputs = [{"input_ids": words, "attention_mask": padding}]
    setup.uses_cache = False
    body = "transformer" if setup.name == "gpt2" else "model"
    setup.at(body).mask_value = CLOSED


@seed(
    HALF,
    "mask",
    ("llama",),
    ("MASK", "ORDER", "SHIFT"),
    prepare=pad_a_text_on_the_left,
    note=r"only target calls .*flip",
)
def padding_is_expected_on_the_right(plot: Plot) -> Truth:
    """All layers share the mask."""
    body = plot.part("body")
    plain = body.mask
    body.mask = lambda x, past, padding: plain(x, past, padding.flip(-1))
    return mask_code(plot)


@seed(
    HALF,
    "mask",
    ("gpt2",),
    ("SATURATED",),
    prepare=pad_a_text_on_the_left,
    note=r"target -inf",
    is_infinite=True,
)
def padded_rows_have_no_open_key(plot: Plot) -> Truth:
    """The mask of all layers has infinities. A row that has only those has no softmax."""
    plot.part("body").mask_value = float("-inf")
    # The first softmax makes a NaN of such a row.
    return mask_code(plot) + of_first_layer(plot)


def _of_packed_texts(mask: Tensor | None) -> Tensor:
    """Returns the mask of texts of six and four words."""
    texts = torch.arange(10) // 6
    return (texts[:, None] == texts).tril()


def pack_two_texts(setup: Setup) -> None:
    for layer in setup.model.model.layers:
        layer.self_attn.mask_of = _of_packed_texts


@seed(
    HALF,
    "mask",
    ("train",),
    ("MASK",),
    prepare=pack_two_texts,
    note=r"is_causal: target True, golden False|only golden calls .*(tril|\.eq\b|__eq__|arange)",
)
def packed_texts_see_each_other(plot: Plot) -> Truth:
    """In all layers."""
    for attention in plot.parts("attention"):
        attention.mask_of = lambda mask: mask
    return of_first_layer(plot)


def keep_a_window_of_four(setup: Setup) -> None:
    """Closes all but the last four words in all layers."""
    body = setup.model.model
    body.window, plain = 4, body.mask

    def mask(x: Tensor, past: int, padding: Tensor | None) -> Tensor:
        found = plain(x, past, padding)
        far = torch.ones(found.shape[-2:], dtype=torch.bool).tril(past - body.window)
        return found.masked_fill(far, CLOSED)

    body.mask = mask


@seed(
    HALF,
    "mask",
    ("moe",),
    # The table of far words is moved by a row.
    ("MASK", "SHIFT", "ORDER", "ZEROS"),
    prepare=keep_a_window_of_four,
    note=r"target -5, golden -4",
)
def window_counts_the_word_itself_in_addition(plot: Plot) -> Truth:
    plot.part("body").window = 5
    return mask_code(plot)


def _within_three(mask: Tensor) -> Tensor:
    length, total = mask.shape[-2:]
    far = torch.ones(length, total, dtype=torch.bool).tril(total - length - 3)
    return mask.masked_fill(far, CLOSED)


def alternate_windows(setup: Setup) -> None:
    """Gives each second layer a window, beginning with the first one."""
    for block in setup.model.transformer.h[::2]:
        block.attn.mask_of = _within_three


@seed(
    HALF,
    "mask",
    ("gpt2",),
    ("MASK", "SAME_AS_INPUT"),
    prepare=alternate_windows,
    note=r"only golden calls .*(masked_fill|tril|ones)",
)
def windows_are_in_the_other_layers(plot: Plot) -> Truth:
    """Layers are counted from 1, so only the second one has a window."""
    for number, attention in enumerate(plot.parts("attention"), 1):
        attention.mask_of = (lambda mask: mask) if number % 2 else _within_three
    return of_first_layer(plot)


@seed(HALF, "head_order", ("llama",), ())
def fused_projections_of_groups_are_cut_in_blocks(plot: Plot) -> Truth:
    """In all layers, a group has its queries, its keys and its values in one block."""
    for layer, attention in enumerate(plot.parts("attention")):
        parts = [plot.part(role, layer) for role in ("q", "k", "v")]
        groups, size = plot.part("k").weight.shape[0] // attention.size, attention.size
        whole = [
            one.weight.data.view(groups, -1, size, one.in_features) for one in parts
        ]
        rows = torch.cat(whole, 1).flatten(0, 2)
        cut = rows.split([len(one.weight) for one in parts])
        for part, data in zip(parts, cut, strict=True):
            part.weight.data = data.clone()
    return [Place(plot.path(role, 0)) for role in ("q", "k", "v")]


def _with_heads_of_new_values_reversed(plain: Callable[..., Any]) -> Callable[..., Any]:
    def remember(past: Cache | None, k: Tensor, v: Tensor) -> Any:
        return plain(past, k, v.flip(1) if v.shape[2] == 1 else v)

    return remember


@seed(HALF, "head_order", ("llama",), ("ORDER",), note=r"only target calls .*flip")
def values_of_decodes_have_their_heads_in_reverse(plot: Plot) -> Truth:
    """In all layers. Those of the prompt are right."""
    for attention in plot.parts("attention"):
        attention.remember = _with_heads_of_new_values_reversed(attention.remember)
    return of_first_layer(plot, 1)


def gathered(weight: Tensor) -> Tensor:
    """Returns the rows of all ranks."""
    data = weight.data.float()
    pieces = [torch.zeros_like(data) for _ in range(dist.get_world_size())]
    dist.all_gather(pieces, data)
    return torch.cat(pieces).to(weight.dtype)


@seed(HALF, "head_order", ("ranks",), ("ORDER",))
def queries_are_dealt_to_the_ranks_in_turn(plot: Plot) -> Truth:
    """In all layers, though keys and results are dealt in blocks."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for part, attention in zip(plot.parts("q"), plot.parts("attention"), strict=True):
        heads = gathered(part.weight).unflatten(0, (-1, attention.size))
        part.weight.data = heads[rank::ranks].flatten(0, 1)
    return [Place(plot.path("q", 0))]


@seed(
    HALF,
    "head_order",
    ("moe",),
    ("ARRANGEMENT", "ORDER"),
    note=r"only (golden|target) calls .*(permute|transpose|contiguous|reshape|flatten)",
)
def channels_precede_heads_when_they_are_merged(plot: Plot) -> Truth:
    """In all layers."""
    for attention in plot.parts("attention"):
        attention.merge = lambda out: out.permute(0, 2, 3, 1).flatten(2)
    return of_first_layer(plot)


@seed(HALF, "gqa_repeat", ("vit",), ("ORDER",), kernel=ATTENTION)
def attention_kernel_shares_keys_that_are_not_grouped(plot: Plot) -> Truth:
    """In all layers, each two heads have the keys and values of one."""

    def wrong(
        plain: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, **kwargs: Any
    ) -> Tensor:
        heads = [head // 2 for head in range(k.shape[1])]
        return plain(q, k[:, heads], v[:, heads], **kwargs)

    return plot.break_parts("attention", functional, SDPA, wrong)


@seed(HALF, "gqa_repeat", ("llama",), (), note=r"only target calls .*mean")
def groups_share_the_mean_of_their_heads(plot: Plot) -> Truth:
    """In all layers, as by a conversion to a single head of keys and values."""
    for attention in plot.parts("attention"):
        attention.repeat = lambda x: x.mean(1, keepdim=True).expand(-1, 12, -1, -1)
    return of_first_layer(plot)


@seed(HALF, "gqa_repeat", ("tied",), ("ORDER", "SHIFT"))
def shards_of_keys_and_values_are_merged_in_reverse(plot: Plot) -> Truth:
    """In all layers, but those of the queries are merged in their order."""
    for part in (*plot.parts("k"), *plot.parts("v")):
        part.weight.data = part.weight.data.unflatten(0, (2, -1)).flip(0).flatten(0, 1)
    return [Place(plot.path("k", 0)), Place(plot.path("v", 0))]


@seed(
    HALF,
    "gqa_repeat",
    ("ranks",),
    ("ORDER",),
    note=r"only (golden|target) calls .*(getitem|expand|reshape)",
)
def rank_1_shares_its_first_head(plot: Plot) -> Truth:
    """In all layers of rank 1, which takes itself for the only owner of one head."""
    if dist.get_rank() == 1:
        for attention in plot.parts("attention"):
            attention.repeat = lambda x: x[:, [0] * 6]
    return of_first_layer(plot)


def count_positions_after_the_padding(setup: Setup) -> None:
    pad_a_text_on_the_left(setup)
    padding = setup.inputs[0]["attention_mask"]
    body = setup.model.transformer
    body.positions = lambda first, length: (padding.cumsum(-1) - 1).clamp(0)


@seed(
    HALF,
    "position_ids",
    ("gpt2",),
    ("OFFSET", "SHIFT", "ORDER"),
    prepare=count_positions_after_the_padding,
    note=r"only (golden|target) calls .*(cumsum|clamp|arange|sub)",
)
def positions_count_the_padding(plot: Plot) -> Truth:
    plot.part("body").positions = lambda first, length: torch.arange(
        first, first + length
    ).expand(2, -1)
    return position_code(plot)


@seed(
    HALF,
    "position_ids",
    ("vit",),
    ("SHIFT", "ORDER", "ZEROS", "FACTOR"),
    note=r"(only target|more) calls .*(cat|zeros)",
)
def class_token_has_no_position(plot: Plot) -> Truth:
    """The first patch has the position of the class token, and so on."""
    embeddings = plot.setup.at("vit.embeddings")
    table = embeddings.position_embeddings
    embeddings.positions = lambda: torch.cat(
        (torch.zeros_like(table[:, :1]), table[:, :-1]), 1
    )
    return [own("vit.embeddings", "patch_embeddings", "dropout")]


def give_each_request_its_positions(setup: Setup) -> None:
    """Makes a row of positions for each of the two requests that decode."""
    body = setup.model.model
    plain = body.positions
    body.positions = lambda first, length: plain(first, length).expand(
        2 if length == 1 else 1, -1
    )


@seed(
    HALF,
    "position_ids",
    ("served",),
    ("OFFSET", "FACTOR", "ROPE_POSITIONS"),
    prepare=give_each_request_its_positions,
    note=r"only target calls .*sub",
)
def second_request_does_not_count_its_prefix(plot: Plot) -> Truth:
    """All layers receive the positions, which are right in the prompt."""
    body = plot.part("body")
    plain = body.positions

    def positions(first: int, length: int) -> Tensor:
        found = plain(first, length)
        return found - torch.tensor([[0], [4]]) if length == 1 else found

    body.positions = positions
    return position_code(plot, 2)


def begin_before_the_limit_of_a_byte(setup: Setup) -> None:
    setup.model.model.first_position = 250


@seed(
    HALF,
    "position_ids",
    ("moe",),
    ("OFFSET", "FACTOR", "ROPE_POSITIONS"),
    prepare=begin_before_the_limit_of_a_byte,
    note=r"only target calls .*(\bto\b|type|byte|long)",
)
def positions_are_kept_in_bytes(plot: Plot) -> Truth:
    """Those from 256 on begin again at 0."""
    holder = plot.part("body")
    plain = holder.positions
    holder.positions = lambda first, length: plain(first, length).byte().long()
    return position_code(plot)


COPIED = r"equal to .*(embed|wte).* only in golden"


@seed(HALF, "tied_weights", ("tied",), ("ZEROS", "FACTOR"), note=COPIED)
def head_has_no_words_beyond_its_shard(plot: Plot) -> Truth:
    """The last words of a vocabulary that was padded are zeros."""
    head = plot.part("head")
    data = head.weight.data.clone()
    data[112:] = 0
    head.weight = nn.Parameter(data)
    return [Place(plot.path("head"))]


@seed(HALF, "tied_weights", ("tied",), (), note=COPIED)
def head_lacks_the_adapter_of_the_embedding(plot: Plot) -> Truth:
    """An adapter was merged into the embedding only."""
    head = plot.part("head")
    data, generator = head.weight.data, torch.Generator().manual_seed(19)
    a, b = (torch.randn(size, 2, generator=generator) for size in data.shape)
    head.weight = nn.Parameter((data.float() - 0.2 * a @ b.t()).to(data.dtype))
    return [Place(plot.path("head"))]


@seed(
    HALF,
    "tied_weights",
    ("gpt2",),
    ("FACTOR",),
    note=rf"only target calls .*(normalize|norm|div)|{COPIED}",
)
def words_of_the_head_have_the_same_length(plot: Plot) -> Truth:
    head = plot.part("head")
    head.forward = lambda x: functional.linear(
        x, functional.normalize(head.weight, dim=-1)
    )
    return [Place(plot.path("head"))]


@seed(
    HALF,
    "tied_weights",
    ("tied_train",),
    ("TERM", "SAME_AS_INPUT"),
    note=r"only target calls .*detach",
)
def only_the_head_has_a_gradient(plot: Plot) -> Truth:
    """The tied weight has no gradient of the embedding."""
    embed = plot.part("embed")
    embed.forward = lambda ids: functional.embedding(ids, embed.weight.detach())
    weights = ("model.embed_tokens", "lm_head")
    return [
        Place("model.embed_tokens"),
        *(Place(name, io="grad_weight") for name in weights),
    ]
