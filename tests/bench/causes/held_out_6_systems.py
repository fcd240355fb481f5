"""The sixth held-out half: caches, stale data, several ranks, and trainings.

13 of these 24 mistakes are in all layers, 3 in one or two layers, and 8 in an embedding,
a head or the loss. 11 mistakes are only in steps that decode, 1 only after a prefix was
cached, and 1 only in one rank. 6 are wrong kernels.
"""

import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from anatomy import Place, Truth, own
from attention import Cache
from held_out_3_attention import ATTENTION, SDPA, later, of_first_layer
from held_out_4_attention import gathered
from seeding import Plot, seed
from serving import batch
from subjects import WORDS, Setup
from torch import Tensor
from torch.nn import functional
from wrong_kernels import changed

HALF = "held_out_6"
Pair = tuple[Tensor, Tensor]
OTHER = r"other arguments?: "


def _attention_from(plot: Plot, token: int, layer: int = 0) -> Truth:
    plot.layer = layer
    return later(plot.attention_weights(), token)


@seed(
    HALF,
    "kv_slot",
    ("served",),
    # The slot that is read is empty.
    ("ZEROS", "FACTOR", "OFFSET", "ORDER", "SHIFT"),
    is_in_the_caller=True,
)
def last_word_is_written_to_a_slot_of_another_size_of_blocks(plot: Plot) -> Truth:
    """All layers receive the slots, one of which is not that of the table."""
    slots = batch(plot.setup, 3)
    slots.write = torch.tensor([int(slots.write[0]), 23])
    return _attention_from(plot, 3)


def _reordering(plain: Callable[..., Pair]) -> Callable[..., Pair]:
    """Continues the second text twice, from the second word on."""
    calls = itertools.count()

    def remember(past: Cache | None, k: Tensor, v: Tensor) -> Pair:
        keys, values = plain(past, k, v)
        if next(calls) == 0 or k.shape[2] > 1:
            return keys, values
        beams = torch.tensor([1, 1])
        return keys.index_select(0, beams), values.index_select(0, beams)

    return remember


def search_with_two_beams(setup: Setup) -> None:
    for step in setup.inputs:
        words = step["input_ids"]
        step["input_ids"] = torch.cat((words, (words * 5 + 1) % WORDS))
    for layer in setup.model.model.layers:
        layer.self_attn.remember = _reordering(layer.self_attn.remember)


@seed(
    HALF,
    "kv_slot",
    ("llama",),
    ("ORDER", "SHIFT", "SAME_AS_INPUT"),
    prepare=search_with_two_beams,
    note=r"only golden calls .*index_select|equal to .*cat.* in the target",
)
def beams_of_later_layers_are_not_reordered(plot: Plot) -> Truth:
    """In all layers but the first."""
    for attention in plot.parts("attention")[1:]:
        attention.remember = type(attention).remember.__get__(attention)
    return _attention_from(plot, 1, layer=1)


def _reading_transposed(plain: Callable[..., Pair]) -> Callable[..., Pair]:
    def remember(past: Cache | None, k: Tensor, v: Tensor) -> Pair:
        keys, values = plain(past, k, v)
        if k.shape[2] > 1:
            return keys, values
        return keys, values.transpose(2, 3).reshape(values.shape)

    return remember


@seed(
    HALF,
    "kv_slot",
    ("gpt2",),
    ("ARRANGEMENT", "ORDER"),
    note=r"only target calls .*reshape|more calls .*(transpose|reshape)",
)
def cached_values_are_read_as_transposed(plot: Plot) -> Truth:
    """In all layers, when they decode, channels precede slots."""
    for attention in plot.parts("attention"):
        attention.remember = _reading_transposed(attention.remember)
    return of_first_layer(plot, 1)


