"""Faults in code between modules: attention, residuals, routing, positions."""

from typing import Any

import torch
from anatomy import Body, Place, Truth, own
from attention import Cache, apply_rope, rotate_half
from kinds import ALL, EAGER, INFERRED, LLAMAS, fault
from torch import Tensor
from torch.nn import functional

ROPE = ("llama", "massive", "mixtral", "train")
CAUSAL = ("llama", "massive", "mixtral", "gpt2")


@fault(ALL)
def attention_scale_missing(body: Body) -> Truth:
    attention = body.part("attention")
    # T5 has no scale, so any scale is a fault there.
    attention.scaling = 0.25 if body.setup.name == "t5" else 1.0
    return body.attention_weights()


@fault(INFERRED)
def attention_scale_of_the_hidden_size(body: Body) -> Truth:
    body.part("attention").scaling *= 0.5
    return body.attention_weights()


@fault(("llama", "massive", "mixtral", "gpt2", "train"))
def causal_mask_forgotten(body: Body) -> Truth:
    attention = body.part("attention")
    attention.is_causal = False
    attention.mask_of = lambda mask: None
    return body.attention_weights()


@fault(CAUSAL)
def causal_mask_off_by_one(body: Body) -> Truth:
    attention = body.part("attention")
    plain = attention.attend

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Any:
        length, total = q.shape[2], k.shape[2]
        allowed = torch.ones(length, total, dtype=torch.bool).tril(total - length - 1)
        allowed[:, 0] = True
        mask = torch.zeros(1, 1, length, total, dtype=q.dtype)
        return plain(q, k, v, mask.masked_fill(~allowed, torch.finfo(q.dtype).min))

    attention.attend = attend
    return body.attention_weights()


@fault(CAUSAL)
def sliding_window_of_4(body: Body) -> Truth:
    attention = body.part("attention")
    plain = attention.attend

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Any:
        length, total = q.shape[2], k.shape[2]
        allowed = torch.ones(length, total, dtype=torch.bool).tril(total - length)
        allowed = allowed.triu(total - length - 3)
        mask = torch.zeros(1, 1, length, total, dtype=q.dtype)
        return plain(q, k, v, mask.masked_fill(~allowed, torch.finfo(q.dtype).min))

    attention.attend = attend
    return body.attention_weights()


@fault(EAGER)
def softmax_over_another_dimension(body: Body) -> Truth:
    body.part("attention").softmax = lambda x: functional.softmax(
        x, dim=1, dtype=torch.float32
    )
    return body.attention_weights()


@fault(EAGER)
def softmax_in_bfloat16(body: Body) -> Truth:
    body.part("attention").softmax = lambda x: functional.softmax(x.bfloat16(), dim=-1)
    return body.attention_weights()


@fault(LLAMAS)
def groups_repeated_in_another_order(body: Body) -> Truth:
    attention = body.part("attention")
    attention.repeat = lambda x: x.repeat(1, attention.groups, 1, 1)
    return body.attention_weights()


@fault(ROPE)
def rope_base_wrong(body: Body) -> Truth:
    body.setup.at("model.rotary_emb").base = 500000.0
    return [Place("model.rotary_emb")]


