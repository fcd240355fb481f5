"""The third held-out half: caches, stale data, several ranks, and trainings.

14 of these 25 mistakes are in all layers, or in code that all layers share, 7 in one
layer, and 4 in the head or the loss. 9 mistakes are only in steps that decode, 4 only
after a prefix was cached, 2 only in later steps of a training, and 2 only in one rank.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from anatomy import Place, Truth, own
from attention import Cache, apply_rope
from held_out_3_attention import ATTENTION, SDPA, later, of_first_layer, position_code
from seeding import Plot, seed
from serving import PREFIX, batch
from subjects import Setup
from torch import Tensor
from torch.nn import functional

HALF = "held_out_3"


def _attention_from(plot: Plot, token: int) -> Truth:
    return later([plot.attention_code()], token)


@seed(
    HALF,
    "kv_slot",
    ("served",),
    ("ORDER", "SHIFT", "OFFSET", "ZEROS", "FACTOR", "STALE"),
    is_in_the_caller=True,
)
def last_word_is_written_to_the_slot_of_the_one_before(plot: Plot) -> Truth:
    """All layers receive the slots of the step before, and read an empty slot."""
    batch(plot.setup, 3).write = batch(plot.setup, 2).write
    plot.layer = 0
    return _attention_from(plot, 3)


@seed(
    HALF, "kv_slot", ("served",), ("ORDER", "SHIFT"), note=r"only target calls .*flip"
)
def values_are_written_to_the_slots_of_each_other(plot: Plot) -> Truth:
    """In one layer, keys of both requests have the right slots."""
    wrong_in = plot.layer
    for step in (2, 3):
        slots = batch(plot.setup, step)
        slots.update = _flipping(slots.update, wrong_in)
    return _attention_from(plot, 2)


def _flipping(update: Callable[..., Any], wrong_in: int) -> Callable[..., Any]:
    return lambda layer, k, v: update(layer, k, v.flip(0) if layer == wrong_in else v)


@seed(HALF, "kv_slot", ("served",), ("ORDER", "SHIFT", "OFFSET"), is_in_the_caller=True)
def second_request_writes_to_a_block_of_the_first(plot: Plot) -> Truth:
    """All layers use the block in place of a copy. The second request reads it, too."""
    shared = torch.arange(PREFIX, 2 * PREFIX)
    batch(plot.setup, 1).write = shared
    for step in (1, 2, 3):
        slots = batch(plot.setup, step)
        slots.read = slots.read.clone()
        slots.read[-1, PREFIX : 2 * PREFIX] = shared
    plot.layer = 0
    return _attention_from(plot, 1)


def _with_a_slot_written_twice(x: Tensor) -> Tensor:
    x = x.clone()
    x[:, :, -2] = x[:, :, -1]
    x[:, :, -1] = 0
    return x


def _writing_twice(plain: Callable[..., Any]) -> Callable[..., Any]:
    def remember(past: Cache | None, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = plain(past, k, v)
        if keys.shape[2] < 10:
            return keys, values
        return _with_a_slot_written_twice(keys), _with_a_slot_written_twice(values)

    return remember


@seed(HALF, "kv_slot", ("moe",), ("ORDER", "SHIFT", "ZEROS", "FACTOR"))
def position_of_a_static_cache_does_not_advance(plot: Plot) -> Truth:
    """In all layers, from the second decode on."""
    for attention in plot.parts("attention"):
        attention.remember = _writing_twice(attention.remember)
    plot.layer = 0
    return _attention_from(plot, 2)


@seed(HALF, "kv_slot", ("served",), ("ZEROS", "FACTOR"), kernel="*.index_copy_")
def scatter_kernel_writes_only_one_request(plot: Plot) -> Truth:
    """In one layer, when it decodes two requests."""

    def wrong(
        plain: Callable[..., Tensor], x: Tensor, dim: int, index: Tensor, rows: Tensor
    ) -> Tensor:
        count = 1 if len(index) == 2 else len(index)
        return plain(x, dim, index[:count], rows[:count])

    truth = plot.break_part("attention", torch.Tensor, "index_copy_", wrong)
    return later(truth, 2)


@seed(
    HALF,
    "prefix_cache",
    ("served",),
    ("MASK", "SHIFT"),
    note=r"target 0, golden 4",
)
def mask_does_not_count_the_prefix(plot: Plot) -> Truth:
    """All layers have the mask that a text without a prefix has."""
    body = plot.part("body")
    plain = body.mask

    def mask(x: Tensor, past: int, padding: Tensor | None) -> Tensor | None:
        length = x.shape[1]
        if length == 1:
            return plain(x, past, padding)
        allowed = torch.ones(length, past + length, dtype=torch.bool).tril(0)
        allowed = allowed[None, None]
        found = torch.zeros(allowed.shape, dtype=x.dtype)
        return found.masked_fill(~allowed, torch.finfo(x.dtype).min)

    body.mask = mask
    return later([own("model", "embed_tokens", "rotary_emb")], 1)


def _turning(update: Callable[..., Any], turn: Any) -> Callable[..., Any]:
    def turned(layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = update(layer, k, v)
        keys = keys.clone()
        keys[-1:, :, :PREFIX] = apply_rope(keys[-1:, :, :PREFIX], turn)
        return keys, values

    return turned


@seed(
    HALF,
    "prefix_cache",
    ("served",),
    ("ROPE_POSITIONS",),
    note=r"only target calls .*(mul|setitem|neg)",
)
def prefix_has_the_positions_of_another_text(plot: Plot) -> Truth:
    """In all layers, the prefix of the second request is four positions late."""
    weight = plot.part("embed").weight
    positions = torch.full((1, PREFIX), 4)
    turn = plot.setup.at("model.rotary_emb")(weight, positions)
    for step in (1, 2, 3):
        slots = batch(plot.setup, step)
        slots.update = _turning(slots.update, turn)
    plot.layer = 0
    return _attention_from(plot, 1)


def _reading_another(slots: Any, wrong_in: int) -> Callable[..., Any]:
    plain, prefix = slots.update, slots.read[-1, :PREFIX]

    def update(layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        found = plain(layer, k, v)
        if layer != wrong_in:
            return found
        pools = slots.pool.keys, slots.pool.values
        found = found[0].clone(), found[1].clone()
        for y, pool in zip(found, pools, strict=True):
            y[-1, :, :PREFIX] = pool[(layer + 1) % 3][prefix].transpose(0, 1)
        return found

    return update


@seed(HALF, "prefix_cache", ("served",), ())
def prefix_is_read_from_another_layer(plot: Plot) -> Truth:
    """In one layer. The other one has written its prefix in the first step."""
    for step in (1, 2, 3):
        slots = batch(plot.setup, step)
        slots.update = _reading_another(slots, plot.layer)
    return _attention_from(plot, 1)


def _unscaling(plain: Callable[..., Any]) -> Callable[..., Any]:
    def remember(past: Cache | None, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = plain(past, k, v)
        if k.shape[2] > 1:
            return keys, values
        return torch.cat((keys[:, :, :-1] * 0.5, keys[:, :, -1:]), 2), values

    return remember


@seed(
    HALF, "prefix_cache", ("moe",), ("FACTOR",), note=r"only target calls .*(mul|cat)"
)
def cached_keys_have_lost_their_scale(plot: Plot) -> Truth:
    """In all layers, when they decode."""
    for attention in plot.parts("attention"):
        attention.remember = _unscaling(attention.remember)
    plot.layer = 0
    return _attention_from(plot, 1)


@seed(
    HALF,
    "stale_buffer",
    ("gpt2",),
    ("STALE", "OFFSET", "SHIFT"),
    note=r"target 8, golden 9",
)
def position_of_a_graph_is_not_updated(plot: Plot) -> Truth:
    """All layers receive the position of the first decode in all decodes."""
    holder = plot.part("body")
    plain = holder.positions
    holder.positions = lambda first, length: plain(min(first, 8), length)
    return position_code(plot, 2)


def _attending_to_nine(attention: Any) -> Callable[..., Any]:
    plain = attention.attend

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Any:
        if k.shape[2] == 10 and mask is not None:
            k, v, mask = k[:, :, :9], v[:, :, :9], mask[..., :9]
        return plain(q, k, v, mask)

    return attend


@seed(HALF, "stale_buffer", ("moe",), ("MASK",), note=r"only target calls .*getitem")
def length_of_a_graph_is_not_updated(plot: Plot) -> Truth:
    """In all layers, the word of the second decode does not attend to itself."""
    for attention in plot.parts("attention"):
        attention.attend = _attending_to_nine(attention)
    return of_first_layer(plot, 2)


@seed(
    HALF,
    "stale_buffer",
    ("llama",),
    (),
    kernel="*.linear",
    note=r"equal to .*(gate_proj|Functional\.linear) output",
)
def two_products_share_their_buffer(plot: Plot) -> Truth:
    """In one layer, the result of up is still that of gate."""
    last: list[Tensor] = []

    def wrong(
        plain: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Any = None
    ) -> Tensor:
        y = plain(x, weight, bias)
        if last and last[0].shape == y.shape:
            return last.pop()
        last[:] = [y.clone()]
        return y

    mlp = plot.part("mlp")
    forward = mlp.forward

    def begin(x: Tensor) -> Tensor:
        last.clear()
        return forward(x)

    mlp.forward = begin
    plot.break_kernel(mlp, functional, "linear", wrong)
    return [Place(plot.path("up"))]


@seed(HALF, "stale_buffer", ("train",), (), kernel="*.linear")
def product_kernel_has_a_copy_of_the_first_weight(plot: Plot) -> Truth:
    """In one layer, from the second step on. The gradient is that of the weight."""
    first: list[Tensor] = []

    def wrong(
        plain: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Any = None
    ) -> Tensor:
        if not first:
            first.append(weight.detach().clone())
        return plain(x, weight + (first[0] - weight).detach(), bias)

    return later(plot.break_part("down", functional, "linear", wrong), 1)


def _reduced_if_long(y: Tensor) -> Tensor:
    if y.shape[1] > 1:
        dist.all_reduce(y)
    return y


@seed(
    HALF,
    "lost_all_reduce",
    ("ranks",),
    ("SAME_AS_INPUT", "TERM"),
    note=r"only golden calls .*all_reduce",
)
def all_reduces_of_decodes_are_lost(plot: Plot) -> Truth:
    """In all layers, as the small sums have a path of their own."""
    for part in (*plot.parts("o"), *plot.parts("down")):
        part.reduce = _reduced_if_long
    return [Place(plot.path("o", 0), token=1)]


@seed(HALF, "lost_all_reduce", ("ranks",), ("ZEROS", "FACTOR", "TERM", "SAME_AS_INPUT"))
def rank_1_adds_zeros(plot: Plot) -> Truth:
    """In one layer of rank 1, whose shard was not loaded."""
    if dist.get_rank() == 1:
        plot.part("o").weight.data.zero_()
    return [Place(plot.path("o"))]


def _reduced_in_few_bits(y: Tensor) -> Tensor:
    y = (y * 4).round() / 4
    dist.all_reduce(y)
    return y


@seed(
    HALF,
    "lost_all_reduce",
    ("ranks",),
    ("ROUNDED",),
    note=r"only target calls .*round",
)
def all_reduces_round_their_input(plot: Plot) -> Truth:
    """In all layers."""
    for part in (*plot.parts("o"), *plot.parts("down")):
        part.reduce = _reduced_in_few_bits
    return [Place(plot.path("o", 0))]


@seed(
    HALF,
    "lost_all_reduce",
    ("ranks",),
    ("FACTOR", "TERM"),
    note=r"only target calls .*all_reduce|more calls .*all_reduce",
)
def all_reduce_is_called_twice(plot: Plot) -> Truth:
    """In one layer."""
    part = plot.part("down")
    plain = part.reduce
    part.reduce = lambda y: plain(plain(y))
    return [Place(plot.path("down"))]


@seed(
    HALF,
    "reduce_order",
    ("ranks",),
    ("ORDER", "SHIFT", "SWAPPED_INPUTS"),
    note="changed places",
)
def pieces_begin_with_that_of_the_next_rank(plot: Plot) -> Truth:
    """Only in rank 0. In rank 1, the next rank is the first one."""
    first = (dist.get_rank() + 1) % dist.get_world_size()
    plot.part("head").join = lambda pieces: torch.cat(
        (*pieces[first:], *pieces[:first]), -1
    )
    return [Place(plot.path("head"))]


def _softmax_without_rescaling(
    plain: Callable[..., Tensor], x: Tensor, **kwargs: Any
) -> Tensor:
    """Subtracts the maximum of a block and of all earlier ones."""
    wide = x.float()
    highest = torch.cat([block.amax(-1, True) for block in wide.split(3, -1)], -1)
    highest = highest.cummax(-1).values.repeat_interleave(3, -1)
    powers = torch.exp(wide - highest[..., : x.shape[-1]])
    y = powers / powers.sum(-1, keepdim=True)
    return y.to(kwargs.get("dtype") or x.dtype)


@seed(HALF, "reduce_order", ("gpt2",), (), kernel="*.softmax")
def softmax_kernel_does_not_rescale_earlier_blocks(plot: Plot) -> Truth:
    """In all layers."""
    wrong = _softmax_without_rescaling
    return plot.break_parts("attention", functional, "softmax", wrong)


@seed(HALF, "reduce_order", ("llama",), (), kernel=ATTENTION)
def attention_kernel_of_decodes_averages_its_parts(plot: Plot) -> Truth:
    """In all layers, parts of the keys count equally, though their sums differ."""

    def wrong(
        plain: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, **kwargs: Any
    ) -> Tensor:
        if q.shape[2] > 1:
            return plain(q, k, v, **kwargs)
        pairs = zip(k.split(4, 2), v.split(4, 2), strict=True)
        return torch.stack([plain(q, a, b, **kwargs) for a, b in pairs]).mean(0)

    return later(plot.break_parts("attention", functional, SDPA, wrong), 1)


@seed(HALF, "reduce_order", ("llama",), ("FACTOR",), kernel="*.mean")
def mean_kernel_divides_by_the_size_of_its_tile(plot: Plot) -> Truth:
    """In the first norm of all layers, a row of 120 is a tile of 128."""

    def wrong(
        plain: Callable[..., Tensor], x: Tensor, *args: Any, **kwargs: Any
    ) -> Tensor:
        return plain(x, *args, **kwargs) * (x.shape[-1] / 128)

    return plot.break_parts("norm1", torch.Tensor, "mean", wrong)


LOSS = own("", "lm_head", "")


def shorten_a_text(setup: Setup) -> None:
    """Leaves the second text of each batch only some of its labels."""
    for step in setup.inputs:
        step["labels"] = step["labels"].clone()
        step["labels"][1, 4:] = -100


@seed(
    HALF,
    "loss_scale",
    ("train",),
    ("FACTOR",),
    prepare=shorten_a_text,
    note=r"only target calls .*(stack|mean)",
)
def texts_count_equally_whatever_their_lengths(plot: Plot) -> Truth:
    """Each text is a step of an accumulation, which has the mean of their losses."""

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        pairs = zip(logits[:, :-1], labels[:, 1:], strict=True)
        return torch.stack([functional.cross_entropy(a, b) for a, b in pairs]).mean()

    plot.setup.model.loss = loss
    return [LOSS]


@seed(HALF, "loss_scale", ("tied_train",), ("FACTOR",), note=r"only target calls .*mul")
def loss_is_halved_after_the_first_step(plot: Plot) -> Truth:
    model, losses = plot.setup.model, 0
    plain = model.loss

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        nonlocal losses
        losses += 1
        found = plain(logits, labels)
        return found * 0.5 if losses > 1 else found

    model.loss = loss
    return later([LOSS], 1)


@seed(
    HALF,
    "loss_scale",
    ("train",),
    ("FACTOR",),
    note=r"only target calls .*div",
    # The call that halves them.
    also=("*div*",),
)
def gradients_of_all_weights_are_halved(plot: Plot) -> Truth:
    """As by a mean over ranks that have the same gradients already added."""
    for parameter in plot.setup.model.parameters():
        parameter.register_hook(lambda gradient: gradient / 2)
    return [Place("*", io="grad_weight"), Place("lm_head", io="grad_weight")]


@seed(HALF, "loss_scale", ("train",), ("FACTOR",), kernel="*.cross_entropy")
def loss_kernel_averages_its_chunks(plot: Plot) -> Truth:
    """The last chunk has two words and counts like the others, which have four."""

    def wrong(plain: Callable[..., Tensor], logits: Tensor, labels: Tensor) -> Tensor:
        pairs = zip(logits.split(4), labels.split(4), strict=True)
        return torch.stack([plain(a, b) for a, b in pairs]).mean()

    plot.break_kernel(plot.setup.model, functional, "cross_entropy", wrong)
    return [LOSS]
