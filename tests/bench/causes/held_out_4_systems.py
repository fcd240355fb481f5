"""The fourth held-out half: caches, stale data, several ranks, and trainings.

17 of these 25 mistakes are in all layers, or in code that all layers share; one of them
is in all layers but the first. 8 are in an embedding, a head or the loss. 9 mistakes are
only in steps that decode, 1 only after a prefix was cached, 1 only in later steps of a
training, and 1 only in one rank.
"""

import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from anatomy import Place, Truth, own
from attention import Cache
from held_out_3_attention import ATTENTION, SDPA, later, of_first_layer
from held_out_4_parts import routing
from seeding import Plot, seed
from serving import PREFIX, batch
from subjects import Setup
from torch import Tensor
from torch.nn import functional
from wrong_kernels import stale

HALF = "held_out_4"
DECODES = (2, 3)


def _attention_from(plot: Plot, token: int) -> Truth:
    plot.layer = 0
    return later([plot.attention_code()], token)


def _padding_to_a_batch(slots: Any) -> Callable[..., Any]:
    plain = slots.update

    def update(layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        for pools in (slots.pool.keys, slots.pool.values):
            pools[layer].index_fill_(0, torch.tensor([0]), 0.0)
        return plain(layer, k, v)

    return update


@seed(
    HALF,
    "kv_slot",
    ("served",),
    ("ZEROS", "FACTOR"),
    note=r"only target calls .*(fill|tensor)",
)
def padding_of_a_batch_writes_to_the_first_slot(plot: Plot) -> Truth:
    """In all layers, a graph for larger batches writes rows of zeros to slot 0."""
    for step in DECODES:
        slots = batch(plot.setup, step)
        slots.update = _padding_to_a_batch(slots)
    return _attention_from(plot, 2)


def _late_for_values(write: Tensor) -> Callable[[int], Tensor]:
    calls = itertools.count()
    # Keys are written before values.
    return lambda layer: write + 1 if next(calls) % 2 else write


@seed(
    HALF,
    "kv_slot",
    ("served",),
    ("ZEROS", "FACTOR", "SHIFT", "ORDER", "OFFSET"),
    note=r"only target calls .*add",
)
def values_are_written_one_slot_late(plot: Plot) -> Truth:
    """In all layers, when they decode. Keys have the right slots."""
    for step in DECODES:
        slots = batch(plot.setup, step)
        slots.write_of = _late_for_values(slots.write)
    return _attention_from(plot, 2)


def _of_the_last_eight(plain: Callable[..., Any]) -> Callable[..., Any]:
    def remember(past: Cache | None, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = plain(past, k, v)
        return keys[:, :, -8:], values[:, :, -8:]

    return remember


@seed(
    HALF,
    "kv_slot",
    ("llama",),
    ("MASK", "SHIFT", "ORDER"),
    note=r"only target calls .*getitem",
)
def cache_keeps_only_a_window(plot: Plot) -> Truth:
    """In all layers, new words take the slots of the first ones."""
    for attention in plot.parts("attention"):
        attention.remember = _of_the_last_eight(attention.remember)
    return of_first_layer(plot, 1)


def _reading_first(slots: Any) -> Callable[..., Any]:
    def update(layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        found = []
        for pool, x in ((slots.pool.keys[layer], k), (slots.pool.values[layer], v)):
            requests, heads, _, size = x.shape
            read = torch.index_select(pool, 0, slots.read.reshape(-1))
            shape = (requests, slots.read.shape[1], heads, size)
            found.append(read.view(shape).transpose(1, 2))
            flat = x.transpose(1, 2).reshape(-1, heads, size)
            pool.index_copy_(0, slots.write, flat)
        return found[0], found[1]

    return update


@seed(
    HALF,
    "kv_slot",
    ("served",),
    ("ZEROS", "FACTOR", "STALE"),
    note=r"other order of calls",
)
def slots_are_read_before_they_are_written(plot: Plot) -> Truth:
    """In all layers, when they decode."""
    for step in DECODES:
        slots = batch(plot.setup, step)
        slots.update = _reading_first(slots)
    return _attention_from(plot, 2)


def _with_a_prefix_of_few_bits(plain: Callable[..., Any]) -> Callable[..., Any]:
    def update(layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = (x.clone() for x in plain(layer, k, v))
        for x in (keys, values):
            prefix = x[-1:, :, :PREFIX]
            x[-1:, :, :PREFIX] = prefix.to(torch.float8_e5m2).to(x.dtype)
        return keys, values

    return update


@seed(
    HALF,
    "prefix_cache",
    ("served",),
    ("ROUNDED",),
    note=r"only target calls .*(Tensor\.to\b|clone|setitem|float8)",
    precisions=("float32",),
)
def prefix_is_kept_in_float8(plot: Plot) -> Truth:
    """In all layers, in the request that reads it from the cache."""
    for step in (1, *DECODES):
        slots = batch(plot.setup, step)
        slots.update = _with_a_prefix_of_few_bits(slots.update)
    return _attention_from(plot, 1)


def _forgetting(plain: Callable[..., Any]) -> Callable[..., Any]:
    def remember(past: Cache | None, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        plain(past, k, v)
        return k, v

    return remember


@seed(HALF, "prefix_cache", ("llama",), ("MASK", "SAME_AS_INPUT", "ORDER"))
def words_of_decodes_see_only_themselves(plot: Plot) -> Truth:
    """In all layers, the cache is written and not read."""
    for attention in plot.parts("attention"):
        attention.remember = _forgetting(attention.remember)
    return of_first_layer(plot, 1)


def _with_the_scale_of_the_first_word(plain: Callable[..., Any]) -> Callable[..., Any]:
    def remember(past: Cache | None, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = plain(past, k, v)
        if k.shape[2] > 1:
            return keys, values
        old, new = values[:, :, :-1], values[:, :, -1:]
        step = old[:, :, :1].abs().amax() / 7
        old = (old / step).round().clamp(-7, 7) * step
        return keys, torch.cat((old, new), 2)

    return remember


@seed(
    HALF,
    "prefix_cache",
    ("gpt2",),
    ("ROUNDED", "SATURATED"),
    note=r"only target calls .*(clamp|round|amax|abs|div|mul|getitem|cat)",
)
def cached_values_have_the_scale_of_the_first_word(plot: Plot) -> Truth:
    """In all layers, values of the cache are quantized when words decode."""
    for attention in plot.parts("attention"):
        attention.remember = _with_the_scale_of_the_first_word(attention.remember)
    return of_first_layer(plot, 1)


@seed(
    HALF,
    "prefix_cache",
    ("served",),
    ("ORDER", "OFFSET", "ZEROS", "FACTOR"),
    is_in_the_caller=True,
)
def slot_of_a_prefix_in_use_is_given_to_a_new_word(plot: Plot) -> Truth:
    """All layers receive the slots. Both requests still read the prefix."""
    write = batch(plot.setup, 2).write.clone()
    write[0] = 0
    batch(plot.setup, 2).write = write
    for step in DECODES:
        slots = batch(plot.setup, step)
        slots.read = slots.read.clone()
        slots.read[0, 8] = 0
    return _attention_from(plot, 2)


@seed(
    HALF,
    "stale_buffer",
    ("vit",),
    (),
    kernel="*.layer_norm",
    note=r"equal to .*(layernorm_before|layer_norm) output",
)
def norm_kernel_returns_the_result_of_the_layer_before(plot: Plot) -> Truth:
    """In all layers but the first, as a buffer is not released."""
    plot.break_parts("norm1", functional, "layer_norm", stale())
    return [Place(plot.path("norm1", 1))]


@seed(
    HALF,
    "stale_buffer",
    ("llama",),
    (),
    note=r"input_layernorm output/0.* in the target|has .*input_layernorm",
)
def residual_is_overwritten_by_its_norm(plot: Plot) -> Truth:
    """In all layers, as a norm writes its result to its input."""
    for layer in plot.parts("layer"):
        layer.residual_of = lambda hidden, normed: normed
    plot.layer = 0
    return plot.attention_residual()


@seed(
    HALF,
    "stale_buffer",
    ("served",),
    ("ORDER", "ZEROS", "FACTOR", "OFFSET"),
    is_in_the_caller=True,
)
def table_of_a_graph_lacks_its_last_slots(plot: Plot) -> Truth:
    """All layers receive a table whose new column still has zeros."""
    slots = batch(plot.setup, 3)
    slots.read = slots.read.clone()
    slots.read[:, -1] = 0
    return _attention_from(plot, 3)


class _Held(torch.autograd.Function):
    """Returns another weight, and passes the gradient to the weight."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, held: Tensor) -> Tensor:
        return held.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


@seed(
    HALF,
    "stale_buffer",
    ("tied_train",),
    ("STALE",),
    note=r"equal to .*embed.* only in golden|only target calls .*(clone|detach|_Held)",
    precisions=("float32",),
)
def head_has_the_weights_of_the_step_before(plot: Plot) -> Truth:
    """From the second step on, as a copy of the tied weight is updated too late."""
    head, copies = plot.part("head"), []

    def forward(x: Tensor) -> Tensor:
        copies.append(head.weight.detach().clone())
        return functional.linear(x, _Held.apply(head.weight, copies[-2:][0]))

    head.forward = forward
    return [Place("lm_head", token=1)]


def _choosing_again(plain: Callable[..., Any]) -> Callable[..., Any]:
    last: list[tuple[Tensor, Tensor]] = []

    def choose(scores: Tensor) -> tuple[Tensor, Tensor]:
        if not last or len(last[0][0]) != len(scores):
            last[:] = [plain(scores)]
        return last[0]

    return choose


@seed(HALF, "stale_buffer", ("moe",), ("STALE",), note=r"only golden calls .*topk")
def experts_of_a_graph_are_those_of_the_first_decode(plot: Plot) -> Truth:
    """In all layers, words that follow have the experts of that one."""
    for block in plot.parts("mlp"):
        block.choose = _choosing_again(block.choose)
    return routing(plot, 2)


def _reduced_copy(y: Tensor) -> Tensor:
    dist.all_reduce(y.clone())
    return y


@seed(
    HALF,
    "lost_all_reduce",
    ("ranks",),
    ("SAME_AS_INPUT", "TERM"),
    note=r"only target calls .*clone",
)
def all_reduces_have_a_copy(plot: Plot) -> Truth:
    """In all layers, the sum is written to a copy that nothing reads."""
    for part in (*plot.parts("o"), *plot.parts("down")):
        part.reduce = _reduced_copy
    return [Place(plot.path("o", 0))]


def _reduced_to_rank_0(y: Tensor) -> Tensor:
    whole = y.clone()
    dist.reduce(whole, 0)
    return y if dist.get_rank() else whole


@seed(
    HALF,
    "lost_all_reduce",
    ("ranks",),
    ("SAME_AS_INPUT", "TERM"),
    note=r"only (golden|target) calls .*(reduce|clone)",
)
def only_rank_0_has_the_sum(plot: Plot) -> Truth:
    """In all layers, rank 1 keeps its part."""
    for part in plot.parts("down"):
        part.reduce = _reduced_to_rank_0
    return [Place(plot.path("down", 0))]


def _half_reduced(y: Tensor) -> Tensor:
    early = y[..., y.shape[-1] // 2 :].clone()
    dist.all_reduce(y)
    y[..., y.shape[-1] // 2 :] = early
    return y


@seed(
    HALF,
    "lost_all_reduce",
    ("ranks",),
    ("SAME_AS_INPUT", "TERM"),
    note=r"only target calls .*(clone|getitem|setitem)",
)
def sums_are_read_before_they_are_finished(plot: Plot) -> Truth:
    """In all layers, the second half of the channels was not added yet."""
    for part in plot.parts("down"):
        part.reduce = _half_reduced
    return [Place(plot.path("down", 0))]


@seed(
    HALF,
    "lost_all_reduce",
    ("ranks",),
    ("ZEROS", "FACTOR"),
    note=r"only golden calls .*all_gather",
)
def words_of_other_ranks_are_not_gathered(plot: Plot) -> Truth:
    head = plot.part("head")

    def forward(x: Tensor) -> Tensor:
        y = functional.linear(x, head.weight)
        pieces = [torch.zeros_like(y) for _ in range(dist.get_world_size())]
        pieces[dist.get_rank()] = y
        return head.join(pieces)

    head.forward = forward
    return [Place(plot.path("head"))]


@seed(
    HALF,
    "reduce_order",
    ("ranks",),
    ("ARRANGEMENT", "ORDER"),
    note=r"target 0, golden -1|only target calls .*(view|reshape)",
)
def pieces_are_joined_as_rows(plot: Plot) -> Truth:
    """Then they have the shape of joined columns. A single row is right."""

    def join(pieces: list[Tensor]) -> Tensor:
        count, length, size = pieces[0].shape
        return torch.cat(pieces, 0).reshape(count, length, size * len(pieces))

    plot.part("head").join = join
    return [Place(plot.path("head"))]


def _norm_of_blocks(
    plain: Callable[..., Tensor],
    x: Tensor,
    shape: Any,
    weight: Tensor,
    bias: Tensor,
    eps: float,
) -> Tensor:
    """Adds the variances of blocks, and not those of their means."""
    wide = x.float()
    variance = wide.unflatten(-1, (-1, 8)).var(-1, unbiased=False)
    root = torch.rsqrt(variance.mean(-1, keepdim=True) + eps)
    y = (wide - wide.mean(-1, keepdim=True)) * root
    return (y * weight + bias).to(x.dtype)


@seed(HALF, "reduce_order", ("gpt2",), (), kernel="*.layer_norm")
def norm_kernel_merges_variances_without_the_means(plot: Plot) -> Truth:
    """In all layers."""
    return plot.break_parts("norm1", functional, "layer_norm", _norm_of_blocks)


@seed(HALF, "reduce_order", ("vit",), (), kernel=ATTENTION)
def attention_kernel_weighs_its_parts_by_their_maxima(plot: Plot) -> Truth:
    """In all layers, and not by their sums."""

    def wrong(
        plain: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, **kwargs: Any
    ) -> Tensor:
        outs, highest = [], []
        for keys, values in zip(k.split(6, 2), v.split(6, 2), strict=True):
            scores = q.float() @ keys.float().transpose(2, 3) * kwargs["scale"]
            highest.append(scores.amax(-1, keepdim=True))
            outs.append(plain(q, keys, values, **kwargs).float())
        weights = torch.softmax(torch.stack(highest), 0)
        return (weights * torch.stack(outs)).sum(0).to(q.dtype)

    return plot.break_parts("attention", functional, SDPA, wrong)


def repeat_words(setup: Setup) -> None:
    """Gives each text three words that it has already."""
    for step in setup.inputs:
        step["input_ids"] = step["input_ids"].clone()
        step["input_ids"][:, 5:8] = step["input_ids"][:, 1:4]


class _LastWins(torch.autograd.Function):
    """Looks up words, and keeps the gradient of the last one of equal words."""

    @staticmethod
    def forward(ctx: Any, ids: Tensor, weight: Tensor) -> Tensor:
        ctx.ids, ctx.shape = ids.flatten().tolist(), weight.shape
        return weight[ids]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        found = gradient.new_zeros(ctx.shape)
        for word, row in zip(ctx.ids, gradient.flatten(0, 1), strict=True):
            found[word] = row
        return None, found


@seed(
    HALF,
    "reduce_order",
    ("train",),
    ("TERM",),
    prepare=repeat_words,
    note=r"only golden calls .*embedding",
    # The calls that write the gradients.
    also=("*setitem*", "*new_zeros*", "*flatten*", "*unbind*"),
)
def gradients_of_equal_words_are_not_added(plot: Plot) -> Truth:
    embed = plot.part("embed")
    embed.forward = lambda ids: _LastWins.apply(ids, embed.weight)
    return [Place("model.embed_tokens")]


LOSS = own("", "lm_head", "")


@seed(
    HALF,
    "loss_scale",
    ("train",),
    ("SHIFT", "ORDER"),
    note=r"only target calls .*roll",
)
def labels_are_shifted_twice(plot: Plot) -> Truth:
    """The data has labels that are shifted already."""
    model = plot.setup.model
    plain = model.loss
    model.loss = lambda logits, labels: plain(logits, labels.roll(-1, 1))
    return [LOSS]


def ignore_the_end_of_a_text(setup: Setup) -> None:
    for step in setup.inputs:
        step["labels"] = step["labels"].clone()
        step["labels"][0, 5:] = -100


@seed(
    HALF,
    "loss_scale",
    ("train",),
    ("SATURATED", "ZEROS", "FACTOR", "OFFSET"),
    prepare=ignore_the_end_of_a_text,
    note=r"only target calls .*clamp",
)
def padding_counts_as_the_first_word(plot: Plot) -> Truth:
    """Labels to be ignored are made valid before the loss."""
    model = plot.setup.model
    plain = model.loss
    model.loss = lambda logits, labels: plain(logits, labels.clamp(0))
    return [LOSS]


@seed(
    HALF,
    "loss_scale",
    ("tied_train",),
    ("ROUNDED",),
    note=r"only target calls .*bfloat16",
    precisions=("float32",),
)
def loss_is_computed_from_narrow_logits(plot: Plot) -> Truth:
    model = plot.setup.model
    plain = model.loss
    model.loss = lambda logits, labels: plain(logits.bfloat16().float(), labels)
    return [LOSS]


@seed(HALF, "loss_scale", ("tied_train",), ("FACTOR",), kernel="*.cross_entropy")
def loss_kernel_reads_only_whole_tiles(plot: Plot) -> Truth:
    """16 of 18 rows, of which the others have no gradient."""

    def wrong(
        plain: Callable[..., Tensor], logits: Tensor, labels: Tensor, **kwargs: Any
    ) -> Tensor:
        size = len(labels) // 8 * 8
        return plain(logits[:size], labels[:size], **kwargs)

    plot.break_kernel(plot.setup.model, functional, "cross_entropy", wrong)
    return [LOSS]
