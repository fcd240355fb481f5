"""Held out: serving, several ranks, and training."""

from collections.abc import Callable
from typing import Any

import parallel
import torch
import torch.distributed as dist
from anatomy import Place, Truth, own
from seeding import Plot, seed
from serving import batch
from torch import Tensor
from torch.nn import functional
from wrong_kernels import changed

HALF = "held_out"
# The arguments of arange.
ARANGE = r"other arguments?: [01]: target -?\d+, golden \d+"
# A mask that no kernel overflows with.
CLOSED = -1e4


def _code(plot: Plot, token: int) -> Truth:
    """The code of the attention, from a token on."""
    place = plot.attention_code()
    return [Place(place.op, place.after, place.before, token=token)]


@seed(HALF, "kv_slot", ("served",), ("ORDER", "SHIFT"))
def requests_write_the_slots_of_each_other(plot: Plot) -> Truth:
    slots, layer = batch(plot.setup, 2), plot.layer
    write = slots.write
    slots.write_of = lambda at: write.flip(0) if at == layer else write
    return _code(plot, 2)


@seed(HALF, "kv_slot", ("served",), ("ORDER", "SHIFT", "ARRANGEMENT"))
def requests_read_the_table_of_each_other(plot: Plot) -> Truth:
    layer = plot.layer

    def exchange(read: Tensor) -> Callable[[int], Tensor]:
        return lambda at: read.flip(0) if at == layer else read

    for step in (2, 3):
        slots = batch(plot.setup, step)
        slots.read_of = exchange(slots.read)
    return _code(plot, 2)


@seed(HALF, "kv_slot", ("served",), ("ORDER", "SHIFT"), kernel="*.index_copy_")
def scatter_kernel_writes_rows_in_reverse(plot: Plot) -> Truth:
    def wrong(
        plain: Callable[..., Tensor], x: Tensor, dim: int, index: Tensor, rows: Tensor
    ) -> Tensor:
        return plain(x, dim, index, rows.flip(0))

    return plot.break_part("attention", torch.Tensor, "index_copy_", wrong)


@seed(HALF, "prefix_cache", ("served",), ("MASK",))
def prefix_is_masked(plot: Plot) -> Truth:
    def mask_of(mask: Tensor) -> Tensor:
        if mask.shape[-2:] != (4, 8):
            return mask
        mask = mask.clone()
        mask[..., :4] = CLOSED
        return mask

    plot.part("attention").mask_of = mask_of
    place = plot.attention_weights()
    return [Place(one.op, one.after, one.before, token=1) for one in place]


@seed(
    HALF,
    "prefix_cache",
    ("served",),
    ("ROPE_POSITIONS", "SHIFT", "OFFSET"),
    note=ARANGE,
)
def positions_do_not_count_the_prefix(plot: Plot) -> Truth:
    body = plot.part("body")
    plain = body.positions
    body.positions = lambda first, length: plain(0 if length == 4 else first, length)
    return [Place("model", ("model.embed_tokens",), ("model.rotary_emb",), token=1)]


@seed(
    HALF,
    "prefix_cache",
    ("served",),
    ("ORDER", "SHIFT", "OFFSET"),
    is_in_the_caller=True,
)
def prefix_of_another_prompt_is_read(plot: Plot) -> Truth:
    for step in (1, 2, 3):
        slots = batch(plot.setup, step)
        slots.read = slots.read.clone()
        slots.read[-1, :4] += 4
    plot.layer = 0
    return _code(plot, 1)


@seed(HALF, "prefix_cache", ("served",), ("ZEROS", "FACTOR"), kernel="*.index_select")
def gather_kernel_does_not_read_the_prefix(plot: Plot) -> Truth:
    def change(y: Tensor) -> Tensor:
        y[:4] = 0
        return y

    return plot.break_part("attention", torch, "index_select", changed(change))


@seed(
    HALF,
    "lost_all_reduce",
    ("ranks",),
    ("SAME_AS_INPUT", "TERM"),
    note=r"only golden calls .*all_reduce",
)
def all_reduce_of_the_attention_lost(plot: Plot) -> Truth:
    plot.part("o").reduce = lambda y: y.clone()
    return [Place(plot.path("o"))]


