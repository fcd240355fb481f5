"""Faults of ops, and differences that no simple mistake explains."""

import math
from collections.abc import Callable

import torch
from op_drawing import Draw, Made
from torch import Tensor
from torch.nn import functional

Fault = Callable[[Draw], Made]
FAULTS: dict[str, Fault] = {}
NEGATIVES: dict[str, Fault] = {}


def fault(function: Fault) -> Fault:
    FAULTS[function.__name__] = function
    return function


def negative(function: Fault) -> Fault:
    NEGATIVES[function.__name__] = function
    return function


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return functional.linear(x, weight, bias)


def of_linear(draw: Draw, change: Callable[[Tensor], Tensor], *expected: str) -> Made:
    weight = draw.weight(draw.hidden, draw.hidden)
    return Made(
        linear,
        lambda x, w: change(linear(x, w)),
        {"input/0": draw.rows(), "weight/weight": weight},
        expected,
    )


# Factors, signs and constants.


@fault
def scale_of_a_quantized_weight(draw: Draw) -> Made:
    factor = draw.pick(0.125, 0.5, 1.25, 2.0, 16.0, 0.9)
    return of_linear(draw, lambda y: y * factor, "FACTOR")


@fault
def loss_scale_left_in_a_gradient(draw: Draw) -> Made:
    factor = 2.0 ** draw.between(3, 12)
    gradient = draw.normal(draw.hidden, draw.hidden, scale=1e-3)
    return Made(
        lambda x: x / factor,
        lambda x: x * 1.0,
        {"input/0": gradient},
        ("FACTOR", "SAME_AS_INPUT"),
    )


@fault
def gradient_summed_in_place_of_averaged(draw: Draw) -> Made:
    ranks = draw.pick(2, 4, 8)
    parts = {f"input/{i}": draw.normal(draw.hidden, draw.width) for i in range(ranks)}
    return Made(
        lambda *x: sum(x) / ranks,
        lambda *x: sum(x),
        parts,
        ("FACTOR",),
        hidden=tuple(parts),
    )


@fault
def scales_of_channels_not_applied(draw: Draw) -> Made:
    scales = torch.exp(draw.normal(draw.hidden))
    weight = draw.weight(draw.hidden, draw.hidden)
    return Made(
        lambda x, w, s: linear(x, w) * s,
        lambda x, w, s: linear(x, w),
        {"input/0": draw.rows(), "weight/weight": weight, "weight/scales": scales},
        ("FACTOR",),
        hidden=("weight/scales",),
    )


@fault
def scales_of_rows_not_applied(draw: Draw) -> Made:
    scales = torch.exp(draw.normal(draw.batch, draw.length, 1))
    return Made(
        lambda x, s: x * s,
        lambda x, s: x * 1.0,
        {"input/0": draw.rows(), "input/1": scales},
        ("FACTOR", "SAME_AS_INPUT"),
        hidden=("input/0",),
    )


@fault
def router_weights_not_normalized(draw: Draw) -> Made:
    logits = draw.normal(draw.batch * draw.length, 8)

    def route(x: Tensor, is_normalized: bool) -> Tensor:
        top = functional.softmax(x.float(), -1).topk(2).values
        return (top / top.sum(-1, keepdim=True) if is_normalized else top).to(x.dtype)

    return Made(
        lambda x: route(x, True),
        lambda x: route(x, False),
        {"input/0": logits},
        ("FACTOR",),
    )


@fault
def sign_of_an_output(draw: Draw) -> Made:
    return of_linear(draw, lambda y: -y, "SIGN")


@fault
def terms_of_a_difference_swapped(draw: Draw) -> Made:
    return Made(
        lambda a, b: a - b,
        lambda a, b: b - a,
        {"input/0": draw.rows(), "input/1": draw.rows()},
        ("SIGN", "SWAPPED_INPUTS"),
    )


@fault
def bias_missing(draw: Draw) -> Made:
    weight, bias = draw.weight(draw.hidden, draw.hidden), draw.normal(draw.hidden)
    hidden = ("weight/bias",) if draw.uniform() < 0.5 else ()
    return Made(
        linear,
        lambda x, w, b: linear(x, w),
        {"input/0": draw.rows(), "weight/weight": weight, "weight/bias": bias},
        ("OFFSET", "TERM"),
        hidden=hidden,
    )