def _keeping_a_draft(attention: Any) -> Callable[..., Pair]:
    plain = attention.remember

    def remember(past: Cache | None, k: Tensor, v: Tensor) -> Pair:
        if past is not None and k.shape[2] == 1 and attention.layer in past.layers:
            keys, values = past.layers[attention.layer]
            if keys.shape[2] == 9:
                draft = keys[:, :, -1:].neg(), values[:, :, -1:].neg()
                plain(past, *draft)
        return plain(past, k, v)

    return remember


@seed(
    HALF,
    "kv_slot",
    ("llama",),
    # The draft has the opposite sign of the word in its place.
    ("SIGN", "FACTOR"),
    note=r"(more|only target) calls .*(cat|neg|getitem)",
)
def rejected_draft_stays_in_the_cache(plot: Plot) -> Truth:
    """In all layers, in the second word that decodes."""
    for attention in plot.parts("attention"):
        attention.remember = _keeping_a_draft(attention)
    return of_first_layer(plot, 2)


@seed(
    HALF,
    "prefix_cache",
    ("served",),
    ("ZEROS", "FACTOR", "OFFSET", "ORDER", "SHIFT"),
    is_in_the_caller=True,
)
def first_word_after_a_prefix_is_counted_as_cached(plot: Plot) -> Truth:
    """All layers receive the slots, and the keys of this word are not kept."""
    slots = batch(plot.setup, 1)
    slots.write = slots.write.clone()
    slots.write[0] = 22
    return _attention_from(plot, 1)


def _reading_a_window(plain: Callable[..., Any], first: int) -> Callable[..., Any]:
    """Returns an attention to some first and some last keys, six in all."""

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Any:
        if q.shape[2] == 1:
            k, v = (_ends(x, first) for x in (k, v))
        return plain(q, k, v, mask)

    return attend


def _ends(x: Tensor, first: int) -> Tensor:
    last = x[:, :, first - 6 :]
    return torch.cat((x[:, :, :first], last), 2) if first else last


def keep_the_first_words(setup: Setup) -> None:
    for layer in setup.model.model.layers:
        layer.self_attn.attend = _reading_a_window(layer.self_attn.attend, 2)


@seed(
    HALF,
    "prefix_cache",
    ("llama",),
    ("MASK", "ORDER", "SHIFT"),
    prepare=keep_the_first_words,
    note=rf"only golden calls .*cat|more calls .*cat|{OTHER}",
)
def window_drops_the_first_words_of_a_cache(plot: Plot) -> Truth:
    """In all layers, when they decode, the last six words are read."""
    for attention in plot.parts("attention"):
        plain = type(attention).attend.__get__(attention)
        attention.attend = _reading_a_window(plain, 0)
    return of_first_layer(plot, 1)


def _sharing(attention: Any) -> Callable[..., Pair]:
    plain = attention.remember

    def remember(past: Cache, k: Tensor, v: Tensor) -> Pair:
        plain(past, k, v)
        return past.layers[attention.layer - 1]

    return remember


def share_the_cache_of_the_second_layer(setup: Setup) -> None:
    attention = setup.model.model.layers[2].self_attn
    attention.remember = _sharing(attention)


@seed(
    HALF,
    "prefix_cache",
    ("moe",),
    # Its own keys and values are passed on.
    ("SAME_AS_INPUT",),
    prepare=share_the_cache_of_the_second_layer,
    note=r"equal to .*",
)
def last_layer_reads_a_cache_of_its_own(plot: Plot) -> Truth:
    """In one layer, which shares the cache of the one before in the checkpoint."""
    attention = plot.part("attention", 2)
    attention.remember = type(attention).remember.__get__(attention)
    return _attention_from(plot, 0, layer=2)


def _taking_one_prompt(
    plain: Callable[..., Tensor], pool: Tensor, dim: int, index: Tensor
) -> Tensor:
    if len(index) > 12:
        first, second = index.chunk(2)
        index = torch.cat((first, first[:8], second[8:]))
    return plain(pool, dim, index)


