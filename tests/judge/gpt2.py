"""GPT-2 as in transformers, with the same names."""

import math
from typing import Any

import torch
from attention import Cache, Core, add, mask_of_layers
from torch import Tensor, nn

HIDDEN, HEADS, LAYERS, WORDS, POSITIONS = 64, 4, 3, 128, 64


class Conv1D(nn.Module):
    """A linear layer whose weight is [inputs, outputs]."""

    def __init__(self, outputs: int, inputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        shape = (*x.shape[:-1], self.weight.shape[1])
        flat = x.view(-1, x.shape[-1])
        return torch.addmm(self.bias, flat, self.weight).view(shape)


class NewGELUActivation(nn.Module):
    """The tanh approximation of GELU, written out."""

    def forward(self, x: Tensor) -> Tensor:
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))


class GPT2Attention(Core):
    """Attention with one projection for queries, keys and values."""

    def __init__(self, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.scaling = (HIDDEN // HEADS) ** -0.5
        self.is_causal, self.is_fused = True, False
        self.c_attn = Conv1D(3 * HIDDEN, HIDDEN)
        self.c_proj = Conv1D(HIDDEN, HIDDEN)
        self.resid_dropout = nn.Dropout(0.1)

    def softmax(self, scores: Tensor) -> Tensor:
        return nn.functional.softmax(scores, dim=-1)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns queries, keys and values as [batch, heads, length, size]."""
        q, k, v = (
            part.view(*part.shape[:-1], HEADS, -1).transpose(1, 2)
            for part in x.split(HIDDEN, dim=2)
        )
        return q, k, v

    def remember(
        self, past: Cache | None, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor]:
        return (k, v) if past is None else past.update(self.layer, k, v)

    def forward(
        self,
        hidden_states: Tensor,
        past_key_values: Cache | None = None,
        attention_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        q, k, v = self.split(self.c_attn(hidden_states))
        k, v = self.remember(past_key_values, k, v)
        out, weights = self.attend(q, k, v, attention_mask)
        return self.resid_dropout(self.c_proj(out)), weights


class GPT2MLP(nn.Module):
    """The feed-forward part."""

    def __init__(self) -> None:
        super().__init__()
        self.c_fc = Conv1D(4 * HIDDEN, HIDDEN)
        self.c_proj = Conv1D(HIDDEN, 4 * HIDDEN)
        self.act = NewGELUActivation()
        self.dropout = nn.Dropout(0.1)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.dropout(self.c_proj(self.act(self.c_fc(hidden_states))))


class GPT2Block(nn.Module):
    """Attention and a feed-forward part, each with a residual."""

    def __init__(self, layer: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(HIDDEN)
        self.attn = GPT2Attention(layer)
        self.ln_2 = nn.LayerNorm(HIDDEN)
        self.mlp = GPT2MLP()
        self.add_attention = self.add_feed_forward = add

    def residual_of(self, hidden_states: Tensor, normed: Tensor) -> Tensor:
        """Returns the tensor to which the result of the attention is added."""
        return hidden_states

    def forward(self, hidden_states: Tensor, **options: object) -> Tensor:
        normed = self.ln_1(hidden_states)
        residual = self.residual_of(hidden_states, normed)
        x, _ = self.attn(normed, **options)
        x = self.add_attention(x, residual)
        return self.add_feed_forward(x, self.mlp(self.ln_2(x)))


class GPT2Model(nn.Module):
    """The blocks between words and logits."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(WORDS, HIDDEN)
        self.wpe = nn.Embedding(POSITIONS, HIDDEN)
        self.drop = nn.Dropout(0.1)
        self.h = nn.ModuleList(GPT2Block(layer) for layer in range(LAYERS))
        self.ln_f = nn.LayerNorm(HIDDEN)
        self.mask_value: float | None = None
        # Added to the embeddings: a mean that is far larger than the deviation.
        self.offset = 0.0

    def positions(self, first: int, length: int) -> Tensor:
        return torch.arange(first, first + length)[None]

    def finish(self, x: Tensor) -> Tensor:
        return self.ln_f(x)

    def mask(self, x: Tensor, past: int, padding: Tensor | None) -> Tensor | None:
        """Returns the mask of all layers."""
        first: Any = self.h[0]
        return mask_of_layers(first.attn, x, past, padding, self.mask_value)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
    ) -> Tensor:
        past = past_key_values.length() if past_key_values is not None else 0
        x = self.wte(input_ids)
        x = x + self.wpe(self.positions(past, input_ids.shape[1]))
        if self.offset:
            x = x + self.offset
        mask = self.mask(x, past, attention_mask)
        x = self.drop(x)
        for block in self.h:
            x = block(x, past_key_values=past_key_values, attention_mask=mask)
        return self.finish(x)


class GPT2LMHeadModel(nn.Module):
    """Words to logits; the head shares the weight of the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.transformer = GPT2Model()
        self.lm_head = nn.Linear(HIDDEN, WORDS, bias=False)
        self.lm_head.weight = self.transformer.wte.weight

    def end(self, logits: Tensor) -> Tensor:
        return logits.float()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: Cache | None = None,
    ) -> Tensor:
        hidden = self.transformer(input_ids, attention_mask, past_key_values)
        return self.end(self.lm_head(hidden))