@fault
def bias_of_a_norm_added_twice(draw: Draw) -> Made:
    scale, bias = 1 + 0.2 * draw.normal(draw.hidden), draw.normal(draw.hidden)
    size = (draw.hidden,)
    hidden = ("weight/bias",) if draw.uniform() < 0.5 else ()
    return Made(
        lambda x, w, b: functional.layer_norm(x, size, w, b),
        lambda x, w, b: functional.layer_norm(x, size, w, b) + b,
        {"input/0": draw.rows(), "weight/weight": scale, "weight/bias": bias},
        ("OFFSET", "TERM"),
        hidden=hidden,
    )


@fault
def constant_added_to_logits(draw: Draw) -> Made:
    offset = draw.pick(-3.0, 0.5, 1.0, 8.0)
    return of_linear(draw, lambda y: y + offset, "OFFSET")


@fault
def pixels_normalized_otherwise(draw: Draw) -> Made:
    pixels = torch.rand(draw.batch, 3, 16, 16, generator=draw.random)
    scale, mean = draw.pick(0.25, 0.5, 0.3), draw.pick(0.4, 0.5)
    return Made(
        lambda x: (x - mean) / scale,
        lambda x: x * 2 - 1,
        {"input/0": pixels},
        ("AFFINE", "FACTOR", "OFFSET"),
    )


@fault
def embedding_not_scaled(draw: Draw) -> Made:
    factor = math.sqrt(draw.hidden)
    return Made(
        lambda x: x * factor,
        lambda x: x * 1.0,
        {"input/0": draw.rows()},
        ("FACTOR", "SAME_AS_INPUT"),
    )


@fault
def weight_of_a_norm_not_applied(draw: Draw) -> Made:
    scale = 1 + 0.5 * draw.normal(draw.hidden)
    return Made(
        lambda x, w: rms(x, w, 1e-6),
        lambda x, w: rms(x, w * 0 + 1, 1e-6),
        {"input/0": draw.rows(), "weight/weight": scale},
        ("FACTOR",),
    )


# Terms and inputs.


@fault
def residual_missing(draw: Draw) -> Made:
    return Made(
        lambda a, b: a + b,
        lambda a, b: b * 1.0,
        {"input/0": draw.rows(), "input/1": draw.rows()},
        ("TERM", "SAME_AS_INPUT"),
    )


@fault
def residual_added_twice(draw: Draw) -> Made:
    return Made(
        lambda a, b: a + b,
        lambda a, b: a + b + a,
        {"input/0": draw.rows(), "input/1": draw.rows()},
        ("TERM",),
    )


@fault
def partial_sum_lost(draw: Draw) -> Made:
    ranks = draw.pick(3, 4)
    lost = draw.between(0, ranks - 1)
    parts = {f"input/{i}": draw.rows() for i in range(ranks)}
    return Made(
        lambda *x: sum(x),
        lambda *x: sum(part for i, part in enumerate(x) if i != lost),
        parts,
        ("TERM",),
    )


@fault
def all_reduce_lost(draw: Draw) -> Made:
    return Made(
        lambda a, b: a + b,
        lambda a, b: a * 1.0,
        {"input/0": draw.rows(), "input/1": draw.rows()},
        ("SAME_AS_INPUT", "TERM"),
        hidden=("input/1",),
    )


@fault
def norm_skipped(draw: Draw) -> Made:
    scale = 1 + 0.2 * draw.normal(draw.hidden)
    return Made(
        lambda x, w: rms(x, w, 1e-6),
        lambda x, w: x * 1.0,
        {"input/0": draw.rows(), "weight/weight": scale},
        ("SAME_AS_INPUT",),
    )


@fault
def gate_and_up_swapped(draw: Draw) -> Made:
    return Made(
        lambda a, b: functional.silu(a) * b,
        lambda a, b: functional.silu(b) * a,
        {"input/0": draw.rows(), "input/1": draw.rows()},
        ("SWAPPED_INPUTS",),
    )


# Activations, norms and softmax.


