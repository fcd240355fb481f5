"""Llama and Mixtral as in transformers, with the same names."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import torch
from attention import (
    Cache,
    Core,
    Embeddings,
    add,
    apply_rope,
    mask_of_layers,
    repeat_kv,
)
from torch import Tensor, nn
from torch.nn import functional


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """Sizes, and which of the two models to build."""

    hidden: int = 64
    inner: int = 128
    heads: int = 4
    kv_heads: int = 2
    layers: int = 3
    words: int = 128
    experts: int = 0
    is_massive: bool = False


class LlamaRMSNorm(nn.Module):
    """Computes in float32 and returns the dtype of its input."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.variance_epsilon = 1e-6

    def forward(self, hidden_states: Tensor) -> Tensor:
        dtype = hidden_states.dtype
        x = hidden_states.to(torch.float32)
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * x.to(dtype)


class LlamaRotaryEmbedding(nn.Module):
    """Cosines and sines of the positions, computed in float32."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.base = 10000.0

    def rates(self) -> Tensor:
        exponents = torch.arange(0, self.size, 2, dtype=torch.int64).float()
        return 1.0 / (self.base ** (exponents / self.size))

    @torch.no_grad()
    def forward(self, x: Tensor, position_ids: Tensor) -> Embeddings:
        with torch.autocast("cpu", enabled=False):
            rates = self.rates()[None, :, None].expand(position_ids.shape[0], -1, 1)
            angles = (rates @ position_ids[:, None, :].float()).transpose(1, 2)
            both = torch.cat((angles, angles), dim=-1)
            cos, sin = both.cos(), both.sin()
        return cos.to(x.dtype), sin.to(x.dtype)


class LlamaAttention(Core):
    """Attention with groups of query heads."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.size = config.hidden // config.heads
        self.groups = config.heads // config.kv_heads
        self.scaling = self.size**-0.5
        self.is_causal, self.is_fused = True, True
        kv = config.kv_heads * self.size
        self.q_proj = nn.Linear(config.hidden, config.hidden, bias=False)
        self.k_proj = nn.Linear(config.hidden, kv, bias=False)
        self.v_proj = nn.Linear(config.hidden, kv, bias=False)
        self.o_proj = nn.Linear(config.hidden, config.hidden, bias=False)

    def rope(
        self, q: Tensor, k: Tensor, embeddings: Embeddings
    ) -> tuple[Tensor, Tensor]:
        return apply_rope(q, embeddings), apply_rope(k, embeddings)

    def repeat(self, x: Tensor) -> Tensor:
        return repeat_kv(x, self.groups)

    def remember(
        self, past: Cache | None, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor]:
        return (k, v) if past is None else past.update(self.layer, k, v)

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: Embeddings,
        attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
        **_: object,
    ) -> tuple[Tensor, Tensor | None]:
        shape = (*hidden_states.shape[:-1], -1, self.size)
        q = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        k = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        v = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        q, k = self.rope(q, k, position_embeddings)
        k, v = self.remember(past_key_values, k, v)
        out, weights = self.attend(q, self.repeat(k), self.repeat(v), attention_mask)
        return self.o_proj(out), weights


class LlamaMLP(nn.Module):
    """The gated feed-forward part."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden, config.inner, bias=False)
        self.up_proj = nn.Linear(config.hidden, config.inner, bias=False)
        self.down_proj = nn.Linear(config.inner, config.hidden, bias=False)
        self.act_fn = nn.SiLU()

    def join(self, gate: Tensor, up: Tensor) -> Tensor:
        return gate * up

    def forward(self, x: Tensor) -> Tensor:
        gate = self.act_fn(self.gate_proj(x))
        return self.down_proj(self.join(gate, self.up_proj(x)))


class MixtralExpert(nn.Module):
    """One expert, with the names that Mixtral uses."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.w1 = nn.Linear(config.hidden, config.inner, bias=False)
        self.w2 = nn.Linear(config.inner, config.hidden, bias=False)
        self.w3 = nn.Linear(config.hidden, config.inner, bias=False)
        self.act_fn = nn.SiLU()

    def forward(self, hidden_states: Tensor) -> Tensor:
        gate = self.act_fn(self.w1(hidden_states))
        return self.w2(gate * self.w3(hidden_states))


