"""The fifth held-out half: caches, stale data, several ranks, and trainings.

17 of these 25 mistakes are in all layers, 1 in two layers, and 7 in an embedding, a head
or the loss. 6 mistakes are only in steps that decode, 2 only after a prefix was cached,
and 1 only in one rank. 5 are wrong kernels.
"""

import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from anatomy import Place, Truth, own
from attention import Cache
from held_out_3_attention import later, of_first_layer
from seeding import Plot, seed
from serving import PREFIX, batch
from subjects import Setup
from torch import Tensor
from torch.nn import functional
from wrong_kernels import changed

HALF = "held_out_5"
DECODES = (2, 3)
Pair = tuple[Tensor, Tensor]


def _attention_from(plot: Plot, token: int, layer: int = 0) -> Truth:
    plot.layer = layer
    return later([plot.attention_code()], token)


def _exchanging_blocks(read: Tensor) -> Callable[[int], Tensor]:
    calls = itertools.count()

    def read_of(layer: int) -> Tensor:
        # Keys are read before values.
        if next(calls) % 2 == 0:
            return read
        first, second, rest = read.split((PREFIX, PREFIX, read.shape[1] - 8), 1)
        wrong = torch.cat((second, first, rest), 1)
        return torch.stack((read[0], wrong[1]))

    return read_of


@seed(
    HALF,
    "kv_slot",
    ("served",),
    ("ORDER", "OFFSET"),
    note=r"only target calls .*(cat|stack|split|getitem)",
)
def blocks_of_values_are_exchanged(plot: Plot) -> Truth:
    """In all layers, when they decode. Keys of the second request have their order."""
    for step in DECODES:
        slots = batch(plot.setup, step)
        slots.read_of = _exchanging_blocks(slots.read)
    return _attention_from(plot, 2)


def _putting_new_keys_first(attention: Any) -> Callable[..., Pair]:
    plain = attention.remember

    def remember(past: Cache | None, k: Tensor, v: Tensor) -> Pair:
        if past is None or k.shape[2] > 1:
            return plain(past, k, v)
        keys, values = past.layers[attention.layer]
        found = torch.cat((k, keys), 2), torch.cat((values, v), 2)
        past.layers[attention.layer] = found
        return found

    return remember


@seed(
    HALF,
    "kv_slot",
    ("llama",),
    ("ORDER", "SHIFT", "SWAPPED_INPUTS", "SAME_AS_INPUT"),
    note=r"changed places|in golden, to .* in the target",
)
def new_keys_are_put_before_those_of_the_cache(plot: Plot) -> Truth:
    """In all layers, when they decode. Values are put at the end."""
    for attention in plot.parts("attention"):
        attention.remember = _putting_new_keys_first(attention)
    return of_first_layer(plot, 1)


def _repeating_heads(plain: Callable[..., Pair]) -> Callable[..., Pair]:
    def remember(past: Cache | None, k: Tensor, v: Tensor) -> Pair:
        keys, values = plain(past, k, v)
        if k.shape[2] > 1:
            return keys, values
        return keys[:, [0, 1, 0, 1]], values[:, [0, 1, 0, 1]]

    return remember


@seed(
    HALF,
    "kv_slot",
    ("gpt2",),
    ("ORDER", "SHIFT"),
    note=r"only target calls .*getitem",
)
def cache_has_half_of_the_heads(plot: Plot) -> Truth:
    """In all layers, when they decode, as if two query heads shared each of them."""
    for attention in plot.parts("attention"):
        attention.remember = _repeating_heads(attention.remember)
    return of_first_layer(plot, 1)


def _in_two_pools(plain: Callable[..., Pair]) -> Callable[..., Pair]:
    return lambda layer, k, v: plain(min(layer, 1), k, v)


