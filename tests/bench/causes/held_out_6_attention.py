"""The sixth held-out half: attentions, masks, heads and tied weights.

Most follow reports about ports of models and servers: sinks that a softmax lacks, masks
of booleans that mean the opposite, and slopes that begin again on each rank.

16 of these 21 mistakes are in all layers, or in code that all layers share. 1 is in one
layer, and 4 are in an embedding or a head. 3 mistakes are only in steps that decode, 2
only in one rank, and 2 only in gradients. 1 is a wrong kernel.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from anatomy import Place, Truth, own
from attention import causal_mask
from held_out_3_attention import ATTENTION, SDPA, later, of_first_layer
from held_out_4_attention import CLOSED, gathered, mask_code
from seeding import Plot, seed
from subjects import WORDS, Setup
from torch import Tensor
from torch.nn import functional

HALF = "held_out_6"
Embeddings = tuple[Tensor, Tensor]
OTHER = r"other arguments?: "


@seed(
    HALF,
    "scale",
    ("llama",),
    ("SOFTMAX_SCALE", "FACTOR"),
    note=r"target 0\.1767\d*, golden 0\.2132",
)
def scale_is_that_of_padded_heads(plot: Plot) -> Truth:
    """In all layers, a kernel pads heads of 22 channels to 32."""
    for attention in plot.parts("attention"):
        attention.scaling = 32**-0.5
    return of_first_layer(plot)


def _with_a_sink(scores: Tensor) -> Tensor:
    sink = torch.full((*scores.shape[:-1], 1), 0.7, dtype=scores.dtype)
    both = torch.cat((scores, sink), -1)
    return functional.softmax(both, dim=-1, dtype=torch.float32)[..., :-1]


def add_sinks(setup: Setup) -> None:
    for layer in setup.model.model.layers:
        layer.self_attn.softmax = _with_a_sink


@seed(
    HALF,
    "scale",
    ("moe",),
    # A factor for each head and query.
    ("FACTOR", "SAME_AS_INPUT"),
    prepare=add_sinks,
    note=r"only golden calls .*(cat|full|getitem)|equal to .*add.* in the target",
)
def softmax_has_no_sink(plot: Plot) -> Truth:
    """In all layers, a weight of the checkpoint is not read."""
    for attention in plot.parts("attention"):
        attention.softmax = type(attention).softmax.__get__(attention)
    return of_first_layer(plot)


def _slopes(queries: int, keys: int, dtype: torch.dtype) -> Tensor:
    slopes = 2.0 ** -torch.arange(1, 5)
    far = torch.arange(keys) - torch.arange(keys - queries, keys)[:, None]
    return (slopes[:, None, None] * far).to(dtype)[None]


def _attending(attention: Any, scales_all: bool) -> Callable[..., Any]:
    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Any:
        scores = torch.matmul(q, k.transpose(2, 3))
        slopes = _slopes(q.shape[2], k.shape[2], q.dtype)
        if scales_all:
            scores = (scores + slopes) * attention.scaling
        else:
            scores = scores * attention.scaling + slopes
        weights = attention.softmax(attention.masked(scores, mask)).to(q.dtype)
        return attention.merge(torch.matmul(weights, v)), weights

    return attend


def add_slopes(setup: Setup) -> None:
    """Adds a bias to scores, which falls with the distance of a key."""
    for block in setup.model.transformer.h:
        block.attn.attend = _attending(block.attn, False)


@seed(
    HALF,
    "scale",
    ("gpt2",),
    # The slopes have the factor of the scores.
    ("TERM", "FACTOR", "SAME_AS_INPUT"),
    prepare=add_slopes,
    note=r"other order of calls|equal to .*matmul.* in the target",
)
def scale_reaches_the_slopes_of_keys(plot: Plot) -> Truth:
    """In all layers, scores are scaled after the slopes were added."""
    for attention in plot.parts("attention"):
        attention.attend = _attending(attention, True)
    return of_first_layer(plot)


@seed(HALF, "scale", ("llama",), ("FACTOR",), kernel=ATTENTION)
def attention_kernel_of_decodes_lacks_the_scale_of_values(plot: Plot) -> Truth:
    """In all layers, values of the cache have a scale of 0.05."""

    def wrong(
        plain: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, **kwargs: Any
    ) -> Tensor:
        y = plain(q, k, v, **kwargs)
        return y / 0.05 if q.shape[2] == 1 else y

    return later(plot.break_parts("attention", functional, SDPA, wrong), 1)


def _capped(x: Tensor) -> Tensor:
    return 3 * torch.tanh(x / 3)


def cap_scores(setup: Setup) -> None:
    for layer in setup.model.model.layers:
        layer.self_attn.masked = lambda scores, mask: _capped(scores) + mask


@seed(
    HALF,
    "mask",
    ("moe",),
    # Closed keys have the limit, and are not closed. The sum has scores without a cap.
    ("MASK", "SATURATED", "TERM", "SAME_AS_INPUT"),
    prepare=cap_scores,
    note=r"other order of calls|equal to .*mul.* in (golden|the target)",
)
def cap_of_scores_follows_the_mask(plot: Plot) -> Truth:
    """In all layers, so later words are not closed."""
    for attention in plot.parts("attention"):
        attention.masked = lambda scores, mask: _capped(scores + mask)
    return of_first_layer(plot)


def open_a_prefix(setup: Setup) -> None:
    """Lets the first words of a prompt see each other, as the patches of an image."""
    body = setup.model.model
    body.prefix = 5

    def mask(x: Tensor, past: int, _: Tensor | None) -> Tensor:
        found = causal_mask(x.shape[1], past + x.shape[1], x.dtype, None, CLOSED)
        if x.shape[1] == 1:
            return found
        is_prefix = torch.arange(x.shape[1]) < body.prefix
        return found.masked_fill(is_prefix & is_prefix[:, None], 0.0)

    body.mask = mask


@seed(
    HALF,
    "mask",
    ("llama",),
    ("MASK", "ZEROS", "AFFINE", "FACTOR"),
    prepare=open_a_prefix,
    note=r"target 0, golden 5",
)
def words_of_an_image_do_not_see_each_other(plot: Plot) -> Truth:
    """All layers share the mask, which is only causal."""
    plot.part("body").prefix = 0
    return mask_code(plot)


def continue_a_padded_batch(setup: Setup) -> None:
    """Makes two texts, the first of which is padded at its beginning."""
    steps, past = [], 0
    for step in setup.inputs:
        words = step["input_ids"]
        past += words.shape[1]
        padding = torch.ones(2, past, dtype=torch.int64)
        padding[0, :4] = 0
        words = torch.cat((words, (words * 5 + 1) % WORDS))
        steps.append({"input_ids": words, "attention_mask": padding})
    setup.inputs = steps
    setup.model.transformer.mask_value = CLOSED


@seed(
    HALF,
    "mask",
    ("gpt2",),
    ("MASK", "ORDER", "SHIFT", "ZEROS", "AFFINE", "OFFSET"),
    prepare=continue_a_padded_batch,
    note=r"only target calls .*ones_like|equal to .* only in golden",
)
def padding_is_open_when_words_follow(plot: Plot) -> Truth:
    """All layers share the mask. That of the prompt is right."""
    body = plot.part("body")
    plain = body.mask

    def mask(x: Tensor, past: int, padding: Tensor) -> Tensor:
        return plain(x, past, torch.ones_like(padding) if past else padding)

    body.mask = mask
    return mask_code(plot, 1)


def _chunks(queries: Tensor, keys: Tensor) -> Tensor:
    return keys // 4 == queries // 4


def keep_chunks_of_four(setup: Setup) -> None:
    """Lets words see only those of their own chunk."""
    body = setup.model.model
    body.is_near, plain = _chunks, body.mask

    def mask(x: Tensor, past: int, padding: Tensor | None) -> Tensor:
        keys = torch.arange(past + x.shape[1])
        is_near = body.is_near(keys[past:, None], keys)
        return plain(x, past, padding).masked_fill(~is_near, CLOSED)

    body.mask = mask


@seed(
    HALF,
    "mask",
    ("moe",),
    ("MASK", "ORDER", "SHIFT"),
    prepare=keep_chunks_of_four,
    note=r"only (golden calls .*(floor|div|eq)|target calls .*(sub|lt))",
)
def chunks_are_taken_for_a_window(plot: Plot) -> Truth:
    """All layers share the mask, which has the last four words."""
    plot.part("body").is_near = lambda queries, keys: queries - keys < 4
    return mask_code(plot)


def pad_images(setup: Setup) -> None:
    """Closes the last patches, which pad an image."""
    for layer in setup.model.vit.encoder.layer:
        layer.attention.attention.mask_of = lambda _: (torch.arange(17) < 12)[None]


@seed(
    HALF,
    "mask",
    ("vit",),
    # Each element is 1 minus that of golden.
    ("MASK", "AFFINE"),
    prepare=pad_images,
    note=r"only target calls .*(invert|not)|attn_mask",
)
def mask_of_booleans_means_the_opposite(plot: Plot) -> Truth:
    """In all layers, another function takes the keys to be closed."""
    for attention in plot.parts("attention"):
        attention.mask_of = lambda _: ~(torch.arange(17) < 12)[None]
    return of_first_layer(plot)


def _attending_with_slopes(attention: Any) -> Callable[..., Any]:
    plain = attention.attend

    def attend(q: Tensor, k: Tensor, v: Tensor, _: Tensor | None) -> Any:
        keys = torch.arange(k.shape[2])
        far = keys - keys[k.shape[2] - q.shape[2] :, None]
        bias = (attention.slopes[:, None, None] * far).masked_fill(far > 0, CLOSED)
        return plain(q, k, v, bias.to(q.dtype)[None])

    return attend


def slope_the_scores_of_all_ranks(setup: Setup) -> None:
    """Gives each head a slope, which falls from head to head of all ranks."""
    heads = torch.arange(4) + 4 * dist.get_rank()
    for layer in setup.model.model.layers:
        layer.self_attn.slopes = 2.0 ** -(heads / 2)
        layer.self_attn.attend = _attending_with_slopes(layer.self_attn)


@seed(
    HALF,
    "head_order",
    ("ranks",),
    # The slopes are those of four heads before.
    ("FACTOR", "ORDER"),
    prepare=slope_the_scores_of_all_ranks,
    note=r"has .* of golden",
)
def slopes_of_rank_1_begin_again(plot: Plot) -> Truth:
    """In all layers of rank 1, its heads have the slopes of the first ones."""
    if dist.get_rank() == 1:
        for attention in plot.parts("attention"):
            attention.slopes = attention.slopes * 4
    return of_first_layer(plot)


def _merging_requests(plain: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def merge(out: Tensor) -> Tensor:
        if len(out) == 1:
            return plain(out)
        return out.transpose(0, 1).reshape(len(out), 1, -1)

    return merge


@seed(
    HALF,
    "head_order",
    ("served",),
    ("ARRANGEMENT", "ORDER"),
    note=rf"{OTHER}|only golden calls .*contiguous",
)
def heads_precede_requests_when_they_are_merged(plot: Plot) -> Truth:
    """In all layers, when two requests decode at once."""
    for attention in plot.parts("attention"):
        attention.merge = _merging_requests(attention.merge)
    return of_first_layer(plot, 2)


@seed(HALF, "head_order", ("served",), ("ORDER", "ARRANGEMENT"))
def weights_of_keys_are_permuted_as_those_of_one_head(plot: Plot) -> Truth:
    """In all layers, a converter was given the number of another kind of heads."""
    for part in plot.parts("k"):
        data = part.weight.data
        part.weight.data = data.view(2, 22, -1).transpose(0, 1).reshape(data.shape)
    return [Place(plot.path("k", 0))]


@seed(HALF, "head_order", ("moe",), ("ORDER", "ARRANGEMENT"))
def queries_of_one_layer_keep_the_pairs_of_a_checkpoint(plot: Plot) -> Truth:
    """The pattern of a conversion does not match the name of one layer."""
    data = plot.part("q").weight.data
    pairs = data.view(-1, 2, 11, data.shape[1]).transpose(1, 2)
    plot.part("q").weight.data = pairs.reshape(data.shape)
    return [Place(plot.path("q"))]


def _rescaled(attention: Any, repeat: Callable[[Tensor], Tensor]) -> Any:
    plain = type(attention).repeat.__get__(attention)

    def rescale(x: Tensor) -> Tensor:
        scales = torch.tensor([0.5, 2.0], dtype=x.dtype)
        small = x / scales[:, None, None]
        return plain(small) * repeat(scales)[:, None, None]

    return rescale


def scale_heads_of_keys_and_values(setup: Setup) -> None:
    """Gives each of two heads a scale, as in a cache of few bits."""
    for layer in setup.model.model.layers:
        layer.self_attn.repeat = _rescaled(
            layer.self_attn, lambda x: x.repeat_interleave(4)
        )


@seed(
    HALF,
    "gqa_repeat",
    ("moe",),
    ("ORDER", "ARRANGEMENT", "FACTOR"),
    prepare=scale_heads_of_keys_and_values,
    note=r"only (golden calls .*repeat_interleave|target calls .*repeat\b)",
)
def scales_of_heads_are_dealt_in_turn(plot: Plot) -> Truth:
    """In all layers, though keys and values are repeated in blocks."""
    for attention in plot.parts("attention"):
        attention.repeat = _rescaled(attention, lambda x: x.repeat(4))
    return of_first_layer(plot)


@seed(HALF, "gqa_repeat", ("llama",), ("ORDER", "SHIFT"))
def all_heads_of_values_are_copies_of_the_first(plot: Plot) -> Truth:
    """In all layers, a loader gives each head the shard of the first."""
    for part in plot.parts("v"):
        part.weight.data = part.weight.data[:22].repeat(2, 1)
    return [Place(plot.path("v", 0))]


class _MeanOfGroup(torch.autograd.Function):
    """Repeats heads, and averages the gradients of each group."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, groups: int) -> Tensor:
        ctx.groups = groups
        return x.repeat_interleave(groups, 1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient.unflatten(1, (-1, ctx.groups)).mean(2), None


def _repeating(attention: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: _MeanOfGroup.apply(x, attention.groups)


@seed(
    HALF,
    "gqa_repeat",
    ("train",),
    ("FACTOR",),
    note=r"only (golden|target) calls .*(expand|reshape|repeat_interleave|MeanOfGroup)",
    # The calls that make the gradients.
    also=("*mean*", "*unflatten*", "*repeat_interleave*", "*_MeanOfGroup*"),
)
def gradients_of_a_group_are_averaged(plot: Plot) -> Truth:
    """In all layers. The last layer has the first gradients."""
    for attention in plot.parts("attention"):
        attention.repeat = _repeating(attention)
    plot.layer = 1
    paths = [plot.path(role) for role in ("attention", "q", "k", "v", "o")]
    kinds = ("grad_output", "grad_input")
    found = [Place(path, io=io) for path in paths for io in kinds]
    parts = ("", "q_proj", "k_proj", "v_proj", "o_proj")
    return [*found, own(plot.path("attention"), parts, parts)]


@seed(HALF, "gqa_repeat", ("quantized",), ("OFFSET", "ORDER"))
def keys_of_all_heads_have_the_bias_of_the_first(plot: Plot) -> Truth:
    """In all layers."""
    for part in plot.parts("k"):
        part.bias.data = part.bias.data[:22].repeat(2)
    return [Place(plot.path("k", 0))]


@seed(
    HALF,
    "tied_weights",
    ("tied_train",),
    ("FACTOR", "TERM", "SAME_AS_INPUT"),
    # The calls that make the gradients.
    also=("*mul*", "*add*"),
)
def gradient_of_the_shared_weight_is_added_twice(plot: Plot) -> Truth:
    """Both owners of the weight send the sum of their gradients to each other."""
    plot.part("embed").weight.register_hook(lambda gradient: gradient * 2)
    weights = ("model.embed_tokens", "lm_head")
    return [Place(name, io="grad_weight") for name in weights]


@seed(HALF, "tied_weights", ("ranks",), ("SHIFT", "ORDER"))
def shard_of_the_head_begins_early(plot: Plot) -> Truth:
    """In rank 1, by two words, as sizes were padded in another way."""
    part = plot.part("head")
    whole = gathered(part.weight)
    if dist.get_rank() == 1:
        first = len(part.weight) - 2
        part.weight.data = whole[first : first + len(part.weight)].clone()
    return [Place(plot.path("head"))]


@seed(HALF, "tied_weights", ("gpt2",), ("FACTOR",))
def norm_is_folded_into_the_shared_weight(plot: Plot) -> Truth:
    """The weight of the last norm is that of the head, and of the embedding, too."""
    norm = plot.part("final")
    generator = torch.Generator().manual_seed(67)
    scales = 1 + 0.3 * torch.randn(len(norm.weight), generator=generator)
    plot.part("embed").weight.data *= scales.to(norm.weight.dtype)
    norm.weight.data /= scales.to(norm.weight.dtype)
    return [Place(plot.path("embed"))]


def cap_logits(setup: Setup) -> None:
    setup.model.end = lambda logits: 15 * torch.tanh(logits.float() / 15)


@seed(
    HALF,
    "tied_weights",
    ("tied",),
    # The logits are passed on as they are.
    ("SAME_AS_INPUT",),
    prepare=cap_logits,
    note=r"only golden calls .*(tanh|div|mul)",
)
def logits_have_no_cap(plot: Plot) -> Truth:
    model = plot.setup.model
    model.end = type(model).end.__get__(model)
    return [own("", "lm_head", "")]