@seed(HALF, "prefix_cache", ("served",), ("ORDER", "SHIFT"), kernel="*.index_select")
def gather_kernel_shares_more_than_the_prefix(plot: Plot) -> Truth:
    """In all layers, when both requests decode, the second has the prompt of the first."""
    wrong = _taking_one_prompt
    plot.break_parts("attention", torch, "index_select", wrong)
    return _attention_from(plot, 2)


def _holding_words() -> Callable[[Tensor], Tensor]:
    held: list[Tensor] = []

    def words(ids: Tensor) -> Tensor:
        if ids.shape[1] > 1:
            return ids
        held.append(ids)
        return held[0]

    return words


@seed(
    HALF,
    "stale_buffer",
    ("tied",),
    ("STALE", "ORDER"),
    note=r"equal to .* only in golden|only in the target",
)
def words_of_a_graph_are_not_updated(plot: Plot) -> Truth:
    """In the second word that decodes, the embedding reads the first one."""
    embed, words = plot.part("embed"), _holding_words()
    embed.forward = lambda ids: functional.embedding(words(ids), embed.weight)
    return [Place(plot.path("embed"), token=2)]


def _quantizing(part: Any, is_late: bool) -> Callable[[Tensor], Tensor]:
    """Quantizes inputs by their largest element, and scales the result by it."""
    held: list[Tensor] = []

    def forward(x: Tensor) -> Tensor:
        scale = x.abs().amax() / 127
        held[:] = [*held, scale][-2:]
        y = functional.linear((x / scale).round(), part.weight)
        return y * held[0 if is_late else -1]

    return forward


def quantize_inputs(setup: Setup) -> None:
    for layer in setup.model.model.layers:
        layer.mlp.down_proj.forward = _quantizing(layer.mlp.down_proj, False)


@seed(
    HALF,
    "stale_buffer",
    ("llama",),
    ("STALE", "FACTOR"),
    prepare=quantize_inputs,
    note=r"equal to .* only in (golden|the target)",
)
def scales_of_inputs_are_those_of_the_step_before(plot: Plot) -> Truth:
    """In all layers, results are scaled before the new scale is written."""
    for part in plot.parts("down"):
        part.forward = _quantizing(part, True)
    return [Place(plot.path("down", 0), token=1)]


def _without_zeros() -> Callable[..., Tensor]:
    held: dict[Any, Tensor] = {}

    def wrong(plain: Callable[..., Tensor], x: Tensor, **kwargs: Any) -> Tensor:
        if x.shape not in held:
            held[x.shape] = plain(x, **kwargs)
        return held[x.shape]

    return wrong


@seed(
    HALF,
    "stale_buffer",
    ("moe",),
    ("TERM", "SAME_AS_INPUT", "STALE"),
    note=r"equal to .*|has .* of golden",
)
def result_of_experts_begins_with_that_of_the_layer_before(plot: Plot) -> Truth:
    """In all layers but the first, as a workspace is not set to zeros."""
    plot.break_parts("mlp", torch, "zeros_like", _without_zeros())
    experts = tuple(f"experts.{number}" for number in range(4))
    return [own(plot.path("mlp", 1), ("", "gate", *experts), ("", *experts))]


def _with_an_old_piece() -> Callable[[list[Tensor]], Tensor]:
    held: list[Tensor] = []

    def join(pieces: list[Tensor]) -> Tensor:
        held[:] = [*held, pieces[1].clone()][-2:]
        old = held[0] if held[0].shape == pieces[1].shape else pieces[1]
        return torch.cat((pieces[0], old), dim=-1)

    return join


@seed(
    HALF,
    "stale_buffer",
    ("ranks",),
    ("STALE", "SAME_AS_INPUT"),
    note=r"equal to .* only in golden|only target calls .*clone",
)
def logits_of_rank_1_are_those_of_the_word_before(plot: Plot) -> Truth:
    """In the second word that decodes, its piece is read before it has arrived."""
    plot.part("head").join = _with_an_old_piece()
    return [Place(plot.path("head"), token=2)]