def _interleaved(x: Tensor, embeddings: tuple[Tensor, Tensor]) -> Tensor:
    cos, sin = (
        one[..., : one.shape[-1] // 2].repeat_interleave(2, -1).unsqueeze(1)
        for one in embeddings
    )
    turned = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    return x * cos + turned * sin


@fault(ROPE)
def rope_interleaved(body: Body) -> Truth:
    body.part("attention").rope = lambda q, k, embeddings: (
        _interleaved(q, embeddings),
        _interleaved(k, embeddings),
    )
    return body.attention_weights()


@fault(ROPE)
def rope_not_applied_to_keys(body: Body) -> Truth:
    body.part("attention").rope = lambda q, k, embeddings: (
        apply_rope(q, embeddings),
        k,
    )
    return body.attention_weights()


@fault(ROPE)
def rope_sign_wrong(body: Body) -> Truth:
    def turn(x: Tensor, embeddings: tuple[Tensor, Tensor]) -> Tensor:
        cos, sin = (one.unsqueeze(1) for one in embeddings)
        return x * cos - rotate_half(x) * sin

    body.part("attention").rope = lambda q, k, embeddings: (
        turn(q, embeddings),
        turn(k, embeddings),
    )
    return body.attention_weights()


@fault(CAUSAL)
def positions_off_by_one(body: Body) -> Truth:
    holder = body.part("body")
    holder.positions = lambda first, length: torch.arange(first, first + length)[
        None
    ].add(1)
    if body.setup.name == "gpt2":
        return [own("transformer", "wte", "wpe")]
    return [own("model", "embed_tokens", "rotary_emb")]


@fault(CAUSAL)
def positions_of_decodes_off_by_one(body: Body) -> Truth:
    holder = body.part("body")
    plain = holder.positions
    holder.positions = lambda first, length: plain(max(first - 1, 0), length)
    place = (
        own("transformer", "wte", "wpe")
        if body.setup.name == "gpt2"
        else own("model", "embed_tokens", "rotary_emb")
    )
    return [Place(place.op, place.after, place.before, token=1)]


@fault(INFERRED)
def queries_and_keys_swapped(body: Body) -> Truth:
    attention = body.part("attention")
    plain = attention.attend
    # With groups and caches, keys and queries differ in size and cannot be
    # exchanged.
    attention.attend = lambda q, k, v, mask: (
        plain(k, q, v, mask) if q.shape == k.shape else plain(q, k, v, mask)
    )
    return body.attention_weights()


@fault(INFERRED)
def values_are_keys(body: Body) -> Truth:
    attention = body.part("attention")
    plain = attention.attend
    attention.attend = lambda q, k, v, mask: plain(q, k, k, mask)
    return [body.attention_code()]


@fault(ALL)
def heads_merged_without_transpose(body: Body) -> Truth:
    body.part("attention").merge = lambda out: out.reshape(
        out.shape[0], out.shape[2], -1
    )
    # A single position has only one order.
    return [body.attention_code()]


@fault(("vit",))
def heads_split_in_another_order(body: Body) -> Truth:
    attention = body.part("attention")
    attention.heads = lambda x: x.view(*x.shape[:-1], -1, 4).permute(0, 3, 1, 2)
    # Keys are split before queries are computed.
    parts = ("key", "value", "query")
    return [own(body.path("attention"), parts, (*parts[1:], ""))]


@fault(("gpt2",))
def queries_keys_values_split_in_another_order(body: Body) -> Truth:
    attention = body.part("attention")
    plain = attention.split

    def split(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = plain(x)
        return k, q, v

    attention.split = split
    return body.attention_weights()


@fault(CAUSAL)
def cache_has_an_old_value(body: Body) -> Truth:
    """A slot of the cache is written twice, as a wrong position would cause."""
    attention = body.part("attention")
    plain = attention.remember

    def remember(past: Cache | None, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = plain(past, k, v)
        if k.shape[2] == 1:
            values = values.clone()
            values[:, :, -2] = values[:, :, -1]
        return keys, values

    attention.remember = remember
    place = body.attention_code()
    return [Place(place.op, place.after, place.before, token=1)]


@fault(CAUSAL)
def cache_forgets_the_text(body: Body) -> Truth:
    attention = body.part("attention")
    plain = attention.remember

    def remember(past: Cache | None, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = plain(past, k, v)
        if k.shape[2] == 1:
            keys, values = keys.clone(), values.clone()
            keys[:, :, 0], values[:, :, 0] = 0, 0
        return keys, values

    attention.remember = remember
    place = body.attention_code()
    return [Place(place.op, place.after, place.before, token=1)]


def _residual_role(body: Body) -> tuple[Any, str, Truth]:
    """Draws one of the residuals of the layer: holder, attribute, and place."""
    name = body.setup.name
    if body.draw.random() < 0.5:
        holder = body.part("self" if name == "t5" else "layer")
        return holder, "add_attention", body.attention_residual()
    holder = body.part({"t5": "ff", "vit": "mlp"}.get(name, "layer"))
    return holder, "add_feed_forward", body.feed_forward_residual()


@fault(ALL)
def residual_dropped(body: Body) -> Truth:
    holder, attribute, truth = _residual_role(body)
    # The order of the two arguments differs between models.
    is_second = body.setup.name in ("gpt2", "vit") and not (
        body.setup.name == "gpt2" and attribute == "add_feed_forward"
    )

    def keep(x: Tensor, y: Tensor) -> Tensor:
        return x.clone() if is_second else y.clone()

    setattr(holder, attribute, keep)
    return truth


@fault(INFERRED)
def residual_doubled(body: Body) -> Truth:
    holder, attribute, truth = _residual_role(body)
    setattr(holder, attribute, lambda x, y: (x + y) * 2)
    return truth


@fault(INFERRED)
def residual_scaled_by_a_little(body: Body) -> Truth:
    holder, attribute, truth = _residual_role(body)
    setattr(holder, attribute, lambda x, y: x + y * 1.03)
    return truth


@fault(INFERRED)
def residual_of_the_norm(body: Body) -> Truth:
    """The residual starts after the norm, not before it."""
    holder = body.part("self" if body.setup.name == "t5" else "layer")
    holder.residual_of = lambda hidden_states, normed: normed
    return body.attention_residual()


@fault(INFERRED)
def logits_scaled(body: Body) -> Truth:
    model = body.setup.model
    plain = model.end
    model.end = lambda logits: plain(logits) * 1.5
    return [own("", body.path("head"), "")]


@fault(INFERRED)
def final_norm_not_called(body: Body) -> Truth:
    name = body.setup.name
    body.part("body").finish = lambda x: x
    op = body.path("body")
    last = {
        "gpt2": f"h.{2}",
        "vit": "encoder",
        "t5": "block.2",
    }.get(name, "layers.2")
    return [own(op, last, ("dropout" if name == "t5" else "", ""))]


@fault(("mixtral",))
def router_takes_one_expert(body: Body) -> Truth:
    part = body.part("mlp")
    plain = part.choose

    def choose(scores: Tensor) -> tuple[Tensor, Tensor]:
        weights, chosen = plain(scores)
        return weights[:, :1], chosen[:, :1]

    part.choose = choose
    return _routing(body)


def _routing(body: Body) -> Truth:
    """Between the router and any expert, or from one expert to the next."""
    experts = tuple(f"experts.{number}" for number in range(4))
    return [own(body.path("mlp"), ("gate", *experts), ("", *experts))]


@fault(("mixtral",))
def router_does_not_normalise(body: Body) -> Truth:
    body.part("mlp").normalise = lambda weights: weights
    return _merging(body)


def _merging(body: Body) -> Truth:
    """After the last expert; with functions, the weights appear before the
    first one.
    """
    experts = tuple(f"experts.{number}" for number in range(4))
    return [own(body.path("mlp"), ("gate", *experts), "")]


@fault(("mixtral",))
def router_takes_the_next_expert(body: Body) -> Truth:
    part = body.part("mlp")
    plain = part.choose

    def choose(scores: Tensor) -> tuple[Tensor, Tensor]:
        weights, chosen = plain(scores)
        return weights, (chosen + 1) % part.count

    part.choose = choose
    return _routing(body)


@fault(("mixtral",))
def router_weights_exchanged(body: Body) -> Truth:
    part = body.part("mlp")
    part.normalise = lambda weights: (
        weights.flip(-1) / weights.sum(dim=-1, keepdim=True)
    )
    return _merging(body)


@fault(("mixtral",))
def expert_weight_missing(body: Body) -> Truth:
    body.part("mlp").weigh = lambda out, weight: out
    return _merging(body)


@fault(("mixtral",))
def router_weights_exchanged_with_another(body: Body) -> Truth:
    module = body.part("router")
    module.weight.data = module.weight.data.roll(1, 0)
    return [Place(body.path("router"))]


@fault(("llama", "massive"))
def gate_and_up_exchanged(body: Body) -> Truth:
    mlp = body.part("mlp")
    mlp.forward = lambda x: mlp.down_proj(mlp.gate_proj(x) * mlp.act_fn(mlp.up_proj(x)))
    return [own(body.path("mlp"), ("gate_proj", "up_proj"), "act_fn")]


@fault(("llama", "massive"))
def gate_added(body: Body) -> Truth:
    body.part("mlp").join = lambda gate, up: gate + up
    return [own(body.path("mlp"), "up_proj", "down_proj")]


@fault(("t5",))
def position_bias_missing(body: Body) -> Truth:
    body.layer = body.draw.choice((1, 2, 4, 5))
    body.part("self").bias_of = lambda bias: torch.zeros_like(bias)
    op = body.path("self")
    return [own(op, "layer_norm", "SelfAttention")]


@fault(("t5",))
def position_buckets_of_the_other_stack(body: Body) -> Truth:
    body.layer = body.draw.choice((0, 3))
    attention = body.part("attention")
    attention.is_decoder = not attention.is_decoder
    op = body.path("attention")
    return [own(op, "v", "relative_attention_bias")]


@fault(("t5",))
def cross_attention_sees_itself(body: Body) -> Truth:
    body.layer = body.draw.choice((3, 4, 5))
    body.part("layer").states_of = lambda states, x: x
    return [own(body.path("layer"), "layer.0", "layer.1")]


@fault(("t5",))
def cross_attention_sees_embeddings(body: Body) -> Truth:
    body.layer = body.draw.choice((3, 4, 5))
    body.part("layer").states_of = lambda states, x: states.roll(1, 1)
    return [own(body.path("layer"), "layer.0", "layer.1")]


@fault(("vit",))
def class_token_at_the_end(body: Body) -> Truth:
    embeddings = body.setup.at("vit.embeddings")
    embeddings.join = lambda token, x: torch.cat((x, token), dim=1)
    return [own("vit.embeddings", "patch_embeddings", "dropout")]


@fault(("vit",))
def positions_of_patches_shifted(body: Body) -> Truth:
    embeddings = body.setup.at("vit.embeddings")
    embeddings.positions = lambda: embeddings.position_embeddings.roll(1, 1)
    return [own("vit.embeddings", "patch_embeddings", "dropout")]


@fault(("vit",))
def positions_of_patches_missing(body: Body) -> Truth:
    embeddings = body.setup.at("vit.embeddings")
    embeddings.positions = lambda: torch.zeros_like(embeddings.position_embeddings)
    return [own("vit.embeddings", "patch_embeddings", "dropout")]


@fault(("vit",))
def pooled_by_the_mean(body: Body) -> Truth:
    body.setup.model.pool = lambda x: x.mean(1)
    return [own("", "vit", "classifier")]


@fault(("t5", "mixtral", "gpt2", "vit", "llama"))
def rows_of_the_batch_mixed(body: Body) -> Truth:
    """Some channels of the attention belong to another position."""
    attention = body.part("attention")
    plain = attention.merge

    def merge(out: Tensor) -> Tensor:
        merged = plain(out).clone()
        merged[..., :16] = merged[..., :16].roll(1, 1)
        return merged

    attention.merge = merge
    return [body.attention_code()]


@fault(INFERRED)
def attention_result_rounded(body: Body) -> Truth:
    """Like a quantized cache or a kernel with fewer bits."""
    attention = body.part("attention")
    plain = attention.merge
    attention.merge = lambda out: (plain(out) * 16).round() / 16
    return [body.attention_code()]
