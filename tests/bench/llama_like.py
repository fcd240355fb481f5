"""A small decoder with the structure of Llama, and random weights.

It has 85 modules, called as in Hugging Face: layers receive keyword arguments,
most of them None, and a pair of tensors.
"""

import torch
from torch import nn
from torch.nn import functional

LAYERS = 6
HIDDEN = 384
HEADS = 6
INNER = 1024
WORDS = 8192

Cache = list[tuple[torch.Tensor, torch.Tensor]]


class Norm(nn.Module):
    """Normalizes the mean square to 1."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Rotary(nn.Module):
    """Cosines and sines of positions."""

    def forward(
        self, x: torch.Tensor, position_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        size = HIDDEN // HEADS
        rates = 10000.0 ** -(torch.arange(0, size, 2, device=x.device) / size)
        angles = position_ids[..., None] * rates
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()


def _turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


class Attention(nn.Module):
    """Attention with a cache of keys and values."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.q_proj = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.k_proj = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.v_proj = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.o_proj = nn.Linear(HIDDEN, HIDDEN, bias=False)

    def forward(
        self,
        hidden_states: torch.Tensor,
        position_embeddings: tuple[torch.Tensor, torch.Tensor],
        attention_mask: torch.Tensor | None = None,
        past: Cache | None = None,
        **_: object,
    ) -> tuple[torch.Tensor, None]:
        shape = (*hidden_states.shape[:-1], HEADS, -1)
        q, k, v = (
            project(hidden_states).view(shape).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        cos, sin = (one[:, None] for one in position_embeddings)
        q, k = _turn(q, cos, sin), _turn(k, cos, sin)
        if past is not None and len(past) > self.number:
            keys, values = past[self.number]
            k, v = torch.cat((keys, k), dim=2), torch.cat((values, v), dim=2)
        is_prefill = q.shape[2] > 1
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=is_prefill)
        out = out.transpose(1, 2).reshape(hidden_states.shape)
        return self.o_proj(out), None


class Mlp(nn.Module):
    """A gated pair of linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(HIDDEN, INNER, bias=False)
        self.up_proj = nn.Linear(HIDDEN, INNER, bias=False)
        self.down_proj = nn.Linear(INNER, HIDDEN, bias=False)
        self.act_fn = nn.SiLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Attention and a gated pair, each with a residual."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.self_attn = Attention(number)
        self.mlp = Mlp()
        self.input_layernorm = Norm()
        self.post_attention_layernorm = Norm()

    def forward(self, hidden_states: torch.Tensor, **options: object) -> torch.Tensor:
        x = self.input_layernorm(hidden_states)
        x, _ = self.self_attn(hidden_states=x, **options)
        hidden_states = hidden_states + x
        return hidden_states + self.mlp(self.post_attention_layernorm(hidden_states))


class Decoder(nn.Module):
    """The layers between words and logits."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(WORDS, HIDDEN)
        self.layers = nn.ModuleList(Layer(number) for number in range(LAYERS))
        self.norm = Norm()
        self.rotary_emb = Rotary()

    def forward(
        self, input_ids: torch.Tensor, position_ids: torch.Tensor, past: Cache | None
    ) -> torch.Tensor:
        x = self.embed_tokens(input_ids)
        embeddings = self.rotary_emb(x, position_ids)
        for layer in self.layers:
            x = layer(
                x,
                attention_mask=None,
                position_ids=position_ids,
                past=past,
                use_cache=past is not None,
                cache_position=None,
                position_embeddings=embeddings,
            )
        return self.norm(x)


class LlamaLike(nn.Module):
    """Words to logits."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Decoder()
        self.lm_head = nn.Linear(HIDDEN, WORDS, bias=False)

    def forward(
        self, input_ids: torch.Tensor, past: Cache | None = None
    ) -> torch.Tensor:
        first = 0 if not past else past[0][0].shape[2]
        position_ids = torch.arange(first, first + input_ids.shape[1])[None]
        return self.lm_head(self.model(input_ids, position_ids, past))


def prefill_words() -> torch.Tensor:
    """Returns 4 texts of 128 words."""
    return torch.arange(4 * 128).reshape(4, 128) % WORDS


def decode_words() -> torch.Tensor:
    """Returns one word."""
    return torch.tensor([[7]])