@seed(
    HALF,
    "kv_slot",
    ("served",),
    ("SAME_AS_INPUT",),
    note=r"only golden calls .*zeros|equal to .* in the target",
)
def two_layers_share_a_pool(plot: Plot) -> Truth:
    """The second layer reads what the last one wrote in the step before."""
    for step in range(4):
        slots = batch(plot.setup, step)
        slots.update = _in_two_pools(slots.update)
    # The last layer is given the pool in the first step already.
    read = _attention_from(plot, 1, layer=1)
    return [*_attention_from(plot, 0, layer=2), *read]


def _changing_the_prefix(
    plain: Callable[..., Pair], change: Callable[[Tensor], Tensor]
) -> Callable[..., Pair]:
    """Changes what the second request reads from the cache."""

    def update(layer: int, k: Tensor, v: Tensor) -> Pair:
        keys, values = (x.clone() for x in plain(layer, k, v))
        for x in (keys, values):
            x[-1, :, :PREFIX] = change(x[-1, :, :PREFIX].clone())
        return keys, values

    return update


def _change_the_prefix(plot: Plot, change: Callable[[Tensor], Tensor]) -> Truth:
    for step in (1, *DECODES):
        slots = batch(plot.setup, step)
        slots.update = _changing_the_prefix(slots.update, change)
    return _attention_from(plot, 1)


@seed(
    HALF,
    "prefix_cache",
    ("served",),
    ("ARRANGEMENT", "ORDER"),
    note=r"only target calls .*(transpose|setitem|clone)",
)
def prefix_was_sent_in_another_layout(plot: Plot) -> Truth:
    """In all layers, the sender has heads before slots, and the receiver after them."""
    return _change_the_prefix(plot, lambda x: x.transpose(0, 1))