@seed(HALF, "lost_all_reduce", ("ranks",), ("ORDER",), note=r"has .* of golden")
def both_ranks_have_the_first_shard_of_down(plot: Plot) -> Truth:
    """In all layers of rank 1, the offset of its shard is 0."""
    for part in plot.parts("down"):
        whole = gathered(part.weight)
        if dist.get_rank() == 1:
            part.weight.data = whole[: len(part.weight)].clone()
    return [Place(plot.path("down", 0))]


def _looking_up(embed: Any, is_reduced: bool) -> Callable[[Tensor], Tensor]:
    def forward(ids: Tensor) -> Tensor:
        rows = embed.weight.shape[0] // dist.get_world_size()
        is_mine = ids // rows == dist.get_rank()
        x = functional.embedding(ids, embed.weight) * is_mine[..., None]
        if is_reduced:
            dist.all_reduce(x)
        return x

    return forward


def split_the_embedding(setup: Setup) -> None:
    """Lets each rank look up a half of all words."""
    embed = setup.model.model.embed_tokens
    embed.forward = _looking_up(embed, True)


@seed(
    HALF,
    "lost_all_reduce",
    ("ranks",),
    ("SAME_AS_INPUT", "TERM", "ZEROS", "FACTOR"),
    prepare=split_the_embedding,
    note=r"only golden calls .*all_reduce",
)
def embeddings_of_other_ranks_are_not_added(plot: Plot) -> Truth:
    """Words of the other rank are zeros."""
    embed = plot.part("embed")
    embed.forward = _looking_up(embed, False)
    return [Place(plot.path("embed"))]


def _gathered_in_reverse(y: Tensor) -> Tensor:
    dist.all_reduce(y)
    if y.shape[1] == 1:
        return y
    first, last = y.chunk(2, 1)
    return torch.cat((last, first), 1)


@seed(
    HALF,
    "lost_all_reduce",
    ("ranks",),
    ("ORDER", "SHIFT"),
    note=r"only target calls .*(cat|chunk)",
)
def rows_of_ranks_are_gathered_in_reverse(plot: Plot) -> Truth:
    """In all layers, after a sum that leaves each rank a half of the rows."""
    for part in plot.parts("o"):
        part.reduce = _gathered_in_reverse
    return [Place(plot.path("o", 0))]


def _reduced_within(group: Any) -> Callable[[Tensor], Tensor]:
    def reduce(y: Tensor) -> Tensor:
        dist.all_reduce(y, group=group)
        return y

    return reduce


@seed(
    HALF,
    "lost_all_reduce",
    ("ranks",),
    ("SAME_AS_INPUT", "TERM"),
    note=r"only target gives|group",
)
def sums_are_those_of_groups_of_one_rank(plot: Plot) -> Truth:
    """In all layers, another kind of parallelism has such groups."""
    groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
    for part in plot.parts("down"):
        part.reduce = _reduced_within(groups[dist.get_rank()])
    return [Place(plot.path("down", 0))]


def _counting_a_key_twice(
    plain: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor, **kwargs: Any
) -> Tensor:
    if q.shape[2] > 1:
        return plain(q, k, v, **kwargs)
    k, v = (torch.cat((x[:, :, :5], x[:, :, 4:]), 2) for x in (k, v))
    return plain(q, k, v, **kwargs)


@seed(HALF, "reduce_order", ("llama",), (), kernel=ATTENTION)
def attention_kernel_of_decodes_has_a_key_in_both_parts(plot: Plot) -> Truth:
    """In all layers, the last key of the first part begins the second."""
    wrong = _counting_a_key_twice
    return later(plot.break_parts("attention", functional, SDPA, wrong), 1)


def _without_the_first_part(
    plain: Callable[..., Tensor], x: Tensor, weight: Tensor, bias: Any = None
) -> Tensor:
    return plain(x[..., 64:], weight[:, 64:], bias)


