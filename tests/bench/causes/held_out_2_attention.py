"""The second held-out half: mistakes of attentions, positions and masks."""

from collections.abc import Callable
from typing import Any

import torch
from anatomy import Place, Truth, own
from attention import apply_rope, rotate_half
from seeding import Plot, seed
from torch import Tensor
from torch.nn import functional

HALF = "held_out_2"
ATTENTION = "*.scaled_dot_product_attention"
SDPA = "scaled_dot_product_attention"


def position_code(plot: Plot, token: int = 0) -> Truth:
    """Returns the code that makes the positions."""
    if plot.setup.name == "gpt2":
        place = own("transformer", "wte", "wpe")
    else:
        place = own("model", "embed_tokens", "rotary_emb")
    return [Place(place.op, place.after, place.before, token=token)]


@seed(
    HALF,
    "rope",
    ("llama", "moe"),
    ("ROPE_BASE",),
    note=r"target 48, golden 24",
)
def rotary_exponents_are_halved(plot: Plot) -> Truth:
    rotary = plot.setup.at("model.rotary_emb")

    def rates() -> Tensor:
        exponents = torch.arange(0, rotary.size, 2, dtype=torch.int64).float()
        return 1.0 / (rotary.base ** (exponents / (2 * rotary.size)))

    rotary.rates = rates
    return [Place("model.rotary_emb")]


@seed(
    HALF,
    "rope",
    ("llama", "moe"),
    ("ROPE_BASE", "FACTOR"),
    note="only target calls .*mul",
)
def positions_are_divided_by_four(plot: Plot) -> Truth:
    rotary = plot.setup.at("model.rotary_emb")
    plain = rotary.forward
    rotary.forward = lambda x, positions: plain(x, positions.float() * 0.25)
    return [Place("model.rotary_emb")]


@seed(HALF, "rope", ("llama",), ("ROPE_BASE",), note=r"only target calls .*sub")
def queries_turn_the_other_way(plot: Plot) -> Truth:
    def rope(q: Tensor, k: Tensor, embeddings: tuple[Tensor, Tensor]) -> Any:
        cos, sin = (one.unsqueeze(1) for one in embeddings)
        return q * cos - rotate_half(q) * sin, apply_rope(k, embeddings)

    plot.part("attention").rope = rope
    return plot.attention_weights()


@seed(
    HALF,
    "scale",
    ("llama", "vit", "gpt2"),
    ("SOFTMAX_SCALE", "FACTOR"),
    note=r"target 0\.5, golden 0\.2",
)
def scale_is_that_of_four_heads(plot: Plot) -> Truth:
    plot.part("attention").scaling = 4**-0.5
    return plot.attention_weights()