def _of_older_weights(x: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(59)
    turn = torch.randn(x.shape[-1], x.shape[-1], generator=generator)
    return x + 0.5 * x @ (turn / x.shape[-1] ** 0.5).to(x.dtype)


@seed(
    HALF,
    "prefix_cache",
    ("served",),
    (),
    note=r"only target calls .*(matmul|setitem|clone|mul|add)",
)
def prefix_is_that_of_older_weights(plot: Plot) -> Truth:
    """In all layers, the cache was not emptied when the weights were replaced."""
    return _change_the_prefix(plot, _of_older_weights)


def _in_two_chunks(plain: Callable[..., Any]) -> Callable[..., Any]:
    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Any:
        if q.shape[2] == 1:
            return plain(q, k, v, mask)
        chunks = zip(*(x.split(5, 2) for x in (q, k, v)), strict=True)
        return torch.cat([plain(*one, mask)[0] for one in chunks], 1), None

    return attend


@seed(
    HALF,
    "prefix_cache",
    ("llama",),
    ("MASK",),
    note=r"(only target|more) calls .*(cat|split|scaled_dot_product_attention)",
)
def second_chunk_of_a_prompt_does_not_read_the_first(plot: Plot) -> Truth:
    """In all layers, the last three words of the prompt see only each other."""
    for attention in plot.parts("attention"):
        attention.attend = _in_two_chunks(attention.attend)
    return of_first_layer(plot)


def _without_a_zero_point(plain: Callable[..., Pair]) -> Callable[..., Pair]:
    def remember(past: Cache | None, k: Tensor, v: Tensor) -> Pair:
        keys, values = plain(past, k, v)
        if k.shape[2] > 1:
            return keys, values
        old = values[:, :, :-1]
        return keys, torch.cat((old - old.amin(), values[:, :, -1:]), 2)

    return remember


@seed(
    HALF,
    "prefix_cache",
    ("gpt2",),
    ("OFFSET",),
    note=r"only target calls .*(sub|amin|getitem|min)|more calls .*cat",
)
def cached_values_lack_their_zero_point(plot: Plot) -> Truth:
    """In all layers, when they decode."""
    for attention in plot.parts("attention"):
        attention.remember = _without_a_zero_point(attention.remember)
    return of_first_layer(plot, 1)


def _with_the_first_image(y: Tensor) -> Tensor:
    return y[[0, 0]]


@seed(HALF, "stale_buffer", ("vit",), ("ORDER", "SHIFT"), kernel="*.linear")
def product_kernel_does_not_advance_to_the_second_image(plot: Plot) -> Truth:
    """In all layers, both images have the rows of the first one."""
    wrong = changed(_with_the_first_image)
    return plot.break_parts("up", functional, "linear", wrong)


def _last_residual() -> Callable[[Tensor, Tensor], Tensor]:
    held: list[Tensor] = []

    def residual_of(hidden: Tensor, normed: Tensor) -> Tensor:
        if hidden.shape[1] > 1:
            return hidden
        held.append(hidden)
        return held[-2:][0]

    return residual_of


@seed(
    HALF,
    "stale_buffer",
    ("llama",),
    ("STALE",),
    note=r"only in golden",
)
def residual_of_a_graph_is_that_of_the_word_before(plot: Plot) -> Truth:
    """In all layers, from the second word that decodes on."""
    for layer in plot.parts("layer"):
        layer.residual_of = _last_residual()
    plot.layer = 0
    return later(plot.attention_residual(), 2)


def _adding_to_an_old_residual(layer: Any) -> None:
    held: list[Tensor] = []

    def residual_of(hidden: Tensor, normed: Tensor) -> Tensor:
        held[:] = [hidden]
        return hidden

    layer.residual_of = residual_of
    layer.add_feed_forward = lambda x, change: held[0] + change


@seed(
    HALF,
    "stale_buffer",
    ("moe",),
    ("TERM", "SAME_AS_INPUT"),
    note=r"in golden, to .* in the target|only in (golden|the target)",
)
def residual_lacks_the_result_of_the_attention(plot: Plot) -> Truth:
    """In all layers, the result of the feed-forward part is added to an old one."""
    for layer in plot.parts("layer"):
        _adding_to_an_old_residual(layer)
    plot.layer = 0
    return plot.feed_forward_residual()


def _with_an_old_second_row() -> Callable[..., Tensor]:
    held: list[Tensor] = []

    def wrong(
        plain: Callable[..., Tensor], ids: Tensor, *args: Any, **kwargs: Any
    ) -> Tensor:
        y = plain(ids, *args, **kwargs)
        if len(y) == 1:
            return y
        held.append(y[1].clone())
        return torch.stack((y[0], held[-2:][0]))

    return wrong


@seed(HALF, "stale_buffer", ("served",), ("STALE",), kernel="*.embedding")
def embedding_kernel_does_not_write_its_second_row(plot: Plot) -> Truth:
    """The second request has the word before, when it decodes its second one."""
    wrong = _with_an_old_second_row()
    return later(plot.break_part("embed", functional, "embedding", wrong), 3)


def _scattered(y: Tensor) -> Tensor:
    dist.all_reduce(y)
    keep = torch.arange(y.shape[-1]) * 2 // y.shape[-1] == dist.get_rank()
    return y * keep


@seed(
    HALF,
    "lost_all_reduce",
    ("ranks",),
    ("ZEROS", "FACTOR"),
    note=r"only target calls .*(mul|arange|eq|floor)",
)
def sums_are_scattered_and_not_gathered(plot: Plot) -> Truth:
    """In all layers, each rank has its half of the channels, and zeros."""
    for part in (*plot.parts("o"), *plot.parts("down")):
        part.reduce = _scattered
    return [Place(plot.path("o", 0))]


def _broadcast(y: Tensor) -> Tensor:
    dist.broadcast(y, 0)
    return y


@seed(
    HALF,
    "lost_all_reduce",
    ("ranks",),
    ("SAME_AS_INPUT", "TERM"),
    note=r"only (target calls .*broadcast|golden calls .*all_reduce)",
)
def results_of_rank_0_are_broadcast(plot: Plot) -> Truth:
    """In all layers, and not added to those of rank 1."""
    for part in plot.parts("down"):
        part.reduce = _broadcast
    return [Place(plot.path("down", 0))]


def _adding_before_the_sum(residual: Tensor, x: Tensor) -> Tensor:
    both = residual + x
    dist.all_reduce(both)
    return both


@seed(
    HALF,
    "lost_all_reduce",
    ("ranks",),
    ("SAME_AS_INPUT", "TERM"),
    note=r"only (golden|target) calls .*all_reduce|other order of calls",
)
def residual_is_added_in_each_rank(plot: Plot) -> Truth:
    """In all layers, as the sum over ranks follows that with the residual."""
    for part, layer in zip(plot.parts("o"), plot.parts("layer"), strict=True):
        part.reduce, layer.add_attention = lambda y: y, _adding_before_the_sum
    plot.layer = 0
    return [Place(plot.path("o")), *plot.attention_residual()]


def _reduced_up_to_a_size(y: Tensor) -> Tensor:
    flat = y.flatten()
    sums = flat[:1024].clone()
    dist.all_reduce(sums)
    return torch.cat((sums, flat[1024:])).view_as(y)


@seed(
    HALF,
    "lost_all_reduce",
    ("ranks",),
    ("SAME_AS_INPUT", "TERM"),
    note=r"only target calls .*(cat|getitem|flatten|clone|view)",
)
def all_reduces_end_with_their_buffer(plot: Plot) -> Truth:
    """In all layers, the last 256 elements of a prompt are not added."""
    for part in plot.parts("o"):
        part.reduce = _reduced_up_to_a_size
    return [Place(plot.path("o", 0))]


def _reading_old_sums() -> Callable[[Tensor], Tensor]:
    held: list[Tensor] = []

    def reduce(y: Tensor) -> Tensor:
        dist.all_reduce(y)
        old = held[0] if held and held[0].shape == y.shape else y
        held[:] = [y.clone()]
        return old

    return reduce


@seed(
    HALF,
    "lost_all_reduce",
    ("ranks",),
    ("SAME_AS_INPUT",),
    note=r"equal to .* output|has .* of golden|only target calls .*clone",
)
def rank_1_reads_the_sum_before(plot: Plot) -> Truth:
    """In all layers of rank 1, the space for a sum is read before it is written."""
    if dist.get_rank() == 1:
        reduce = _reading_old_sums()
        for part in (*plot.parts("o"), *plot.parts("down")):
            part.reduce = reduce
    return [Place(plot.path("down", 0))]


def _joined_with_padding(pieces: list[Tensor]) -> Tensor:
    padded = [functional.pad(one, (0, 2)) for one in pieces]
    return torch.cat(padded, -1)[..., : pieces[0].shape[-1] * len(pieces)]


@seed(
    HALF,
    "reduce_order",
    ("ranks",),
    ("SHIFT", "ORDER", "ZEROS"),
    note=r"only target calls .*(pad|getitem)",
)
def padding_of_the_first_shard_stays_between_words(plot: Plot) -> Truth:
    plot.part("head").join = _joined_with_padding
    return [Place(plot.path("head"))]


def _softmax_of_tiles(plain: Callable[..., Tensor], x: Tensor, **kwargs: Any) -> Tensor:
    """Adds the powers of the zeros that pad a row to 16."""
    y = plain(x, **kwargs)
    least = x.float().amax(-1, keepdim=True)
    count = 16 - x.shape[-1]
    total = (x.float() - least).exp().sum(-1, keepdim=True)
    return (y * (total / (total + count * (-least).exp()))).to(y.dtype)


@seed(
    HALF,
    "reduce_order",
    ("gpt2",),
    # A factor for each head and query.
    ("FACTOR",),
    kernel="*.softmax",
)
def softmax_kernel_counts_the_padding_of_its_tile(plot: Plot) -> Truth:
    """In all layers."""
    return plot.break_parts("attention", functional, "softmax", _softmax_of_tiles)


def _mean_of_a_tile(
    plain: Callable[..., Tensor], x: Tensor, *args: Any, **kwargs: Any
) -> Tensor:
    return plain(x[..., :64], *args, **kwargs)


@seed(
    HALF,
    "reduce_order",
    ("llama",),
    # A factor for each row, of the mean and of the result.
    ("FACTOR", "OFFSET"),
    kernel="*.mean",
)
def mean_kernel_reads_only_its_first_tile(plot: Plot) -> Truth:
    """In the second norm of all layers, 64 of 160 channels."""
    return plot.break_parts("norm2", torch.Tensor, "mean", _mean_of_a_tile)


def _of_chunks_of_words(
    plain: Callable[..., Tensor], logits: Tensor, labels: Tensor, **_: Any
) -> Tensor:
    """Subtracts the maximum of all words from each chunk but the last one."""
    wide = logits.float()
    first, last = wide.chunk(2, -1)
    highest = wide.detach().amax(-1)
    total = (first - highest[:, None]).exp().sum(-1)
    total = total + (last - last.detach().amax(-1, keepdim=True)).exp().sum(-1)
    chosen = wide.gather(-1, labels[:, None])[:, 0]
    return (total.log() + highest - chosen).mean()


@seed(HALF, "reduce_order", ("tied_train",), (), kernel="*.cross_entropy")
def loss_kernel_does_not_rescale_its_last_chunk(plot: Plot) -> Truth:
    """The sums over two chunks of words have other maxima."""
    plot.break_kernel(
        plot.setup.model, functional, "cross_entropy", _of_chunks_of_words
    )
    return [LOSS]


LOSS = own("", "lm_head", "")


def _entropy(logits: Tensor, labels: Tensor, **options: Any) -> Tensor:
    words = logits.shape[-1]
    return functional.cross_entropy(
        logits.reshape(-1, words), labels.reshape(-1), **options
    )


@seed(
    HALF,
    "loss_scale",
    ("train",),
    ("SHIFT", "ORDER"),
    note=r"other arguments?: ",
)
def labels_are_not_shifted(plot: Plot) -> Truth:
    """Each word predicts itself."""
    plot.setup.model.loss = lambda logits, labels: _entropy(
        logits[:, :-1], labels[:, :-1]
    )
    return [LOSS]


def ignore_the_first_word(setup: Setup) -> None:
    """Pads the texts by the word 0, which the loss ignores."""
    for step in setup.inputs:
        step["labels"] = step["labels"].clone()
        step["labels"][0, 6:] = 0
    setup.model.loss = lambda logits, labels: _entropy(
        logits[:, :-1], labels[:, 1:], ignore_index=0
    )


@seed(
    HALF,
    "loss_scale",
    ("train",),
    (),
    prepare=ignore_the_first_word,
    note=r"ignore_index",
)
def words_that_pad_a_text_are_predicted(plot: Plot) -> Truth:
    plot.setup.model.loss = lambda logits, labels: _entropy(
        logits[:, :-1], labels[:, 1:]
    )
    return [LOSS]


def _with_a_penalty(model: Any) -> Callable[[Tensor, Tensor], Tensor]:
    plain = model.loss

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        penalty = logits.logsumexp(-1).square().mean()
        return plain(logits, labels) + 0.05 * penalty

    return loss


@seed(
    HALF,
    "loss_scale",
    ("tied_train",),
    ("TERM", "OFFSET"),
    note=r"only target calls .*(logsumexp|square|mean|mul|add)",
)
def loss_has_the_penalty_of_another_recipe(plot: Plot) -> Truth:
    """The logarithms of all sums of a softmax are kept small."""
    model = plot.setup.model
    model.loss = _with_a_penalty(model)
    return [LOSS]


@seed(
    HALF,
    "loss_scale",
    ("train",),
    ("FACTOR",),
    note=r"reduction: (target sum|only target)|only target (gives .*reduction|calls .*div)",
    precisions=("float32",),
)
def words_that_nothing_predicts_are_counted(plot: Plot) -> Truth:
    """The sum of 18 losses is divided by the 20 words of a batch."""
    plot.setup.model.loss = lambda logits, labels: (
        _entropy(logits[:, :-1], labels[:, 1:], reduction="sum") / labels.numel()
    )
    return [LOSS]