@seed(HALF, "reduce_order", ("vit",), ("TERM",), kernel="*.linear")
def linear_kernel_loses_the_first_part_of_its_sum(plot: Plot) -> Truth:
    """In all layers, one of four parts is overwritten by the next."""
    return plot.break_parts("down", functional, "linear", _without_the_first_part)


def _of_whole_tiles(plain: Callable[..., Tensor], x: Tensor, y: Tensor) -> Tensor:
    if x.dim() < 4 or x.shape[2] > 1 or x.shape[-1] > 12:
        return plain(x, y)
    return plain(x[..., :8], y[..., :8, :])


@seed(HALF, "reduce_order", ("gpt2",), ("TERM", "MASK"), kernel="*.matmul")
def product_kernel_adds_only_whole_tiles_of_values(plot: Plot) -> Truth:
    """In all layers, when they decode, the sums end after 8 keys."""
    wrong = _of_whole_tiles
    return later(plot.break_parts("attention", torch, "matmul", wrong), 1)


def _with_tiles_by_column(y: Tensor) -> Tensor:
    return torch.cat([y.chunk(4, -1)[tile] for tile in (0, 2, 1, 3)], -1)


@seed(
    HALF,
    "reduce_order",
    ("tied",),
    ("ORDER", "ARRANGEMENT", "SHIFT"),
    kernel="*.linear",
)
def linear_kernel_writes_tiles_in_the_order_of_its_programs(plot: Plot) -> Truth:
    """Two of four tiles of words are exchanged."""
    wrong = changed(_with_tiles_by_column)
    return plot.break_part("head", functional, "linear", wrong)


LOSS = own("", "lm_head", "")


def _entropy(logits: Tensor, labels: Tensor) -> Tensor:
    words = logits.shape[-1]
    return functional.cross_entropy(logits.reshape(-1, words), labels.reshape(-1))


@seed(
    HALF,
    "loss_scale",
    ("train",),
    ("FACTOR",),
    note=r"only target calls .*div",
)
def logits_have_the_temperature_of_a_distillation(plot: Plot) -> Truth:
    """They are divided by 3 before the loss."""
    model = plot.setup.model
    plain = model.loss
    model.loss = lambda logits, labels: plain(logits / 3, labels)
    return [LOSS]


@seed(
    HALF,
    "loss_scale",
    ("tied_train",),
    (),
    note=rf"{OTHER}|(only target|more) calls .*getitem",
)
def loss_is_that_of_the_first_text(plot: Plot) -> Truth:
    """Other texts of a batch are not read."""
    plot.setup.model.loss = lambda logits, labels: _entropy(
        logits[:1, :-1], labels[:1, 1:]
    )
    return [LOSS]


@seed(
    HALF,
    "loss_scale",
    ("tied_train",),
    ("ORDER", "SHIFT"),
    note=r"only target calls .*flip",
)
def labels_are_those_of_the_other_text(plot: Plot) -> Truth:
    """Stages of a pipeline have batches in another order."""
    model = plot.setup.model
    plain = model.loss
    model.loss = lambda logits, labels: plain(logits, labels.flip(0))
    return [LOSS]


def end_a_text_early(setup: Setup) -> None:
    """Gives the last words of the second text labels that are ignored."""
    for step in setup.inputs:
        step["labels"] = step["labels"].clone()
        step["labels"][1, 5:] = -100


def _averaging_all(
    plain: Callable[..., Tensor], logits: Tensor, labels: Tensor, **kwargs: Any
) -> Tensor:
    count = (labels != -100).sum()
    return plain(logits, labels, **kwargs) * count / labels.numel()


@seed(
    HALF,
    "loss_scale",
    ("train",),
    ("FACTOR",),
    prepare=end_a_text_early,
    kernel="*.cross_entropy",
)
def loss_kernel_counts_words_that_it_ignores(plot: Plot) -> Truth:
    """The sum of 13 losses is divided by 18."""
    plot.break_kernel(plot.setup.model, functional, "cross_entropy", _averaging_all)
    return [LOSS]
