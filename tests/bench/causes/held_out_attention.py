"""Held out: rotary embeddings, positions, scales, masks, and heads."""

from collections.abc import Callable
from typing import Any

import torch
from anatomy import Place, Truth, own
from attention import apply_rope, repeat_kv
from seeding import Plot, seed
from torch import Tensor
from torch.nn import functional
from wrong_kernels import changed

HALF = "held_out"
# The arguments of arange.
ARANGE = r"other arguments?: [01]: target -?\d+, golden \d+"
# A mask that no kernel overflows with.
CLOSED = -1e4
ATTENTION = "*.scaled_dot_product_attention"
POSITIONS = ("ROPE_POSITIONS", "SHIFT", "OFFSET")
Embeddings = tuple[Tensor, Tensor]


def _break_attention(plot: Plot, wrong: Callable[..., Tensor]) -> Truth:
    name = "scaled_dot_product_attention"
    return plot.break_part("attention", functional, name, wrong)


@seed(
    HALF,
    "rope",
    ("llama", "moe"),
    ("ROPE_BASE", "FACTOR"),
    note=r"only target calls .*div",
)
def rope_positions_are_halved(plot: Plot) -> Truth:
    rotary = plot.setup.at("model.rotary_emb")
    plain = rotary.rates
    rotary.rates = lambda: plain() / 2
    return [Place("model.rotary_emb")]