class MixtralSparseMoeBlock(nn.Module):
    """Routes each position to some experts and adds their results."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.count, self.top_k = config.experts, 2
        self.gate = nn.Linear(config.hidden, config.experts, bias=False)
        self.experts = nn.ModuleList(
            MixtralExpert(config) for _ in range(config.experts)
        )

    def normalise(self, weights: Tensor) -> Tensor:
        return weights / weights.sum(dim=-1, keepdim=True)

    def choose(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the weights and the numbers of the chosen experts."""
        return torch.topk(scores, self.top_k, dim=-1)

    def order(self) -> Iterable[int]:
        """Returns the order in which experts are added."""
        return range(self.count)

    def weigh(self, out: Tensor, weight: Tensor) -> Tensor:
        return out * weight

    def forward(self, hidden_states: Tensor) -> tuple[Tensor, Tensor]:
        shape = hidden_states.shape
        x = hidden_states.view(-1, shape[-1])
        logits = self.gate(x)
        scores = functional.softmax(logits, dim=1, dtype=torch.float32)
        weights, chosen = self.choose(scores)
        weights = self.normalise(weights).to(x.dtype)
        result = torch.zeros_like(x)
        hits = functional.one_hot(chosen, num_classes=self.count).permute(2, 1, 0)
        for number in self.order():
            place, row = torch.where(hits[number])
            if not len(row):
                continue
            out = self.experts[number](x[None, row].reshape(-1, shape[-1]))
            out = self.weigh(out, weights[row, place, None])
            result.index_add_(0, row, out.to(x.dtype))
        return result.reshape(shape), logits


class LlamaDecoderLayer(nn.Module):
    """Attention and a feed-forward part, each with a residual."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.self_attn = LlamaAttention(config, layer)
        if config.experts:
            self.block_sparse_moe = MixtralSparseMoeBlock(config)
        else:
            self.mlp = LlamaMLP(config)
        self.input_layernorm = LlamaRMSNorm(config.hidden)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden)
        self.is_sparse = config.experts > 0
        self.add_attention = self.add_feed_forward = add

    def residual_of(self, hidden_states: Tensor, normed: Tensor) -> Tensor:
        """Returns the tensor to which the result of the attention is added."""
        return hidden_states

    def forward(self, hidden_states: Tensor, **options: object) -> Tensor:
        normed = self.input_layernorm(hidden_states)
        residual = self.residual_of(hidden_states, normed)
        x, _ = self.self_attn(hidden_states=normed, **options)
        x = self.add_attention(residual, x)
        normed = self.post_attention_layernorm(x)
        if self.is_sparse:
            change, _ = self.block_sparse_moe(normed)
        else:
            change = self.mlp(normed)
        return self.add_feed_forward(x, change)


class LlamaModel(nn.Module):
    """The layers between words and logits."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.words, config.hidden)
        self.layers = nn.ModuleList(
            LlamaDecoderLayer(config, layer) for layer in range(config.layers)
        )
        self.norm = LlamaRMSNorm(config.hidden)
        self.rotary_emb = LlamaRotaryEmbedding(config.hidden // config.heads)
        self.first_position = 0
        self.mask_value: float | None = None

    def positions(self, first: int, length: int) -> Tensor:
        first += self.first_position
        return torch.arange(first, first + length)[None]

    def finish(self, x: Tensor) -> Tensor:
        return self.norm(x)

    def mask(self, x: Tensor, past: int, padding: Tensor | None) -> Tensor | None:
        """Returns the mask of all layers."""
        first: Any = self.layers[0]
        return mask_of_layers(first.self_attn, x, past, padding, self.mask_value)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
    ) -> Tensor:
        past = past_key_values.length() if past_key_values is not None else 0
        x = self.embed_tokens(input_ids)
        mask = self.mask(x, past, attention_mask)
        position_ids = self.positions(past, x.shape[1])
        embeddings = self.rotary_emb(x, position_ids)
        for layer in self.layers:
            x = layer(
                x,
                attention_mask=mask,
                position_ids=position_ids,
                past_key_values=past_key_values,
                position_embeddings=embeddings,
            )
        return self.finish(x)


class LlamaForCausalLM(nn.Module):
    """Words to logits and, with labels, the loss."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.model = LlamaModel(config)
        self.lm_head = nn.Linear(config.hidden, config.words, bias=False)

    def end(self, logits: Tensor) -> Tensor:
        return logits.float()

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Returns the loss of the next word, shifted as in transformers."""
        words = logits.shape[-1]
        return functional.cross_entropy(
            logits[:, :-1].reshape(-1, words), labels[:, 1:].reshape(-1)
        )

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
        labels: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        hidden = self.model(input_ids, attention_mask, past_key_values)
        logits = self.end(self.lm_head(hidden))
        return logits if labels is None else (self.loss(logits, labels), logits)
