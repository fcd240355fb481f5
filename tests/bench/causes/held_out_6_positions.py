"""The sixth held-out half: rotations and positions.

Most follow reports about ports of models: norms of heads that follow the rotation, local
layers with the base of global ones, and positions of texts that are padded or packed.

7 of these 10 mistakes are in all layers, or in code that all layers share. 1 is in one
layer, and 2 are in an embedding. 1 mistake is only in steps that decode, and 1 only in
one rank. 1 is a wrong kernel.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from anatomy import Place, Truth, own
from attention import apply_rope
from held_out_3_attention import of_first_layer, position_code
from held_out_6_attention import continue_a_padded_batch
from seeding import Plot, seed
from subjects import Setup
from torch import Tensor
from torch.nn import functional
from wrong_kernels import changed

HALF = "held_out_6"
Embeddings = tuple[Tensor, Tensor]
OTHER = r"other arguments?: "


def _turning(first: int, last: int) -> Callable[..., Embeddings]:
    """Returns a rotation of these channels of each head."""

    def turn(x: Tensor, embeddings: Embeddings) -> Tensor:
        turned = apply_rope(x[..., first:last], embeddings)
        return torch.cat((x[..., :first], turned, x[..., last:]), -1)

    return lambda q, k, embeddings: (turn(q, embeddings), turn(k, embeddings))


def turn_the_first_channels(setup: Setup) -> None:
    """Leaves 10 of 22 channels of each head as they are."""
    setup.model.model.rotary_emb.size = 12
    for layer in setup.model.model.layers:
        layer.self_attn.rope = _turning(0, 12)


@seed(
    HALF,
    "rope",
    ("llama",),
    # Other channels are read from the queries.
    ("ORDER", "SHIFT"),
    prepare=turn_the_first_channels,
    note=OTHER,
)
def last_channels_turn_in_place_of_the_first(plot: Plot) -> Truth:
    """In all layers, parts with and without positions are in another order."""
    for attention in plot.parts("attention"):
        attention.rope = _turning(10, 22)
    return of_first_layer(plot)


def _locally(plain: Callable[..., Embeddings], rotary: Any) -> Callable[..., Any]:
    def rope(q: Tensor, k: Tensor, embeddings: Embeddings) -> Embeddings:
        # All texts of these models begin at position 0, and decode one by one.
        rope.past = rope.past + q.shape[2] if q.shape[2] == 1 else 0
        exponents = torch.arange(0, rotary.size, 2).float() / rotary.size
        positions = torch.arange(q.shape[2]).float()
        if q.shape[2] == 1:
            positions = positions + 7 + rope.past
        angles = positions[:, None] * 150.0**-exponents
        both = torch.cat((angles, angles), -1)[None]
        return plain(q, k, (both.cos().to(q.dtype), both.sin().to(q.dtype)))

    rope.past = 0  # type: ignore[attr-defined]
    return rope


def give_the_second_layer_a_base_of_its_own(setup: Setup) -> None:
    attention = setup.model.model.layers[1].self_attn
    attention.rope = _locally(attention.rope, setup.model.model.rotary_emb)


@seed(
    HALF,
    "rope",
    ("moe",),
    ("ROPE_BASE",),
    prepare=give_the_second_layer_a_base_of_its_own,
    note=r"only golden calls .*(arange|cos|sin|mul|pow|cat|float)|equal to .*rotary_emb",
)
def local_layer_has_the_base_of_global_ones(plot: Plot) -> Truth:
    """In one layer, which has a lower base in the checkpoint."""
    plot.layer = 1
    attention = plot.part("attention")
    attention.rope = type(attention).rope.__get__(attention)
    return plot.attention_weights()


def _of_length_one(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return wide.to(x.dtype) * weight


def _weight_of_heads(dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(61)
    return (1 + 0.5 * torch.randn(22, generator=generator)).to(dtype)


def _before(plain: Callable[..., Embeddings]) -> Callable[..., Embeddings]:
    def rope(q: Tensor, k: Tensor, embeddings: Embeddings) -> Embeddings:
        weight = _weight_of_heads(q.dtype)
        normed = _of_length_one(q, weight), _of_length_one(k, weight)
        return plain(*normed, embeddings)

    return rope


def _after(plain: Callable[..., Embeddings]) -> Callable[..., Embeddings]:
    def rope(q: Tensor, k: Tensor, embeddings: Embeddings) -> Embeddings:
        weight = _weight_of_heads(q.dtype)
        q, k = plain(q, k, embeddings)
        return _of_length_one(q, weight), _of_length_one(k, weight)

    return rope


def norm_heads_before_they_turn(setup: Setup) -> None:
    for layer in setup.model.model.layers:
        layer.self_attn.rope = _before(layer.self_attn.rope)


@seed(
    HALF,
    "rope",
    ("llama",),
    # Queries turn as they are, without a factor for each row. The norm of golden has
    # queries that did not turn.
    ("SAME_AS_INPUT", "FACTOR", "ROPE_POSITIONS"),
    prepare=norm_heads_before_they_turn,
    note=r"other order of calls|equal to .*(q_proj|k_proj|transpose).* in (golden|the)",
)
def norms_of_heads_follow_the_rotation(plot: Plot) -> Truth:
    """In all layers. The weights of the norms differ by channel."""
    for attention in plot.parts("attention"):
        plain = type(attention).rope.__get__(attention)
        attention.rope = _after(plain)
    return of_first_layer(plot)


@seed(
    HALF,
    "rope",
    ("llama",),
    ("ROUNDED",),
    note=r"only target calls .*bfloat16",
    precisions=("float32",),
)
def rotary_rates_are_rounded_to_bfloat16(plot: Plot) -> Truth:
    """A conversion of the model has converted its buffer, too."""
    rotary = plot.setup.at("model.rotary_emb")
    plain = rotary.rates
    rotary.rates = lambda: plain().bfloat16().float()
    return [Place("model.rotary_emb")]


def _turn_without_a_sign(x: Tensor, embeddings: Embeddings) -> Tensor:
    cos, sin = (one.unsqueeze(1) for one in embeddings)
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((right, left), dim=-1) * sin


@seed(
    HALF,
    "rope",
    ("train",),
    ("SIGN", "FACTOR", "SAME_AS_INPUT"),
    note=r"only golden calls .*neg|equal to .*chunk.* in the target",
)
def halves_are_exchanged_without_a_sign(plot: Plot) -> Truth:
    """In all layers, in queries and keys."""
    for attention in plot.parts("attention"):
        attention.rope = lambda q, k, embeddings: (
            _turn_without_a_sign(q, embeddings),
            _turn_without_a_sign(k, embeddings),
        )
    return of_first_layer(plot)


def _count_from_the_text(body: Any, of_prompts_only: bool) -> Callable[..., Tensor]:
    padding = torch.tensor([[4], [0]])

    def positions(first: int, length: int) -> Tensor:
        found = torch.arange(first, first + length).repeat(2, 1)
        if of_prompts_only and first:
            return found
        return (found - padding).clamp(min=0)

    return positions


def count_a_padded_batch(setup: Setup) -> None:
    continue_a_padded_batch(setup)
    body = setup.model.transformer
    body.positions = _count_from_the_text(body, False)


@seed(
    HALF,
    "position_ids",
    ("gpt2",),
    ("OFFSET", "SHIFT", "FACTOR"),
    prepare=count_a_padded_batch,
    note=r"only golden calls .*(sub|clamp)",
)
def positions_of_decodes_count_the_padding(plot: Plot) -> Truth:
    """Those of the prompt begin after it."""
    body = plot.part("body")
    body.positions = _count_from_the_text(body, True)
    return position_code(plot, 1)


@seed(HALF, "position_ids", ("vit",), (), note=r"only target calls .*interpolate")
def positions_are_interpolated_twice(plot: Plot) -> Truth:
    """The grid is resized to that of a larger image, and back."""
    embeddings = plot.setup.at("vit.embeddings")

    def positions() -> Tensor:
        table = embeddings.position_embeddings
        grid = table[:, 1:].float().transpose(1, 2).unflatten(2, (4, 4))
        for size in (7, 4):
            grid = functional.interpolate(grid, size=(size, size), mode="bilinear")
        rest = grid.flatten(2).transpose(1, 2).to(table.dtype)
        return torch.cat((table[:, :1], rest), 1)

    embeddings.positions = positions
    return [own("vit.embeddings", "patch_embeddings", "dropout")]


def count_packed_texts(setup: Setup) -> None:
    """Lets the positions begin again after six words."""
    body = setup.model.model
    plain = body.positions
    body.positions = lambda first, length: plain(first, length) % 6


@seed(
    HALF,
    "position_ids",
    ("train",),
    ("OFFSET", "ROPE_POSITIONS", "SHIFT", "ORDER", "SAME_AS_INPUT"),
    prepare=count_packed_texts,
    note=r"only golden calls .*(remainder|mod)|equal to .*(arange|getitem).* in the target",
)
def packed_texts_share_their_positions(plot: Plot) -> Truth:
    body = plot.part("body")
    body.positions = type(body).positions.__get__(body)
    return position_code(plot)


@seed(
    HALF,
    "position_ids",
    ("ranks",),
    ("OFFSET", "ROPE_POSITIONS", "SHIFT"),
    note=r"target 4, golden 0",
)
def positions_of_rank_1_are_those_of_its_shard(plot: Plot) -> Truth:
    """In prompts, as if each rank had a half of their words."""
    body = plot.part("body")
    plain = body.positions
    if dist.get_rank() == 1:
        body.positions = lambda first, length: plain(first + 4 * (length > 1), length)
    return position_code(plot)


def _with_the_row_before(y: Tensor) -> Tensor:
    if y.shape[1] > 1:
        y[:, -1] = y[:, -2]
    return y


@seed(
    HALF,
    "tile_row",
    ("llama",),
    ("ORDER", "SHIFT", "ROPE_POSITIONS"),
    kernel="*.cos",
)
def cosine_kernel_repeats_its_last_but_one_row(plot: Plot) -> Truth:
    """All layers receive the table. Sines are right."""
    rotary = plot.setup.at("model.rotary_emb")
    plot.break_kernel(rotary, torch.Tensor, "cos", changed(_with_the_row_before))
    return [Place("model.rotary_emb")]