@seed(HALF, "lost_all_reduce", ("ranks",), ("FACTOR",), note=r"only target calls .*div")
def all_reduce_is_a_mean(plot: Plot) -> Truth:
    part = plot.part("down")
    plain = part.reduce
    part.reduce = lambda y: plain(y) / 2
    return [Place(plot.path("down"))]


@seed(HALF, "lost_all_reduce", ("ranks",), note="MAX")
def all_reduce_takes_the_maximum(plot: Plot) -> Truth:
    def reduce(y: Tensor) -> Tensor:
        dist.all_reduce(y, dist.ReduceOp.MAX)
        return y

    plot.part("down").reduce = reduce
    return [Place(plot.path("down"))]


@seed(
    HALF,
    "reduce_order",
    ("ranks",),
    ("OFFSET", "TERM"),
    prepare=parallel.add_biases,
)
def bias_added_before_the_reduction(plot: Plot) -> Truth:
    part = plot.part("down")
    part.forward = lambda x: part.reduce(functional.linear(x, part.weight) + part.bias)
    return [Place(plot.path("down"))]


@seed(
    HALF,
    "reduce_order",
    ("ranks",),
    ("ARRANGEMENT", "ORDER"),
    note=r"only target calls .*stack",
)
def pieces_interleaved(plot: Plot) -> Truth:
    plot.part("head").join = lambda pieces: torch.stack(pieces, -1).flatten(-2)
    return [Place(plot.path("head"))]


@seed(HALF, "reduce_order", ("moe",), (), kernel="*.matmul")
def product_kernel_sums_in_bfloat16(plot: Plot) -> Truth:
    def wrong(plain: Callable[..., Tensor], a: Tensor, b: Tensor) -> Tensor:
        total: Any = 0.0
        for x, y in zip(a.split(2, -1), b.split(2, -2), strict=True):
            total = (total + plain(x, y)).bfloat16()
        return total.to(a.dtype)

    return plot.break_part("attention", torch, "matmul", wrong)


class _Scaled(torch.autograd.Function):
    """Returns its input, and multiplies the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 8


LOSS = ("*.cross_entropy",)


@seed(HALF, "loss_scale", ("train",), ("FACTOR",), also=LOSS)
def gradients_keep_the_scale_of_the_loss(plot: Plot) -> Truth:
    model = plot.setup.model
    plain = model.loss
    model.loss = lambda logits, labels: _Scaled.apply(plain(logits, labels))
    parts = ("", "lm_head")
    return [
        own("", parts, parts),
        Place("", io="grad_output"),
        Place("lm_head", io="grad_output"),
    ]


@seed(HALF, "loss_scale", ("train",), ("FACTOR",), note=r"only target calls .*mul")
def loss_is_averaged_over_padding_too(plot: Plot) -> Truth:
    model = plot.setup.model
    plain = model.loss
    model.loss = lambda logits, labels: plain(logits, labels) * (9 / 16)
    return [own("", "lm_head", "")]


@seed(HALF, "loss_scale", ("train",), ("FACTOR",), kernel="*.cross_entropy")
def loss_kernel_ignores_its_reduction(plot: Plot) -> Truth:
    def wrong(plain: Callable[..., Tensor], *args: Any, **_: Any) -> Tensor:
        return plain(*args, reduction="sum")

    plot.break_kernel(plot.setup.model, functional, "cross_entropy", wrong)
    return [own("", "lm_head", "")]


@seed(HALF, "tied_weights", ("tied_train",))
def head_is_not_tied_in_a_training(plot: Plot) -> Truth:
    """The gradient of the embedding lacks that of the head."""
    head = plot.part("head")
    head.weight = torch.nn.Parameter(head.weight.data.clone())
    weights = ("model.embed_tokens", "lm_head")
    return [
        *(Place(name, io="grad_weight") for name in weights),
        *(Place(name, io="state") for name in weights),
        *(Place(name, io="output", token=1) for name in weights),
    ]