@seed(HALF, "scale", ("llama", "vit"), ("SOFTMAX_SCALE",), kernel=ATTENTION)
def attention_kernel_scales_twice(plot: Plot) -> Truth:
    def wrong(plain: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        return plain(*args, **{**kwargs, "scale": kwargs["scale"] ** 2})

    return plot.break_part("attention", functional, SDPA, wrong)


@seed(HALF, "scale", ("moe", "gpt2"), ("SOFTMAX_SCALE",), kernel="*.softmax")
def softmax_kernel_reduces_its_scores(plot: Plot) -> Truth:
    def wrong(plain: Callable[..., Tensor], x: Tensor, **kwargs: Any) -> Tensor:
        return plain(x * 0.75, **kwargs)

    return plot.break_part("attention", functional, "softmax", wrong)


def _masked_kernel(allowed: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """Returns an attention whose causal mask is made from a table of ones."""

    def wrong(
        plain: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, **kwargs: Any
    ) -> Tensor:
        if not kwargs.get("is_causal"):
            return plain(q, k, v, **kwargs)
        mask = allowed(torch.ones(q.shape[2], k.shape[2], dtype=torch.bool))
        return plain(q, k, v, **{**kwargs, "is_causal": False, "attn_mask": mask})

    return wrong


@seed(HALF, "mask", ("llama",), ("MASK",), kernel=ATTENTION)
def attention_kernel_sees_the_next_word(plot: Plot) -> Truth:
    wrong = _masked_kernel(lambda ones: ones.tril(1))
    return plot.break_part("attention", functional, SDPA, wrong)


@seed(HALF, "mask", ("llama",), ("MASK",), kernel=ATTENTION)
def attention_kernel_sees_three_words(plot: Plot) -> Truth:
    wrong = _masked_kernel(lambda ones: ones.tril().triu(-2))
    return plot.break_part("attention", functional, SDPA, wrong)


@seed(HALF, "mask", ("moe", "gpt2"), ("MASK",))
def mask_closes_the_second_word(plot: Plot) -> Truth:
    def mask_of(mask: Tensor) -> Tensor:
        mask = mask.clone()
        # The first word stays open for all.
        mask[..., 1] = torch.finfo(mask.dtype).min
        return mask

    plot.part("attention").mask_of = mask_of
    return plot.attention_weights()


@seed(HALF, "mask", ("gpt2",), ("MASK",), kernel="*.softmax")
def softmax_kernel_ignores_the_last_word(plot: Plot) -> Truth:
    def wrong(plain: Callable[..., Tensor], x: Tensor, **kwargs: Any) -> Tensor:
        x = x.clone()
        x[..., -1] = torch.finfo(x.dtype).min
        return plain(x, **kwargs)

    return plot.break_part("attention", functional, "softmax", wrong)


@seed(
    HALF, "head_order", ("llama", "gpt2"), ("ORDER",), note="only target calls .*flip"
)
def heads_are_merged_in_reverse(plot: Plot) -> Truth:
    attention = plot.part("attention")
    plain = attention.merge
    attention.merge = lambda out: plain(out.flip(1))
    return [plot.attention_code()]


@seed(HALF, "head_order", ("vit",), ("ORDER", "SHIFT"), kernel=ATTENTION)
def attention_kernel_returns_the_heads_of_its_neighbours(plot: Plot) -> Truth:
    def wrong(plain: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        return plain(*args, **kwargs).roll(1, 1)

    return plot.break_part("attention", functional, SDPA, wrong)


@seed(HALF, "head_order", ("llama",), ("ORDER",))
def weights_of_the_results_have_the_heads_of_another_layout(plot: Plot) -> Truth:
    weight = plot.part("o").weight
    size = plot.part("attention").size
    heads = weight.data.view(len(weight), -1, size)
    weight.data = heads[:, [2, 0, 3, 1]].reshape(len(weight), -1)
    return [Place(plot.path("o"))]


@seed(HALF, "gqa_repeat", ("llama", "moe"), ("ORDER",))
def values_are_repeated_in_another_order(plot: Plot) -> Truth:
    attention = plot.part("attention")
    plain, calls = attention.repeat, 0

    def repeat(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        # Keys are repeated before values.
        return plain(x) if calls % 2 else x.repeat(1, attention.groups, 1, 1)

    attention.repeat = repeat
    return plot.attention_weights()


@seed(HALF, "gqa_repeat", ("llama",), ("ORDER",), kernel=ATTENTION)
def attention_kernel_shares_the_first_keys(plot: Plot) -> Truth:
    def wrong(
        plain: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, **kwargs: Any
    ) -> Tensor:
        return plain(q, k[:, :1].expand_as(k), v[:, :1].expand_as(v), **kwargs)

    return plot.break_part("attention", functional, SDPA, wrong)


@seed(HALF, "gqa_repeat", ("llama",), ("ORDER",), note="only target calls .*flip")
def groups_are_reversed(plot: Plot) -> Truth:
    attention = plot.part("attention")
    plain = attention.repeat
    attention.repeat = lambda x: plain(x.flip(1))
    return plot.attention_weights()


@seed(
    HALF,
    "position_ids",
    ("llama", "moe", "gpt2"),
    ("ROPE_POSITIONS", "SHIFT", "OFFSET"),
    note="target 0, golden 8",
)
def positions_of_each_word_begin_again(plot: Plot) -> Truth:
    plot.part("body").positions = lambda first, length: torch.arange(0, length)[None]
    return position_code(plot, token=1)


@seed(
    HALF, "position_ids", ("llama", "moe"), ("FACTOR",), note="only target calls .*mul"
)
def positions_are_doubled(plot: Plot) -> Truth:
    holder = plot.part("body")
    plain = holder.positions
    holder.positions = lambda first, length: plain(first, length) * 2
    return position_code(plot)


@seed(
    HALF,
    "position_ids",
    ("llama", "gpt2"),
    ("ORDER",),
    note="only target calls .*flip",
)
def positions_are_reversed(plot: Plot) -> Truth:
    holder = plot.part("body")
    plain = holder.positions
    holder.positions = lambda first, length: plain(first, length).flip(-1)
    return position_code(plot)