@fault
def gelu_of_another_variant(draw: Draw) -> Made:
    rows = 2 * draw.normal(draw.batch, draw.length, 4 * draw.hidden)
    return Made(
        functional.gelu,
        lambda x: functional.gelu(x, approximate="tanh"),
        {"input/0": rows},
        ("ACTIVATION",),
    )


@fault
def silu_in_place_of_gelu(draw: Draw) -> Made:
    other = draw.pick(functional.silu, functional.relu, torch.tanh)
    rows = draw.normal(draw.batch, draw.length, 4 * draw.hidden)
    return Made(functional.gelu, other, {"input/0": rows}, ("ACTIVATION",))


@fault
def activation_of_a_gate_missing(draw: Draw) -> Made:
    return Made(
        lambda a, b: functional.silu(a) * b,
        lambda a, b: a * b,
        {"input/0": draw.rows(), "input/1": draw.rows()},
        ("ACTIVATION",),
    )


def rms(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (weight.float() * wide).to(x.dtype)


@fault
def eps_of_an_rms_norm(draw: Draw) -> Made:
    scale = 1 + 0.2 * draw.normal(draw.hidden)
    small = 10.0 ** -draw.pick(1.0, 1.5, 2.0)
    eps = draw.pick(1e-2, 1e-3)
    return Made(
        lambda x, w: rms(x, w, 1e-6),
        lambda x, w: rms(x, w, eps),
        {"input/0": small * draw.rows(), "weight/weight": scale},
        ("EPS",),
    )


@fault
def eps_of_a_layer_norm(draw: Draw) -> Made:
    scale, bias = 1 + 0.2 * draw.normal(draw.hidden), 0.1 * draw.normal(draw.hidden)
    size, eps = (draw.hidden,), draw.pick(1e-1, 1e-2)
    return Made(
        lambda x, w, b: functional.layer_norm(x, size, w, b, 1e-5),
        lambda x, w, b: functional.layer_norm(x, size, w, b, eps),
        {"input/0": 0.1 * draw.rows(), "weight/weight": scale, "weight/bias": bias},
        ("EPS",),
    )


def scores(draw: Draw) -> Tensor:
    return draw.normal(draw.batch, draw.heads, draw.length, draw.length)


def causal(length: int, diagonal: int = 0) -> Tensor:
    mask = torch.ones(length, length, dtype=torch.bool).tril(diagonal)
    mask[:, 0] = True
    return mask


def attend(x: Tensor, mask: Tensor, scale: float = 1.0) -> Tensor:
    closed = (x.float() * scale).masked_fill(~mask, -math.inf)
    return functional.softmax(closed, -1).to(x.dtype)


@fault
def scale_of_a_softmax(draw: Draw) -> Made:
    mask, scale = causal(draw.length), draw.pick(0.5, 1.5, 2.0, draw.width**-0.5)
    return Made(
        lambda x: attend(x, mask),
        lambda x: attend(x, mask, scale),
        {"input/0": scores(draw)},
        ("SOFTMAX_SCALE",),
    )


@fault
def temperature_of_a_router(draw: Draw) -> Made:
    scale = draw.pick(0.5, 0.8, 1.3)
    return Made(
        lambda x: functional.softmax(x.float(), -1).to(x.dtype),
        lambda x: functional.softmax(x.float() * scale, -1).to(x.dtype),
        {"input/0": draw.normal(draw.batch * draw.length, 8)},
        ("SOFTMAX_SCALE",),
        hidden=("input/0",),
    )


@fault
def mask_off_by_one(draw: Draw) -> Made:
    mask, other = causal(draw.length), causal(draw.length, draw.pick(-1, 1))
    return Made(
        lambda x: attend(x, mask),
        lambda x: attend(x, other),
        {"input/0": scores(draw)},
        ("MASK",),
    )


@fault
def mask_missing(draw: Draw) -> Made:
    mask, other = causal(draw.length), torch.ones(draw.length, draw.length) > 0
    return Made(
        lambda x: attend(x, mask),
        lambda x: attend(x, other),
        {"input/0": scores(draw)},
        ("MASK",),
        hidden=("input/0",),
    )


@fault
def mask_of_scores_off_by_one(draw: Draw) -> Made:
    mask, other = causal(draw.length), causal(draw.length, draw.pick(-1, 1))

    def close(x: Tensor, mask: Tensor) -> Tensor:
        return x.masked_fill(~mask, torch.finfo(x.dtype).min)

    return Made(
        lambda x: close(x, mask),
        lambda x: close(x, other),
        {"input/0": scores(draw)},
        ("MASK",),
        hidden=("input/0",),
    )


# Orders and places.


@fault
def heads_in_another_order(draw: Draw) -> Made:
    order = draw.order(draw.heads)

    def change(y: Tensor) -> Tensor:
        heads = y.reshape(*y.shape[:-1], draw.heads, draw.width)
        return heads[..., order, :].reshape(y.shape)

    return of_linear(draw, change, "ORDER", "ARRANGEMENT")


@fault
def heads_of_a_group_tiled(draw: Draw) -> Made:
    keys = draw.normal(draw.batch, draw.heads, draw.length, draw.width)
    return Made(
        lambda x: x.repeat_interleave(2, 1),
        lambda x: x.repeat(1, 2, 1, 1),
        {"input/0": keys},
        ("ORDER", "ARRANGEMENT"),
    )


@fault
def shards_in_another_order(draw: Draw) -> Made:
    count = draw.pick(2, 4)
    order = draw.order(count)
    weight = draw.weight(4 * draw.hidden, draw.hidden)

    def change(x: Tensor, w: Tensor) -> Tensor:
        parts = linear(x, w).chunk(count, -1)
        return torch.cat([parts[i] for i in order], -1)

    return Made(
        linear,
        change,
        {"input/0": draw.rows(), "weight/weight": weight},
        ("ORDER", "ARRANGEMENT"),
    )


@fault
def patches_column_by_column(draw: Draw) -> Made:
    side = draw.pick(4, 6, 8)
    patches = draw.normal(draw.batch, side * side, draw.hidden)

    def change(x: Tensor) -> Tensor:
        grid = x.reshape(draw.batch, side, side, draw.hidden)
        return grid.transpose(1, 2).reshape(x.shape)

    return Made(
        lambda x: x * 2,
        lambda x: change(x) * 2,
        {"input/0": patches},
        ("ORDER", "ARRANGEMENT"),
    )


@fault
def rows_of_another_request(draw: Draw) -> Made:
    batch = draw.pick(3, 4)
    rows = draw.normal(batch, draw.length, draw.hidden)
    to, source = draw.order(batch)[:2].tolist()

    def change(x: Tensor) -> Tensor:
        out = x.clone()
        out[to] = x[source]
        return out * 2

    return Made(
        lambda x: x * 2,
        change,
        {"input/0": rows},
        ("ORDER", "ARRANGEMENT"),
        hidden=("input/0",),
    )


@fault
def axes_of_heads_not_swapped_back(draw: Draw) -> Made:
    shape = (draw.batch, draw.length, draw.hidden)
    return Made(
        lambda x: x.transpose(1, 2).reshape(shape),
        lambda x: x.reshape(shape),
        {"input/0": draw.of_heads()},
        ("ARRANGEMENT", "SAME_AS_INPUT"),
    )


@fault
def weight_transposed(draw: Draw) -> Made:
    return Made(
        lambda x: x * 2,
        lambda x: x.T.contiguous() * 2,
        {"input/0": draw.normal(draw.hidden, draw.hidden)},
        ("ARRANGEMENT",),
        hidden=("input/0",),
    )


@fault
def one_token_early_or_late(draw: Draw) -> Made:
    places = draw.pick(-1, 1)
    rows = draw.normal(draw.batch, max(draw.length, 4), draw.hidden)
    return Made(
        lambda x: x * 2,
        lambda x: x.roll(places, 1) * 2,
        {"input/0": rows},
        ("SHIFT", "ORDER", "ARRANGEMENT"),
        hidden=("input/0",),
    )


@fault
def position_ids_off_by_one(draw: Draw) -> Made:
    ids = torch.arange(draw.length).expand(draw.batch, draw.length) + draw.between(0, 9)
    return Made(
        lambda x: x,
        lambda x: x + 1,
        {"input/0": ids},
        ("OFFSET", "SHIFT"),
        hidden=("input/0",),
    )


# Rotary embeddings.


def angles(
    length: int, width: int, base: float, first: int = 0, scale: float = 1.0
) -> Tensor:
    frequencies = base ** (-torch.arange(0, width, 2).double() / width)
    return torch.outer((torch.arange(length).double() + first) * scale, frequencies)


def rotate(x: Tensor, angle: Tensor, pairs: str = "halves") -> Tensor:
    wide = x.double()
    if pairs == "halves":
        a, b = wide.chunk(2, -1)
    else:
        a, b = wide[..., 0::2], wide[..., 1::2]
    c, s = angle.cos(), angle.sin()
    a, b = a * c - b * s, b * c + a * s
    if pairs == "halves":
        return torch.cat([a, b], -1).to(x.dtype)
    return torch.stack([a, b], -1).flatten(-2).to(x.dtype)


def of_rope(
    draw: Draw, golden: dict, target: dict, expected: str, is_hidden=True
) -> Made:
    def run(settings: dict) -> Callable[[Tensor], Tensor]:
        pairs = settings.get("pairs", "halves")
        angle = angles(
            draw.length,
            draw.width,
            settings.get("base", 1e4),
            settings.get("first", 0),
            settings.get("scale", 1.0),
        )
        return lambda x: rotate(x, angle, pairs)

    return Made(
        run(golden),
        run(target),
        {"input/0": draw.of_heads()},
        (expected,),
        hidden=("input/0",) if is_hidden else (),
    )


@fault
def rope_of_other_pairs(draw: Draw) -> Made:
    golden, target = draw.pick(("halves", "adjacent"), ("adjacent", "halves"))
    return of_rope(draw, {"pairs": golden}, {"pairs": target}, "ROPE_PAIRS", False)


@fault
def rope_of_another_base(draw: Draw) -> Made:
    golden, target = draw.pick((1e4, 5e5), (5e5, 1e4), (1e6, 1e4), (1e4, 1e3))
    pairs = draw.pick("halves", "adjacent")
    return of_rope(
        draw,
        {"base": golden, "pairs": pairs},
        {"base": target, "pairs": pairs},
        "ROPE_BASE",
    )


@fault
def rope_without_its_scale(draw: Draw) -> Made:
    return of_rope(draw, {"scale": draw.pick(0.5, 0.25, 0.125)}, {}, "ROPE_BASE")


@fault
def rope_of_other_positions(draw: Draw) -> Made:
    first = draw.between(0, 20)
    return of_rope(
        draw,
        {"first": first},
        {"first": first + draw.pick(-3, -1, 1, 2, 16)},
        "ROPE_POSITIONS",
    )


@fault
def table_of_cosines_of_another_base(draw: Draw) -> Made:
    golden, target = draw.pick((1e4, 5e5), (1e6, 1e4))
    kind = draw.pick(torch.cos, torch.sin)

    def table(base: float) -> Callable[[Tensor], Tensor]:
        angle = angles(draw.length, draw.width, base)
        return lambda x: kind(torch.cat([angle, angle], -1))[None].to(x.dtype)

    return Made(
        table(golden),
        table(target),
        {"input/0": draw.rows()},
        ("ROPE_BASE",),
        hidden=("input/0",),
    )


# Rounding, limits, zeros and parts.


def narrowed(x: Tensor, dtype: torch.dtype, scale: float = 1.0) -> Tensor:
    return (x.float() / scale).to(dtype).float() * scale


@fault
def rounded_through_bfloat16(draw: Draw) -> Made:
    dtype = draw.pick(torch.bfloat16, torch.float16)
    return of_linear(draw, lambda y: y.to(dtype).to(y.dtype), "ROUNDED")


@fault
def rounded_through_float8(draw: Draw) -> Made:
    dtype = draw.pick(torch.float8_e4m3fn, torch.float8_e5m2)
    is_scaled = draw.uniform() < 0.5

    def change(y: Tensor) -> Tensor:
        scale = float(y.abs().max()) / torch.finfo(dtype).max if is_scaled else 1.0
        return narrowed(y, dtype, scale).to(y.dtype)

    return of_linear(draw, change, "ROUNDED")


@fault
def rounded_through_int8(draw: Draw) -> Made:
    def change(y: Tensor) -> Tensor:
        scale = y.float().abs().amax(-1, keepdim=True) / 127
        return ((y.float() / scale).round() * scale).to(y.dtype)

    return of_linear(draw, change, "ROUNDED")


@fault
def overflow(draw: Draw) -> Made:
    limit = draw.pick(1.0, 448.0)
    is_infinite = draw.uniform() < 0.5

    def change(y: Tensor) -> Tensor:
        top = limit if limit > 1 else 1.5 * y.std()
        if is_infinite:
            return torch.where(y.abs() > top, torch.sign(y) * math.inf, y)
        return y.clamp(-top, top)

    factor = 100.0 if limit > 1 else 1.0
    weight = draw.weight(draw.hidden, draw.hidden) * factor
    return Made(
        linear,
        lambda x, w: change(linear(x, w)),
        {"input/0": draw.rows(), "weight/weight": weight},
        ("SATURATED",),
    )


@fault
def last_rows_of_a_tile_missing(draw: Draw) -> Made:
    rows = draw.normal(draw.between(9, 40), draw.hidden)
    last = draw.between(1, 4)
    weight = draw.weight(draw.hidden, draw.hidden)

    def change(x: Tensor, w: Tensor) -> Tensor:
        out = linear(x, w)
        out[-last:] = 0
        return out

    return Made(
        linear,
        change,
        {"input/0": rows, "weight/weight": weight},
        ("ZEROS", "FACTOR", "SUBSET"),
    )


@fault
def dropout_in_eval(draw: Draw) -> Made:
    share = draw.pick(0.1, 0.2, 0.5)

    def change(y: Tensor) -> Tensor:
        kept = torch.rand(y.shape, generator=draw.random) >= share
        return torch.where(kept, y / (1 - share), torch.zeros_like(y))

    return of_linear(draw, change, "DROPOUT")


@fault
def one_head_wrong(draw: Draw) -> Made:
    head, other = draw.between(0, draw.heads - 1), draw.of_heads()

    def change(x: Tensor) -> Tensor:
        out = x.clone()
        out[:, head] = other[:, head].to(x.dtype)
        return out

    return Made(
        lambda x: x * 1.0,
        change,
        {"input/0": draw.of_heads()},
        ("SUBSET",),
        hidden=("input/0",),
    )


@fault
def one_head_scaled(draw: Draw) -> Made:
    head, factor = draw.between(0, draw.heads - 1), draw.pick(0.5, 2.0, -1.0)

    def change(y: Tensor) -> Tensor:
        out = y.clone()
        out[..., head * draw.width : (head + 1) * draw.width] *= factor
        return out

    return of_linear(draw, change, "SUBSET", "FACTOR", "SIGN")


@fault
def one_expert_wrong(draw: Draw) -> Made:
    rows, experts = draw.normal(draw.between(16, 48), draw.hidden), draw.pick(4, 8)
    weights = [draw.weight(draw.hidden, draw.hidden) for _ in range(experts)]
    chosen = torch.randint(experts, (len(rows),), generator=draw.random)
    bad, other = int(chosen[0]), draw.weight(draw.hidden, draw.hidden)

    def run(x: Tensor, is_wrong: bool) -> Tensor:
        out = torch.zeros_like(x)
        for i, weight in enumerate(weights):
            used = other if is_wrong and i == bad else weight
            out[chosen == i] = linear(x[chosen == i], used.to(x.dtype))
        return out

    return Made(
        lambda x: run(x, False), lambda x: run(x, True), {"input/0": rows}, ("SUBSET",)
    )


@fault
def cache_of_an_earlier_token(draw: Draw) -> Made:
    old = draw.rows()
    return Made(
        lambda x: x * 2,
        lambda x: old.to(x.dtype),
        {"input/0": draw.rows()},
        ("STALE",),
        is_stale=True,
    )


# Differences that no simple mistake explains.


def of_weights(draw: Draw, change: Callable[[Tensor], Tensor]) -> Made:
    weight = draw.weight(draw.hidden, draw.hidden)
    other = change(weight)
    return Made(
        linear,
        lambda x, w: linear(x, other.to(x.dtype)),
        {"input/0": draw.rows(), "weight/weight": weight},
        (),
    )


@negative
def other_weight(draw: Draw) -> Made:
    return of_weights(draw, lambda w: draw.weight(*w.shape))


@negative
def weight_with_noise(draw: Draw) -> Made:
    return of_weights(
        draw, lambda w: w * (1 + draw.pick(0.05, 0.3) * draw.normal(*w.shape))
    )


@negative
def adapter_not_merged(draw: Draw) -> Made:
    rank = draw.pick(1, 4)
    return of_weights(
        draw, lambda w: w + draw.weight(len(w), rank) @ draw.weight(rank, len(w))
    )


@negative
def weight_transposed_in_a_product(draw: Draw) -> Made:
    return of_weights(draw, lambda w: w.T)


@negative
def weight_of_four_bits(draw: Draw) -> Made:
    return of_weights(draw, lambda w: narrowed_to_int4(w))


def narrowed_to_int4(w: Tensor) -> Tensor:
    scale = w.abs().amax(-1, keepdim=True) / 7
    return (w / scale).round() * scale


@negative
def other_input(draw: Draw) -> Made:
    other = draw.rows()
    return Made(
        lambda x: functional.silu(x) * 2,
        lambda x: functional.silu(other.to(x.dtype)) * 2,
        {"input/0": draw.rows()},
        (),
    )


@negative
def input_with_an_error(draw: Draw) -> Made:
    weight, error = draw.weight(draw.hidden, draw.hidden), draw.pick(0.02, 0.2)
    noise = draw.normal(draw.batch, draw.length, draw.hidden)
    return Made(
        linear,
        lambda x, w: linear(x * (1 + error * noise).to(x.dtype), w),
        {"input/0": draw.rows(), "weight/weight": weight},
        (),
    )


@fault
def attention_of_another_scale(draw: Draw) -> Made:
    q, k, v = draw.of_heads(), draw.of_heads(), draw.of_heads()
    scale = draw.width**-0.5

    def run(q: Tensor, k: Tensor, v: Tensor, factor: float) -> Tensor:
        weights = functional.softmax((q @ k.mT).float() * scale * factor, -1)
        return weights.to(q.dtype) @ v

    return Made(
        lambda q, k, v: run(q, k, v, 1.0),
        lambda q, k, v: run(q, k, v, 0.5),
        {"input/0": q, "input/1": k, "input/2": v},
        ("SOFTMAX_SCALE",),
    )


@negative
def sum_of_two_faults(draw: Draw) -> Made:
    noise = draw.weight(draw.hidden, draw.hidden)
    return of_weights(draw, lambda w: 0.5 * w + 0.3 * noise)


@negative
def convolution_of_another_padding(draw: Draw) -> Made:
    image, kernel = (
        draw.normal(draw.batch, 3, 16, 16),
        draw.normal(8, 3, 3, 3, scale=0.2),
    )

    def run(x: Tensor, k: Tensor, mode: str) -> Tensor:
        return functional.conv2d(functional.pad(x, (1, 1, 1, 1), mode=mode), k)

    return Made(
        lambda x, k: run(x, k, "reflect"),
        lambda x, k: run(x, k, "replicate"),
        {"input/0": image, "weight/weight": kernel},
        (),
    )


@negative
def noise_of_a_sampler(draw: Draw) -> Made:
    error = draw.pick(0.01, 0.1, 1.0)
    noise = draw.normal(draw.batch, draw.length, draw.hidden)
    return Made(
        lambda x: x * 2,
        lambda x: x * 2 + (error * noise).to(x.dtype),
        {"input/0": draw.rows()},
        (),
    )


@negative
def norm_over_another_dimension(draw: Draw) -> Made:
    scale = 1 + 0.2 * draw.normal(draw.hidden)
    return Made(
        lambda x, w: rms(x, w, 1e-6),
        lambda x, w: rms(x.mT, torch.ones(x.shape[1]), 1e-6).mT * w,
        {"input/0": draw.rows(), "weight/weight": scale},
        (),
    )
