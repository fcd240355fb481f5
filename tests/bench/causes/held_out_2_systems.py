"""The second held-out half: mistakes of caches, of several ranks and of trainings."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from anatomy import Place, Truth, own
from attention import Cache
from parallel import add_biases
from seeding import Plot, seed
from serving import PREFIX, batch
from torch import Tensor
from torch.nn import functional
from wrong_kernels import changed

HALF = "held_out_2"


def _attention_from(plot: Plot, token: int) -> Truth:
    place = plot.attention_code()
    return [Place(place.op, place.after, place.before, token=token)]


@seed(HALF, "kv_slot", ("served",), ("ORDER", "SHIFT"))
def slots_of_both_requests_are_exchanged_when_written(plot: Plot) -> Truth:
    for step in (2, 3):
        slots, layer = batch(plot.setup, step), plot.layer
        slots.write_of = _only_in(layer, slots.write.flip(0), slots.write)
    return _attention_from(plot, 2)


@seed(HALF, "kv_slot", ("served",), ("ORDER", "SHIFT"))
def slots_are_read_one_position_late(plot: Plot) -> Truth:
    for step in (2, 3):
        slots, layer = batch(plot.setup, step), plot.layer
        late = torch.cat((slots.read[:, :1], slots.read[:, :-1]), 1)
        slots.read_of = _only_in(layer, late, slots.read)
    return _attention_from(plot, 2)


def _only_in(wrong_in: int, wrong: Tensor, right: Tensor) -> Callable[[int], Tensor]:
    return lambda layer: wrong if layer == wrong_in else right


@seed(HALF, "kv_slot", ("served",), ("ORDER", "SHIFT"), kernel="*.index_select")
def gather_kernel_exchanges_two_slots(plot: Plot) -> Truth:
    def wrong(
        plain: Callable[..., Tensor], x: Tensor, dim: int, index: Tensor
    ) -> Tensor:
        index = index.clone()
        index[[1, 2]] = index[[2, 1]]
        return plain(x, dim, index)

    return plot.break_part("attention", torch, "index_select", wrong)


@seed(HALF, "prefix_cache", ("served",), ("OFFSET", "ORDER", "SHIFT"))
def prefix_is_read_from_the_next_block(plot: Plot) -> Truth:
    for step in (1, 2, 3):
        slots, layer = batch(plot.setup, step), plot.layer
        wrong = slots.read.clone()
        wrong[-1, :PREFIX] += PREFIX
        slots.read_of = _only_in(layer, wrong, slots.read)
    return _attention_from(plot, 1)


def _with_one_word_as_prefix(y: Tensor) -> Tensor:
    y[1:PREFIX] = y[0]
    return y


@seed(HALF, "prefix_cache", ("served",), ("ORDER",), kernel="*.index_select")
def gather_kernel_repeats_the_first_slot_of_the_prefix(plot: Plot) -> Truth:
    wrong = changed(_with_one_word_as_prefix)
    return plot.break_part("attention", torch, "index_select", wrong)


@seed(HALF, "prefix_cache", ("llama",), ("ZEROS", "FACTOR"))
def cache_has_lost_the_first_words(plot: Plot) -> Truth:
    attention = plot.part("attention")
    plain = attention.remember

    def remember(past: Cache | None, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = plain(past, k, v)
        if k.shape[2] == 1:
            keys, values = keys.clone(), values.clone()
            keys[:, :, :3], values[:, :, :3] = 0, 0
        return keys, values

    attention.remember = remember
    return _attention_from(plot, 1)


@seed(
    HALF,
    "lost_all_reduce",
    ("ranks",),
    ("SAME_AS_INPUT", "TERM"),
    note=r"only golden calls .*all_reduce",
)
def all_reduce_after_the_attention_lost(plot: Plot) -> Truth:
    plot.part("o").reduce = lambda y: y
    return [Place(plot.path("o"))]


@seed(
    HALF,
    "lost_all_reduce",
    ("ranks",),
    (),
    note=r"other argument.*MAX|only target (calls|gives) .*op",
)
def all_reduce_takes_the_largest(plot: Plot) -> Truth:
    def reduce(y: Tensor) -> Tensor:
        dist.all_reduce(y, op=dist.ReduceOp.MAX)
        return y

    plot.part("down").reduce = reduce
    return [Place(plot.path("down"))]


@seed(
    HALF,
    "lost_all_reduce",
    ("ranks",),
    ("FACTOR",),
    note=r"only target calls .*mul",
)
def all_reduce_takes_the_mean(plot: Plot) -> Truth:
    def reduce(y: Tensor) -> Tensor:
        dist.all_reduce(y)
        return y * 0.5

    plot.part("o").reduce = reduce
    return [Place(plot.path("o"))]


@seed(
    HALF,
    "reduce_order",
    ("ranks",),
    ("ORDER", "ARRANGEMENT"),
    note=r"only golden calls .*cat",
)
def pieces_joined_element_by_element(plot: Plot) -> Truth:
    plot.part("head").join = lambda pieces: torch.stack(pieces, -1).flatten(-2)
    return [Place(plot.path("head"))]


@seed(
    HALF,
    "reduce_order",
    ("ranks",),
    ("OFFSET", "TERM"),
    prepare=add_biases,
    note="other order of calls",
)
def bias_is_added_before_the_ranks(plot: Plot) -> Truth:
    part = plot.part("down")
    part.forward = lambda x: part.reduce(functional.linear(x, part.weight) + part.bias)
    return [Place(plot.path("down"))]


LOSS = own("", "lm_head", "")


@seed(HALF, "loss_scale", ("train",), ("FACTOR",), note=r"only target calls .*mul")
def loss_keeps_its_scale(plot: Plot) -> Truth:
    model = plot.setup.model
    plain = model.loss
    model.loss = lambda logits, labels: plain(logits, labels) * 1024.0
    return [LOSS]


@seed(
    HALF,
    "loss_scale",
    ("train", "tied_train"),
    ("FACTOR",),
    note=r"only target calls .*div",
)
def loss_is_divided_by_the_ranks(plot: Plot) -> Truth:
    model = plot.setup.model
    plain = model.loss
    model.loss = lambda logits, labels: plain(logits, labels) / 8
    return [LOSS]


@seed(HALF, "loss_scale", ("train",), ("FACTOR",), kernel="*.cross_entropy")
def loss_kernel_adds_all_words(plot: Plot) -> Truth:
    def wrong(plain: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        return plain(*args, **{**kwargs, "reduction": "sum"})

    plot.break_kernel(plot.setup.model, functional, "cross_entropy", wrong)
    return [LOSS]


@seed(HALF, "loss_scale", ("train",), (), note=r"label_smoothing: target 0\.2")
def labels_are_smoothed(plot: Plot) -> Truth:
    model = plot.setup.model

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        words = logits.shape[-1]
        return functional.cross_entropy(
            logits[:, :-1].reshape(-1, words),
            labels[:, 1:].reshape(-1),
            label_smoothing=0.2,
        )

    model.loss = loss
    return [LOSS]
