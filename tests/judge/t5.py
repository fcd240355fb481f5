"""T5 as in transformers, with the same names."""

import math

import torch
from attention import Core, add
from torch import Tensor, nn

HIDDEN, HEADS, INNER, LAYERS, WORDS, BUCKETS = 64, 4, 128, 3, 128, 8


class T5LayerNorm(nn.Module):
    """Has no mean and no bias; the variance is computed in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))
        self.variance_epsilon = 1e-6

    def forward(self, hidden_states: Tensor) -> Tensor:
        variance = hidden_states.to(torch.float32).pow(2).mean(-1, keepdim=True)
        x = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        if self.weight.dtype in (torch.float16, torch.bfloat16):
            x = x.to(self.weight.dtype)
        return self.weight * x


class T5Attention(Core):
    """Attention without a scale, with a bias for relative positions."""

    def __init__(self, has_bias: bool, is_decoder: bool) -> None:
        super().__init__()
        self.is_decoder = is_decoder
        self.is_causal = self.is_fused = False
        self.scaling = 1.0
        self.q = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.k = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.v = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.o = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.has_bias = has_bias
        if has_bias:
            self.relative_attention_bias = nn.Embedding(BUCKETS, HEADS)

    def softmax(self, scores: Tensor) -> Tensor:
        return nn.functional.softmax(scores.float(), dim=-1).type_as(scores)

    def buckets(self, distance: Tensor) -> Tensor:
        """Returns the bucket of each distance between two positions."""
        count, result = BUCKETS, torch.zeros_like(distance)
        if self.is_decoder:
            distance = -torch.min(distance, torch.zeros_like(distance))
        else:
            count //= 2
            result = (distance > 0).long() * count
            distance = distance.abs()
        exact = count // 2
        far = torch.log(distance.float().clamp(min=1) / exact) / math.log(16 / exact)
        far = exact + (far * (count - exact)).long().clamp(max=count - exact - 1)
        return result + torch.where(distance < exact, distance, far)

    def position_bias(self, queries: int, keys: int) -> Tensor:
        """Returns the bias, [1, heads, queries, keys]."""
        distance = torch.arange(keys)[None, :] - torch.arange(queries)[:, None]
        values = self.relative_attention_bias(self.buckets(distance))
        return values.permute(2, 0, 1)[None]

    def forward(
        self,
        hidden_states: Tensor,
        mask: Tensor | None = None,
        key_value_states: Tensor | None = None,
        position_bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        states = hidden_states if key_value_states is None else key_value_states
        heads = (*hidden_states.shape[:1], -1, HEADS, HIDDEN // HEADS)
        q = self.q(hidden_states).view(heads).transpose(1, 2)
        k = self.k(states).view(heads).transpose(1, 2)
        v = self.v(states).view(heads).transpose(1, 2)
        if position_bias is None:
            size = (q.shape[2], k.shape[2])
            if self.has_bias:
                position_bias = self.position_bias(*size)
            else:
                position_bias = torch.zeros((1, HEADS, *size), dtype=q.dtype)
            if mask is not None:
                position_bias = position_bias + mask
        out, _ = self.attend(q, k, v, position_bias)
        return self.o(out), position_bias


class T5LayerSelfAttention(nn.Module):
    """A norm, attention and a residual."""

    def __init__(self, has_bias: bool, is_decoder: bool) -> None:
        super().__init__()
        self.SelfAttention = T5Attention(has_bias, is_decoder)
        self.layer_norm = T5LayerNorm()
        self.dropout = nn.Dropout(0.1)
        self.add_attention = add

    def residual_of(self, hidden_states: Tensor, normed: Tensor) -> Tensor:
        """Returns the tensor to which the result of the attention is added."""
        return hidden_states

    def bias_of(self, bias: Tensor | None) -> Tensor | None:
        """Returns the bias that this layer uses."""
        return bias

    def forward(
        self, hidden_states: Tensor, mask: Tensor | None, position_bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        normed = self.layer_norm(hidden_states)
        out, bias = self.SelfAttention(
            normed, mask=mask, position_bias=self.bias_of(position_bias)
        )
        residual = self.residual_of(hidden_states, normed)
        return self.add_attention(residual, self.dropout(out)), bias


class T5LayerCrossAttention(nn.Module):
    """The same with keys and values from the encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.EncDecAttention = T5Attention(False, True)
        self.layer_norm = T5LayerNorm()
        self.dropout = nn.Dropout(0.1)

    def forward(
        self, hidden_states: Tensor, states: Tensor, position_bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        out, bias = self.EncDecAttention(
            self.layer_norm(hidden_states),
            key_value_states=states,
            position_bias=position_bias,
        )
        return hidden_states + self.dropout(out), bias


class T5DenseActDense(nn.Module):
    """The feed-forward part."""

    def __init__(self) -> None:
        super().__init__()
        self.wi = nn.Linear(HIDDEN, INNER, bias=False)
        self.wo = nn.Linear(INNER, HIDDEN, bias=False)
        self.dropout = nn.Dropout(0.1)
        self.act = nn.ReLU()

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.wo(self.dropout(self.act(self.wi(hidden_states))))


class T5LayerFF(nn.Module):
    """A norm, a feed-forward part and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.DenseReluDense = T5DenseActDense()
        self.layer_norm = T5LayerNorm()
        self.dropout = nn.Dropout(0.1)
        self.add_feed_forward = add

    def forward(self, hidden_states: Tensor) -> Tensor:
        change = self.DenseReluDense(self.layer_norm(hidden_states))
        return self.add_feed_forward(hidden_states, self.dropout(change))


class T5Block(nn.Module):
    """Two layers of an encoder or three of a decoder."""

    def __init__(self, has_bias: bool, is_decoder: bool) -> None:
        super().__init__()
        self.is_decoder = is_decoder
        parts: list[nn.Module] = [T5LayerSelfAttention(has_bias, is_decoder)]
        if is_decoder:
            parts.append(T5LayerCrossAttention())
        self.layer = nn.ModuleList([*parts, T5LayerFF()])

    def states_of(self, states: Tensor, x: Tensor) -> Tensor:
        """Returns the states that the cross attention attends to."""
        return states

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        position_bias: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_decoder_position_bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        x, bias = self.layer[0](hidden_states, attention_mask, position_bias)
        cross = None
        if self.is_decoder:
            assert encoder_hidden_states is not None
            states = self.states_of(encoder_hidden_states, x)
            x, cross = self.layer[1](x, states, encoder_decoder_position_bias)
        x = self.layer[-1](x)
        if x.dtype == torch.float16:
            # As in transformers, so that nothing becomes infinite.
            limit = torch.finfo(x.dtype).max - 1000
            x = x.clamp(min=-limit, max=limit)
        return x, bias, cross


class T5Stack(nn.Module):
    """The encoder or the decoder."""

    def __init__(self, shared: nn.Embedding, is_decoder: bool) -> None:
        super().__init__()
        self.is_decoder = is_decoder
        self.embed_tokens = shared
        self.block = nn.ModuleList(
            T5Block(layer == 0, is_decoder) for layer in range(LAYERS)
        )
        self.final_layer_norm = T5LayerNorm()
        self.dropout = nn.Dropout(0.1)

    def finish(self, x: Tensor) -> Tensor:
        return self.final_layer_norm(x)

    def mask(self, length: int, dtype: torch.dtype) -> Tensor:
        low = torch.finfo(dtype).min
        if not self.is_decoder:
            return torch.zeros(1, 1, length, length, dtype=dtype)
        return torch.full((length, length), low, dtype=dtype).triu(1)[None, None]

    def forward(self, input_ids: Tensor, states: Tensor | None = None) -> Tensor:
        x = self.dropout(self.embed_tokens(input_ids))
        mask = self.mask(x.shape[1], x.dtype)
        bias: Tensor | None = None
        cross: Tensor | None = None
        for block in self.block:
            x, bias, cross = block(
                x,
                attention_mask=mask,
                position_bias=bias,
                encoder_hidden_states=states,
                encoder_decoder_position_bias=cross,
            )
        return self.dropout(self.finish(x))


class T5ForConditionalGeneration(nn.Module):
    """Words of two texts to logits; all embeddings share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Embedding(WORDS, HIDDEN)
        self.encoder = T5Stack(self.shared, False)
        self.decoder = T5Stack(self.shared, True)
        self.lm_head = nn.Linear(HIDDEN, WORDS, bias=False)
        self.lm_head.weight = self.shared.weight

    def end(self, logits: Tensor) -> Tensor:
        return logits

    def forward(self, input_ids: Tensor, decoder_input_ids: Tensor) -> Tensor:
        states = self.encoder(input_ids)
        hidden = self.decoder(decoder_input_ids, states)
        return self.end(self.lm_head(hidden * HIDDEN**-0.5))