def _adjacent(x: Tensor, embeddings: Embeddings) -> Tensor:
    cos, sin = (one[..., : one.shape[-1] // 2].unsqueeze(1) for one in embeddings)
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)


@seed(HALF, "rope", ("llama", "moe"), ("ROPE_PAIRS", "ARRANGEMENT"))
def rope_of_keys_has_adjacent_pairs(plot: Plot) -> Truth:
    plot.part("attention").rope = lambda q, k, embeddings: (
        apply_rope(q, embeddings),
        _adjacent(k, embeddings),
    )
    return plot.attention_weights()


@seed(HALF, "rope", ("llama",), ("ROPE_BASE", "ROPE_POSITIONS"))
def rope_applied_twice(plot: Plot) -> Truth:
    def twice(x: Tensor, embeddings: Embeddings) -> Tensor:
        return apply_rope(apply_rope(x, embeddings), embeddings)

    plot.part("attention").rope = lambda q, k, embeddings: (
        twice(q, embeddings),
        twice(k, embeddings),
    )
    return plot.attention_weights()


@seed(HALF, "rope", ("moe",))
def rope_of_half_of_the_channels(plot: Plot) -> Truth:
    def partial(x: Tensor, embeddings: Embeddings) -> Tensor:
        half = x.shape[-1] // 2
        return torch.cat((apply_rope(x, embeddings)[..., :half], x[..., half:]), -1)

    plot.part("attention").rope = lambda q, k, embeddings: (
        partial(q, embeddings),
        partial(k, embeddings),
    )
    return plot.attention_weights()


@seed(
    HALF,
    "scale",
    ("llama", "moe", "vit"),
    ("SOFTMAX_SCALE", "FACTOR"),
    note=r"target 0\.0625, golden 0\.25",
)
def scores_divided_by_the_size_of_a_head(plot: Plot) -> Truth:
    attention = plot.part("attention")
    attention.scaling = attention.scaling**2
    return plot.attention_weights()


@seed(
    HALF,
    "scale",
    ("moe",),
    ("SOFTMAX_SCALE", "FACTOR"),
    note=r"only target calls .*mul",
)
def queries_are_scaled_too(plot: Plot) -> Truth:
    attention = plot.part("attention")
    plain = attention.attend
    attention.attend = lambda q, k, v, mask: plain(q * attention.scaling, k, v, mask)
    return plot.attention_weights()


@seed(HALF, "scale", ("llama", "vit"), ("SOFTMAX_SCALE", "FACTOR"), kernel=ATTENTION)
def attention_kernel_has_another_logarithm(plot: Plot) -> Truth:
    def wrong(plain: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        return plain(*args, **{**kwargs, "scale": kwargs["scale"] * 0.6931})

    return _break_attention(plot, wrong)


@seed(HALF, "scale", ("moe",), ("SOFTMAX_SCALE",), kernel="*.softmax")
def softmax_kernel_scales_its_input(plot: Plot) -> Truth:
    def wrong(plain: Callable[..., Tensor], x: Tensor, **kwargs: Any) -> Tensor:
        return plain(x * 1.4427, **kwargs)

    return plot.break_part("attention", functional, "softmax", wrong)


def _mask(plot: Plot, allow: Callable[[int, int], Tensor]) -> Truth:
    """Replaces the mask of a layer. `allow` receives the lengths."""
    attention = plot.part("attention")
    plain = attention.attend

    def attend(q: Tensor, k: Tensor, v: Tensor, _: Tensor | None) -> Any:
        length, total = q.shape[2], k.shape[2]
        mask = torch.zeros(1, 1, length, total, dtype=q.dtype)
        return plain(q, k, v, mask.masked_fill(~allow(length, total), CLOSED))

    attention.attend = attend
    return plot.attention_weights()


def _causal(length: int, total: int, shift: int = 0) -> Tensor:
    return torch.ones(length, total, dtype=torch.bool).tril(total - length + shift)


@seed(HALF, "mask", ("llama", "moe"), ("MASK",), note="is_causal|attn_mask")
def mask_opens_the_next_position(plot: Plot) -> Truth:
    return _mask(plot, lambda length, total: _causal(length, total, 1))


@seed(HALF, "mask", ("moe",), ("MASK",))
def mask_opens_the_first_half(plot: Plot) -> Truth:
    def allow(length: int, total: int) -> Tensor:
        allowed = _causal(length, total)
        allowed[:, :4] = True
        return allowed

    return _mask(plot, allow)


@seed(HALF, "mask", ("llama",), ("MASK",), note="is_causal|attn_mask")
def mask_closes_the_first_position(plot: Plot) -> Truth:
    def allow(length: int, total: int) -> Tensor:
        allowed = _causal(length, total)
        allowed[-length + 1 if length == total else 0 :, 0] = False
        return allowed

    return _mask(plot, allow)


@seed(HALF, "mask", ("llama",), ("MASK",), kernel=ATTENTION)
def attention_kernel_closes_the_diagonal(plot: Plot) -> Truth:
    def wrong(
        plain: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, **kwargs: Any
    ) -> Tensor:
        if not kwargs["is_causal"]:
            return plain(q, k, v, **kwargs)
        allowed = _causal(q.shape[2], k.shape[2], -1)
        allowed[0, 0] = True
        return plain(q, k, v, attn_mask=allowed, scale=kwargs["scale"])

    return _break_attention(plot, wrong)


@seed(
    HALF,
    "head_order",
    ("llama", "vit"),
    ("ORDER", "SHIFT", "ARRANGEMENT"),
    note=r"only target calls .*roll",
)
def heads_rolled_when_they_are_merged(plot: Plot) -> Truth:
    attention = plot.part("attention")
    plain = attention.merge
    attention.merge = lambda out: plain(out.roll(1, 1))
    return [plot.attention_code()]


@seed(HALF, "head_order", ("llama", "vit"), ("ORDER", "ARRANGEMENT"))
def query_weight_in_the_order_of_channels(plot: Plot) -> Truth:
    part = plot.part("q")
    for parameter in part.parameters():
        data = parameter.data
        heads = data.view(4, -1, *data.shape[1:])
        parameter.data = heads.transpose(0, 1).reshape(data.shape)
    return [Place(plot.path("q"))]


@seed(HALF, "head_order", ("llama",), ("ORDER",), kernel=ATTENTION)
def attention_kernel_exchanges_two_heads(plot: Plot) -> Truth:
    def change(y: Tensor) -> Tensor:
        return y[:, [1, 0, *range(2, y.shape[1])]]

    return _break_attention(plot, changed(change))


@seed(
    HALF,
    "gqa_repeat",
    ("llama", "moe"),
    ("ORDER", "SHIFT"),
    note=r"only target calls .*roll",
)
def groups_read_the_next_head(plot: Plot) -> Truth:
    attention = plot.part("attention")
    attention.repeat = lambda x: repeat_kv(x, attention.groups).roll(-1, 1)
    return plot.attention_weights()


@seed(HALF, "gqa_repeat", ("moe",), ("ORDER", "SHIFT"))
def groups_all_read_the_first_head(plot: Plot) -> Truth:
    attention = plot.part("attention")
    attention.repeat = lambda x: repeat_kv(
        x[:, :1], attention.groups * x.shape[1]
    ).contiguous()
    return plot.attention_weights()


@seed(HALF, "gqa_repeat", ("llama",), ("ORDER", "SHIFT"), kernel=ATTENTION)
def attention_kernel_divides_heads_by_the_wrong_group(plot: Plot) -> Truth:
    def wrong(
        plain: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, **kwargs: Any
    ) -> Tensor:
        heads = [0, *range(k.shape[1] - 1)]
        return plain(q, k[:, heads], v[:, heads], **kwargs)

    return _break_attention(plot, wrong)


@seed(HALF, "position_ids", ("llama", "moe"), POSITIONS, note=ARANGE)
def positions_restart_in_each_step(plot: Plot) -> Truth:
    plot.part("body").positions = lambda _, length: torch.arange(length)[None]
    place = own("model", "embed_tokens", "rotary_emb")
    return [Place(place.op, place.after, place.before, token=1)]


@seed(HALF, "position_ids", ("llama",), (*POSITIONS, "ORDER"), note=ARANGE)
def positions_begin_with_two_zeros(plot: Plot) -> Truth:
    plot.part("body").positions = lambda first, length: torch.arange(
        first - 1, first - 1 + length
    )[None].clamp(0)
    return [own("model", "embed_tokens", "rotary_emb")]


@seed(
    HALF,
    "position_ids",
    ("vit",),
    ("ORDER", "ARRANGEMENT"),
    note=r"only target calls .*transpose",
)
def positions_of_patches_transposed(plot: Plot) -> Truth:
    embeddings = plot.setup.at("vit.embeddings")

    def positions() -> Tensor:
        table = embeddings.position_embeddings
        grid = table[:, 1:].unflatten(1, (4, 4)).transpose(1, 2).flatten(1, 2)
        return torch.cat((table[:, :1], grid), 1)

    embeddings.positions = positions
    return [own("vit.embeddings", "patch_embeddings", "dropout")]
